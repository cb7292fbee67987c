"""Shape and dtype rules that many operators share. All raise TypeError when ill-typed."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from superopt.ir.dims import Dim, same
from superopt.ir.types import TensorType, Type, tensor


def broadcast(shapes: Sequence[tuple[Dim, ...]]) -> tuple[Dim, ...]:
    """The common shape, by torch's rule: align at the right, a 1 stretches."""
    rank = max((len(s) for s in shapes), default=0)
    out: list[Dim] = []
    for axis in range(-rank, 0):
        dim: Dim = 1
        for s in shapes:
            size = s[axis] if -axis <= len(s) else 1
            if same(size, 1):
                continue
            if not same(dim, 1) and not same(dim, size):
                raise TypeError(f"shapes {[list(map(str, s)) for s in shapes]} do not broadcast")
            dim = size
        out.append(dim)
    return tuple(out)


def pointwise(types: Sequence[Type]) -> TensorType:
    """Same dtype for all, shapes broadcast; the result has that dtype."""
    ts = [tensor(t) for t in types]
    if len({t.dtype for t in ts}) != 1:
        raise TypeError(f"operands differ in dtype: {', '.join(map(str, ts))}; insert casts")
    return TensorType(broadcast([t.shape for t in ts]), ts[0].dtype)


def comparison(types: Sequence[Type]) -> TensorType:
    """As pointwise, with a boolean result."""
    return TensorType(pointwise(types).shape, torch.bool)


def floating(types: Sequence[Type]) -> TensorType:
    """As pointwise, for floating-point operands only."""
    out = pointwise(types)
    if not out.dtype.is_floating_point:
        raise TypeError(f"a floating-point tensor is needed, not {out}")
    return out


def reduced(types: Sequence[Type], axes: tuple[int, ...]) -> TensorType:
    """The reduced axes become 1."""
    (t,) = map(tensor, types)
    if not axes or any(not 0 <= a < t.ndim for a in axes):
        raise TypeError(f"axes {axes} do not exist in {t}")
    shape = tuple(1 if i in axes else d for i, d in enumerate(t.shape))
    return TensorType(shape, t.dtype)


def rowwise(types: Sequence[Type], *attrs: object) -> TensorType:
    """Same type as the operand, which is floating and has a last axis."""
    (t,) = map(tensor, types)
    if t.ndim == 0 or not t.dtype.is_floating_point:
        raise TypeError(f"rows of floating-point values are needed, not {t}")
    return t


def linear(types: Sequence[Type]) -> TensorType:
    """x[…, K], w[N, K] -> […, N]."""
    x, w = map(tensor, types)
    if w.ndim != 2 or x.ndim < 1 or not same(x.shape[-1], w.shape[1]) or x.dtype != w.dtype:
        raise TypeError(f"linear needs x[…, K] and w[N, K] of one dtype, not {x} and {w}")
    return TensorType((*x.shape[:-1], w.shape[0]), x.dtype)


def matmul(types: Sequence[Type]) -> TensorType:
    """a[…, M, K], b[…, K, N] -> […, M, N]; the batch axes are equal."""
    a, b = map(tensor, types)
    if a.ndim < 2 or a.ndim != b.ndim or a.dtype != b.dtype:
        raise TypeError(f"matmul needs two tensors of one rank and dtype, not {a} and {b}")
    if not all(map(same, a.shape[:-2], b.shape[:-2])) or not same(a.shape[-1], b.shape[-2]):
        raise TypeError(f"matmul: {a} and {b} do not fit")
    return TensorType((*a.shape[:-1], b.shape[-1]), a.dtype)
