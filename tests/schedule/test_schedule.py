"""What is grouped with what, and in which order."""

from __future__ import annotations

import pytest
import sympy
import torch
from schedule.programs import Program, effect, execute, pure, write

import superopt.ops as ops
from superopt.ir.expr import Hole
from superopt.ir.graph import Graph
from superopt.ir.plan import Plan
from superopt.ir.types import TensorType
from superopt.ops.meaning import run_graph
from superopt.schedule import describe, schedule


def families(plan: Plan) -> list[str]:
    return [s.family for s in plan.steps]


def regions(plan: Plan) -> list[set[str]]:
    return [
        {plan.graph.nodes[i].op.name for i in s.nodes} for s in plan.steps if s.family == "region"
    ]


def random_inputs(graph: Graph) -> list[torch.Tensor]:
    torch.manual_seed(0)
    nodes = [graph.nodes[i] for i in graph.live() if graph.nodes[i].op.name == "input"]
    made = {n.attrs[0]: torch.randn(n.type.shape).to(n.type.dtype) for n in nodes}
    return [made.get(k) for k in range(max(made) + 1)]  # type: ignore[misc]


def check(graph: Graph, **options: bool) -> Plan:
    """Schedule, run the plan, compare with the graph run node by node."""
    plan = schedule(graph, **options)
    inputs = random_inputs(graph)
    got, want = execute(plan, inputs), run_graph(graph, inputs)
    for g, w in zip(got, want, strict=True):
        torch.testing.assert_close(g, w, equal_nan=True)
    return plan


def add_rms() -> Graph:
    p = Program(torch.bfloat16)
    x, residual, g = p.input(2, 8, 64), p.input(2, 8, 64), p.input(64)
    total = p.let(x + residual)
    return p.returns(total, ops.rms(total, 1e-6) * g)


def masked_softmax() -> Graph:
    p = Program()
    scores, mask = p.input(2, 4, 8, 8), p.input(2, 1, 8, 8, dtype=torch.bool)
    low = ops.scalar(float("-inf"), torch.float32)
    scaled = scores * ops.scalar(0.125, torch.float32)
    return p.returns(ops.softmax(ops.where(mask, scaled, low)))


def layer_norm() -> Graph:
    p = Program(torch.float16)
    x, w, b = p.input(4, 96), p.input(96, dtype=torch.float32), p.input(96, dtype=torch.float32)
    wide = ops.cast(x, torch.float32)
    return p.returns(ops.cast(ops.standardise(wide, 1e-5) * w + b, torch.float16))


def gated_block() -> Graph:
    """Norm, two products, gate, product, residual, and the next norm."""
    p = Program()
    x, g = p.input(2, 4, 32), p.input(32)
    gate, up, down = p.input(48, 32), p.input(48, 32), p.input(32, 48)
    n = p.let(ops.rms(x, 1e-6) * g)
    h = p.let(ops.silu(ops.linear(n, gate)) * ops.linear(n, up))
    y = p.let(x + ops.linear(h, down))
    return p.returns(y, ops.rms(y, 1e-6) * g)


def attention_views() -> Graph:
    p = Program()
    qkv = p.input(2, 4, 48)
    q = p.let(ops.slice_(qkv, 2, 0, 16))
    heads = p.let(ops.permute(ops.reshape(q, (2, 4, 2, 8)), (0, 2, 1, 3)))
    scaled = p.let(heads * ops.scalar(0.5, torch.float32))
    back = ops.reshape(ops.permute(scaled, (0, 2, 1, 3)), (2, 4, 16))
    return p.returns(back)


def random_and_pure() -> Graph:
    p = Program()
    x = p.input(4, 8)
    first = p.let(effect(x, 1))
    second = p.let(effect(ops.exp(x), 2))
    third = p.let(effect(x + first, 3))
    return p.returns(third, second * first)


def fused_products() -> Graph:
    p = Program()
    x, w1, w2, bias = p.input(4, 16), p.input(8, 16), p.input(8, 16), p.input(8)
    acc = TensorType((4, 8), torch.float32)
    a0, a1, extra = Hole("acc", 0, acc), Hole("acc", 1, acc), Hole("in", 0, bias.type)
    groups = (((0,), a0 + extra), ((1,), ops.silu(a1)))
    y = p.let(ops.gemm(x, ops.pack(w1, w2), ops.pack(bias), None, groups))
    return p.returns(ops.getitem(y, 0) * ops.getitem(y, 1))


GOLDEN = [
    add_rms,
    masked_softmax,
    layer_norm,
    gated_block,
    attention_views,
    random_and_pure,
    fused_products,
]


each_program = pytest.mark.parametrize("make", GOLDEN, ids=lambda f: f.__name__)


@each_program
def test_golden(make, golden):
    golden(f"schedule/{make.__name__}", describe(check(make())))


@each_program
def test_without_generated_kernels(make):
    plan = check(make(), generate=False)
    assert set(families(plan)) <= {"aten", "view"}
    assert all(len(s.nodes) == 1 for s in plan.steps)


def test_one_kernel_where_one_does():
    for make in (add_rms, masked_softmax, layer_norm):
        assert families(check(make())) == ["region"], make.__name__
    (step,) = check(add_rms()).steps
    assert len(step.outputs) == 2


def test_a_path_through_another_step_forbids_fusion():
    p = Program()
    x, w = p.input(4, 8), p.input(8, 8)
    y = p.let(ops.exp(x))
    plan = check(p.returns(y + ops.linear(y, w)))
    assert families(plan) == ["region", "aten", "region"]
    assert regions(plan) == [{"exp"}, {"add"}]


