"""Expressions as Triton text.

A value lives in a register of a wider type than in memory: float16 and bfloat16 as fp32, every
other type as it is (booleans as int1). ``spell`` assumes that its leaves are such registers, as
``widen`` makes them of what was loaded; a cast to a half type rounds and widens again.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from superopt.errors import LowerError
from superopt.ir.expr import Apply, Expr

# What an application that has no pointwise spelling is written as, given its arguments' names;
# None where the caller does not know either.
Special = Callable[[Apply, list[str]], str | None]

_NAMES = {
    torch.float16: ("tl.float16", "*fp16"),
    torch.bfloat16: ("tl.bfloat16", "*bf16"),
    torch.float32: ("tl.float32", "*fp32"),
    torch.float64: ("tl.float64", "*fp64"),
    torch.bool: ("tl.int1", "*i1"),
    torch.int8: ("tl.int8", "*i8"),
    torch.int16: ("tl.int16", "*i16"),
    torch.int32: ("tl.int32", "*i32"),
    torch.int64: ("tl.int64", "*i64"),
    torch.uint8: ("tl.uint8", "*u8"),
}
_HALF = (torch.float16, torch.bfloat16)

# Operators whose template is an infix one: a literal may stand beside a tensor there as it is.
_INFIX = {"add", "sub", "mul", "div", "eq", "ne", "lt", "le", "gt", "ge"}
# Spellings that fp64 needs in place of the operator's own.
_DOUBLE = {"sqrt": "tl.sqrt({0})"}


def supported(dtype: torch.dtype) -> bool:
    """True for the types that generated kernels can hold."""
    return dtype in _NAMES


def _names(dtype: torch.dtype) -> tuple[str, str]:
    try:
        return _NAMES[dtype]
    except KeyError:
        raise LowerError(f"generated kernels have no values of type {dtype}") from None


def triton_dtype(dtype: torch.dtype) -> str:
    """The type's name in a kernel: ``tl.bfloat16``."""
    return _names(dtype)[0]


def pointer_type(dtype: torch.dtype) -> str:
    """The type of a pointer to it in a signature: ``*bf16``."""
    return _names(dtype)[1]


def register(dtype: torch.dtype) -> torch.dtype:
    """The type its values have in registers."""
    _names(dtype)
    return torch.float32 if dtype in _HALF else dtype


def widen(text: str, dtype: torch.dtype) -> str:
    """A loaded value of this type, brought to its register type."""
    return f"{text}.to(tl.float32)" if dtype in _HALF else text


def narrow(text: str, dtype: torch.dtype) -> str:
    """A register of this type, rounded to what memory holds."""
    return f"{text}.to({triton_dtype(dtype)})" if dtype in _HALF else text


def literal(value: Any, dtype: torch.dtype) -> str:
    """A Python number as text, for a register of ``dtype``."""
    if not isinstance(value, bool | int | float):
        raise LowerError(f"{value!r} is not a number known when a kernel is written")
    if dtype == torch.bool:
        return str(bool(value))
    if not dtype.is_floating_point:
        if value != int(value):
            raise LowerError(f"{value!r} is no value of {dtype}")
        return str(int(value))
    number = float(value)
    if register(dtype) == torch.float32 and abs(number) > torch.finfo(torch.float32).max:
        number = math.copysign(math.inf, number)
    return repr(number) if math.isfinite(number) else f'float("{number}")'


def _is_scalar(expr: Expr) -> bool:
    return isinstance(expr, Apply) and expr.op.name == "scalar"


