"""Operators that move elements and compute nothing."""

from __future__ import annotations

from typing import Any

import torch

from superopt.ir.dims import Dim, is_static, product, same, simplify
from superopt.ir.types import TensorType, TupleType, Type, tensor
from superopt.ops.op import Kind, Op, define


def _reshape(types: Any, shape: tuple[Dim, ...]) -> Type:
    x = tensor(types[0])
    if is_static(x.numel) and is_static(product(shape)) and not same(x.numel, product(shape)):
        raise TypeError(f"{x} has not the elements of shape {shape}")
    return TensorType(tuple(shape), x.dtype)


def _permute(types: Any, axes: tuple[int, ...]) -> Type:
    x = tensor(types[0])
    if sorted(axes) != list(range(x.ndim)):
        raise TypeError(f"{axes} is no permutation of the axes of {x}")
    return TensorType(tuple(x.shape[a] for a in axes), x.dtype)


def _expand(types: Any, shape: tuple[Dim, ...]) -> Type:
    x = tensor(types[0])
    lead = len(shape) - x.ndim
    fits = lead >= 0 and all(
        same(a, 1) or same(a, b) for a, b in zip(x.shape, shape[lead:], strict=True)
    )
    if not fits:
        raise TypeError(f"{x} does not expand to {shape}")
    return TensorType(tuple(shape), x.dtype)


def _slice(types: Any, axis: int, start: Dim, end: Dim) -> Type:
    x = tensor(types[0])
    if not 0 <= axis < x.ndim:
        raise TypeError(f"axis {axis} does not exist in {x}")
    size = simplify(end - start)
    if is_static(size) and is_static(x.shape[axis]):
        if not 0 <= start <= end <= x.shape[axis]:  # type: ignore[operator]
            raise TypeError(f"[{start}:{end}] is outside axis {axis} of {x}")
    return TensorType((*x.shape[:axis], size, *x.shape[axis + 1 :]), x.dtype)


def _concat(types: Any, axis: int) -> Type:
    ts = [tensor(t) for t in types]
    first = ts[0]
    if not 0 <= axis < first.ndim:
        raise TypeError(f"axis {axis} does not exist in {first}")
    for t in ts[1:]:
        fits = t.ndim == first.ndim and t.dtype == first.dtype
        others = [i for i in range(first.ndim) if i != axis]
        if not fits or not all(same(t.shape[i], first.shape[i]) for i in others):
            raise TypeError(f"concat along {axis}: {t} does not fit {first}")
    total = simplify(sum(t.shape[axis] for t in ts))
    shape = (*first.shape[:axis], total, *first.shape[axis + 1 :])
    return TensorType(shape, first.dtype)


def _getitem(types: Any, index: int) -> Type:
    (t,) = types
    item = t.items[index] if isinstance(t, TupleType) else None
    if item is None:
        raise TypeError(f"output {index} of {t} is not a tensor")
    return item


def _layout(name: str, rule: Any, fn: Any, *attrs: str, arity: int | None = 1) -> Op:
    return define(Op(name, Kind.LAYOUT, rule, fn, attrs=attrs, arity=arity))


reshape = _layout("reshape", _reshape, lambda x, shape: x.reshape(shape), "shape")
permute = _layout("permute", _permute, lambda x, axes: x.permute(axes), "axes")
expand = _layout("expand", _expand, lambda x, shape: _as_tensor(x).expand(shape), "shape")
slice_ = _layout(
    "slice",
    _slice,
    lambda x, axis, start, end: x.narrow(axis, start, end - start),
    "axis",
    "start",
    "end",
)
concat = _layout(
    "concat", _concat, lambda *xs_axis: torch.cat(xs_axis[:-1], xs_axis[-1]), "axis", arity=None
)
getitem = _layout("getitem", _getitem, lambda x, index: x[index], "index")

# A list of values as one value, so that an operator of many operands has a fixed arity in patterns.
pack = _layout(
    "pack", lambda types: TupleType(tuple(map(tensor, types))), lambda *xs: xs, arity=None
)


def _as_tensor(x: Any) -> torch.Tensor:
    return x if isinstance(x, torch.Tensor) else torch.as_tensor(x)
