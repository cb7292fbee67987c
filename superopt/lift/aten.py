"""How ATen calls that are not an operator argument by argument become expressions.

Each function takes the call's result types and its arguments, tensors as expressions, and returns
an expression (or a tuple of them). ``Unmodelled`` makes the call an opaque operator instead, and so
does a result whose type differs from the traced one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from superopt import ops
from superopt.ir.dims import is_static, simplify
from superopt.ir.expr import Expr
from superopt.ir.types import TensorType
from superopt.lift.operands import Unmodelled, axes_of, narrow, number, operand, wide

aten = torch.ops.aten
Lifter = Callable[..., Any]
LIFTERS: dict[Any, Lifter] = {}


def lifts(*targets: Any) -> Callable[[Lifter], Lifter]:
    def enter(fn: Lifter) -> Lifter:
        for t in targets:
            LIFTERS[t] = fn
        return fn

    return enter


def _overload(name: str) -> tuple[Any, ...]:
    """An overload as a tuple, empty where this torch does not have it."""
    packet, overload = name.split(".")
    found = getattr(getattr(aten, packet, None), overload, None)
    return () if found is None else (found,)


def reshaped(x: Expr, out: TensorType) -> Expr:
    """``x`` in the shape of ``out``; itself where it has that shape."""
    return x if x.shape == out.shape else ops.reshape(x, out.shape)


# -- layout ----------------------------------------------------------------------------------------


@lifts(
    aten.view.default,
    aten._unsafe_view.default,
    aten.reshape.default,
    aten.unsqueeze.default,
    aten.squeeze.default,
    aten.squeeze.dim,
    aten.squeeze.dims,
    *_overload("flatten.using_ints"),
)
def _view(out: TensorType, x: Expr, *_: Any) -> Expr:
    return reshaped(x, out)


@lifts(aten.t.default)
def _t(out: TensorType, x: Expr) -> Expr:
    return x if x.ndim < 2 else ops.permute(x, (1, 0))


@lifts(aten.transpose.int)
def _transpose(out: TensorType, x: Expr, a: int, b: int) -> Expr:
    axes = list(range(x.ndim))
    axes[a], axes[b] = axes[b], axes[a]
    return ops.permute(x, tuple(axes))


@lifts(aten.permute.default)
def _permute(out: TensorType, x: Expr, axes: list[int]) -> Expr:
    return ops.permute(x, tuple(a % x.ndim for a in axes))


@lifts(aten.expand.default)
def _expand(out: TensorType, x: Expr, *_: Any, **__: Any) -> Expr:
    return ops.expand(x, out.shape)


@lifts(aten.slice.Tensor)
def _slice(
    out: TensorType, x: Expr, dim: int = 0, start: Any = None, end: Any = None, step: Any = 1
) -> Expr:
    dim %= x.ndim
    start = 0 if start is None else start
    if step != 1 or not isinstance(start, int):
        raise Unmodelled("strided or symbolic slice")
    if start < 0:
        if not is_static(x.shape[dim]):
            raise Unmodelled("negative start on a symbolic axis")
        start = max(start + int(x.shape[dim]), 0)
    if is_static(x.shape[dim]):
        start = min(start, int(x.shape[dim]))
    return ops.slice_(x, dim, start, simplify(start + out.shape[dim]))


@lifts(aten.select.int)
def _select(out: TensorType, x: Expr, dim: int, index: Any) -> Expr:
    dim %= x.ndim
    if not isinstance(index, int) or (index < 0 and not is_static(x.shape[dim])):
        raise Unmodelled("symbolic index")
    index = index + int(x.shape[dim]) if index < 0 else index  # type: ignore[arg-type]
    return reshaped(ops.slice_(x, dim, index, index + 1), out)


def _pieces(x: Expr, outs: tuple[TensorType, ...], dim: int) -> tuple[Expr, ...]:
    parts, at = [], 0
    for t in outs:
        parts.append(ops.slice_(x, dim, at, simplify(at + t.shape[dim])))
        at = simplify(at + t.shape[dim])
    return tuple(parts)


@lifts(aten.split.Tensor, aten.split_with_sizes.default, *_overload("chunk.default"))
def _split(outs: tuple[TensorType, ...], x: Expr, sizes: Any, dim: int = 0) -> tuple[Expr, ...]:
    return _pieces(x, outs, dim % x.ndim)


@lifts(aten.unbind.int)
def _unbind(outs: tuple[TensorType, ...], x: Expr, dim: int = 0) -> tuple[Expr, ...]:
    dim %= x.ndim
    return tuple(ops.reshape(ops.slice_(x, dim, i, i + 1), t.shape) for i, t in enumerate(outs))


@lifts(aten.cat.default)
def _cat(out: TensorType, xs: list[Expr], dim: int = 0) -> Expr:
    xs = [x for x in xs if x.ndim == out.ndim]  # torch lets empty 1-D tensors join
    return ops.concat(*(operand(x, out.dtype) for x in xs), dim % out.ndim)


@lifts(aten.stack.default)
def _stack(out: TensorType, xs: list[Expr], dim: int = 0) -> Expr:
    dim %= out.ndim
    shape = (*out.shape[:dim], 1, *out.shape[dim + 1 :])
    return ops.concat(*(ops.reshape(x, shape) for x in xs), dim)


@lifts(
    aten.clone.default,
    aten.detach.default,
    aten.alias.default,
    aten.contiguous.default,
    *_overload("lift_fresh_copy.default"),
)
def _same(out: TensorType, x: Expr, **_: Any) -> Expr:
    return x


@lifts(aten.copy.default)
def _copy(out: TensorType, x: Expr, source: Expr, *_: Any) -> Expr:
    return ops.expand(operand(source, out.dtype), out.shape)


@lifts(aten._to_copy.default, torch.ops.prims.convert_element_type.default)
def _to_copy(out: TensorType, x: Expr, *_: Any, **__: Any) -> Expr:
    return operand(x, out.dtype)


@lifts(aten.full.default, aten.full_like.default)
def _full(out: TensorType, like: Any, value: Any, **_: Any) -> Expr:
    return ops.expand(number(value, out.dtype), out.shape)


@lifts(aten.zeros.default, aten.zeros_like.default)
def _zeros(out: TensorType, *_: Any, **__: Any) -> Expr:
    return ops.expand(number(0, out.dtype), out.shape)


@lifts(aten.ones.default, aten.ones_like.default)
def _ones(out: TensorType, *_: Any, **__: Any) -> Expr:
    return ops.expand(number(1, out.dtype), out.shape)


@lifts(aten.scalar_tensor.default)
def _scalar_tensor(out: TensorType, value: Any, **_: Any) -> Expr:
    return ops.expand(number(value, out.dtype), ())


# -- arithmetic ------------------------------------------------------------------------------------


@lifts(aten.add.Tensor, aten.sub.Tensor, aten.add.Scalar, aten.sub.Scalar)
def _scaled(out: TensorType, a: Any, b: Any, *, alpha: Any = 1, subtract: bool = False) -> Expr:
    b = operand(b, out.dtype)
    if alpha != 1:
        b = b * number(alpha, out.dtype)
    a = operand(a, out.dtype)
    return a - b if subtract else a + b


LIFTERS[aten.sub.Tensor] = LIFTERS[aten.sub.Scalar] = lambda out, a, b, alpha=1: _scaled(
    out, a, b, alpha=alpha, subtract=True
)


@lifts(aten.rsub.Scalar, aten.rsub.Tensor)
def _rsub(out: TensorType, a: Any, b: Any, alpha: Any = 1) -> Expr:
    return _scaled(out, b, a, alpha=alpha, subtract=True)


@lifts(aten.pow.Tensor_Scalar)
def _pow(out: TensorType, x: Expr, exponent: Any) -> Expr:
    x = operand(x, out.dtype)
    if exponent == 1:
        return x
    if exponent == 2:
        return x * x
    if exponent == 3:
        return x * x * x
    if exponent in (0.5, -0.5, -1):
        return {0.5: ops.sqrt, -0.5: ops.rsqrt, -1: ops.reciprocal}[exponent](x)
    raise Unmodelled(f"power {exponent}")


@lifts(aten.where.self)
def _where(out: TensorType, c: Expr, a: Any, b: Any) -> Expr:
    return ops.where(c, operand(a, out.dtype), operand(b, out.dtype))


@lifts(aten.masked_fill.Scalar, aten.masked_fill.Tensor)
def _masked_fill(out: TensorType, x: Expr, mask: Expr, value: Any) -> Expr:
    return ops.where(mask, operand(value, out.dtype), operand(x, out.dtype))


@lifts(aten.clamp.default, aten.clamp_min.default, aten.clamp_max.default)
def _clamp(out: TensorType, x: Expr, low: Any = None, high: Any = None) -> Expr:
    x = operand(x, out.dtype)
    if low is not None:
        x = ops.maximum(x, number(low, out.dtype))
    return x if high is None else ops.minimum(x, number(high, out.dtype))


LIFTERS[aten.clamp_max.default] = lambda out, x, high: _clamp(out, x, None, high)


@lifts(aten.gelu.default)
def _gelu(out: TensorType, x: Expr, *, approximate: str = "none") -> Expr:
    return ops.gelu_tanh(x) if approximate == "tanh" else ops.gelu(x)


@lifts(aten.addmm.default)
def _addmm(out: TensorType, b: Expr, x: Expr, w: Expr, beta: Any = 1, alpha: Any = 1) -> Expr:
    if beta != 1 or alpha != 1:
        raise Unmodelled("scaled addmm")
    return ops.matmul(x, w) + b


@lifts(aten.baddbmm.default)
def _baddbmm(out: TensorType, b: Expr, x: Expr, w: Expr, beta: Any = 1, alpha: Any = 1) -> Expr:
    if beta != 1 or alpha != 1:
        raise Unmodelled("scaled baddbmm")
    return ops.matmul(x, w) + b


# -- reductions and rows ---------------------------------------------------------------------------


def _reduction(op: Any) -> Lifter:
    def lift(out: TensorType, x: Expr, dims: Any = None, keepdim: bool = False, **kw: Any) -> Expr:
        x = operand(x, out.dtype)
        if x.ndim == 0:
            return x
        return reshaped(op(x, axes_of(dims, x.ndim)), out)

    return lift


for _targets, _op in (
    ((aten.sum.dim_IntList, aten.sum.default), ops.sum_),
    ((aten.mean.dim, aten.mean.default), ops.mean),
    ((aten.amax.default,), ops.amax),
    ((aten.amin.default,), ops.amin),
):
    for _target in _targets:
        LIFTERS[_target] = _reduction(_op)


@lifts(*_overload("var.correction"))
def _var(
    out: TensorType, x: Expr, dims: Any = None, *, correction: Any = 1, keepdim: bool = False
) -> Expr:
    axes = axes_of(dims, x.ndim)
    v = wide(x)
    count = 1
    for a in axes:
        if not is_static(x.shape[a]):
            raise Unmodelled("variance over a symbolic axis")
        count *= int(x.shape[a])
    correction = 1 if correction is None else correction
    if count - correction <= 0:
        raise Unmodelled("variance of too few elements")
    d = v - ops.mean(v, axes)
    var = ops.mean(d * d, axes)
    if correction:
        var = var * number(count / (count - correction), v.dtype)
    return narrow(reshaped(var, out), x)


def _along_last(op: Any, x: Expr, dim: int) -> Expr:
    dim %= x.ndim
    if dim == x.ndim - 1:
        return op(x)
    axes = list(range(x.ndim))
    axes[dim], axes[-1] = axes[-1], axes[dim]
    return ops.permute(op(ops.permute(x, tuple(axes))), tuple(axes))


# Not _safe_softmax: a row that is -inf throughout gives zeros there, NaN in softmax.
@lifts(aten._softmax.default)
def _softmax(out: TensorType, x: Expr, dim: int, half_to_float: Any = False, **_: Any) -> Expr:
    if x.ndim == 0:
        raise Unmodelled("softmax of a scalar")
    return _along_last(ops.softmax, operand(x, out.dtype), dim)


@lifts(aten._log_softmax.default)
def _log_softmax(out: TensorType, x: Expr, dim: int, half_to_float: Any = False) -> Expr:
    if x.ndim == 0:
        raise Unmodelled("softmax of a scalar")
    return _along_last(ops.log_softmax, operand(x, out.dtype), dim)


@lifts(aten.native_layer_norm.default)
def _layer_norm(
    outs: tuple[TensorType, ...], x: Expr, shape: list[int], w: Any, b: Any, eps: float
) -> tuple[Expr, ...]:
    if len(shape) != 1:
        raise Unmodelled("layer norm over several axes")
    v = wide(x)
    y = ops.standardise(v, eps)
    y = y if w is None else y * operand(w, v.dtype)
    y = y if b is None else y + operand(b, v.dtype)
    axis = (x.ndim - 1,)
    mean = ops.mean(v, axis)
    d = v - mean
    rstd = ops.rsqrt(ops.mean(d * d, axis) + number(eps, v.dtype))
    return narrow(y, x), operand(mean, outs[1].dtype), operand(rstd, outs[2].dtype)


@lifts(*_overload("_fused_rms_norm.default"))
def _rms_norm(
    outs: tuple[TensorType, ...], x: Expr, shape: list[int], w: Any, eps: float | None
) -> tuple[Expr, ...]:
    if len(shape) != 1:
        raise Unmodelled("RMS norm over several axes")
    v = wide(x)
    eps = torch.finfo(x.dtype).eps if eps is None else eps
    y = ops.rms(v, eps)
    y = y if w is None else y * operand(w, v.dtype)
    mean = ops.mean(v * v, (x.ndim - 1,))
    rstd = ops.rsqrt(mean + number(eps, v.dtype))
    return narrow(y, x), operand(rstd, outs[1].dtype)
