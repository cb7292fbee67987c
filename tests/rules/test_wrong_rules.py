"""Laws that are false, each in a way that went wrong somewhere: the check refutes all of them."""

import math

import pytest
import torch

from superopt.check import check_rule
from superopt.ir.dims import same
from superopt.ir.expr import Hole
from superopt.ir.types import TensorType
from superopt.ops import (
    add,
    amax,
    cast,
    concat,
    div,
    eq,
    erf,
    exp,
    gelu,
    gemm,
    linear,
    matmul,
    maximum,
    mean,
    mul,
    neg,
    pack,
    permute,
    reshape,
    rms,
    rotate_half,
    rsqrt,
    scalar,
    sigmoid,
    silu,
    slice_,
    softmax,
    standardise,
    sub,
    sum_,
    where,
)
from superopt.ops.gemm import acc_type
from superopt.rule import require, rule

approximate = rule(numeric="reassociates")
exact = rule(numeric="exact")


# -- broadcast axes and ranks ----------------------------------------------------------------------


@approximate
def row_scale_that_varies_along_the_sum(x, r, w):
    """(x * r) W^T = (x W^T) * r, without asking what r is."""
    yield linear(x * r, w)
    require(w.shape[0] == w.shape[1], "a square weight hides it from the types")
    yield linear(x, w) * r


@approximate
def divisor_that_varies_along_the_sum(x, r, y):
    """(x / r) Y = (x Y) / r, without asking what r is."""
    yield matmul(div(x, r), y)
    require(y.shape[-1] == y.shape[-2] and r.shape == x.shape, "square")
    yield div(matmul(x, y), r)


@approximate
def rank_not_asked_for(x, r, w):
    """(x * r) W^T = (x W^T) * r; r may be a number, which has no last axis."""
    yield linear(x * r, w)
    require(same(r.shape[-1], 1), "r has one value a row")
    yield linear(x, w) * r


@approximate
def norm_weight_on_the_outputs(x, g, w):
    """(x * g) W^T = x (W * g along the rows of W)^T."""
    yield linear(x * g, w)
    require(g.ndim == 1 and w.shape[0] == w.shape[1] == g.shape[0], "square")
    yield linear(x, w * reshape(g, (g.shape[0], 1)))


@approximate
def batch_forgotten(x, w, rows, shape):
    """The leading axes of a product may be put back in another order."""
    yield reshape(linear(reshape(x, rows), w), shape)
    require(x.ndim == 3 and len(shape) == 3 and rows[-1] == x.shape[-1], "three axes")
    swapped = (x.shape[1], x.shape[0], w.shape[0])
    require(tuple(shape) == swapped or tuple(shape) == (*x.shape[:-1], w.shape[0]), "any order")
    yield linear(x, w) if shape != swapped else permute(linear(x, w), (1, 0, 2))


@approximate
def mean_over_any_axes(x, axes, eps, d):
    """x * rsqrt(mean(x^2) + eps) = rms(x), whatever the mean is over."""
    yield x * rsqrt(mean(x * x, axes) + scalar(eps, d))
    yield rms(x, eps)


@approximate
def size_asked_for(x, y):
    """x + y = y + x, for an axis of at least one element."""
    yield x + y
    require(x.ndim > 0 and bool(x.shape[0] >= 1) and int(x.shape[0]) > 0, "sizes are numbers")
    yield y + x


# -- what was matched and then forgotten -----------------------------------------------------------


@approximate
def mask_forgotten(x, mask, v, d):
    """softmax of masked scores = softmax of the scores."""
    yield softmax(where(mask, x, scalar(v, d)))
    require(mask.shape == x.shape, "one decision a score")
    yield softmax(x)


@approximate
def norm_bias_forgotten(x, b, w):
    """(x + b) W^T = x W^T."""
    yield linear(x + b, w)
    require(b.ndim == 1 and x.ndim > 1 and same(b.shape[0], x.shape[-1]), "b is one row")
    yield linear(x, w)


@approximate
def mean_forgotten(x, eps):
    """standardise(x) = rms(x)."""
    yield standardise(x, eps)
    yield rms(x, eps)


@approximate
def sum_of_another(x, y, axes):
    """exp(x) / sum(exp(y)) = softmax(x)."""
    yield exp(x) / sum_(exp(y), axes)
    require(axes == (x.ndim - 1,) and x.shape == y.shape, "over the last axis")
    yield softmax(x)


