"""Expressions: the one language in which lifting, laws and kernel bodies are written.

An expression is an operator applied to expressions. Its leaves say what it is for:

* ``Ref``  a value that exists already (a node of a graph, a class of an e-graph);
* ``Var``  a pattern variable of a law;
* ``Hole`` an argument of a kernel's body (an accumulator, an extra input).

Operators are called like functions (``silu(x)``, ``permute(x, (1, 0))``) and the arithmetic ones
have Python's spelling (``x * y``, ``x + y``). An expression whose leaves are typed has a type.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch

from superopt.ir.dims import Dim
from superopt.ir.types import TensorType, Type, tensor

if TYPE_CHECKING:
    from superopt.ops.op import Op


class Expr:
    """Base of all expressions; see the module's docstring."""

    @property
    def type(self) -> Type:
        raise TypeError(f"{self} has no type: its leaves are pattern variables")

    @property
    def shape(self) -> tuple[Dim, ...]:
        return tensor(self.type).shape

    @property
    def dtype(self) -> torch.dtype:
        return tensor(self.type).dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __add__(self, other: Expr) -> Expr:
        return _call("add", self, other)

    def __sub__(self, other: Expr) -> Expr:
        return _call("sub", self, other)

    def __mul__(self, other: Expr) -> Expr:
        return _call("mul", self, other)

    def __truediv__(self, other: Expr) -> Expr:
        return _call("div", self, other)

    def __neg__(self) -> Expr:
        return _call("neg", self)


@dataclass(frozen=True)
class Ref(Expr):
    """A value that exists already: ``id`` is a node's index or an e-class's number.

    ``items`` are the packed values where the value is a ``pack``.
    """

    id: int
    of: Type
    items: tuple[Ref, ...] = field(default=(), compare=False)

    @property
    def type(self) -> Type:
        return self.of

    def __str__(self) -> str:
        return f"%{self.id}"


@dataclass(frozen=True)
class Var(Expr):
    """A pattern variable; stands for a tensor, or for an attribute where one is expected."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Hole(Expr):
    """An argument of a kernel's body: the ``index``-th of its ``kind`` ("acc", "in", "x")."""

    kind: str
    index: int
    of: TensorType

    @property
    def type(self) -> Type:
        return self.of

    def __str__(self) -> str:
        return f"{self.kind}{self.index}"


@dataclass(frozen=True)
class Apply(Expr):
    """An operator applied to arguments, with its attributes in their declared order."""

    op: Op
    args: tuple[Expr, ...]
    attrs: tuple[Any, ...] = ()

    @cached_property
    def _type(self) -> Type:
        return self.op.infer([a.type for a in self.args], *self.attrs)

    @cached_property
    def _hash(self) -> int:
        return hash((self.op.name, self.args, self.attrs))

    def __hash__(self) -> int:
        return self._hash

    @property
    def type(self) -> Type:
        return self._type

    def __str__(self) -> str:
        inner = [str(a) for a in self.args] + [
            f"{n}={v}" for n, v in zip(self.op.attrs, self.attrs, strict=True)
        ]
        return f"{self.op.name}({', '.join(inner)})"


def _call(name: str, *args: Expr) -> Expr:
    from superopt.ops import get  # the operators are defined in terms of expressions

    return get(name)(*args)


def leaves(expr: Expr) -> list[Expr]:
    """Distinct leaves in order of first appearance."""
    found: dict[Expr, None] = {}
    seen: set[int] = set()
    stack = [expr]
    while stack:
        e = stack.pop()
        if id(e) in seen:
            continue
        seen.add(id(e))
        if isinstance(e, Apply):
            stack.extend(reversed(e.args))
        else:
            found.setdefault(e)
    return list(found)


def substitute(expr: Expr, env: dict[Expr, Expr]) -> Expr:
    """``expr`` with leaves replaced; shared parts stay shared."""
    memo: dict[Expr, Expr] = dict(env)

    def go(e: Expr) -> Expr:
        if e in memo:
            return memo[e]
        out = e
        if isinstance(e, Apply):
            args = tuple(go(a) for a in e.args)
            out = e if args == e.args else Apply(e.op, args, e.attrs)
        memo[e] = out
        return out

    return go(expr)


def size(expr: Expr) -> int:
    """Number of distinct operator applications."""
    seen: set[Expr] = set()
    stack = [expr]
    while stack:
        e = stack.pop()
        if isinstance(e, Apply) and e not in seen:
            seen.add(e)
            stack.extend(e.args)
    return len(seen)
