"""Is a law true? Both of its sides on random tensors, of shapes that its pattern admits.

A trial draws types for the pattern's variables until the pattern is well-typed and the guards
pass, then compares values, shapes and dtypes of the two sides. Sizes include 1 and odd numbers;
some are symbolic while the law runs, since a law must not ask for the value of a size. A law that
claims to be exact is compared bit for bit, with NaN, infinities and -0.0 among the values; of any
other law NaN must stay where it is.

Where shapes or constants cannot be guessed, the rule's file says how to draw them::

    SAMPLES = {"rule_name": lambda rng: {"x": TensorType((4, 6), torch.float64), "axis": 1}}

Variables that the mapping leaves out are drawn as usual.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import sympy
import torch

from superopt.errors import RuleError
from superopt.ir.expr import Apply, Expr, Ref
from superopt.ir.types import TensorType, TupleType, tensor
from superopt.ops.meaning import evaluate
from superopt.rule import Numeric, Rule
from superopt.sample import Draw

Sample = Callable[[random.Random], Mapping[str, Any]]

_DTYPES = (torch.float64, torch.float64, torch.float64, torch.float32, torch.bfloat16)
_EXACT_DTYPES = (torch.float32, torch.float32, torch.float64, torch.bfloat16, torch.float16)
# Relative to the largest value of a result, by the narrowest floating type among the operands.
_TOLERANCE = {
    torch.float64: 1e-9,
    torch.float32: 2e-4,
    torch.float16: 3e-2,
    torch.bfloat16: 2e-1,
}
_LIBRARY = {
    "exp", "log", "sin", "cos", "erf", "tanh", "sigmoid", "silu", "gelu", "gelu_tanh", "rsqrt",
}  # fmt: skip


@dataclass(frozen=True)
class Counterexample:
    """Where a law fails: its variables, both sides, and what is wrong."""

    binding: str
    left: str
    right: str
    why: str

    def __str__(self) -> str:
        return f"{self.why}\n  with {self.binding}\n  left  {self.left}\n  right {self.right}"


@dataclass(frozen=True)
class CheckResult:
    """``applied`` of ``drawn`` well-typed matches passed the guards and were compared."""

    rule: str
    drawn: int
    applied: int
    counterexample: Counterexample | None = None

    @property
    def untested(self) -> bool:
        """True when no match passed the guards: nothing is known about the law."""
        return self.applied == 0 and self.counterexample is None

    @property
    def ok(self) -> bool:
        return self.applied > 0 and self.counterexample is None

    def __str__(self) -> str:
        if self.counterexample is not None:
            return f"{self.rule}: FALSE: {self.counterexample}"
        if self.untested:
            return f"{self.rule}: UNTESTED: no guard passed in {self.drawn} matches"
        return f"{self.rule}: ok, {self.applied} of {self.drawn} matches applied"


def check_rule(
    rule: Rule,
    *,
    seed: int = 0,
    trials: int = 12,
    attempts: int = 4000,
    sample: Sample | None = None,
) -> CheckResult:
    """Compare both sides of ``rule`` on up to ``trials`` matches; stop at the first difference.

    ``attempts`` bounds how often types are drawn. ``sample`` replaces the file's SAMPLES entry.
    """
    rng = random.Random(f"{seed} {rule.name}")
    if sample is None:
        sample = rule.body.__globals__.get("SAMPLES", {}).get(rule.name)
    drawn = applied = 0
    for _ in range(attempts):
        if applied == trials:
            break
        exact = rule.numeric is Numeric.EXACT
        dtype = rng.choice(_EXACT_DTYPES if exact else _DTYPES)
        draw = Draw(rng, dtype, dict(sample(rng)) if sample else {})
        try:
            binding = draw.binding(rule)
        except (TypeError, IndexError):
            continue
        drawn += 1
        outcome = _trial(rule, draw, binding, rng)
        applied += outcome is not None
        if isinstance(outcome, Counterexample):
            return CheckResult(rule.name, drawn, applied, outcome)
    return CheckResult(rule.name, drawn, applied)


def _trial(
    rule: Rule, draw: Draw, binding: Mapping[str, Any], rng: random.Random
) -> Counterexample | bool | None:
    """None where a guard fails, True where both sides agree, a counterexample otherwise."""
    shown = ", ".join(f"{k}: {_show(v)}" for k, v in binding.items())
    try:
        sides = rule.apply(binding)
    except RuleError as e:
        return Counterexample(shown, "", "", str(e))
    except Exception as e:
        return Counterexample(shown, "", "", f"the law raises {type(e).__name__}: {e}")
    if sides is None:
        return None
    env = _values(rule, draw, binding, rng)
    tolerance = _tolerance(rule, env)
    for left, right in zip(*sides, strict=True):
        why = _difference(left, right, env, draw.sizes, tolerance)
        if why is not None:
            return Counterexample(shown, str(left), str(right), why)
    return True


def _show(value: Any) -> str:
    if isinstance(value, tuple) and any(isinstance(v, Ref) for v in value):
        return "(" + ", ".join(map(_show, value)) + ")"
    return f"%{value.id} {value.type}" if isinstance(value, Ref) else str(value)


# -- values ----------------------------------------------------------------------------------------


def _values(
    rule: Rule, draw: Draw, binding: Mapping[str, Any], rng: random.Random
) -> dict[Expr, Any]:
    """A tensor for every value of the binding, with what the law's class must withstand."""
    generator = torch.Generator().manual_seed(rng.randrange(2**31))
    positive = rng.random() < 0.3
    special: tuple[float, ...] = ()
    if rule.numeric is not Numeric.FINITE_ONLY and rng.random() < 0.4:
        exact = rule.numeric is Numeric.EXACT
        exact = exact and not any(map(_from_library, rule.patterns))
        special = (math.nan, math.inf, -math.inf, -0.0, 0.0) if exact else (math.nan,)
    env: dict[Expr, Any] = {}

    def put(ref: Ref) -> Any:
        if ref not in env:
            if isinstance(ref.type, TupleType):
                env[ref] = tuple(map(put, ref.items))
            else:
                env[ref] = _tensor(ref.type, draw.sizes, generator, positive, special)
        return env[ref]

    for v in binding.values():
        for ref in v if isinstance(v, tuple) else (v,):
            if isinstance(ref, Ref):
                put(ref)
    return env


