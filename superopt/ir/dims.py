"""Dimensions: an integer, or a symbolic expression over sizes known only at run time.

A symbolic dimension is the sympy expression that torch's ``SymInt`` holds. Nothing here ever turns
one into a bool or an int by asking torch, since that would install a guard and specialise the
user's graph; where a size is needed for a decision, ``hint`` substitutes example values instead.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import sympy

Dim: TypeAlias = int | sympy.Expr
Hints: TypeAlias = Mapping[sympy.Symbol, int]


def to_dim(size: Any) -> Dim:
    """A Dim from an int, a ``torch.SymInt`` or a sympy expression, without installing guards."""
    if isinstance(size, int):
        return size
    expr = size.node.expr if hasattr(size, "node") else sympy.sympify(size)
    return int(expr) if expr.is_Integer else expr


def product(dims: Iterable[Dim]) -> Dim:
    """The product of dimensions; 1 for none."""
    return simplify(math.prod(dims))


def simplify(dim: Dim) -> Dim:
    """An int where the expression is a known integer, the expression otherwise."""
    if isinstance(dim, int):
        return dim
    return int(dim) if dim.is_Integer else dim


def hint(dim: Dim, hints: Hints | None = None) -> int:
    """The size this dimension has in the example that was traced.

    Symbols without a hint count as 64, so that a price stays finite.
    """
    if isinstance(dim, int):
        return dim
    values = {s: (hints or {}).get(s, 64) for s in dim.free_symbols}  # type: ignore[arg-type]
    return int(dim.subs(values))


def is_static(dim: Dim) -> bool:
    """True when the dimension is a plain integer."""
    return isinstance(dim, int)


def same(left: Dim, right: Dim) -> bool:
    """True only when both are provably the same size, in every run."""
    return left == right
