"""A graph run node by node through torch.

It is the fallback where nothing can be generated, and what Inductor traces on the CPU.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sympy
import torch
from torch.utils._sympy.interp import sympy_interp
from torch.utils._sympy.reference import PythonReferenceAnalysis

from superopt.ir.expr import Expr
from superopt.ir.graph import Graph
from superopt.ir.types import TensorType
from superopt.ops.opaque import Opaque, call, substitute_sizes

Sizes = Mapping[sympy.Symbol, Any]


class _Numbers(PythonReferenceAnalysis):
    """Python's arithmetic, and that of torch's symbolic numbers while a plan is traced."""

    @staticmethod
    def int_truediv(a: Any, b: Any) -> Any:
        return a / b

    truediv = int_truediv


def realise(value: Any, sizes: Sizes) -> Any:
    """An attribute with every symbolic dimension replaced by this call's size."""
    if isinstance(value, sympy.Basic):
        return _plain(sympy_interp(_Numbers, dict(sizes), value))
    if isinstance(value, tuple) and not isinstance(value, Expr):
        return tuple(realise(v, sizes) for v in value)
    return value


def _plain(number: Any) -> Any:
    """A number of sympy's as Python's own; what else it may be, as it is."""
    if isinstance(number, sympy.logic.boolalg.BooleanAtom):
        return bool(number)
    if isinstance(number, sympy.Basic):
        return int(number) if number.is_Integer else float(number)
    return number


def sizes_of(places: Mapping[sympy.Symbol, tuple[int, int | None]], args: Sequence[Any]) -> Sizes:
    """The value of each symbol in this call: an integer argument, or a tensor's size."""
    return {
        s: args[position] if axis is None else args[position].shape[axis]
        for s, (position, axis) in places.items()
    }


def restride(x: torch.Tensor, strides: Sequence[Any]) -> torch.Tensor:
    """``x`` itself where it has these strides, a copy that has them otherwise.

    An axis of stride 0 holds one element, as an expanded tensor's does.
    """
    if tuple(x.stride()) == tuple(strides):
        return x
    one = x
    for axis, (size, step) in enumerate(zip(x.shape, strides, strict=True)):
        if isinstance(step, int) and step == 0 and size != 0:
            one = one.narrow(axis, 0, 1)
    out = torch.empty_strided(one.shape, tuple(strides), dtype=x.dtype, device=x.device).copy_(one)
    return out if one is x else out.expand(x.shape)


def allocator(device: torch.device) -> Callable[..., torch.Tensor]:
    """``empty(shape, strides, dtype)`` on a device; on a GPU by the way that Inductor's code takes,
    which costs the host a fraction of ``torch.empty``. The device must be the current one."""
    if device.type == "cuda":
        return torch._C._dynamo.guards._empty_strided_cuda  # type: ignore[attr-defined]
    return lambda shape, strides, dtype: torch.empty_strided(
        shape, strides, dtype=dtype, device=device
    )


def full(value: Any, shape: Sequence[Any], dtype: torch.dtype, device: torch.device) -> Any:
    return torch.full(tuple(shape), value, dtype=dtype, device=device)


def interpret(graph: Graph, args: Sequence[Any], sizes: Sizes, device: torch.device) -> list[Any]:
    """The outputs of ``graph``; a value is dropped after its last use."""
    last = {a: i for i in graph.live() for a in graph.nodes[i].args}
    keep = set(graph.outputs)
    values: dict[int, Any] = {}
    for i in graph.live():
        values[i] = run_node(graph, i, values, args, sizes, device)
        for a in set(graph.nodes[i].args):
            if last[a] == i and a not in keep:
                del values[a]
    return [values[o] for o in graph.outputs]


def run_node(
    graph: Graph,
    index: int,
    values: Mapping[int, Any],
    args: Sequence[Any],
    sizes: Sizes,
    device: torch.device,
) -> Any:
    """One node's value, given its operands'."""
    node = graph.nodes[index]
    if node.op.name == "input":
        return args[node.attrs[0]]
    if node.op.name == "scalar":
        return node.attrs[0]
    operands = [values[a] for a in node.args]
    if node.op.name == "opaque":
        return run_opaque(node.attrs[0], operands, sizes)
    attrs = realise(node.attrs, sizes)
    if node.op.name == "expand" and not isinstance(operands[0], torch.Tensor):
        return full(operands[0], attrs[0], node.type.dtype, device)  # type: ignore[union-attr]
    result = node.op.torch(*operands, *attrs)
    told = operands[1:] if node.op.name == "where" else operands
    if isinstance(node.type, TensorType) and all(isinstance(x, int | float) for x in told):
        return typed(result, node.type.dtype, device)
    return result


def typed(x: Any, dtype: torch.dtype, device: torch.device) -> Any:
    """What an operator made of numbers: they have no dtype, so that torch guesses one."""
    if isinstance(x, torch.Tensor):
        return x.to(dtype)
    return torch.full((), x, dtype=dtype, device=device)


def run_opaque(spec: Opaque, operands: Sequence[Any], sizes: Sizes) -> Any:
    """An opaque operator on operands that first get the strides it was traced with."""
    fixed = _is_fixed(spec)
    operands = [
        x if s is None else restride(x, s if fixed else realise(s, sizes))
        for x, s in zip(operands, spec.strides, strict=True)
    ]
    if not fixed:
        spec = substitute_sizes(spec, lambda v: realise(v, sizes))
    return call(*operands, spec)


@functools.lru_cache(maxsize=4096)
def _is_fixed(spec: Opaque) -> bool:
    """True where no symbolic size occurs among the arguments or their strides."""

    def fixed(value: Any) -> bool:
        if isinstance(value, tuple):
            return all(map(fixed, value))
        return not isinstance(value, sympy.Basic)

    return fixed((spec.args, spec.strides, spec.kwargs))
