"""Prices of the real kernels' work: the choices that were measured, or that published figures
force, for the gate/up projection of Llama-2-7b."""

from __future__ import annotations

import math

import pytest
import torch

from superopt import ops
from superopt.cost import Card, NodePricer, card_names, load_card, price_plan
from superopt.ir.egraph import EClass, EGraph, ENode
from superopt.ir.expr import Hole
from superopt.ir.graph import Graph
from superopt.ir.types import TensorType
from superopt.schedule import schedule

K, F = 4096, 11008


def gate_up(m: int, dtype: torch.dtype, generated: bool, f: int = F) -> Graph:
    """silu(x wg^T) * (x wu^T), as one generated product or as two of the library's."""
    g = Graph()
    x = g.add(ops.input_, (), (0, TensorType((m, K), dtype), "input"))
    w = [g.add(ops.input_, (), (i, TensorType((f, K), dtype), "param")) for i in (1, 2)]
    if generated:
        acc = [Hole("acc", i, TensorType((m, f), dtype)) for i in (0, 1)]
        groups = (((0, 1), ops.mul(ops.silu(acc[0]), acc[1])),)
        packs = (g.add(ops.pack, tuple(w)), g.add(ops.pack, ()))
        out = g.add(ops.gemm, (x, *packs), (None, groups))
    else:
        gate, up = (g.add(ops.linear, (x, v)) for v in w)
        out = g.add(ops.mul, (g.add(ops.silu, (gate,)), up))
    g.outputs = [out]
    return g


def plan_seconds(card: Card, m: int, dtype: torch.dtype, generated: bool, f: int = F) -> float:
    return price_plan(schedule(gate_up(m, dtype, generated, f)), card).seconds


def node_seconds(card: Card, m: int, dtype: torch.dtype, generated: bool) -> float:
    graph = gate_up(m, dtype, generated)
    nodes = [ENode(n.op, n.args, n.attrs) for n in graph.nodes]
    classes = {
        i: EClass(n.type, [e]) for i, (n, e) in enumerate(zip(graph.nodes, nodes, strict=True))
    }
    egraph, pricer = EGraph(classes, graph.outputs), NodePricer(card)
    return math.fsum(pricer(egraph, i, nodes[i]) for i in graph.live())


both = pytest.mark.parametrize("price", [plan_seconds, node_seconds])


@both
@pytest.mark.parametrize("m", [1, 4, 16, 64, 2048, 8192])
def test_h200_generates(price, m: int) -> None:
    card = load_card("h200")
    assert price(card, m, torch.bfloat16, True) < price(card, m, torch.bfloat16, False)


@both
def test_h200_keeps_the_library_where_waves_are_bad(price) -> None:
    card = load_card("h200")
    assert price(card, 256, torch.bfloat16, False) < price(card, 256, torch.bfloat16, True)


@both
@pytest.mark.parametrize("m", [64, 128, 512, 2048])
def test_t4_keeps_the_library(price, m: int) -> None:
    card = load_card("t4")
    assert price(card, m, torch.float16, False) < price(card, m, torch.float16, True)


@both
def test_t4_generates_for_one_row(price) -> None:
    card = load_card("t4")
    assert price(card, 1, torch.float16, True) < price(card, 1, torch.float16, False)


@pytest.mark.parametrize("name", [n for n in card_names() if n != "cpu"])
@pytest.mark.parametrize("generated", [True, False])
def test_finite_and_growing(name: str, generated: bool) -> None:
    card = load_card(name)
    for f in (F, 2 * F):
        times = [plan_seconds(card, m, torch.float16, generated, f) for m in (1, 16, 256, 4096)]
        assert all(map(math.isfinite, times)) and times == sorted(times)
    sizes = [plan_seconds(card, 256, torch.float16, generated, f) for f in (1024, 4096, F)]
    assert sizes == sorted(sizes)


def test_cpu_has_no_generated_product() -> None:
    card = load_card("cpu")
    assert plan_seconds(card, 16, torch.float32, True) == math.inf
    assert math.isfinite(plan_seconds(card, 16, torch.float32, False))


@pytest.mark.parametrize("name", ["h200", "t4"])
def test_the_fused_kernel_holds_less_memory(name: str) -> None:
    card, m = load_card(name), 2048
    peaks = [
        price_plan(schedule(gate_up(m, torch.float16, g)), card).peak_bytes for g in (True, False)
    ]
    assert peaks == [2 * m * F, 3 * 2 * m * F]


def test_fp32_keeps_the_library_unless_tf32_is_allowed() -> None:
    card = load_card("h200")
    plans = [schedule(gate_up(2048, torch.float32, g)) for g in (True, False)]
    exact = [price_plan(p, card).seconds for p in plans]
    allowed = [price_plan(p, card, precision="high").seconds for p in plans]
    assert exact[1] < exact[0]
    assert max(allowed) < 0.3 * min(exact)


def test_a_product_that_no_kernel_fits_cannot_run() -> None:
    graph = gate_up(16, torch.float16, True)
    (out,) = graph.outputs
    node = graph.nodes[out]
    row = Hole("acc", 0, TensorType((16, F), torch.float16))
    groups = (((0, 1), ops.softmax(row)),)
    graph.outputs = [graph.add(ops.gemm, node.args, (None, groups))]
    assert price_plan(schedule(graph), load_card("h200")).seconds == math.inf