@approximate
def shift_by_anything(x, y):
    """softmax(x - y) = softmax(x)."""
    yield softmax(x - y)
    require((x - y).shape == x.shape, "y broadcasts")
    yield softmax(x)


# -- order -----------------------------------------------------------------------------------------


@exact
def permutations_in_the_wrong_order(x, p, q):
    """permute(permute(x, p), q) = permute(x, q[p])."""
    yield permute(permute(x, p), q)
    yield permute(x, tuple(q[i] for i in p))


@exact
def concat_in_the_wrong_order(x, y, axis):
    """[x | y] = [y | x]."""
    yield concat(x, y, axis)
    require(x.shape == y.shape, "of one shape")
    yield concat(y, x, axis)


@exact
def slice_off_by_one(x, y, axis, start, end):
    """[x | y][a:b] = y[a-n : b-n], with n one too small."""
    yield slice_(concat(x, y, axis), axis, start, end)
    n = x.shape[axis]
    require(isinstance(n, int) and isinstance(start, int), "known sizes")
    require(n < start <= end <= n + y.shape[axis] and start > n, "within y")
    yield slice_(y, axis, start - n - 1, end - n - 1)


@exact
def layout_dropped(x, axes, shape):
    """reshape(permute(x)) = reshape(x)."""
    yield reshape(permute(x, axes), shape)
    yield reshape(x, shape)


@exact
def half_rotated_the_other_way(x, axis, h, end):
    """[x2 | -x1] = rotate_half(x)."""
    yield concat(slice_(x, axis, h, end), neg(slice_(x, axis, 0, h)), axis)
    require(axis == x.ndim - 1 and end == x.shape[-1] == 2 * h, "two halves")
    yield rotate_half(x)


@approximate
def adapter_in_the_wrong_order(x, a, b):
    """(x A^T) B^T = x (A B)^T."""
    yield linear(linear(x, a), b)
    yield linear(x, matmul(a, b))


@rule(numeric="reassociates", collect="w")
def projections_cut_as_if_of_one_width(x, w):
    """x W_i^T = the i-th of n equal parts of x [W_1; ...; W_n]^T."""
    yield [linear(x, v) for v in w]
    whole = linear(x, concat(*w, 0))
    n = w[0].shape[0]
    require(all(isinstance(v.shape[0], int) for v in w), "known widths")
    require(all(v.shape[0] == n for v in w[1:]) or len(w) == 2, "")
    parts = [slice_(whole, x.ndim - 1, i * n, (i + 1) * n) for i in range(len(w))]
    yield parts[::-1] if len(w) == 3 else parts


# -- functions -------------------------------------------------------------------------------------


@approximate
def erf_gelu_as_silu(x, root, one, half, d):
    """x (1 + erf(x / sqrt 2)) / 2 = silu(1.702 x) / 1.702: near, but not equal."""
    yield x * (erf(x * scalar(root, d)) + scalar(one, d)) * scalar(half, d)
    yield silu(x * scalar(1.702, d)) * scalar(1 / 1.702, d)


@approximate
def gelu_as_silu(x):
    """gelu(x) = silu(x)."""
    yield gelu(x)
    yield silu(x)


@approximate
def quick_gelu_undivided(x, a, d):
    """x * sigmoid(a x) = silu(a x)."""
    yield x * sigmoid(x * scalar(a, d))
    yield silu(x * scalar(a, d))


@approximate
def activation_past_a_gate(x, y):
    """silu(x) * y = silu(x * y)."""
    yield silu(x) * y
    yield silu(x * y)


@approximate
def softmax_of_the_shift_only(x, axes):
    """exp(x - max(x)) = softmax(x)."""
    yield exp(x - amax(x, axes))
    yield softmax(x)


# -- bits ------------------------------------------------------------------------------------------


@exact
def cast_through_narrower(x, d):
    """cast(cast(x, bf16), d) = x."""
    yield cast(cast(x, torch.bfloat16), d)
    require(x.dtype == d, "back again")
    yield x


@exact
def addition_associates(x, y, z):
    """(x + y) + z = x + (y + z), bit for bit."""
    yield add(add(x, y), z)
    yield add(x, add(y, z))