def test_a_rotated_value_is_read_from_memory():
    """q's kernel ends where q is written, and what follows is one kernel, which writes once."""
    p = Program()
    x, w, cos, sin = p.input(2, 4, 8), p.input(8), p.input(4, 8), p.input(4, 8)
    q = p.let(ops.rms(x, 1e-6) * w)
    plan = check(p.returns(q * cos + ops.rotate_half(q) * sin))
    assert regions(plan) == [{"rms", "mul"}, {"mul", "rotate_half", "add"}]


def test_broadcasts_between_members_are_inside():
    p = Program()
    x = p.input(4, 1)
    wide = p.let(ops.expand(ops.exp(x), (4, 8)))
    plan = check(p.returns(ops.softmax(wide + p.input(4, 8))))
    assert regions(plan) == [{"exp", "expand", "add", "softmax"}]
    assert families(plan) == ["region"]


def test_a_broadcast_that_leaves_is_a_view():
    p = Program()
    x, w = p.input(4, 1), p.input(8, 8)
    wide = p.let(ops.expand(ops.exp(x), (4, 8)))
    plan = check(p.returns(ops.linear(wide, w), wide * p.input(4, 8)))
    assert families(plan).count("view") == 1
    assert plan.strides[wide.id] == (1, 0)


def test_small_values_that_leave_have_a_kernel_of_their_own():
    """Every program of the large kernel would write them."""
    p = Program()
    w, x = p.input(8), p.input(4, 8)
    one_more = p.let(w + ops.scalar(1.0, torch.float32))
    assert len(regions(check(p.returns(x * one_more)))) == 1
    p = Program()
    w, x = p.input(8), p.input(4, 8)
    one_more = p.let(w + ops.scalar(1.0, torch.float32))
    assert len(regions(check(p.returns(x * one_more, one_more)))) == 2


def test_readers_of_one_value_share_a_kernel():
    p = Program()
    x, y, g, point = p.input(4, 8), p.input(4, 8), p.input(8), p.input()
    assert len(check(p.returns(ops.exp(x), ops.softmax(x))).steps) == 1
    assert len(check(p.returns(ops.exp(x) * g, ops.softmax(y * g))).steps) == 1
    # Another shape, or nothing worth reading once.
    assert len(check(p.returns(ops.exp(x), ops.slice_(x, 0, 0, 2) * g)).steps) == 3
    assert len(check(p.returns(ops.exp(x) * point, ops.softmax(y * point))).steps) == 2


def test_rows_too_long_or_other_axes_run_in_torch():
    p = Program()
    x = p.input(2, 20000)
    assert families(check(p.returns(ops.softmax(x)))) == ["aten"]
    p = Program()
    x = p.input(4, 8)
    assert families(check(p.returns(ops.sum_(x, (0,))))) == ["aten"]
    p = Program()
    x = p.input(4, 8, 8)
    assert families(check(p.returns(ops.sum_(x, (1, 2))))) == ["region"]


def test_too_many_rows_alive_are_not_fused():
    """Six rows of 16384 do not fit in a program's registers."""
    p = Program()
    rows = [p.input(4, 16384) for _ in range(6)]
    means = [ops.mean(r, (1,)) for r in rows]
    total = means[0]
    for m in means[1:]:
        total = total + m
    out = rows[0] * total
    for r in rows[1:]:
        out = out + r * total
    plan = check(p.returns(out))
    assert len(plan.steps) > 1


def test_fills_and_numbers():
    p = Program()
    x = p.input(4, 8)
    ones = p.let(ops.expand(ops.scalar(1.0, torch.float32), (4, 8)))
    plan = check(p.returns(ops.exp(x) + ones))
    assert families(plan) == ["region"]
    plan = schedule(p.returns(pure(ones, "aten.clone.default", ones.type)))
    assert families(plan) == ["region", "aten"]


def test_effects_keep_their_order():
    plan = schedule(random_and_pure())
    uids = [plan.graph.nodes[i].attrs[0].uid for s in plan.steps if s.effects for i in s.nodes]
    assert uids == [1, 2, 3]


def test_writes_come_after_earlier_reads_and_before_later_ones():
    p = Program()
    x, y = p.input(4, 8), p.input(4, 8)
    before = p.let(ops.exp(x) + y)
    written = p.let(write(ops.permute(x, (1, 0)), 1, (1, 8)))
    after = p.let(ops.exp(y) + ops.silu(x))
    graph = p.returns(ops.permute(written, (1, 0)), after, before)
    plan = schedule(graph)
    inputs = random_inputs(graph)
    copies = [t.clone() for t in inputs]
    for got, want in zip(execute(plan, inputs), run_graph(graph, copies), strict=True):
        torch.testing.assert_close(got, want)


def test_opaque_results_keep_their_strides():
    p = Program()
    x = p.input(4, 8)
    type_ = TensorType((8, 4), torch.float32)
    turned = p.let(pure(x, "aten.permute.default", type_, (1, 0), out_strides=((1, 8),)))
    flat = ops.reshape(ops.permute(turned, (1, 0)), (32,))
    plan = check(p.returns(flat))
    assert families(plan) == ["aten", "view", "view"]


def test_symbolic_rows():
    n = sympy.Symbol("s0", positive=True, integer=True)
    p = Program()
    x, g = p.input(n, 64), p.input(64)
    plan = schedule(p.returns(ops.rms(x, 1e-6) * g))
    assert families(plan) == ["region"]
    p = Program()
    assert families(schedule(p.returns(ops.softmax(p.input(4, n))))) == ["aten"]
