"""Matrix products, computed by the vendor's library unless a kernel takes them in."""

from __future__ import annotations

from typing import Any

import torch

from superopt.ir.types import tensor
from superopt.ops import infer
from superopt.ops.op import Kind, Op, define

# y[…, n] = sum_k x[…, k] w[n, k], the layout of nn.Linear's weight.
linear = define(
    Op(
        "linear",
        Kind.CONTRACT,
        infer.linear,
        torch.nn.functional.linear,
        arity=2,
        flops=lambda args, out: 2 * out.numel * tensor(args[0]).shape[-1],
    )
)

# Batched over equal leading axes; no broadcasting.
matmul = define(
    Op(
        "matmul",
        Kind.CONTRACT,
        infer.matmul,
        torch.matmul,
        arity=2,
        flops=lambda args, out: 2 * out.numel * tensor(args[0]).shape[-1],
        aten=(torch.ops.aten.mm.default, torch.ops.aten.bmm.default),
    )
)


def _biased(types: Any) -> Any:
    out = infer.linear(types[:2])
    bias = tensor(types[2])
    if bias.ndim != 1 or bias.dtype != out.dtype or bias.shape[0] != out.shape[-1]:
        raise TypeError(f"the bias {bias} does not fit {out}")
    return out


# One library call that adds the bias before it rounds.
linear_bias = define(
    Op(
        "linear_bias",
        Kind.CONTRACT,
        _biased,
        torch.nn.functional.linear,
        arity=3,
        flops=lambda args, out: 2 * out.numel * tensor(args[0]).shape[-1],
    )
)
