"""Laws: how to write one, and what the compiler makes of it.

A law is a generator function. Its docstring is the mathematics, its parameters are pattern
variables, its first ``yield`` is the left side and its second the right side. Between the two,
``require`` states what must hold::

    @rule(numeric="reassociates")
    def row_scale_past_linear(x, r, w):
        \"\"\"(x * r) W^T = (x W^T) * r, for r constant along the last axis.\"\"\"
        yield linear(x * r, w)
        require(r.shape[-1] == 1, "r is one value a row")
        yield linear(x, w) * r

The function runs twice. With pattern variables it stops at the first ``yield``: that is the pattern
the e-graph is searched for. For every match it runs with the matched values, which know their shape
and dtype, so that guards and right sides are ordinary Python. Given tensors it is its own test.

A law with several roots yields a list on both sides. ``collect="w"`` gathers all matches that agree
on the other variables: ``w`` is then a tuple, and both sides are lists of its length.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from superopt.errors import RuleError
from superopt.ir.expr import Apply, Expr, Var

Body = Callable[..., Iterator[Any]]


class Numeric(Enum):
    """What a law does to floating-point results."""

    EXACT = "exact"  # bit for bit
    REASSOCIATES = "reassociates"  # the same reals, summed or multiplied in another order
    CHANGES_ROUNDING = "changes_rounding"  # an intermediate is rounded elsewhere, or not at all
    FINITE_ONLY = "finite_only"  # false for NaN, inf or -0.0; off unless asked for


GROUPS = ("recognition", "algebra", "kernels")


class NoMatch(Exception):
    """Raised by ``require``: the law does not apply here."""


def require(condition: bool, why: str) -> None:
    """A soundness guard: the law holds only where ``condition`` does; ``why`` says it in words."""
    if not condition:
        raise NoMatch(why)


@dataclass(frozen=True)
class Rule:
    """One law, ready to be searched for.

    name      unique; the function's name
    law       the mathematics, from the docstring
    group     the phase it belongs to: recognition, algebra or kernels
    family    the rule file it comes from
    patterns  its left sides over pattern variables
    variables parameter names, in order
    collect   the variable whose matches are gathered, if any
    where     file:line of its definition
    """

    name: str
    law: str
    body: Body = field(repr=False)
    group: str
    numeric: Numeric
    family: str
    patterns: tuple[Apply, ...]
    variables: tuple[str, ...]
    collect: str | None
    where: str

    def apply(self, binding: Mapping[str, Any]) -> tuple[list[Expr], list[Expr]] | None:
        """Left and right sides for one match, or None where a guard fails.

        Raises RuleError when the law builds something ill-typed or changes a type.
        """
        try:
            run = self.body(**binding)
            left = _as_list(next(run))
            right = _as_list(next(run))
        except (NoMatch, StopIteration):
            return None
        except TypeError as e:
            raise RuleError(f"rule {self.name} ({self.where}): {e}") from e
        self._check(left, right)
        return left, right

    def _check(self, left: Sequence[Expr], right: Sequence[Expr]) -> None:
        if len(left) != len(right):
            raise RuleError(
                f"rule {self.name} ({self.where}): {len(left)} left, {len(right)} right"
            )
        for a, b in zip(left, right, strict=True):
            try:
                ok = a.type == b.type
            except TypeError as e:
                raise RuleError(f"rule {self.name} ({self.where}): {e}") from e
            if not ok:
                raise RuleError(f"rule {self.name} ({self.where}) turns {a.type} into {b.type}")


def make_rule(
    body: Body,
    *,
    group: str = "algebra",
    numeric: str = "exact",
    collect: str | None = None,
    name: str | None = None,
) -> Rule:
    """The rule that ``body`` states; RuleError where it is malformed."""
    name = name or body.__name__
    code = body.__code__
    where = f"{code.co_filename.rsplit('/', 1)[-1]}:{code.co_firstlineno}"
    law = inspect.getdoc(body) or ""
    if not law:
        raise RuleError(f"rule {name} ({where}) has no docstring; state its law there")
    if not inspect.isgeneratorfunction(body):
        raise RuleError(
            f"rule {name} ({where}) yields nothing; yield the left side, then the right"
        )
    if group not in GROUPS:
        raise RuleError(f"rule {name} ({where}): group {group!r} is none of {', '.join(GROUPS)}")
    variables = tuple(inspect.signature(body).parameters)
    if collect is not None and collect not in variables:
        raise RuleError(f"rule {name} ({where}) collects {collect!r}, which is no parameter")
    patterns = _patterns(body, variables, collect, f"rule {name} ({where})")
    family = body.__module__.rsplit(".", 1)[-1]
    return Rule(
        name, law, body, group, Numeric(numeric), family, patterns, variables, collect, where
    )


def rule(**settings: Any) -> Callable[[Body], Rule]:
    """Decorator: turn a generator function into a law. See the module's docstring.

    Settings: ``group`` (recognition, algebra, kernels), ``numeric`` (exact, reassociates,
    changes_rounding, finite_only), ``collect`` (a parameter's name), ``name``.
    """
    return lambda body: make_rule(body, **settings)


def _patterns(
    body: Body, variables: Sequence[str], collect: str | None, what: str
) -> tuple[Apply, ...]:
    binding: dict[str, Any] = {v: Var(v) for v in variables}
    if collect is not None:
        binding[collect] = (Var(collect),)
    patterns = _as_list(next(body(**binding)))
    found: set[str] = set()
    for p in patterns:
        if not isinstance(p, Apply):
            raise RuleError(f"{what}: the left side {p} is no operator's application")
        found |= _names(p)
    unbound = [v for v in variables if v not in found]
    if unbound:
        raise RuleError(f"{what}: the left side does not bind {', '.join(unbound)}")
    return tuple(patterns)  # type: ignore[arg-type]


def _names(e: Any) -> set[str]:
    if isinstance(e, Var):
        return {e.name}
    if isinstance(e, Apply):
        return set().union(*(_names(a) for a in (*e.args, *e.attrs)), set())
    return set()


def _as_list(side: Any) -> list[Expr]:
    return list(side) if isinstance(side, list | tuple) else [side]
