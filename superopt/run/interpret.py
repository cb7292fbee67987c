"""A graph run node by node through torch.

It is the fallback where nothing can be generated, and what Inductor traces on the CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sympy
import torch

from superopt.ir.expr import Expr
from superopt.ir.graph import Graph
from superopt.ops.opaque import Opaque, call, substitute_sizes

Sizes = Mapping[sympy.Symbol, Any]


def realise(value: Any, sizes: Sizes) -> Any:
    """An attribute with every symbolic dimension replaced by this call's size."""
    if isinstance(value, sympy.Expr):
        symbols = sorted(value.free_symbols, key=str)
        return sympy.lambdify(symbols, value, modules=[_FUNCTIONS, "math"])(
            *(sizes[s] for s in symbols)
        )
    if isinstance(value, tuple) and not isinstance(value, Expr):
        return tuple(realise(v, sizes) for v in value)
    return value


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "FloorDiv": lambda a, b: a // b,
    "CleanDiv": lambda a, b: a // b,
    "Mod": lambda a, b: a % b,
    "PythonMod": lambda a, b: a % b,
}


def sizes_of(places: Mapping[sympy.Symbol, tuple[int, int | None]], args: Sequence[Any]) -> Sizes:
    """The value of each symbol in this call: an integer argument, or a tensor's size."""
    return {
        s: args[position] if axis is None else args[position].shape[axis]
        for s, (position, axis) in places.items()
    }


def restride(x: torch.Tensor, strides: Sequence[Any]) -> torch.Tensor:
    """``x`` itself where it has these strides, a copy that has them otherwise."""
    if tuple(x.stride()) == tuple(strides) or x.numel() == 0:
        return x
    out = torch.empty_strided(x.shape, tuple(strides), dtype=x.dtype, device=x.device)
    return out.copy_(x)


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
    operands = [values[a] for a in node.args]
    if node.op.name == "opaque":
        return run_opaque(node.attrs[0], operands, sizes)
    attrs = realise(node.attrs, sizes)
    if node.op.name == "expand" and not isinstance(operands[0], torch.Tensor):
        return full(operands[0], attrs[0], node.type.dtype, device)  # type: ignore[union-attr]
    return node.op.torch(*operands, *attrs)


def run_opaque(spec: Opaque, operands: Sequence[Any], sizes: Sizes) -> Any:
    """An opaque operator on operands that first get the strides it was traced with."""
    operands = [
        x if s is None else restride(x, realise(s, sizes))
        for x, s in zip(operands, spec.strides, strict=True)
    ]
    return call(*operands, substitute_sizes(spec, lambda v: realise(v, sizes)))
