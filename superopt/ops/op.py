"""What an operator is: one entry that holds all that the compiler knows about it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from superopt.errors import SuperoptError
from superopt.ir.dims import Dim
from superopt.ir.expr import Apply, Expr
from superopt.ir.types import Type


class Kind(Enum):
    """How an operator takes part in a kernel."""

    LEAF = "leaf"  # an input or a constant
    POINTWISE = "pointwise"  # each output element from the same element of each input
    REDUCE = "reduce"  # folds some axes, keeps them as size 1
    ROW = "row"  # reads whole rows along the last axis, and writes whole rows
    CONTRACT = "contract"  # a matrix product
    LAYOUT = "layout"  # moves elements, computes nothing
    OPAQUE = "opaque"  # anything else: runs as torch defines it, in its place
    KERNEL = "kernel"  # one generated kernel or library call, priced as such


@dataclass(frozen=True, eq=False)
class Op:
    """One operator.

    name     its only name, in e-graphs, plans and reports
    kind     see Kind
    attrs    names of its attributes, in order; their values are hashable
    infer    (types of the arguments, *attrs) -> type of the result; raises TypeError if ill-typed
    torch    (*tensors, *attrs) -> the result, as torch computes it: the operator's meaning
    flops    (types of the arguments, type of the result, *attrs) -> floating-point operations
    triton   Triton source of the result; ``{0}``, ``{1}`` are the arguments, in fp32 registers
    aten     ATen overloads that lift to this operator argument by argument
    pure     False for random or effectful operators: never merged, copied or reordered
    """

    name: str
    kind: Kind
    infer: Callable[..., Type]
    torch: Callable[..., Any]
    attrs: tuple[str, ...] = ()
    arity: int | None = 1
    flops: Callable[..., Dim] = field(default=lambda args, out, *attrs: 0)
    triton: str | None = None
    aten: tuple[Any, ...] = ()
    pure: bool = True

    def __call__(self, *operands: Any) -> Expr:
        """An expression that applies this operator: tensors first, then attributes."""
        count = len(operands) - len(self.attrs)
        if count < 0 or (self.arity is not None and count != self.arity):
            raise TypeError(
                f"{self.name} takes {self.arity} tensors and attributes {self.attrs}, "
                f"not {len(operands)} operands"
            )
        args, attrs = operands[:count], operands[count:]
        for a in args:
            if not isinstance(a, Expr):
                raise TypeError(f"{self.name}: {a!r} is not an expression; use scalar(value, type)")
        return Apply(self, tuple(args), tuple(attrs))

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<op {self.name}>"


_REGISTRY: dict[str, Op] = {}


def define(op: Op) -> Op:
    """Enter an operator into the registry; a second one of the same name is an error."""
    if op.name in _REGISTRY:
        raise SuperoptError(f"operator {op.name!r} is defined twice")
    _REGISTRY[op.name] = op
    return op


def get(name: str) -> Op:
    """The operator of that name."""
    try:
        return _REGISTRY[name]
    except KeyError:
        raise SuperoptError(f"no operator named {name!r}; known: {sorted(_REGISTRY)}") from None


def every() -> Sequence[Op]:
    """All operators, in order of definition."""
    return list(_REGISTRY.values())
