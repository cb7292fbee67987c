"""Programs that become region kernels. Each case gives a graph and how many regions it has."""

from __future__ import annotations

from collections.abc import Callable

import sympy
import torch
from schedule.programs import Program

import superopt.ops as ops
from superopt.ir.expr import Expr
from superopt.ir.graph import Graph

Case = tuple[Graph, int]
CASES: dict[str, Callable[[], Case]] = {}
HALF, BF16, SINGLE, DOUBLE = torch.float16, torch.bfloat16, torch.float32, torch.float64
FLOATS = {"half": HALF, "bf16": BF16, "single": SINGLE}


def case(make: Callable[[], Case]) -> Callable[[], Case]:
    CASES[make.__name__] = make
    return make


def each_float(make: Callable[[torch.dtype], Case]) -> Callable[[torch.dtype], Case]:
    for name, dtype in FLOATS.items():
        CASES[f"{make.__name__}_{name}"] = lambda dtype=dtype: make(dtype)
    return make


def number(value: float, like: Expr) -> Expr:
    return ops.scalar(value, like.dtype)


# -- element by element ----------------------------------------------------------------------------

UNARY = (
    ops.neg, ops.abs_, ops.relu, ops.exp, ops.log, ops.sqrt, ops.rsqrt, ops.reciprocal,
    ops.sin, ops.cos, ops.erf, ops.tanh, ops.sigmoid, ops.silu, ops.gelu, ops.gelu_tanh,
)  # fmt: skip
COMPARE = (ops.eq, ops.ne, ops.lt, ops.le, ops.gt, ops.ge)


def unary(dtype: torch.dtype) -> Case:
    p = Program(dtype)
    x = p.input(37, 11)
    return p.returns(*(op(x) for op in UNARY)), 1


def binary(dtype: torch.dtype) -> Case:
    p = Program(dtype)
    x, y = p.input(37, 11), p.input(37, 11)
    found = [op(x, y) for op in (ops.add, ops.sub, ops.mul, ops.div, ops.maximum, ops.minimum)]
    found += [op(x, y) for op in COMPARE]
    found += [ops.where(ops.lt(x, number(0.25, x)), x, y), number(2.0, x) / x]
    return p.returns(*found), 1


for name, dtype in {**FLOATS, "double": DOUBLE}.items():
    CASES[f"unary_{name}"] = lambda dtype=dtype: unary(dtype)
    CASES[f"binary_{name}"] = lambda dtype=dtype: binary(dtype)


@case
def integers() -> Case:
    p = Program(torch.int64)
    x, y, small = p.input(300), p.input(300), p.input(300, dtype=torch.int32)
    three = ops.scalar(3, torch.int64)
    return p.returns(
        x * y + three, ops.maximum(x, y), ops.lt(x, three), -x, ops.abs_(y), ops.relu(x),
        ops.cast(small, torch.int64) - x, ops.cast(x, SINGLE), small * small,
    ), 1  # fmt: skip


@case
def booleans() -> Case:
    p = Program(torch.bool)
    a, b, x = p.input(7, 9), p.input(7, 9), p.input(7, 9, dtype=HALF)
    either = ops.logical_or(ops.logical_and(a, b), ops.logical_not(a))
    return p.returns(
        either, ops.where(a, x, -x), ops.cast(a, SINGLE), ops.cast(x, torch.bool), ops.eq(a, b),
        ops.where(a, b, either), ops.cast(b, torch.int64),
    ), 1  # fmt: skip


@case
def casts() -> Case:
    p = Program(SINGLE)
    x = p.input(100)
    kinds = (HALF, BF16, DOUBLE, torch.int32, torch.int64)
    # Not bfloat16, to which the interpreter truncates.
    through = ops.cast(ops.cast(x, HALF), SINGLE)
    return p.returns(*(ops.cast(x, k) for k in kinds), x - through), 1


@each_float
def broadcasts(dtype: torch.dtype) -> Case:
    p = Program(dtype)
    x, row, column, point = p.input(3, 5, 12), p.input(12), p.input(5, 1), p.input()
    other = p.input(3, 1, 12)
    return p.returns(x * row + column * other - point), 1


@case
def points() -> Case:
    p = Program()
    x, y = p.input(), p.input(1, 1)
    return p.returns(ops.exp(x) * ops.scalar(2.0, SINGLE) + y), 1


@case
def fill() -> Case:
    p = Program(HALF)
    half = ops.expand(ops.scalar(0.5, HALF), (3, 70))
    x = p.input(3, 70)
    return p.returns(ops.exp(x) + half, half), 2


@case
def strided() -> Case:
    """Permuted, sliced and transposed operands; the result is row-major."""
    p = Program()
    x, y = p.input(6, 4, 10), p.input(4, 6, 20, strides=(1, 80, 4))
    turned = ops.permute(x, (1, 0, 2))
    part = ops.slice_(y, 2, 3, 13)
    return p.returns(ops.silu(turned) * part), 1


@case
def columns_of_a_slice() -> Case:
    p = Program(HALF)
    x = p.input(9, 96)
    gate, up = ops.slice_(x, 1, 0, 48), ops.slice_(x, 1, 48, 96)
    return p.returns(ops.gelu_tanh(gate) * up), 1


@case
def even_blocks() -> Case:
    p = Program(BF16)
    x, y = p.input(16, 128), p.input(16, 128)
    return p.returns(ops.silu(x) * y, x + y), 1


# -- row by row ------------------------------------------------------------------------------------


