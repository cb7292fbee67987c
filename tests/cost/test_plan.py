"""Prices of whole plans: sums over steps, memory held, and what lam adds."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
import sympy
import torch

from superopt import ops
from superopt.cost import load_card, objective, peak_bytes, price_plan, seconds, work_of
from superopt.errors import CostModelError
from superopt.ir.graph import Graph
from superopt.ir.plan import Plan, Step, Work
from superopt.ir.types import TensorType

H = torch.float16
CARD = load_card("h200")


def two_layers(m=64, n=1000) -> Plan:
    """y = relu(x w^T)[:, :500] concatenated with itself; one step per node."""
    g = Graph()
    x = g.add(ops.input_, (), (0, TensorType((m, 256), H), "input"))
    w = g.add(ops.input_, (), (1, TensorType((n, 256), H), "param"))
    h = g.add(ops.linear, (x, w))
    r = g.add(ops.relu, (h,))
    s = g.add(ops.slice_, (r,), (1, 0, n // 2))
    y = g.add(ops.concat, (s, s), (1,))
    g.outputs = [y]
    families = {h: "aten", r: "aten", s: "view", y: "aten"}
    steps = [
        Step(f, (i,), tuple(dict.fromkeys(g.nodes[i].args)), (i,)) for i, f in families.items()
    ]
    return Plan(g, steps, {})


def test_sums() -> None:
    plan = two_layers()
    price = price_plan(plan, CARD)
    assert price.per_step[2] == 0
    assert price.seconds == pytest.approx(sum(price.per_step))
    assert price.launches == 3
    act = 64 * 1000 * 2
    product = 2 * (64 * 256 + 1000 * 256) + act
    assert price.traffic == product + 2 * act + (act // 2 + act)
    assert price.copied == act // 2 + act
    assert price.objective == price.seconds
    weighed = price_plan(plan, CARD, lam=3.0)
    assert weighed.objective == pytest.approx(objective(price, 3.0))
    assert weighed.objective > weighed.seconds == price.seconds


def test_work_of_a_product() -> None:
    plan = two_layers()
    work = work_of(plan.steps[0], plan, CARD)
    assert (work.engine, work.flops, work.dtype) == ("library", 2 * 64 * 256 * 1000, H)
    assert work_of(plan.steps[2], plan, CARD).launches == 0


def test_a_broadcast_operand_is_read_once() -> None:
    plan = two_layers()
    whole = work_of(plan.steps[1], plan, CARD).read
    plan.strides = {plan.steps[1].inputs[0]: (0, 1)}
    assert work_of(plan.steps[1], plan, CARD).read == whole / 64


def test_peak() -> None:
    plan = two_layers()
    act = 64 * 1000 * 2
    assert peak_bytes(plan) == 2 * act
    plan.graph.outputs.append(plan.steps[0].outputs[0])
    assert peak_bytes(plan) == 3 * act


def test_peak_follows_views_without_a_step() -> None:
    plan = two_layers()
    del plan.steps[2]
    assert peak_bytes(plan) == 2 * 64 * 1000 * 2


def test_once_costs_memory_only() -> None:
    plan = two_layers()
    plan.steps[0] = replace(plan.steps[0], placement="once")
    price = price_plan(plan, CARD)
    assert price.per_step[0] == 0 and price.launches == 2
    assert price.peak_bytes == 3 * 64 * 1000 * 2


@pytest.mark.parametrize("name", ["cpu", "t4", "h200"])
def test_monotone_and_symbolic(name: str) -> None:
    card = load_card(name)
    small, large = (price_plan(two_layers(m), card) for m in (64, 4096))
    assert 0 < small.seconds < large.seconds < math.inf
    assert small.peak_bytes < large.peak_bytes
    m = sympy.Symbol("s0", integer=True, positive=True)
    symbolic = two_layers(m)
    symbolic.graph.hints = {m: 4096}
    assert price_plan(symbolic, card) == large


def test_l2_serves_the_next_step() -> None:
    plan = two_layers()
    known = replace(CARD, l2_gbs=4 * CARD.dram_gbs, launch_us=0, min_us=0)
    unknown = replace(known, l2_gbs=0.0)
    before, after = price_plan(plan, unknown).per_step, price_plan(plan, known).per_step
    assert before[0] == after[0]
    assert after[1] < before[1] and after[3] < before[3]
    tiny = replace(known, l2_bytes=1000)
    assert price_plan(plan, tiny).per_step == before


def test_regions_and_products_ask_their_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = two_layers()
    plan.steps[1] = replace(plan.steps[1], family="region")
    region = SimpleNamespace(work=lambda step, graph: Work(flops=7e9))
    kernels = SimpleNamespace(region=region)
    monkeypatch.setitem(sys.modules, "superopt.kernels", kernels)
    price = price_plan(plan, CARD)
    assert price.per_step[1] == seconds(Work(flops=7e9), CARD)
    plan.steps[0] = replace(plan.steps[0], family="gemm")
    assert price_plan(plan, load_card("cpu")).seconds == math.inf


def test_unknown_family() -> None:
    plan = two_layers()
    plan.steps[0] = replace(plan.steps[0], family="quantum")
    with pytest.raises(CostModelError, match="quantum"):
        price_plan(plan, CARD)


def test_empty_plan() -> None:
    price = price_plan(Plan(Graph(), [], {}), CARD, lam=1.0)
    assert (price.seconds, price.launches, price.peak_bytes, price.objective) == (0, 0, 0, 0)