class _Speller:
    """Writes assignments for expressions, each distinct sub-expression once."""

    def __init__(
        self, leaf_names: Mapping[Expr, str], prefix: str, special: Special | None
    ) -> None:
        self.known: dict[Expr, str] = dict(leaf_names)
        self.prefix, self.special = prefix, special
        self.lines: list[str] = []

    def name(self, expr: Expr) -> str:
        """The name (or literal) that holds ``expr``, after writing what computes it."""
        if expr not in self.known:
            self.known[expr] = self._write(expr)
        return self.known[expr]

    def _write(self, expr: Expr) -> str:
        if not isinstance(expr, Apply):
            raise LowerError(f"nothing was loaded for {expr}")
        if _is_scalar(expr):
            value, dtype = expr.attrs
            held = triton_dtype(register(dtype))
            return self._assign(f"tl.full((), {literal(value, dtype)}, {held})")
        text = self._text(expr)
        return text if text.isidentifier() else self._assign(text)

    def _assign(self, text: str) -> str:
        name = f"{self.prefix}{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        return name

    def _text(self, expr: Apply) -> str:
        args = self._arguments(expr)
        text = self.special(expr, args) if self.special else None
        if text is not None:
            return text
        if expr.op.name == "cast":
            return _cast(args[0], expr.args[0].dtype, expr.dtype)
        template = expr.op.triton
        if template is None:
            raise LowerError(f"{expr.op.name} has no spelling in Triton")
        if register(expr.dtype) == torch.float64:
            template = _DOUBLE.get(expr.op.name, template)
        return template.format(*args, **dict(zip(expr.op.attrs, expr.attrs, strict=True)))

    def _arguments(self, expr: Apply) -> list[str]:
        bare = expr.op.name in _INFIX and not all(map(_is_scalar, expr.args))
        return [
            literal(*a.attrs) if bare and isinstance(a, Apply) and _is_scalar(a) else self.name(a)
            for a in expr.args
        ]


def _cast(text: str, source: torch.dtype, target: torch.dtype) -> str:
    """``text``, a register of ``source``, as a register that holds a value of ``target``."""
    held, wanted = register(source), register(target)
    if target == torch.bool:
        return text if held == torch.bool else f"({text} != 0)"
    if target in _HALF:
        return f"{text}.to({triton_dtype(target)}).to(tl.float32)"
    return text if held == wanted else f"{text}.to({triton_dtype(wanted)})"


def spell(
    exprs: Sequence[Expr],
    leaf_names: Mapping[Expr, str],
    prefix: str = "t",
    special: Special | None = None,
) -> tuple[list[str], list[str]]:
    """Assignments that compute ``exprs``, and the names that then hold them, in order.

    ``leaf_names`` gives the registers of the leaves, or of any sub-expressions that exist already.
    Fresh names are ``prefix`` and a number. ``special`` writes what is not pointwise, such as a
    reduction. Raises LowerError where there is no spelling.
    """
    speller = _Speller(leaf_names, prefix, special)
    results = [speller.name(e) for e in exprs]
    return speller.lines, results


# Helpers that spellings call. None needs libdevice, which the interpreter lacks.
PRELUDE = {
    "_sigmoid": """\
def _sigmoid(x):
    return 1.0 / (1.0 + tl.exp(-x))
""",
    # A Pade approximant near zero, where the exponential form cancels; exact to fp64 below 1/2.
    "_tanh": """\
def _tanh(x):
    y = x * x
    small = x * (135135.0 + y * (17325.0 + y * (378.0 + y)))
    small = small / (135135.0 + y * (62370.0 + y * (3150.0 + y * 28.0)))
    e = tl.exp(-2.0 * tl.abs(x))
    large = (1.0 - e) / (1.0 + e)
    return tl.where(tl.abs(x) < 0.5, small, tl.where(x < 0, -large, large))
""",
    "_relu": """\
def _relu(x):
    return tl.where(x < 0, 0, x)
""",
    # The first operand where it is a NaN; a second one that is fails every comparison.
    "_maximum": """\
def _maximum(a, b):
    return tl.where((a > b) | (a != a), a, b)
""",
    "_minimum": """\
def _minimum(a, b):
    return tl.where((a < b) | (a != a), a, b)
""",
    "_gelu": """\
def _gelu(x):
    return 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))
""",
    # 1 + tanh(u) = 2 sigmoid(2u)
    "_gelu_tanh": """\
def _gelu_tanh(x):
    return x * _sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x))
""",
    # tl.max drops NaNs; the sum of those in the row is a NaN, or zero where there is none.
    "_row_max": """\
def _row_max(x):
    return tl.max(x, 1) + tl.sum(tl.where(x != x, x, 0), 1)
""",
    "_row_min": """\
def _row_min(x):
    return tl.min(x, 1) + tl.sum(tl.where(x != x, x, 0), 1)
""",
}


def prelude(source: str) -> str:
    """The helpers that ``source`` calls, as source text; empty where it calls none."""
    wanted: set[str] = set()

    def visit(text: str) -> None:
        for name in re.findall(r"(?<![\w.])(_[a-z_]+)\(", text):
            if name in PRELUDE and name not in wanted:
                wanted.add(name)
                visit(PRELUDE[name].split("\n", 1)[1])

    visit(source)
    return "\n\n".join(f"@triton.jit\n{PRELUDE[n]}" for n in PRELUDE if n in wanted)
