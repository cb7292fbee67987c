"""ATen's formulas for derivatives, written out in pointwise operators and reductions."""

from __future__ import annotations

from typing import Any

import torch

from superopt import ops
from superopt.ir.dims import is_static
from superopt.ir.expr import Expr
from superopt.ir.types import TensorType
from superopt.lift.aten import lifts
from superopt.lift.operands import Unmodelled, narrow, number, operand, wide

aten = torch.ops.aten


@lifts(aten.silu_backward.default)
def _silu_backward(out: TensorType, g: Expr, x: Expr) -> Expr:
    v, one = wide(x), number(1, wide(x).dtype)
    s = ops.sigmoid(v)
    return narrow(wide(g) * s * (one + v * (one - s)), x)


@lifts(aten.sigmoid_backward.default)
def _sigmoid_backward(out: TensorType, g: Expr, y: Expr) -> Expr:
    v = wide(y)
    return narrow(wide(g) * v * (number(1, v.dtype) - v), y)


@lifts(aten.tanh_backward.default)
def _tanh_backward(out: TensorType, g: Expr, y: Expr) -> Expr:
    v = wide(y)
    return narrow(wide(g) * (number(1, v.dtype) - v * v), y)


@lifts(aten.threshold_backward.default)
def _threshold_backward(out: TensorType, g: Expr, x: Expr, threshold: Any) -> Expr:
    zero = number(0, out.dtype)
    return ops.where(ops.le(x, number(threshold, x.dtype)), zero, g)


@lifts(aten.gelu_backward.default)
def _gelu_backward(out: TensorType, g: Expr, x: Expr, *, approximate: str = "none") -> Expr:
    v = wide(x)

    def c(value: float) -> Expr:
        return number(value, v.dtype)

    if approximate == "none":
        cdf = c(0.5) * (c(1) + ops.erf(v * c(0.5**0.5)))
        pdf = ops.exp(v * v * c(-0.5)) * c(0.3989422804014327)  # 1 / sqrt(2 pi)
        return narrow(wide(g) * (cdf + v * pdf), x)
    k = 0.7978845608028654  # sqrt(2 / pi)
    t = ops.tanh(c(k) * (v + c(0.044715) * v * v * v))
    slope = (c(1) - t * t) * c(k) * (c(1) + c(3 * 0.044715) * v * v)
    return narrow(wide(g) * (c(0.5) * (c(1) + t) + c(0.5) * v * slope), x)


@lifts(aten.slice_backward.default)
def _slice_backward(
    out: TensorType, g: Expr, sizes: Any, dim: int, start: Any, end: Any, step: Any
) -> Expr:
    """The gradient in its place, zeros around it."""
    dim %= out.ndim
    if step != 1 or not isinstance(start, int) or not all(map(is_static, out.shape)):
        raise Unmodelled("strided or symbolic slice")
    size, width = int(out.shape[dim]), int(g.shape[dim])  # type: ignore[arg-type]
    start = min(start + size if start < 0 else start, size)

    def zeros(count: int) -> Expr:
        shape = (*out.shape[:dim], count, *out.shape[dim + 1 :])
        return ops.expand(number(0, out.dtype), shape)

    parts = [zeros(start), g, zeros(size - start - width)]
    parts = [p for p in parts if p.shape[dim] != 0]
    return parts[0] if len(parts) == 1 else ops.concat(*parts, dim)


@lifts(aten._softmax_backward_data.default)
def _softmax_backward(out: TensorType, g: Expr, y: Expr, dim: int, dtype: Any) -> Expr:
    v, axes = wide(y), (dim % y.ndim,)
    p = wide(g) * v
    return operand(p - v * ops.sum_(p, axes), out.dtype)
