"""Operands of ATen calls as expressions: scalars among tensors, and torch's type promotion."""

from __future__ import annotations

import math
from typing import Any

import torch

from superopt.errors import LiftError
from superopt.ir.expr import Expr
from superopt.ops import cast, scalar


class Unmodelled(LiftError):
    """This call has no expression; it becomes an opaque operator."""


def number(value: Any, dtype: torch.dtype) -> Expr:
    """A Python number as a scalar of that dtype.

    Values that equality cannot tell apart (NaN, -0.0) and symbolic ones stay outside the algebra.
    """
    if not isinstance(value, bool | int | float):
        raise Unmodelled(f"{value!r} is no number")
    if isinstance(value, float) and (math.isnan(value) or (value == 0 and str(value) == "-0.0")):
        raise Unmodelled(f"{value!r} has no exact equality")
    if dtype.is_floating_point:
        value = float(value)
    elif isinstance(value, float):
        raise Unmodelled(f"{value} among {dtype}")
    return scalar(value, dtype)


def operand(value: Any, dtype: torch.dtype) -> Expr:
    """A tensor or a number, as an expression of that dtype."""
    if isinstance(value, Expr):
        return value if value.dtype == dtype else cast(value, dtype)
    return number(value, dtype)


def wide(x: Expr) -> Expr:
    """Half precision as fp32, in which torch computes its composite operators."""
    return cast(x, torch.float32) if x.dtype in (torch.float16, torch.bfloat16) else x


def narrow(x: Expr, like: Expr) -> Expr:
    """Back to the dtype of ``like``."""
    return x if x.dtype == like.dtype else cast(x, like.dtype)


def promoted(values: list[Any]) -> torch.dtype:
    """The dtype in which torch compares or combines these operands."""
    sample = [
        torch.empty((1,) * v.ndim, dtype=v.dtype, device="meta") if isinstance(v, Expr) else v
        for v in values
    ]
    dtype = sample[0].dtype if isinstance(sample[0], torch.Tensor) else None
    for other in sample[1:]:
        dtype = torch.result_type(sample[0], other)
    if dtype is None:
        raise Unmodelled("no tensor among the operands")
    return dtype


def axes_of(dims: Any, ndim: int) -> tuple[int, ...]:
    """Axes as sorted non-negative ints; all of them for None or an empty list."""
    if dims is None or dims == []:
        return tuple(range(ndim))
    dims = [dims] if isinstance(dims, int) else list(dims)
    return tuple(sorted(d % ndim for d in dims))
