"""The door: from an e-graph to programs."""

import math

import pytest
import torch

from superopt.errors import ExtractError
from superopt.extract import Extraction, extract_graphs
from superopt.ir.egraph import EClass, EGraph, ENode
from superopt.ir.types import TensorType
from superopt.ops.op import Kind, Op

TYPE = TensorType((2, 3), torch.float32)


def op(name: str, arity: int, *attrs: str) -> Op:
    return Op(name, Kind.POINTWISE, infer=lambda *_: TYPE, torch=None, attrs=attrs, arity=arity)


LEAF, VIEW, ADD, FUSED = op("leaf", 0, "index"), op("view", 1), op("add", 2), op("fused", 3)
PRICES = {"leaf": 0.0, "view": 0.0, "add": 3.0, "fused": 4.0}


def price(egraph: EGraph, number: int, node: ENode) -> float:
    assert node in egraph.classes[number].nodes
    return PRICES[node.op.name]


def egraph() -> EGraph:
    """x + y, and (x + y) + x, which is also fused(x, y, x), and a view of itself."""
    nodes = {
        10: [ENode(LEAF, (), (0,))],
        11: [ENode(LEAF, (), (1,))],
        12: [ENode(ADD, (10, 11), ())],
        13: [
            ENode(VIEW, (13,), (), "view-of-same"),
            ENode(ADD, (12, 10), ()),
            ENode(FUSED, (10, 11, 10), (), "fuse-adds"),
        ],
    }
    return EGraph({c: EClass(TYPE, ns) for c, ns in nodes.items()}, [13], {"s0": 4})


def only(found: list[Extraction]) -> Extraction:
    (one,) = found
    return one


def test_the_cheapest_program_with_its_laws() -> None:
    best = only(extract_graphs(egraph(), price))
    assert (best.cost, best.bound, best.gap, best.status) == (4.0, 4.0, 0.0, "optimal")
    assert best.graph.hints == {"s0": 4}
    nodes = [(n.op.name, n.args, n.attrs, n.law) for n in best.graph.nodes]
    assert nodes == [
        ("leaf", (), (0,), "input"),
        ("leaf", (), (1,), "input"),
        ("fused", (0, 1, 0), (), "fuse-adds"),
    ]
    assert best.graph.outputs == [2]


def test_what_another_output_needs_is_shared() -> None:
    two = egraph()
    two.roots = [13, 12, 13]
    best = only(extract_graphs(two, price))
    assert best.cost == 6.0
    assert [n.op.name for n in best.graph.nodes] == ["leaf", "leaf", "add", "add"]
    assert best.graph.outputs == [3, 2, 3]


def test_next_best_programs() -> None:
    found = extract_graphs(egraph(), price, k=5)
    assert [e.cost for e in found] == [4.0, 6.0]
    assert len(found[1].graph.nodes) == 4


def test_forbidden_nodes_are_left_out() -> None:
    def forbid(egraph: EGraph, number: int, node: ENode) -> float:
        return math.inf if node.op is FUSED else price(egraph, number, node)

    assert only(extract_graphs(egraph(), forbid)).cost == 6.0
    with pytest.raises(ExtractError):
        extract_graphs(egraph(), lambda egraph, number, node: math.inf)
