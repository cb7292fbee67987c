"""Pointwise operators: each output element from the same element of each (broadcast) operand.

In a generated kernel float16 and bfloat16 are computed in fp32 and rounded where a value is stored
or cast, so a fused chain rounds less often than eager does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from superopt.ir.types import TensorType, tensor
from superopt.ops import infer
from superopt.ops.op import Kind, Op, define

aten = torch.ops.aten


def _with_numbers(fn: Callable[..., Any], tensors_only: bool) -> Callable[..., Any]:
    """``fn`` for operands that may be Python numbers, as scalars are."""

    def call(*operands: Any) -> Any:
        like = next((x for x in operands if isinstance(x, torch.Tensor)), None)
        if like is None:
            return fn(*(torch.tensor(x, dtype=torch.float64) for x in operands)).item()
        if tensors_only:
            operands = tuple(
                torch.as_tensor(x, dtype=like.dtype, device=like.device) for x in operands
            )
        return fn(*operands)

    return call


def _define(
    name: str,
    fn: Callable[..., Any],
    triton: str | None,
    *targets: Any,
    arity: int = 1,
    cost: int = 1,
    rule: Callable[..., Any] = infer.pointwise,
) -> Op:
    return define(
        Op(
            name,
            Kind.POINTWISE,
            lambda types: rule(types),
            _with_numbers(fn, fn in (torch.maximum, torch.minimum)),
            arity=arity,
            flops=lambda args, out: out.numel * cost,
            triton=triton,
            aten=targets,
        )
    )


def _binary(name: str, fn: Callable[..., Any], triton: str, *targets: Any, **kw: Any) -> Op:
    return _define(name, fn, triton, *targets, arity=2, **kw)


def _unary(name: str, fn: Callable[..., Any], triton: str, *targets: Any, cost: int = 4) -> Op:
    return _define(name, fn, triton, *targets, cost=cost, rule=infer.floating)


F = torch.nn.functional
add = _binary("add", torch.add, "({0} + {1})", aten.add.Tensor, aten.add.Scalar)
sub = _binary("sub", torch.sub, "({0} - {1})", aten.sub.Tensor, aten.sub.Scalar)
mul = _binary("mul", torch.mul, "({0} * {1})", aten.mul.Tensor, aten.mul.Scalar)
div = _binary(
    "div", torch.div, "({0} / {1})", aten.div.Tensor, aten.div.Scalar, cost=4, rule=infer.floating
)
maximum = _binary("maximum", torch.maximum, "_maximum({0}, {1})", aten.maximum.default)
minimum = _binary("minimum", torch.minimum, "_minimum({0}, {1})", aten.minimum.default)

neg = _define("neg", torch.neg, "(-{0})", aten.neg.default)
abs_ = _define("abs", torch.abs, "tl.abs({0})", aten.abs.default)
relu = _define("relu", torch.relu, "_relu({0})", aten.relu.default)

exp = _unary("exp", torch.exp, "tl.exp({0})", aten.exp.default)
log = _unary("log", torch.log, "tl.log({0})", aten.log.default)
sqrt = _unary("sqrt", torch.sqrt, "tl.sqrt_rn({0})", aten.sqrt.default)
rsqrt = _unary("rsqrt", torch.rsqrt, "tl.rsqrt({0})", aten.rsqrt.default)
reciprocal = _unary("reciprocal", torch.reciprocal, "(1.0 / {0})", aten.reciprocal.default)
sin = _unary("sin", torch.sin, "tl.sin({0})", aten.sin.default)
cos = _unary("cos", torch.cos, "tl.cos({0})", aten.cos.default)
erf = _unary("erf", torch.erf, "tl.erf({0})", aten.erf.default, cost=10)
tanh = _unary("tanh", torch.tanh, "_tanh({0})", aten.tanh.default, cost=10)
sigmoid = _unary("sigmoid", torch.sigmoid, "_sigmoid({0})", aten.sigmoid.default)
silu = _unary("silu", F.silu, "({0} * _sigmoid({0}))", aten.silu.default, cost=5)
gelu = _unary("gelu", F.gelu, "_gelu({0})", cost=12)
gelu_tanh = _unary("gelu_tanh", lambda x: F.gelu(x, approximate="tanh"), "_gelu_tanh({0})", cost=14)

eq = _binary("eq", torch.eq, "({0} == {1})", aten.eq.Tensor, aten.eq.Scalar, rule=infer.comparison)
ne = _binary("ne", torch.ne, "({0} != {1})", aten.ne.Tensor, aten.ne.Scalar, rule=infer.comparison)
lt = _binary("lt", torch.lt, "({0} < {1})", aten.lt.Tensor, aten.lt.Scalar, rule=infer.comparison)
le = _binary("le", torch.le, "({0} <= {1})", aten.le.Tensor, aten.le.Scalar, rule=infer.comparison)
gt = _binary("gt", torch.gt, "({0} > {1})", aten.gt.Tensor, aten.gt.Scalar, rule=infer.comparison)
ge = _binary("ge", torch.ge, "({0} >= {1})", aten.ge.Tensor, aten.ge.Scalar, rule=infer.comparison)


def _boolean(types: Any) -> TensorType:
    out = infer.pointwise(types)
    if out.dtype != torch.bool:
        raise TypeError(f"booleans are needed, not {out}")
    return out


logical_and = _binary(
    "logical_and", torch.logical_and, "({0} & {1})", aten.logical_and.default, rule=_boolean
)
logical_or = _binary(
    "logical_or", torch.logical_or, "({0} | {1})", aten.logical_or.default, rule=_boolean
)
logical_not = _define(
    "logical_not", torch.logical_not, "({0} == 0)", aten.logical_not.default, rule=_boolean
)


def _where(types: Any) -> TensorType:
    condition, left, right = map(tensor, types)
    if condition.dtype != torch.bool:
        raise TypeError(f"where needs a boolean condition, not {condition}")
    branches = infer.pointwise([left, right])
    return TensorType(infer.broadcast([condition.shape, branches.shape]), branches.dtype)


where = _define(
    "where", torch.where, "tl.where({0}, {1}, {2})", aten.where.self, arity=3, rule=_where
)

cast = define(
    Op(
        "cast",
        Kind.POINTWISE,
        lambda types, dtype: TensorType(tensor(types[0]).shape, dtype),
        lambda x, dtype: x.to(dtype) if isinstance(x, torch.Tensor) else x,
        attrs=("dtype",),
        triton="{0}.to({dtype})",
    )
)

COMMUTATIVE = (add, mul, maximum, minimum)