def _tensor(
    of: TensorType,
    sizes: Mapping[sympy.Symbol, int],
    generator: torch.Generator,
    positive: bool,
    special: tuple[float, ...],
) -> torch.Tensor:
    shape = concrete(of.shape, sizes)
    if not of.dtype.is_floating_point:
        top = 2 if of.dtype == torch.bool else 5
        return torch.randint(0, top, shape, generator=generator).to(of.dtype)
    x = torch.randn(shape, generator=generator, dtype=torch.float64)
    x = x.abs() + 0.1 if positive else x
    for value in special:
        if x.numel():
            at = int(torch.randint(0, x.numel(), (), generator=generator))
            x.view(-1)[at] = value
    return x.to(of.dtype)


def concrete(value: Any, sizes: Mapping[sympy.Symbol, int]) -> Any:
    """``value`` with the symbolic sizes in it replaced: a size, a shape, or an expression."""
    if isinstance(value, sympy.Expr):
        return int(value.subs(sizes))
    if isinstance(value, tuple):
        return tuple(concrete(v, sizes) for v in value)
    if isinstance(value, Apply):
        args = tuple(concrete(a, sizes) for a in value.args)
        return Apply(value.op, args, tuple(concrete(a, sizes) for a in value.attrs))
    return value


# -- comparison ------------------------------------------------------------------------------------


def _tolerance(rule: Rule, env: Mapping[Expr, Any]) -> float:
    """By the narrowest floating type among the operands."""
    dtypes = [v.dtype for v in env.values() if isinstance(v, torch.Tensor)]
    dtypes = [d for d in dtypes if d in _TOLERANCE]
    if rule.numeric is not Numeric.EXACT:
        return max((_TOLERANCE[d] for d in dtypes), default=1e-9)
    if any(map(_from_library, rule.patterns)):
        return max((4 * torch.finfo(d).eps for d in dtypes), default=1e-15)
    return 0.0


def _from_library(e: Any) -> bool:
    """True where torch's CPU loops may differ by an ulp between lanes of one tensor.

    The vectorised body of a loop and its scalar end use different libraries for these functions.
    """
    return isinstance(e, Apply) and (e.op.name in _LIBRARY or any(map(_from_library, e.args)))


def _difference(
    left: Expr,
    right: Expr,
    env: Mapping[Expr, Any],
    sizes: Mapping[sympy.Symbol, int],
    tolerance: float,
) -> str | None:
    """What tells the two sides apart, in words; None where nothing does."""
    found: list[list[torch.Tensor]] = []
    for side in (left, right):
        try:
            value = evaluate(concrete(side, sizes), env)
        except Exception as e:
            return f"{side} does not run: {type(e).__name__}: {e}"
        several = isinstance(value, tuple)
        types = side.type.items if isinstance(side.type, TupleType) else (side.type,)
        found.append([torch.as_tensor(v) for v in (value if several else [value])])
        for v, of in zip(found[-1], types, strict=True):
            t = tensor(of)  # type: ignore[arg-type]
            if v.dtype != t.dtype or tuple(v.shape) != concrete(t.shape, sizes):
                return f"{side} has type {t} but gives {v.dtype} {list(v.shape)}"
    differences = (compare(a, b, tolerance) for a, b in zip(*found, strict=True))
    return next((d for d in differences if d is not None), None)


def compare(left: torch.Tensor, right: torch.Tensor, tolerance: float) -> str | None:
    """The difference of two results in words; None where there is none.

    With tolerance 0 every bit counts, but one NaN is as good as another.
    """
    if left.dtype != right.dtype or left.shape != right.shape:
        return f"{left.dtype} {list(left.shape)} against {right.dtype} {list(right.shape)}"
    if not left.dtype.is_floating_point:
        return None if torch.equal(left, right) else "other whole numbers"
    if not torch.equal(left.isnan(), right.isnan()):
        return "NaN in other places"
    a, b = left.double(), right.double()
    if tolerance == 0:
        wrong = (a != b) | (a.signbit() != b.signbit())
    else:
        finite = b[b.isfinite()]
        scale = 1 + float(finite.abs().max()) if finite.numel() else 1.0
        wrong = ~((a - b).abs() <= tolerance * scale) & (a != b)
    wrong &= ~left.isnan()
    if not bool(wrong.any()):
        return None
    at = wrong.nonzero()[0].tolist()
    return f"at {at}: {left[tuple(at)].item()!r} against {right[tuple(at)].item()!r}"
