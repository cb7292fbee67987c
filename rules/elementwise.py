"""Pointwise laws: order of operands, numbers, signs, casts, and broadcasts that need no expand.

Associativity in general is left out on purpose: it multiplies. A number or a column may leave a
product, since each has one place to go.
"""

import math

import torch

from superopt.ir.dims import same
from superopt.ops import COMMUTATIVE, Kind, cast, every, expand, neg, scalar, where
from superopt.rule import make_rule, require, rule

_POINTWISE = [op for op in every() if op.kind is Kind.POINTWISE and not op.attrs]
_UNARY = [op for op in _POINTWISE if op.arity == 1]
_BINARY = [op for op in _POINTWISE if op.arity == 2]


def _stated(law, docstring):
    law.__doc__ = docstring
    return law


# -- order -----------------------------------------------------------------------------------------


def _commutes(op):
    def law(a, b):
        yield op(a, b)
        require(b.ndim > 0 or a.ndim == 0, "a number stays on the right")
        yield op(b, a)

    # max(0, -0) may be either zero, so its operands do not commute bit for bit.
    numeric = "exact" if op.name in ("add", "mul") else "reassociates"
    return make_rule(
        _stated(law, f"{op}(a, b) = {op}(b, a)."), numeric=numeric, name=f"commute_{op}"
    )


commutativity = [_commutes(op) for op in COMMUTATIVE]


# -- numbers ---------------------------------------------------------------------------------------


def moderate(value: float, dtype: torch.dtype) -> bool:
    """True for a factor far from where products of this dtype over- or underflow."""
    most = torch.finfo(dtype).max ** 0.25
    return 1 / most <= abs(value) <= most


@rule(numeric="reassociates")
def scale_twice(x, a, b, d):
    """(x * a) * b = x * (a * b), for numbers a and b."""
    yield x * scalar(a, d) * scalar(b, d)
    require(x.dtype.is_floating_point, "integers wrap")
    require(all(moderate(v, d) for v in (a, b, a * b)), "nothing over- or underflows in between")
    require(a * b != 1, "x would be a product of itself, and of every power of a")
    yield x * scalar(a * b, d)


@rule(numeric="reassociates")
def scale_leaves_product(x, a, d, y):
    """(x * a) * y = (x * y) * a, for a number a."""
    yield x * scalar(a, d) * y
    require(y.ndim > 0, "numbers are multiplied by another law")
    yield x * y * scalar(a, d)


@rule(numeric="reassociates")
def column_leaves_product(x, r, g):
    """(x * r) * g = (x * g) * r, for r with one value a row and g with several."""
    yield x * r * g
    require(r.ndim > 0 and same(r.shape[-1], 1), "r has one value a row")
    require(g.ndim > 0 and not same(g.shape[-1], 1), "g varies along the row")
    yield x * g * r


@rule(numeric="changes_rounding")
def divide_by_number(x, a, d):
    """x / a = x * (1 / a), for a number a other than zero."""
    yield x / scalar(a, d)
    require(moderate(a, d), "a has an inverse, and neither of them is extreme")
    yield x * scalar(1 / a, d)


@rule(numeric="exact")
def times_one(x, one, d):
    """x * 1 = x."""
    yield x * scalar(one, d)
    require(one == 1, "the factor is one")
    yield x


@rule(numeric="exact")
def minus_zero(x, zero, d):
    """x - 0 = x."""
    yield x - scalar(zero, d)
    require(zero == 0 and math.copysign(1, zero) == 1, "nothing is subtracted")
    yield x


@rule(numeric="finite_only")
def plus_zero(x, zero, d):
    """x + 0 = x, except that -0.0 + 0 = 0.0."""
    yield x + scalar(zero, d)
    require(zero == 0, "nothing is added")
    yield x


# -- signs -----------------------------------------------------------------------------------------


@rule(numeric="exact")
def negate_twice(x):
    """-(-x) = x."""
    yield neg(neg(x))
    yield x


@rule(numeric="exact")
def add_negative(x, y):
    """x + (-y) = x - y."""
    yield x + neg(y)
    yield x - y


@rule(numeric="exact")
def subtract_negative(x, y):
    """x - (-y) = x + y."""
    yield x - neg(y)
    yield x + y


@rule(numeric="exact")
def sign_leaves_product(x, y):
    """(-x) * y = -(x * y)."""
    yield neg(x) * y
    yield neg(x * y)


@rule(numeric="exact")
def times_minus_one(x, a, d):
    """x * -1 = -x."""
    yield x * scalar(a, d)
    require(a == -1, "the factor is minus one")
    yield neg(x)


# -- casts -----------------------------------------------------------------------------------------

_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_INTS = (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64)


def _holds(wide, narrow) -> bool:
    """True when every value of ``narrow`` is one of ``wide``."""
    if narrow == wide or narrow == torch.bool:
        return True
    if narrow in _FLOATS and wide in _FLOATS:
        return wide == torch.float64 or (wide == torch.float32 and narrow != torch.float64)
    if narrow in _INTS and wide in _INTS:
        low, high = torch.iinfo(narrow), torch.iinfo(wide)
        return high.min <= low.min and low.max <= high.max
    return False


@rule(group="recognition", numeric="exact")
def cast_to_own(x, d):
    """A cast to the type a tensor has already is the tensor."""
    yield cast(x, d)
    require(x.dtype == d and x.ndim > 0, "the type is kept; a number is no tensor")
    yield x


@rule(numeric="exact")
def cast_through_wider(x, wide, d):
    """cast(cast(x, wide), d) = cast(x, d), where wide holds every value of x."""
    yield cast(cast(x, wide), d)
    require(_holds(wide, x.dtype), "nothing is lost on the way")
    require(d.is_floating_point or not x.dtype.is_floating_point, "casts to integers may overflow")
    yield x if x.dtype == d else cast(x, d)


# -- broadcasts ------------------------------------------------------------------------------------


def _expand_dropped(op, place):
    """The place-th operand of ``op`` need not be expanded where another has the full shape."""

    def body(operands, shape):
        whole = [expand(v, shape) if i == place else v for i, v in enumerate(operands)]
        left = op(*whole)
        yield left
        right = op(*operands)
        require(left.shape == right.shape, "the other operands have the full shape")
        yield right

    if op.arity == 2:

        def law(x, shape, y):
            yield from body((x, y) if place == 0 else (y, x), shape)

    else:

        def law(x, shape, y, z):
            rest = [y, z]
            rest.insert(place, x)
            yield from body(tuple(rest), shape)

    law = _stated(law, f"{op} broadcasts: operand {place} need not be expanded.")
    return make_rule(law, numeric="exact", name=f"expand_dropped_{op}_{place}")


expands_dropped = [
    _expand_dropped(op, place)
    for op in (*_BINARY, where)
    for place in range(1 if op in COMMUTATIVE else op.arity)
]


def _expand_after(op):
    def law(x, shape):
        yield op(expand(x, shape))
        require(x.ndim > 0, "a number is no tensor")
        yield expand(op(x), shape)

    law = _stated(law, f"{op}(expand(x)) = expand({op}(x)): fewer elements to compute.")
    return make_rule(law, numeric="exact", name=f"expand_after_{op}")


expands_after = [_expand_after(op) for op in _UNARY]


@rule(numeric="exact")
def expand_after_cast(x, shape, d):
    """cast(expand(x), d) = expand(cast(x, d), shape)."""
    yield cast(expand(x, shape), d)
    require(x.ndim > 0, "a number is no tensor")
    yield expand(cast(x, d), shape)
