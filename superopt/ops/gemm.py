"""The generated matrix-product kernel as an operator, so that the search sees its real price.

    gemm(x, weights, extras, prologue, groups)

computes x' = prologue(x) where there is one, then acc_i = x' w_i^T for every weight in one pass
over x', then one output per group. A group is (indices of its weights, epilogue): the epilogue is
an expression over ``Hole("acc", i)``, the accumulator of weight i before it is rounded, and
``Hole("in", j)``, the j-th extra. The prologue is an expression over ``Hole("x", 0)`` and extras.
The weights are separate operands: a kernel reads each where it lies, and nothing is copied.

One group of two weights is a gated unit; n groups of one weight are a projection such as q/k/v.
"""

from __future__ import annotations

from typing import Any

import torch

from superopt.ir.dims import Dim, product, same
from superopt.ir.expr import Expr, Hole
from superopt.ir.types import TensorType, TupleType, Type, tensor
from superopt.ops import infer
from superopt.ops.meaning import evaluate
from superopt.ops.op import Kind, Op, define

Group = tuple[tuple[int, ...], Expr]


def acc_type(x: TensorType, w: TensorType) -> TensorType:
    """The type an accumulator's hole has: that of ``linear(x', w)``."""
    return TensorType((*x.shape[:-1], w.shape[0]), w.dtype)


def _infer(types: Any, prologue: Expr | None, groups: tuple[Group, ...]) -> Type:
    x, weights = tensor(types[0]), types[1].items
    if prologue is not None:
        inner = tensor(prologue.type)
        if not (inner.ndim == x.ndim and all(map(same, inner.shape, x.shape))):
            raise TypeError(f"the prologue turns {x} into {inner}; it may not change the shape")
        x = inner
    outs = []
    for indices, epilogue in groups:
        acc = {i: infer.linear([x, weights[i]]) for i in indices}
        widths = {t.shape for t in acc.values()}
        out = tensor(epilogue.type)
        if len(widths) != 1 or out.shape not in widths:
            raise TypeError(f"the group of weights {indices} gives {out}, not {widths}")
        outs.append(out)
    return outs[0] if len(outs) == 1 else TupleType(tuple(outs))


def _flops(types: Any, out: Type, prologue: Expr | None, groups: tuple[Group, ...]) -> Dim:
    x, weights = tensor(types[0]), types[1].items
    rows = product(x.shape[:-1])
    return sum(2 * rows * tensor(w).numel for w in weights)


def holes(expr: Expr, kind: str) -> list[Hole]:
    """The holes of one kind in a body, by index."""
    from superopt.ir.expr import leaves

    found = [h for h in leaves(expr) if isinstance(h, Hole) and h.kind == kind]
    return sorted(found, key=lambda h: h.index)


def _meaning(x: Any, weights: Any, extras: Any, prologue: Expr | None, groups: Any) -> Any:
    def run(body: Expr, env: dict[Expr, Any]) -> Any:
        inputs: dict[Expr, Any] = {h: extras[h.index] for h in holes(body, "in")}
        return evaluate(body, {**env, **inputs})

    if prologue is not None:
        x = run(prologue, {h: x for h in holes(prologue, "x")})
    outs = []
    for _, epilogue in groups:
        accs: dict[Expr, Any] = {
            h: torch.nn.functional.linear(x, weights[h.index]) for h in holes(epilogue, "acc")
        }
        outs.append(run(epilogue, accs))
    return outs[0] if len(outs) == 1 else tuple(outs)


gemm = define(
    Op(
        "gemm",
        Kind.KERNEL,
        _infer,
        _meaning,
        attrs=("prologue", "groups"),
        arity=3,
        flops=_flops,
    )
)
