"""Composite operators in what users spell out: activations, norms, softmax, linear layers, RoPE.

Commutativity is a law of its own (elementwise.py), so each law has one order of operands, and
numbers stand on the right. Means and maxima are over the last axis, which ``_over_row`` checks.
"""

import math

import torch

from superopt.ir.dims import is_static, product, same
from superopt.ir.types import TensorType
from superopt.ops import (
    amax,
    cast,
    concat,
    erf,
    exp,
    gelu,
    gelu_tanh,
    linear,
    linear_bias,
    log,
    log_softmax,
    matmul,
    mean,
    permute,
    reciprocal,
    reshape,
    rms,
    rotate_half,
    rsqrt,
    scalar,
    sigmoid,
    silu,
    slice_,
    softmax,
    sqrt,
    standardise,
    sum_,
    tanh,
)
from superopt.rule import make_rule, require, rule

_HALF = (torch.float16, torch.bfloat16)


def _is(value: float, wanted: float) -> bool:
    """A number as people type it: the constant to at least nine digits."""
    return math.isclose(value, wanted, rel_tol=1e-9)


def _over_row(x, axes) -> bool:
    return axes == (x.ndim - 1,)


# -- activations -----------------------------------------------------------------------------------


@rule(group="recognition", numeric="changes_rounding")
def silu_from_sigmoid(x):
    """x * sigmoid(x) = silu(x)."""
    yield x * sigmoid(x)
    yield silu(x)


@rule(group="recognition", numeric="changes_rounding")
def silu_from_exp(x, one, d):
    """x / (1 + exp(-x)) = silu(x)."""
    yield x / (exp(-x) + scalar(one, d))
    require(one == 1, "the denominator adds one")
    yield silu(x)


@rule(group="recognition", numeric="changes_rounding")
def sigmoid_from_exp(x, one, d):
    """1 / (1 + exp(-x)) = sigmoid(x)."""
    yield reciprocal(exp(-x) + scalar(one, d))
    require(one == 1, "the denominator adds one")
    yield sigmoid(x)


@rule(group="recognition", numeric="changes_rounding")
def quick_gelu(x, a, d):
    """x * sigmoid(a x) = silu(a x) / a, for a number a other than zero."""
    yield x * sigmoid(x * scalar(a, d))
    require(0.01 <= abs(a) <= 100, "neither a nor its inverse is extreme")
    yield silu(x * scalar(a, d)) * scalar(1 / a, d)


@rule(group="recognition", numeric="changes_rounding")
def gelu_from_erf(x, root, one, half, d):
    """x (1 + erf(x / sqrt 2)) / 2 = gelu(x)."""
    yield x * (erf(x * scalar(root, d)) + scalar(one, d)) * scalar(half, d)
    require(_is(root, math.sqrt(0.5)) and one == 1 and half == 0.5, "the constants are gelu's")
    yield gelu(x)


@rule(group="recognition", numeric="changes_rounding")
def gelu_from_tanh(x, cube, root, one, half, d):
    """x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2 = gelu_tanh(x)."""
    inner = (x + x * x * x * scalar(cube, d)) * scalar(root, d)
    yield x * (tanh(inner) + scalar(one, d)) * scalar(half, d)
    require(_is(cube, 0.044715) and _is(root, math.sqrt(2 / math.pi)), "the constants are gelu's")
    require(one == 1 and half == 0.5, "the constants are gelu's")
    yield gelu_tanh(x)


@rule(group="recognition", numeric="changes_rounding")
def gelu_from_factored_tanh(x, cube, root, one, half, d):
    """x (1 + tanh(sqrt(2 / pi) x (1 + 0.044715 x^2))) / 2 = gelu_tanh(x)."""
    inner = x * (x * x * scalar(cube, d) + scalar(one, d)) * scalar(root, d)
    yield x * (tanh(inner) + scalar(one, d)) * scalar(half, d)
    require(_is(cube, 0.044715) and _is(root, math.sqrt(2 / math.pi)), "the constants are gelu's")
    require(one == 1 and half == 0.5, "the constants are gelu's")
    yield gelu_tanh(x)


# -- norms -----------------------------------------------------------------------------------------


