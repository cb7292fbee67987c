"""Laws of matrix products: what may be scaled, folded or summed before or after.

``linear(x, w)`` is x w^T with x[..., K] and w[N, K]. A factor may pass a product when it does not
vary along the axis that is summed; every guard here is about that axis.
"""

from superopt.ir.dims import same
from superopt.ops import linear, matmul, permute, reshape, scalar
from superopt.rule import require, rule


def _column(r, x) -> bool:
    """True when r has one value a row of x, and does not enlarge x."""
    return r.ndim > 0 and same(r.shape[-1], 1) and (x * r).shape == x.shape


def _row(g, x) -> bool:
    """True when g is one row, the same for all rows of x: [K], or [1, ..., K]."""
    return (
        0 < g.ndim <= x.ndim
        and same(g.shape[-1], x.shape[-1])
        and all(same(n, 1) for n in g.shape[:-1])
    )


def _flat(g):
    """A row as a tensor of one axis."""
    return g if g.ndim == 1 else reshape(g, (g.shape[-1],))


# -- scales ----------------------------------------------------------------------------------------


@rule(numeric="reassociates")
def row_scale_past_linear(x, r, w):
    """(x * r) W^T = (x W^T) * r, for r constant along the last axis."""
    yield linear(x * r, w)
    require(_column(r, x), "r has one value a row")
    yield linear(x, w) * r


@rule(numeric="reassociates")
def row_scale_past_matmul(x, r, y):
    """(x * r) Y = (x Y) * r, for r constant along the last axis."""
    yield matmul(x * r, y)
    require(_column(r, x), "r has one value a row")
    yield matmul(x, y) * r


@rule(numeric="changes_rounding")
def row_divisor_past_linear(x, r, w):
    """(x / r) W^T = (x W^T) / r, for r constant along the last axis."""
    yield linear(x / r, w)
    require(_column(r, x), "r has one value a row")
    yield linear(x, w) / r


@rule(numeric="changes_rounding")
def row_divisor_past_matmul(x, r, y):
    """(x / r) Y = (x Y) / r: a softmax may divide after its product with the values."""
    yield matmul(x / r, y)
    require(_column(r, x), "r has one value a row")
    yield matmul(x, y) / r


@rule(numeric="reassociates")
def column_scale_past_matmul(x, y, c):
    """X (Y * c) = (X Y) * c, for c constant along the rows of Y."""
    yield matmul(x, y * c)
    require(c.ndim > 1 and same(c.shape[-2], 1), "c has one value a column")
    require((y * c).shape == y.shape, "c does not enlarge y")
    yield matmul(x, y) * c


@rule(numeric="reassociates")
def scale_past_linear(x, s, d, w):
    """(s x) W^T = s (x W^T), for a number s."""
    yield linear(x * scalar(s, d), w)
    yield linear(x, w) * scalar(s, d)


@rule(numeric="reassociates")
def weight_scale_past_linear(x, w, s, d):
    """x (s W)^T = s (x W^T), for a number s."""
    yield linear(x, w * scalar(s, d))
    yield linear(x, w) * scalar(s, d)


@rule(numeric="reassociates")
def scale_past_matmul(x, s, d, y):
    """(s X) Y = s (X Y), for a number s."""
    yield matmul(x * scalar(s, d), y)
    yield matmul(x, y) * scalar(s, d)


@rule(numeric="reassociates")
def right_scale_past_matmul(x, y, s, d):
    """X (s Y) = s (X Y), for a number s."""
    yield matmul(x, y * scalar(s, d))
    yield matmul(x, y) * scalar(s, d)


@rule(numeric="reassociates")
def scale_into_linear(x, w, s, d):
    """s (x W^T) = (s x) W^T: there may be fewer elements to scale. Weights are left alone."""
    yield linear(x, w) * scalar(s, d)
    yield linear(x * scalar(s, d), w)


@rule(numeric="reassociates")
def scale_into_matmul(x, y, s, d):
    """s (X Y) = (s X) Y, as attention may scale its queries instead of its scores."""
    yield matmul(x, y) * scalar(s, d)
    yield matmul(x * scalar(s, d), y)


# -- rows folded into weights ----------------------------------------------------------------------


@rule(numeric="reassociates")
def norm_weight_into_linear(x, g, w):
    """(x * g) W^T = x (W * g)^T, for g the same for all rows of x."""
    yield linear(x * g, w)
    require(_row(g, x), "g is one row")
    yield linear(x, w * _flat(g))


@rule(numeric="reassociates")
def norm_weight_out_of_linear(x, w, g):
    """x (W * g)^T = (x * g) W^T, for g one value an input feature."""
    yield linear(x, w * g)
    require(g.ndim == 1 and same(g.shape[0], w.shape[-1]) and w.ndim == 2, "g is one row")
    require(x.ndim > 0, "x has rows")
    yield linear(x * g, w)


@rule(numeric="reassociates")
def norm_bias_past_linear(x, b, w):
    """(x + b) W^T = x W^T + b W^T, for b the same for all rows of x."""
    yield linear(x + b, w)
    require(b.ndim == 1 and x.ndim > 1 and same(b.shape[0], x.shape[-1]), "b is one row")
    yield linear(x, w) + linear(b, w)


# -- sums ------------------------------------------------------------------------------------------


@rule(numeric="reassociates")
def sum_of_weights(x, v, w):
    """x V^T + x W^T = x (V + W)^T."""
    yield linear(x, v) + linear(x, w)
    require(v.shape == w.shape, "the outputs are of one width")
    yield linear(x, v + w)


@rule(numeric="reassociates")
def sum_of_inputs(x, y, w):
    """x W^T + y W^T = (x + y) W^T."""
    yield linear(x, w) + linear(y, w)
    require(x.shape == y.shape, "neither is broadcast")
    yield linear(x + y, w)


# -- order of products -----------------------------------------------------------------------------


@rule(numeric="reassociates")
def low_rank_joined(x, a, b):
    """(x A^T) B^T = x (B A)^T: an adapter as one weight."""
    yield linear(linear(x, a), b)
    yield linear(x, matmul(b, a))


@rule(numeric="reassociates")
def low_rank_apart(x, b, a):
    """x (B A)^T = (x A^T) B^T: an adapter as two narrow products."""
    yield linear(x, matmul(b, a))
    yield linear(linear(x, a), b)


@rule(numeric="reassociates")
def transposed_matmul(x, y, axes):
    """(X Y)^T = Y^T X^T, over the last two axes."""
    yield permute(matmul(x, y), axes)
    n = x.ndim
    require(axes == (*range(n - 2), n - 1, n - 2), "the last two axes are swapped")
    yield matmul(permute(y, axes), permute(x, axes))


@rule(numeric="reassociates")
def transposed_linear(x, w, axes):
    """(X W^T)^T = W X^T, for matrices."""
    yield permute(linear(x, w), axes)
    require(x.ndim == 2 and axes == (1, 0), "a matrix is transposed")
    yield linear(w, x)