@exact
def plus_zero(x, d):
    """x + 0 = x, though -0.0 + 0 = 0.0."""
    yield x + scalar(0.0, d)
    yield x


@exact
def maximum_commutes_in_every_bit(x, y):
    """max(x, y) = max(y, x), though one zero is not the other."""
    yield maximum(x, y)
    yield maximum(y, x)


@approximate
def nothing_times_zero(x, d):
    """x * 0 = 0 * 0 * x, though NaN * 0 = NaN."""
    yield mul(x, scalar(0.0, d))
    yield where_nan_is_zero(x, d)


def where_nan_is_zero(x, d):
    return where(eq(x, x), mul(x, scalar(0.0, d)), scalar(0.0, d))


@approximate
def difference_with_itself(x, y):
    """x - x + y = y, though NaN - NaN = NaN."""
    yield add(sub(x, x), y)
    require(x.shape == y.shape, "of one shape")
    yield y


# -- kernels ---------------------------------------------------------------------------------------


@rule(group="kernels", numeric="reassociates")
def gate_and_up_swapped(x, v, w):
    """silu(x V^T) * (x W^T) in one kernel, with the gate's accumulator where up's belongs."""
    yield silu(linear(x, v)) * linear(x, w)
    require(v.shape == w.shape, "of one width")
    a, b = (Hole("acc", i, acc_type(x.type, v.type)) for i in range(2))
    yield gemm(x, pack(w, v), pack(), None, (((0, 1), silu(a) * b),))


@rule(group="kernels", numeric="reassociates")
def extra_in_anothers_place(x, ws, es, prologue, groups, y):
    """An epilogue's new extra is the last one, but its hole says that it is the first."""
    product = gemm(x, ws, es, prologue, groups)
    yield product + y
    require(len(groups) == 1 and es.items and es.items[0].type == y.type, "an extra before it")
    ((indices, body),) = groups
    require(body.shape == (product + y).shape, "the shape is kept")
    longer = body + Hole("in", 0, y.type)
    yield gemm(x, ws, pack(*es.items, y), prologue, ((indices, longer),))


@rule(group="kernels", numeric="reassociates")
def prologue_forgotten(x, ws, es, prologue, groups):
    """A kernel with its norm is the kernel without."""
    yield gemm(rms(x, 1e-5), ws, es, prologue, groups)
    yield gemm(x, ws, es, prologue, groups)


@rule(group="kernels", numeric="reassociates")
def merged_without_renumbering(x, v, e, w, f, prologue, g, h):
    """A gate and what it gates in one kernel, both reading accumulator 0."""
    yield mul(gemm(x, v, e, prologue, g), gemm(x, w, f, prologue, h))
    require(prologue is None and len(g) == len(h) == 1 and not e.items and not f.items, "bare")
    require(len(v.items) == len(w.items) == 1 and v.items[0].of == w.items[0].of, "one each")
    body = mul(g[0][1], h[0][1])
    yield gemm(x, pack(*v.items, *w.items), pack(), None, (((0, 1), body),))


def _erf_constants(rng):
    return {"root": math.sqrt(0.5), "one": 1.0, "half": 0.5}


def _halves(rng):
    h = rng.randint(1, 3)
    return {"x": TensorType((2, 2 * h), torch.float32), "axis": 1, "h": h, "end": 2 * h}


SAMPLES = {"erf_gelu_as_silu": _erf_constants, "half_rotated_the_other_way": _halves}
WRONG = [v for v in list(globals().values()) if type(v).__name__ == "Rule"]


@pytest.mark.parametrize("wrong", WRONG, ids=lambda r: r.name)
def test_the_check_refutes(wrong):
    result = check_rule(wrong, trials=60)
    assert result.counterexample is not None, str(result)


def test_a_law_whose_guard_never_passes_is_reported():
    @rule(numeric="exact")
    def never(x):
        """-x = -x, for no x at all."""
        yield neg(x)
        require(False, "never")
        yield neg(x)

    result = check_rule(never, attempts=50)
    assert result.untested and not result.ok
    assert "UNTESTED" in str(result)


def test_a_counterexample_says_where_it_fails():
    text = str(check_rule(gelu_as_silu))
    assert "FALSE" in text and "gelu(%1)" in text and "float" in text