@rule(group="recognition", numeric="changes_rounding")
def mean_from_scaled_sum(x, axes, v, d):
    """sum(x) * (1 / n) = mean(x), for n the number of elements summed."""
    yield sum_(x, axes) * scalar(v, d)
    n = product(x.shape[a] for a in axes)
    require(is_static(n) and n > 0 and x.dtype.is_floating_point, "the count is known")
    require(_is(v, 1 / n), "the factor is one over the count")
    yield mean(x, axes)


@rule(group="recognition", numeric="changes_rounding")
def rsqrt_from_sqrt(x):
    """1 / sqrt(x) = rsqrt(x)."""
    yield reciprocal(sqrt(x))
    yield rsqrt(x)


@rule(group="recognition", numeric="changes_rounding")
def rms_from_rsqrt(x, axes, eps, d):
    """x * rsqrt(mean(x^2) + eps) = rms(x)."""
    yield x * rsqrt(mean(x * x, axes) + scalar(eps, d))
    require(_over_row(x, axes), "the mean is over the last axis")
    yield rms(x, eps)


@rule(group="recognition", numeric="changes_rounding")
def rms_from_sqrt(x, axes, eps, d):
    """x / sqrt(mean(x^2) + eps) = rms(x)."""
    yield x / sqrt(mean(x * x, axes) + scalar(eps, d))
    require(_over_row(x, axes), "the mean is over the last axis")
    yield rms(x, eps)


@rule(group="recognition", numeric="changes_rounding")
def standardise_from_rms(x, axes, eps):
    """rms(x - mean(x)) = standardise(x); with the laws above, LayerNorm in any spelling."""
    yield rms(x - mean(x, axes), eps)
    require(_over_row(x, axes), "the mean is over the last axis")
    yield standardise(x, eps)


def _in_half(op, *attrs, numeric):
    """``op`` computes half precision in fp32, so the casts around it say nothing new."""

    def apply(x, wide, d, values):
        yield cast(op(cast(x, wide), *values), d)
        require(x.dtype in _HALF and wide == torch.float32 and d == x.dtype, "half, fp32, half")
        yield op(x, *values)

    if attrs:

        def law(x, wide, eps, d):
            yield from apply(x, wide, d, (eps,))

    else:

        def law(x, wide, d):
            yield from apply(x, wide, d, ())

    law.__doc__ = f"half({op}(fp32(x))) = {op}(x), for x in half precision."
    return make_rule(law, group="recognition", numeric=numeric, name=f"{op}_in_half")


rows_in_half = [
    _in_half(rms, "eps", numeric="exact"),
    _in_half(standardise, "eps", numeric="exact"),
    _in_half(softmax, numeric="changes_rounding"),
    _in_half(log_softmax, numeric="changes_rounding"),
]


# -- softmax ---------------------------------------------------------------------------------------


@rule(group="recognition", numeric="changes_rounding")
def softmax_from_exp(x, axes):
    """exp(x) / sum(exp(x)) = softmax(x), which does not overflow."""
    yield exp(x) / sum_(exp(x), axes)
    require(_over_row(x, axes), "the sum is over the last axis")
    yield softmax(x)


@rule(group="recognition", numeric="changes_rounding")
def softmax_of_shifted(x, axes):
    """softmax(x - max(x)) = softmax(x)."""
    yield softmax(x - amax(x, axes))
    require(_over_row(x, axes), "one maximum a row")
    yield softmax(x)


@rule(group="recognition", numeric="changes_rounding")
def log_softmax_from_softmax(x):
    """log(softmax(x)) = log_softmax(x), which does not underflow."""
    yield log(softmax(x))
    yield log_softmax(x)


@rule(group="recognition", numeric="changes_rounding")
def log_softmax_from_exp(x, axes):
    """x - max(x) - log(sum(exp(x - max(x)))) = log_softmax(x)."""
    shifted = x - amax(x, axes)
    yield shifted - log(sum_(exp(shifted), axes))
    require(_over_row(x, axes), "the sum is over the last axis")
    yield log_softmax(x)


# -- linear layers ---------------------------------------------------------------------------------


@rule(group="recognition", numeric="reassociates")
def linear_from_transposed(x, w, axes):
    """x (w^T) = linear(x, w), for matrices."""
    yield matmul(x, permute(w, axes))
    require(w.ndim == 2 and axes == (1, 0), "a transposed matrix")
    yield linear(x, w)