@each_float
def norms(dtype: torch.dtype) -> Case:
    """The sum that a residual adds is kept, and its norm is computed beside it."""
    p = Program(dtype)
    x, residual, g = p.input(3, 5, 100), p.input(3, 5, 100), p.input(100)
    total = p.let(x + residual)
    return p.returns(total, ops.rms(total, 1e-5) * g), 1


@each_float
def layer_norm(dtype: torch.dtype) -> Case:
    p = Program(dtype)
    x, w, b = p.input(7, 64), p.input(64), p.input(64)
    return p.returns(ops.standardise(x, 1e-5) * w + b), 1


@case
def layer_norm_casts() -> Case:
    p = Program(HALF)
    x, w, b = p.input(4, 1000), p.input(1000, dtype=SINGLE), p.input(1000, dtype=SINGLE)
    y = ops.standardise(ops.cast(x, SINGLE), 1e-5) * w + b
    return p.returns(ops.cast(y, HALF)), 1


@case
def far_from_zero() -> Case:
    p = Program()
    x = p.input(4, 500)
    return p.returns(ops.standardise(x + number(100.0, x), 1e-5)), 1


@each_float
def masked_softmax(dtype: torch.dtype) -> Case:
    p = Program(dtype)
    scores, mask = p.input(2, 3, 9, 33), p.input(2, 1, 9, 33, dtype=torch.bool)
    scaled = scores * number(0.125, scores)
    masked = ops.where(mask, scaled, number(float("-inf"), scores))
    return p.returns(ops.softmax(masked), ops.log_softmax(scaled)), 1


@each_float
def folds(dtype: torch.dtype) -> Case:
    p = Program(dtype)
    x = p.input(6, 37)
    found = [op(x, (1,)) for op in (ops.sum_, ops.mean, ops.amax, ops.amin)]
    return p.returns(*found, x - ops.mean(ops.exp(x), (1,))), 1


@case
def folds_double() -> Case:
    p = Program(DOUBLE)
    x = p.input(6, 37)
    found = [op(x, (1,)) for op in (ops.sum_, ops.mean, ops.amax, ops.amin)]
    return p.returns(*found, ops.softmax(x), ops.rms(x, 1e-8), ops.standardise(x, 1e-8)), 1


@case
def two_axes() -> Case:
    """A row is two axes, one of which an operand does not have."""
    p = Program()
    x, w, b = p.input(5, 6, 7), p.input(6, 1), p.input(7)
    y = p.let(x * w + b)
    return p.returns(y - ops.mean(y, (1, 2)), ops.amax(y, (1, 2))), 1


@case
def everything_at_once() -> Case:
    p = Program()
    x = p.input(5, 30)
    return p.returns(ops.sum_(x * x, (0, 1))), 1


@case
def single_column() -> Case:
    p = Program()
    x, y = p.input(50, 1), p.input(50, 1)
    return p.returns(ops.softmax(x + y), ops.sum_(x, (1,))), 1


@case
def folded_broadcast() -> Case:
    """Each row's one value counts once a column."""
    p = Program()
    x = p.input(6, 1)
    wide = ops.expand(ops.exp(x), (6, 24))
    return p.returns(ops.sum_(wide, (1,)), ops.mean(ops.expand(p.input(6, 1), (6, 24)), (1,))), 2


@case
def rows_of_a_permuted_input() -> Case:
    p = Program(HALF)
    x, g = p.input(2, 6, 3, 16), p.input(16)
    heads = ops.permute(x, (0, 2, 1, 3))
    return p.returns(ops.rms(heads, 1e-6) * g), 1


@case
def transposed_rows() -> Case:
    p = Program()
    x = p.input(16, 9)
    return p.returns(ops.softmax(ops.permute(x, (1, 0)))), 1


@each_float
def rotary(dtype: torch.dtype) -> Case:
    p = Program(dtype)
    q, cos, sin = p.input(2, 6, 3, 24), p.input(6, 24), p.input(6, 24)
    heads = p.let(ops.permute(q, (0, 2, 1, 3)))
    return p.returns(heads * cos + ops.rotate_half(heads) * sin), 1


@case
def normed_rotary() -> Case:
    """The rotated copy reads q in memory, so there are two kernels."""
    p = Program(BF16)
    q, g, cos, sin = p.input(5, 4, 32), p.input(32), p.input(5, 1, 32), p.input(5, 1, 32)
    normed = p.let(ops.rms(q, 1e-6) * g)
    return p.returns(normed * cos + ops.rotate_half(normed) * sin), 2


@case
def per_row_operands() -> Case:
    p = Program(HALF)
    x, scale, shift = p.input(9, 40), p.input(9, 1), p.input(9, 1, dtype=SINGLE)
    square = p.let(shift * shift)
    return p.returns(ops.cast(ops.rms(x * scale, 1e-6), SINGLE) + square, square), 1


@case
def symbolic_rows() -> Case:
    n, m = sympy.symbols("s0 s1", positive=True, integer=True)
    p = Program(BF16)
    p.graph.hints = {n: 3, m: 5}
    x, residual, g = p.input(n, m, 48), p.input(n, 1, 48), p.input(48)
    total = p.let(ops.permute(x, (1, 0, 2)) + ops.permute(residual, (1, 0, 2)))
    return p.returns(total, ops.softmax(total * g)), 1


@case
def symbolic_elements() -> Case:
    n, m = sympy.symbols("s0 s1", positive=True, integer=True)
    p = Program(HALF)
    p.graph.hints = {n: 7, m: 50}
    x, y, row = p.input(n, m), p.input(n, m), p.input(m)
    return p.returns(ops.silu(x) * y + row), 1
