"""Prologues that look at whole rows, taken apart into folds along the row and pointwise work.

A kernel that holds part of a row at a time computes the folds first, level by level (a fold of one
level may read folds of lower levels, as the variance reads the mean), and then the rest.
"""

from __future__ import annotations

from collections.abc import Iterator

from superopt.errors import LowerError
from superopt.ir.dims import Dim, same
from superopt.ir.expr import Apply, Expr
from superopt.kernels.rows import ROWS
from superopt.ops.op import Kind


def unfold(expr: Expr) -> Expr:
    """The same body without whole-row operators: each is written as folds and pointwise work."""
    memo: dict[Expr, Expr] = {}

    def go(e: Expr) -> Expr:
        if not isinstance(e, Apply):
            return e
        if e not in memo:
            args = tuple(map(go, e.args))
            meaning = ROWS.get(e.op.name)
            memo[e] = meaning(*args, *e.attrs) if meaning else Apply(e.op, args, e.attrs)
        return memo[e]

    return go(expr)


def applications(expr: Expr) -> Iterator[Apply]:
    """Every distinct operator application, arguments before what uses them."""
    seen: set[Expr] = set()

    def go(e: Expr) -> Iterator[Apply]:
        if isinstance(e, Apply) and e not in seen:
            seen.add(e)
            for a in e.args:
                yield from go(a)
            yield e

    return go(expr)


def levels(expr: Expr) -> list[list[Apply]]:
    """The folds in an unfolded body, by how many folds lie below them."""
    depth: dict[Expr, int] = {}
    found: dict[int, list[Apply]] = {}
    for e in applications(expr):
        depth[e] = max((depth.get(a, 0) for a in e.args), default=0)
        if e.op.kind is Kind.REDUCE:
            found.setdefault(depth[e], []).append(e)
            depth[e] += 1
    return [found[d] for d in sorted(found)]


def check(expr: Expr, width: Dim) -> None:
    """Raise a LowerError unless an unfolded body is pointwise but for folds of whole rows."""
    for e in applications(expr):
        if e.op.kind is Kind.REDUCE:
            (operand,) = e.args
            if e.attrs[0] != (operand.ndim - 1,) or not same(operand.shape[-1], width):
                raise LowerError(f"{e} does not fold the rows of the product's operand")
        elif e.op.name != "scalar" and e.op.kind is not Kind.POINTWISE:
            raise LowerError(f"{e.op.name} cannot stand in a product's prologue")