@rule(group="recognition", numeric="reassociates")
def linear_from_matmul(x, w):
    """x w = linear(x, w^T), for matrices."""
    yield matmul(x, w)
    require(w.ndim == 2, "matrices; a batch of products is none")
    yield linear(x, permute(w, (1, 0)))


def _of_rows(x, rows, w, shape) -> bool:
    """True when a product on rows of x, in ``shape``, is the product on x."""
    return (
        x.ndim >= 1
        and len(rows) >= 1
        and same(rows[-1], x.shape[-1])
        and tuple(shape) == (*x.shape[:-1], w.shape[0])
    )


@rule(group="recognition", numeric="reassociates")
def linear_of_rows(x, rows, w, shape):
    """linear works on rows: flattening the leading axes and restoring them changes nothing."""
    yield reshape(linear(reshape(x, rows), w), shape)
    require(_of_rows(x, rows, w, shape), "only the leading axes are reshaped")
    yield linear(x, w)


@rule(group="recognition", numeric="reassociates")
def linear_bias_of_rows(x, rows, w, b, shape):
    """linear_bias works on rows, as linear does."""
    yield reshape(linear_bias(reshape(x, rows), w, b), shape)
    require(_of_rows(x, rows, w, shape), "only the leading axes are reshaped")
    yield linear_bias(x, w, b)


@rule(group="recognition", numeric="changes_rounding")
def bias_joined(x, w, b):
    """linear(x, w) + b = linear_bias(x, w, b), for a bias of one axis."""
    yield linear(x, w) + b
    require(b.ndim == 1 and same(b.shape[0], w.shape[0]), "one value an output feature")
    yield linear_bias(x, w, b)


@rule(group="recognition", numeric="changes_rounding")
def bias_apart(x, w, b):
    """linear_bias(x, w, b) = linear(x, w) + b."""
    yield linear_bias(x, w, b)
    yield linear(x, w) + b


# -- rotary embeddings -----------------------------------------------------------------------------


@rule(group="recognition", numeric="exact")
def rotate_half_from_slices(x, axis, h, end, start, half):
    """[-x2 | x1] = rotate_half(x), for x = [x1 | x2] in two halves."""
    yield concat(-slice_(x, axis, h, end), slice_(x, axis, start, half), axis)
    require(axis == x.ndim - 1 and is_static(x.shape[-1]), "along the last axis, of known size")
    require(start == 0 and h == half and end == x.shape[-1] == 2 * h, "two halves, swapped")
    require(x.dtype.is_floating_point, "rotate_half is for floating-point values")
    yield rotate_half(x)


# -- where the check cannot guess ------------------------------------------------------------------


def _constants(**values):
    return lambda rng: values


def _mean(rng):
    shape = tuple(rng.choice((1, 2, 3, 5)) for _ in range(rng.randint(1, 3)))
    axes = tuple(sorted(rng.sample(range(len(shape)), rng.randint(1, len(shape)))))
    x = TensorType(shape, torch.float64)
    return {"x": x, "axes": axes, "v": 1 / math.prod(shape[a] for a in axes)}


def _rotation(rng):
    h = rng.randint(1, 4)
    x = TensorType((*(rng.choice((1, 3)) for _ in range(rng.randint(0, 2))), 2 * h), torch.float32)
    return {"x": x, "axis": x.ndim - 1, "h": h, "end": 2 * h, "start": 0, "half": h}


_TANH = {"cube": 0.044715, "root": math.sqrt(2 / math.pi), "one": 1.0, "half": 0.5}

SAMPLES = {
    "gelu_from_erf": _constants(root=math.sqrt(0.5), one=1.0, half=0.5),
    "gelu_from_tanh": _constants(**_TANH),
    "gelu_from_factored_tanh": _constants(**_TANH),
    "mean_from_scaled_sum": _mean,
    "rotate_half_from_slices": _rotation,
    **{
        r.name: lambda rng: {
            "x": TensorType((rng.randint(1, 3), rng.randint(1, 6)), rng.choice(_HALF)),
            "wide": torch.float32,
        }
        for r in rows_in_half
    },
}
