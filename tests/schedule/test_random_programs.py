"""Whatever the program, its plan computes it."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from schedule.programs import Program, effect, execute, write

import superopt.ops as ops
from superopt.ir.expr import Ref
from superopt.ir.graph import Graph
from superopt.ir.types import TensorType
from superopt.kernels.region import fits
from superopt.ops.meaning import run_graph
from superopt.ops.op import Kind
from superopt.schedule import schedule

UNARY = (ops.silu, ops.tanh, ops.neg, ops.softmax, ops.sigmoid)
BINARY = (ops.add, ops.mul, ops.sub, ops.maximum)


def _layout(draw: st.DrawFn, x: Ref):
    match draw(st.sampled_from(["reshape", "permute", "slice", "expand"])):
        case "reshape":
            shape = draw(st.sampled_from([(2, 3, 4), (6, 4), (2, 12), (24,), (2, 3, 2, 2)]))
            return ops.reshape(x, shape)
        case "permute":
            return ops.permute(x, tuple(draw(st.permutations(range(x.ndim)))))
        case "slice":
            axis = draw(st.integers(0, x.ndim - 1))
            return ops.slice_(x, axis, 0, 1)
        case _:
            shape = tuple(draw(st.sampled_from([3, 4])) if d == 1 else d for d in x.shape)
            return ops.expand(x, shape)


def _step(draw: st.DrawFn, p: Program, pool: list[Ref], number: int):
    x, y = draw(st.sampled_from(pool)), draw(st.sampled_from(pool))
    kinds = ["unary", "binary", "layout", "reduce", "linear", "effect", "write"]
    kind = draw(st.sampled_from(kinds))
    match kind:
        case "unary":
            return draw(st.sampled_from(UNARY))(x)
        case "binary":
            return draw(st.sampled_from(BINARY))(x, y)
        case "reduce":
            axes = tuple(sorted(draw(st.sets(st.integers(0, x.ndim - 1), min_size=1))))
            return draw(st.sampled_from([ops.sum_, ops.mean, ops.amax]))(x, axes)
        case "linear":
            return ops.linear(x, y)
        case "effect":
            return effect(x, number)
        case "write" if _owned(p.graph, x.id):
            return write(x, number)
    return _layout(draw, x)


@st.composite
def programs(draw: st.DrawFn) -> Graph:
    p = Program(torch.float64)
    pool = [p.input(2, 3, 4), p.input(4), p.input(2, 1, 4), p.input(3, 4), p.input(4, 4)]
    for number in range(draw(st.integers(2, 14))):
        try:
            expr = _step(draw, p, pool, number)
            expr.type  # noqa: B018 (ill-typed expressions are left out)
        except TypeError:
            continue
        pool.append(p.let(expr))
    made = pool[5:] or pool
    chosen = draw(st.lists(st.sampled_from(made), min_size=1, max_size=3))
    return p.returns(*chosen, pool[-1])


def _owned(graph: Graph, i: int) -> bool:
    """True where torch can write: every element has a place of its own, and it is row-major."""
    kinds = (Kind.POINTWISE, Kind.ROW, Kind.CONTRACT)
    return graph.nodes[i].op.kind in kinds or graph.nodes[i].op.name == "input"


@settings(max_examples=300, deadline=None)
@given(programs())
def test_plans_compute_their_programs(graph: Graph):
    torch.manual_seed(0)
    shapes = [(2, 3, 4), (4,), (2, 1, 4), (3, 4), (4, 4)]
    inputs = [torch.randn(s, dtype=torch.float64) for s in shapes]
    plan = schedule(graph)
    got = execute(plan, [t.clone() for t in inputs])
    for g, w in zip(got, run_graph(graph, inputs), strict=True):
        torch.testing.assert_close(g, w, equal_nan=True)
    computed = [i for s in plan.steps for i in s.nodes if graph.nodes[i].op.name != "expand"]
    assert len(computed) == len(set(computed))
    for step in plan.steps:
        assert step.family != "region" or fits(graph, step.nodes)
        assert all(isinstance(graph.nodes[i].type, TensorType) for i in step.outputs)
