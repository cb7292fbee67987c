"""Prices of e-nodes: what is free, what starts a kernel, what freezing and lam change."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import sympy
import torch

from superopt import ops
from superopt.cost import Burden, NodePricer, card_names, constant_classes, load_card, nodes
from superopt.ir.egraph import EClass, EGraph, ENode
from superopt.ir.expr import Hole
from superopt.ir.plan import Work
from superopt.ir.types import TensorType
from superopt.ops.opaque import Opaque, Slot

H = torch.float16


class Build:
    """An e-graph with one class per node; ``also`` adds a node to a class."""

    def __init__(self) -> None:
        self.egraph = EGraph()

    def __call__(self, op, *args: int, attrs: tuple = ()) -> int:
        types = [self.egraph.classes[a].type for a in args]
        class_id = len(self.egraph.classes)
        out = op.infer(types, *attrs)
        self.egraph.classes[class_id] = EClass(out, [ENode(op, args, attrs)])
        return class_id

    def also(self, class_id: int, op, *args: int, attrs: tuple = ()) -> ENode:
        node = ENode(op, args, attrs)
        self.egraph.classes[class_id].nodes.append(node)
        return node

    def input(self, shape: tuple, role: str = "input", dtype: torch.dtype = H) -> int:
        index = len(self.egraph.classes)
        return self(ops.input_, attrs=(index, TensorType(shape, dtype), role))

    def price(self, pricer: NodePricer, class_id: int, which: int = 0) -> float:
        return pricer(self.egraph, class_id, self.egraph.classes[class_id].nodes[which])


def mlp(m=128, k=512, f=1024) -> tuple[Build, dict[str, int]]:
    b = Build()
    x, g = b.input((m, k)), b.input((k,), "param")
    wg, wu = b.input((f, k), "param"), b.input((f, k), "param")
    n = b(ops.rms, x, attrs=(1e-5,))
    s = b(ops.mul, n, g)
    gate, up = b(ops.linear, s, wg), b(ops.linear, s, wu)
    act = b(ops.silu, gate)
    out = b(ops.mul, act, up)
    wide = b(ops.concat, wg, wu, attrs=(0,))
    both = b(ops.linear, s, wide)
    half = b(ops.slice_, both, attrs=(1, 0, f))
    weights, extras = b(ops.pack, wg, wu), b(ops.pack)
    acc = [Hole("acc", i, TensorType((m, f), H)) for i in (0, 1)]
    groups = (((0, 1), ops.mul(ops.silu(acc[0]), acc[1])),)
    b.also(out, ops.gemm, s, weights, extras, attrs=(None, groups))
    folded = b(ops.mul, wg, g)
    b.egraph.roots = [out]
    local = locals()
    return b, {k_: v for k_, v in local.items() if isinstance(v, int)}


@pytest.mark.parametrize("name", card_names())
@pytest.mark.parametrize("freeze", [False, True])
@pytest.mark.parametrize("lam", [0.0, 1.0])
def test_never_negative_nor_nan(
    monkeypatch: pytest.MonkeyPatch, name: str, freeze: bool, lam: float
) -> None:
    monkeypatch.setattr(nodes, "gemm_work", lambda *a: None)
    b, _ = mlp()
    pricer = NodePricer(load_card(name), freeze=freeze, lam=lam)
    for class_id, eclass in b.egraph.classes.items():
        for enode in eclass.nodes:
            price = pricer(b.egraph, class_id, enode)
            assert price >= 0
            assert math.isfinite(price) or enode.op is ops.gemm
            assert price == pricer(b.egraph, class_id, enode)


def test_what_is_free_and_what_starts_a_kernel() -> None:
    card = load_card("h200")
    b, v = mlp()
    pricer = NodePricer(card)
    launch = card.launch_us * 1e-6
    assert b.price(pricer, v["x"]) == 0
    for view in ("half", "weights", "extras"):
        assert b.price(pricer, v[view]) < 1e-9
    for fused in ("s", "act"):
        assert 1e-9 < b.price(pricer, v[fused]) < launch
    for kernel in ("n", "gate", "wide", "both"):
        assert b.price(pricer, v[kernel]) > launch


def test_pointwise_counts_half_its_bytes() -> None:
    card = replace(load_card("h200"), beta=0.0)
    b = Build()
    x = b.input((1000, 1000))
    twice = b(ops.mul, x, x)
    expected = (2e6 / 2 + 2e6 / 2) / (card.dram_gbs * 1e9)
    assert b.price(NodePricer(card), twice) == pytest.approx(1e-9 + expected)


def test_fewer_operators_win_ties() -> None:
    b = Build()
    x = b.input(())
    one = b(ops.silu, x)
    sig = b(ops.sigmoid, x)
    b.also(one, ops.mul, x, sig)
    pricer = NodePricer(load_card("t4"))
    assert b.price(pricer, one) < b.price(pricer, one, 1) + b.price(pricer, sig)


def test_concat_is_a_copy_unless_frozen() -> None:
    b, v = mlp()
    card = load_card("h200")
    moved = 2 * b.egraph.classes[v["wide"]].type.nbytes()
    assert b.price(NodePricer(card), v["wide"]) > moved / (card.dram_gbs * 1e9)
    frozen = NodePricer(card, freeze=True)
    assert b.price(frozen, v["wide"]) < 1e-9
    assert b.price(frozen, v["folded"]) < 1e-9
    assert b.price(frozen, v["both"]) > 1e-6


def test_constants() -> None:
    b, v = mlp()
    found = constant_classes(b.egraph)
    params = {v[k] for k in ("g", "wg", "wu", "wide", "weights", "extras", "folded")}
    assert found == params
    two = b(ops.scalar, attrs=(2.0, H))
    noise = Opaque("aten.rand_like.default", (Slot(0),), (), TensorType((512,), H), uid=1)
    random = b(ops.opaque, v["g"], attrs=(noise,))
    doubled = b(ops.mul, v["g"], two)
    b.also(v["x"], ops.mul, v["x"], two)
    assert constant_classes(b.egraph) == params | {two, doubled}
    b.also(v["x"], ops.mul, v["g"], two)
    assert v["n"] in constant_classes(b.egraph)
    assert random not in constant_classes(b.egraph)


def test_constants_follow_a_growing_egraph() -> None:
    b, v = mlp()
    pricer = NodePricer(load_card("t4"), freeze=True)
    late = b(ops.add, v["x"], v["x"])
    assert b.price(pricer, late) > 1e-9
    grown = b(ops.add, v["wg"], v["wu"])
    assert b.price(pricer, grown) < 1e-9


def test_generated_product(monkeypatch: pytest.MonkeyPatch) -> None:
    b, v = mlp()
    asked = []
    work = Work("mma", 1e9, 1e6, 1e6, 64, H)
    monkeypatch.setattr(nodes, "gemm_work", lambda *a: asked.append(a) or work)
    card = load_card("h200")
    price = b.price(NodePricer(card), v["out"], 1)
    assert price == pytest.approx(1e-9 + nodes.seconds(work, card))
    types, attrs, hints, asked_card, precision = asked[0]
    assert [len(getattr(t, "items", "x")) for t in types] == [1, 2, 0]
    assert attrs[0] is None and hints == {} and asked_card is card and precision == "highest"
    monkeypatch.setattr(nodes, "gemm_work", lambda *a: None)
    assert b.price(NodePricer(card), v["out"], 1) == math.inf


def test_cpu_generates_no_products() -> None:
    b, v = mlp()
    pricer = NodePricer(load_card("cpu"))
    assert b.price(pricer, v["out"], 1) == math.inf
    assert math.isfinite(b.price(pricer, v["both"]))


def test_lam_weighs_launches_and_copies() -> None:
    b, v = mlp()
    card = load_card("h200")
    plain, weighed = NodePricer(card), NodePricer(card, lam=2.0)
    extra = {k: b.price(weighed, v[k]) - b.price(plain, v[k]) for k in ("gate", "act", "wide")}
    copied = 2 * b.egraph.classes[v["wide"]].type.nbytes()
    assert extra["gate"] == pytest.approx(2e-6)
    assert extra["act"] == 0
    assert extra["wide"] == pytest.approx(2 * (1e-6 + copied * 1e-12))
    free = NodePricer(card, lam=2.0, burden=Burden(0, 0, 0, 0))
    assert b.price(free, v["wide"]) == b.price(plain, v["wide"])


def test_monotone_in_every_size() -> None:
    pricer = NodePricer(load_card("t4"))
    kinds = ("n", "s", "gate", "act", "wide", "both")
    base = {k: b.price(pricer, v[k]) for b, v in [mlp()] for k in kinds}
    for sizes in ({"m": 256}, {"k": 1024}, {"f": 2048}):
        b, v = mlp(**sizes)
        assert all(b.price(pricer, v[k]) >= base[k] for k in kinds)


def test_symbolic_sizes_use_their_hints() -> None:
    pricer = NodePricer(load_card("h200"))
    m = sympy.Symbol("s0", integer=True, positive=True)
    symbolic, v = mlp(m=m)
    fixed, _ = mlp(m=4096)
    symbolic.egraph.hints = {m: 4096}
    for k in ("n", "s", "gate", "both"):
        assert symbolic.price(pricer, v[k]) == fixed.price(pricer, v[k])
    symbolic.egraph.hints = {}
    assert math.isfinite(symbolic.price(pricer, v["gate"]))


def test_opaque_moves_its_operands() -> None:
    b = Build()
    x = b.input((1024, 1024))
    spec = Opaque("aten.sort.default", (Slot(0),), (), TensorType((1024, 1024), H))
    node = b(ops.opaque, x, attrs=(spec,))
    card = load_card("t4")
    expected = card.launch_us * 1e-6 + 4 * 2**20 / (card.dram_gbs * 1e9)
    assert b.price(NodePricer(card), node) == pytest.approx(expected + 1e-9)
