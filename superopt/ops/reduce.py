"""Reductions (the folded axes stay as size 1) and whole-row operators along the last axis.

Half-precision operands are accumulated in fp32 and rounded once, as torch does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from superopt.ir.dims import is_static
from superopt.ir.types import tensor
from superopt.ops import infer
from superopt.ops.op import Kind, Op, define


def _reduce(name: str, fn: Callable[..., Any], triton: str) -> Op:
    return define(
        Op(
            name,
            Kind.REDUCE,
            infer.reduced,
            fn,
            attrs=("axes",),
            flops=lambda args, out, axes: tensor(args[0]).numel,
            triton=triton,
        )
    )


# In Triton: ``{0}`` is the row with lanes beyond its end set to the fold's neutral element,
# ``{size}`` the number of elements folded.
# Integers keep their dtype here, and wrap; torch's own promotion is a cast of the lifted graph.
sum_ = _reduce(
    "sum", lambda x, axes: x.sum(axes, keepdim=True, dtype=x.dtype), "tl.sum({0}, 1)[:, None]"
)
mean = _reduce(
    "mean", lambda x, axes: x.mean(axes, keepdim=True), "(tl.sum({0}, 1)[:, None] / {size})"
)
amax = _reduce("amax", lambda x, axes: x.amax(axes, keepdim=True), "_row_max({0})[:, None]")
amin = _reduce("amin", lambda x, axes: x.amin(axes, keepdim=True), "_row_min({0})[:, None]")

NEUTRAL = {"sum": "0.0", "mean": "0.0", "amax": 'float("-inf")', "amin": 'float("inf")'}


def _row(name: str, fn: Callable[..., Any], cost: int, attrs: tuple[str, ...] = ()) -> Op:
    return define(
        Op(
            name,
            Kind.ROW,
            infer.rowwise,
            fn,
            attrs=attrs,
            flops=lambda args, out, *_: tensor(args[0]).numel * cost,
        )
    )


def _wide(x: torch.Tensor) -> torch.Tensor:
    """Half precision computes in fp32."""
    return x if x.dtype == torch.float64 else x.float()


def _rms(x: torch.Tensor, eps: float) -> torch.Tensor:
    v = _wide(x)
    return (v * torch.rsqrt((v * v).mean(-1, keepdim=True) + eps)).to(x.dtype)


def _standardise(x: torch.Tensor, eps: float) -> torch.Tensor:
    return torch.nn.functional.layer_norm(_wide(x), x.shape[-1:], eps=eps).to(x.dtype)


# rms(x) = x / sqrt(mean(x^2) + eps): RMSNorm without its weight.
rms = _row("rms", _rms, 4, ("eps",))
# standardise(x) = (x - mean) / sqrt(var + eps): LayerNorm without weight and bias.
standardise = _row("standardise", _standardise, 8, ("eps",))
softmax = _row("softmax", lambda x: torch.softmax(x, -1), 8)
log_softmax = _row("log_softmax", lambda x: torch.log_softmax(x, -1), 8)


def _halves(types: Any) -> Any:
    t = infer.rowwise(types)
    if not is_static(t.shape[-1]) or t.shape[-1] % 2:
        raise TypeError(f"a last axis of even length is needed, not {t}")
    return t


def _rotate_half(x: torch.Tensor) -> torch.Tensor:
    h = x.shape[-1] // 2
    return torch.cat((-x[..., h:], x[..., :h]), -1)


# rotate_half(x) = (-x2, x1) for x = (x1, x2): rotary position embeddings.
rotate_half = define(
    Op(
        "rotate_half",
        Kind.ROW,
        _halves,
        _rotate_half,
        flops=lambda args, out: tensor(args[0]).numel,
    )
)
