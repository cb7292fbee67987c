"""What single operators ask of a card, from their types: bytes and FLOPs at the traced sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from superopt.cost.card import Card
from superopt.errors import LowerError
from superopt.ir.dims import Hints, hint
from superopt.ir.plan import Plan, Site, Step, Work
from superopt.ir.types import TensorType, Type
from superopt.ops.op import Kind, Op

if TYPE_CHECKING:
    from superopt.kernels.gemm import Problem


def flops(op: Op, types: Sequence[Type], out: Type, attrs: tuple[Any, ...], hints: Hints) -> int:
    """Floating-point operations of one operator."""
    return hint(op.flops(types, out, *attrs), hints)


def operand_dtype(types: Sequence[Type]) -> torch.dtype:
    """The dtype that the arithmetic reads: that of the first tensor; fp32 without one."""
    return next((t.dtype for t in types if isinstance(t, TensorType)), torch.float32)


def operator_work(
    op: Op,
    types: Sequence[Type],
    out: Type,
    attrs: tuple[Any, ...],
    hints: Hints,
    read: float,
    write: float,
) -> Work:
    """One kernel for one operator, reading and writing so many bytes.

    A matrix product is the library's. A row operator has a program per row; a reduction may be
    split at will, and so is not quantised.
    """
    rows = 0
    if op.kind is Kind.ROW and isinstance(out, TensorType):
        rows = hint(out.numel, hints) // max(1, hint(out.shape[-1], hints))
    return Work(
        engine="library" if op.kind is Kind.CONTRACT else "simt",
        flops=flops(op, types, out, attrs, hints),
        read=read,
        write=write,
        tiles=rows,
        dtype=operand_dtype(types),
    )


def dot_work(work: Work, k: int, card: Card, precision: str = "highest") -> Work:
    """The work of a generated product, of rows of length ``k``, as ``tl.dot`` performs it.

    It runs on the units that the card has for it, ordinary lanes where there are none. A tile's
    operands grow with its edges and its arithmetic with its area, so small tiles are slower: by
    1 + half_rate_tile / area, for which two tile sizes of one kernel are the evidence. Lanes are
    slow enough to hide that.
    """
    area = work.flops / max(1, 2 * k * work.tiles)
    fast = area > 0 and card.units("mma", work.dtype, precision) > 0
    slower = 1 + card.half_rate_tile / area if fast else 1.0
    return replace(work, engine="mma", flops=work.flops * slower)


def gemm_work(
    types: Sequence[Type],
    attrs: tuple[Any, ...],
    hints: Hints,
    card: Card,
    precision: str = "highest",
) -> Work | None:
    """The generated product's work; None where no such kernel can run (always on arch 0)."""
    from superopt.kernels.gemm import Problem

    prologue, groups = attrs
    return _problem_work(lambda: Problem.of(types, prologue, groups, hints, precision), card)


def gemm_step_work(step: Step, plan: Plan, card: Card, precision: str) -> Work | None:
    """As ``gemm_work``, for a step of a plan, whose operands have strides."""
    from superopt.kernels.gemm import Problem

    site = Site(plan.graph, step, plan.strides, card.arch, card.sms, precision)
    return _problem_work(lambda: Problem.at(site), card)


def _problem_work(pose: Callable[[], Problem], card: Card) -> Work | None:
    from superopt.kernels.gemm import pick

    if card.arch == 0:
        return None
    try:
        problem = pose()
    except LowerError:
        return None
    family = pick(problem, card.arch)
    if family is None:
        return None
    work = family.work(problem, card.arch, card.sms)
    if family.NAME == "gemv":
        return work
    return dot_work(work, problem.k, card, problem.precision)
