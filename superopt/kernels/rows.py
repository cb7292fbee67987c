"""Whole-row operators as pointwise operators and reductions, each row in registers.

Nothing is rounded in between: halves are held in fp32. Lanes beyond a row's end are set to each
reduction's neutral element where it is written.
"""

from __future__ import annotations

from collections.abc import Callable

from superopt.ir.expr import Expr
from superopt.ops import amax, exp, log, mean, rsqrt, scalar, sum_


def _last(x: Expr) -> tuple[int, ...]:
    return (x.ndim - 1,)


def _rms(x: Expr, eps: float) -> Expr:
    return x * rsqrt(mean(x * x, _last(x)) + scalar(eps, x.dtype))


def _standardise(x: Expr, eps: float) -> Expr:
    centred = x - mean(x, _last(x))
    return centred * rsqrt(mean(centred * centred, _last(x)) + scalar(eps, x.dtype))


def _softmax(x: Expr) -> Expr:
    e = exp(x - amax(x, _last(x)))
    return e / sum_(e, _last(x))


def _log_softmax(x: Expr) -> Expr:
    shifted = x - amax(x, _last(x))
    return shifted - log(sum_(exp(shifted), _last(x)))


ROWS: dict[str, Callable[..., Expr]] = {
    "rms": _rms,
    "standardise": _standardise,
    "softmax": _softmax,
    "log_softmax": _log_softmax,
}
