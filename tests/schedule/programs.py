"""Small programs to schedule, and torch to run a plan with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

import superopt.ops as ops
from superopt.ir.dims import Dim
from superopt.ir.expr import Expr, Ref
from superopt.ir.graph import Graph
from superopt.ir.plan import Plan, Step
from superopt.ir.types import TensorType, Type
from superopt.ops.opaque import Opaque, Slot


class Program:
    """A graph under construction: inputs, then expressions over them."""

    def __init__(self, dtype: torch.dtype = torch.float32) -> None:
        self.graph, self.dtype, self.count = Graph(), dtype, 0

    def input(
        self,
        *shape: Dim,
        dtype: torch.dtype | None = None,
        strides: tuple[Dim, ...] | None = None,
    ) -> Ref:
        type_ = TensorType(shape, dtype or self.dtype)
        if strides is not None:
            self.graph.input_strides[self.count] = strides
        index = self.graph.add(ops.input_, (), (self.count, type_, "user"))
        self.count += 1
        return self.graph.ref(index)

    def let(self, expr: Expr) -> Ref:
        """The node of an expression."""
        return self.graph.ref(self.graph.insert(expr))

    def returns(self, *exprs: Expr) -> Graph:
        self.graph.outputs = [self.graph.insert(e) for e in exprs]
        return self.graph


def effect(x: Expr, number: int) -> Expr:
    """An opaque operator that must keep its place."""
    row_major = (("memory_format", torch.contiguous_format),)
    spec = Opaque("aten.clone.default", (Slot(0),), row_major, x.type, uid=number)
    return ops.opaque(x, spec)


def write(x: Expr, number: int, strides: tuple[Dim, ...] | None = None) -> Expr:
    """An opaque operator that adds one to its operand, where it lies."""
    args = (Slot(0), 1.0)
    spec = Opaque("aten.add_.Scalar", args, (), x.type, out_strides=(strides,), uid=number)
    return ops.opaque(x, spec)


def pure(x: Expr, target: str, type_: Type, *more: Any, **strides: Any) -> Expr:
    """An opaque operator without effects."""
    return ops.opaque(x, Opaque(target, (Slot(0), *more), (), type_, **strides))


def execute(
    plan: Plan,
    inputs: Sequence[torch.Tensor],
    run_region: Callable[[Step, dict[int, Any]], dict[int, Any]] | None = None,
) -> list[Any]:
    """Run a plan step by step; a step may only touch what it says it reads.

    ``run_region(step, values)`` returns a region's outputs; without it torch runs its nodes.
    """
    graph = plan.graph
    values: dict[int, Any] = {}
    for i in graph.live():
        if graph.nodes[i].op.name == "input":
            values[i] = inputs[graph.nodes[i].attrs[0]]
    for step in plan.steps:
        assert set(step.inputs) <= values.keys(), f"{step} reads what nobody has written"
        if run_region is not None and step.family == "region":
            values.update(run_region(step, values))
        else:
            values.update(_run(plan, step, {i: values[i] for i in step.inputs}))
        _check_strides(plan, step, values)
    return [values[i] for i in graph.outputs]


def _run(plan: Plan, step: Step, reads: dict[int, Any]) -> dict[int, Any]:
    local = dict(reads)
    nodes = plan.graph.nodes

    def value(i: int) -> Any:
        if i in local:
            return local[i]
        if nodes[i].op.name == "scalar":
            return nodes[i].attrs[0]
        assert nodes[i].op.name == "pack", f"{step} reads %{i}, which it does not name"
        return tuple(value(a) for a in nodes[i].args)

    for i in step.nodes:
        result = nodes[i].op.torch(*(value(a) for a in nodes[i].args), *nodes[i].attrs)
        contiguous = step.family != "view" and nodes[i].op.name != "opaque"
        if contiguous and isinstance(result, torch.Tensor):
            result = result.contiguous()
        local[i] = result
    return {i: local[i] for i in step.outputs}


def _check_strides(plan: Plan, step: Step, values: dict[int, Any]) -> None:
    for i in step.outputs:
        if isinstance(values[i], torch.Tensor) and all(isinstance(s, int) for s in plan.strides[i]):
            moves = zip(values[i].shape, values[i].stride(), plan.strides[i], strict=True)
            assert all(n == 1 or have == want for n, have, want in moves), f"strides of %{i}"
