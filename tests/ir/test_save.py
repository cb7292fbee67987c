"""A saved e-graph is the same e-graph, and can be priced under another card."""

import json
import math

import pytest
import sympy
import torch

from superopt.cost import NodePricer, load_card
from superopt.extract import extract_graphs
from superopt.ir.graph import Graph
from superopt.ir.save import decode, encode, from_json, to_json
from superopt.ir.types import TensorType
from superopt.ops import input_, linear, mul, rms, silu
from superopt.ops.opaque import Literal, Opaque, Slot
from superopt.saturate import saturate
from superopt.shelf import load_rules


def block(rows):
    g = Graph()

    def leaf(i, *shape, role="input"):
        t = TensorType(shape, torch.float16)
        return g.ref(g.add(input_, (), (i, t, role)))

    x, w1, w2, s = leaf(0, rows, 256), leaf(1, 512, 256), leaf(2, 512, 256), leaf(3, 256)
    n = mul(rms(x, 1e-5), s)
    g.outputs = [g.insert(mul(silu(linear(n, w1)), linear(n, w2)))]
    return g


def test_round_trip_keeps_every_node_law_and_price():
    egraph, _ = saturate(block(4), load_rules())
    again = from_json(json.loads(json.dumps(to_json(egraph))))
    assert again.roots == egraph.roots
    assert {c: e.nodes for c, e in again.classes.items()} == {
        c: e.nodes for c, e in egraph.classes.items()
    }
    for name in ("h200", "t4"):
        price = NodePricer(load_card(name))
        (here,), (there,) = (extract_graphs(e, price) for e in (egraph, again))
        assert here.cost == there.cost
        assert str(here.graph) == str(there.graph)


S0 = sympy.Symbol("s0", positive=True, integer=True)
VALUES = [
    (1, -2.5, True, None, "text", (1, (2,))),
    (math.inf, -math.inf),
    (S0, S0 * 2 + 1),
    (torch.float16, torch.device("cpu"), torch.strided, torch.contiguous_format),
    Opaque("aten.sort.default", (Slot(0), 1), (("stable", True),), TensorType((S0,), torch.int64)),
]


@pytest.mark.parametrize("value", VALUES, ids=str)
def test_attributes_survive(value):
    assert decode(json.loads(json.dumps(encode(value)))) == value


def test_what_has_no_text_is_named():
    with pytest.raises(Exception, match="cannot be saved"):
        encode(Literal(object()))
