"""Layout laws: views that cancel, and views moved towards the inputs, where more of them cancel.

Every law shrinks a term or moves a view one step down; none splits a tensor that was whole. The
first part states normal forms and runs with recognition, so that the algebra never sees two
spellings of one view.
"""

from inspect import Parameter, Signature
from itertools import pairwise

import torch

from superopt.ir.dims import is_static, same, simplify
from superopt.ir.types import TensorType
from superopt.ops import Kind, cast, concat, every, expand, linear, matmul, permute, reshape, slice_
from superopt.rule import make_rule, require, rule

_POINTWISE = [op for op in every() if op.kind is Kind.POINTWISE and not op.attrs]
_UNARY = [op for op in _POINTWISE if op.arity == 1]
_BINARY = [op for op in _POINTWISE if op.arity == 2]


def _law(body, docstring, name, group="algebra", numeric="exact"):
    body.__doc__ = docstring
    return make_rule(body, group=group, numeric=numeric, name=name)


# -- normal forms ----------------------------------------------------------------------------------


@rule(group="recognition", numeric="exact")
def permute_of_permute(x, p, q):
    """permute(permute(x, p), q) = permute(x, p[q])."""
    yield permute(permute(x, p), q)
    yield permute(x, tuple(p[i] for i in q))


@rule(group="recognition", numeric="exact")
def permute_of_nothing(x, axes):
    """A permutation that leaves every axis in place is none."""
    yield permute(x, axes)
    require(axes == tuple(range(x.ndim)), "the axes keep their order")
    yield x


@rule(group="recognition", numeric="exact")
def reshape_of_reshape(x, s, t):
    """reshape(reshape(x, s), t) = reshape(x, t)."""
    yield reshape(reshape(x, s), t)
    yield reshape(x, t)


@rule(group="recognition", numeric="exact")
def reshape_of_nothing(x, s):
    """A reshape to the shape a tensor has already is none."""
    yield reshape(x, s)
    require(x.ndim > 0 and s == x.shape, "the shape is kept; a number is no tensor")
    yield x


@rule(group="recognition", numeric="exact")
def permute_as_reshape(x, axes):
    """A permutation that only moves axes of size 1 is a reshape."""
    yield permute(x, axes)
    moved = [a for a in axes if not same(x.shape[a], 1)]
    require(moved == sorted(moved) and axes != tuple(range(x.ndim)), "only ones move")
    yield reshape(x, tuple(x.shape[a] for a in axes))


@rule(group="recognition", numeric="exact")
def expand_of_expand(x, s, t):
    """expand(expand(x, s), t) = expand(x, t)."""
    yield expand(expand(x, s), t)
    yield expand(x, t)


@rule(group="recognition", numeric="exact")
def expand_of_nothing(x, s):
    """An expansion to the shape a tensor has already is none."""
    yield expand(x, s)
    require(x.ndim > 0 and s == x.shape, "the shape is kept; a number is no tensor")
    yield x


@rule(group="recognition", numeric="exact")
def slice_of_nothing(x, axis, start, end):
    """A slice of the whole axis is none."""
    yield slice_(x, axis, start, end)
    require(same(start, 0) and same(end, x.shape[axis]), "the whole axis")
    yield x


@rule(group="recognition", numeric="exact")
def slice_of_slice(x, axis, a, b, c, d):
    """x[a:b][c:d] = x[a+c : a+d], along one axis."""
    yield slice_(slice_(x, axis, a, b), axis, c, d)
    yield slice_(x, axis, simplify(a + c), simplify(a + d))


# -- joining and cutting ---------------------------------------------------------------------------


def _of_many(law, names):
    """Give a law of keyword arguments the pattern variables ``names``."""
    kind = Parameter.POSITIONAL_OR_KEYWORD
    law.__signature__ = Signature([Parameter(n, kind) for n in names])
    return law


def _within(pieces, axis, start, end):
    """The part [start:end] of joined pieces, which must lie within one of them."""
    offset = 0
    for p in pieces:
        size = p.shape[axis]
        require(is_static(size), "the boundaries are known")
        if offset <= start and end <= offset + size and (start < end or start < offset + size):
            whole = start == offset and end == offset + size
            return p if whole else slice_(p, axis, start - offset, end - offset)
        offset += size
    require(False, "the slice lies within one piece")


def _slice_of_concat(n):
    names = [f"x{i}" for i in range(n)]

    def law(axis, start, end, **xs):
        pieces = [xs[v] for v in names]
        yield slice_(concat(*pieces, axis), axis, start, end)
        require(is_static(start) and is_static(end), "the boundaries are known")
        yield _within(pieces, axis, start, end)

    _of_many(law, [*names, "axis", "start", "end"])
    text = f"A slice of {n} joined tensors that lies within one of them is a slice of that one."
    return _law(law, text, f"slice_of_concat_{n}", group="recognition")


slices_of_concat = [_slice_of_concat(n) for n in range(2, 9)]


def _concat_of_slices(n):
    names = [f"c{i}" for i in range(n + 1)]

    def law(x, axis, **cuts):
        c = [cuts[v] for v in names]
        yield concat(*(slice_(x, axis, a, b) for a, b in pairwise(c)), axis)
        yield slice_(x, axis, c[0], c[-1])

    _of_many(law, ["x", "axis", *names])
    text = f"{n} adjacent slices of one tensor, joined, are one slice."
    return _law(law, text, f"concat_of_slices_{n}", group="recognition")


concats_of_slices = [_concat_of_slices(n) for n in (2, 3, 4)]


# -- views through pointwise operators -------------------------------------------------------------


def _cut(operand, whole, axis, start, end):
    """The part of a broadcast operand that a slice of the whole needs."""
    at = axis - (whole.ndim - operand.ndim)
    if at < 0 or not same(operand.shape[at], whole.shape[axis]):
        require(at < 0 or same(operand.shape[at], 1), "the operand broadcasts along the axis")
        return operand
    return slice_(operand, at, start, end)


def _slice_after(op):
    def law(axis, start, end, **operands):
        xs = [operands[v] for v in names]
        whole = op(*xs)
        yield slice_(whole, axis, start, end)
        require(not same(whole.shape[axis], 1) and any(x.ndim for x in xs), "there is a part")
        yield op(*(_cut(x, whole, axis, start, end) for x in xs))

    names = ["x", "y"][: op.arity]
    _of_many(law, [*names, "axis", "start", "end"])
    return _law(law, f"slice({op}(...)) = {op}(slice(...)).", f"slice_before_{op}")


slices_before = [_slice_after(op) for op in (*_UNARY, *_BINARY)]


def _moved(operand, whole, axes):
    """A broadcast operand under a permutation of the whole: as it is where it is a number."""
    require(operand.ndim in (0, whole.ndim), "the operands are of one rank")
    return permute(operand, axes) if operand.ndim else operand


def _permute_after(op):
    def law(axes, **operands):
        xs = [operands[v] for v in names]
        whole = op(*xs)
        yield permute(whole, axes)
        require(any(x.ndim for x in xs), "a number has no axes")
        yield op(*(_moved(x, whole, axes) for x in xs))

    names = ["x", "y"][: op.arity]
    _of_many(law, [*names, "axes"])
    return _law(law, f"permute({op}(...)) = {op}(permute(...)).", f"permute_before_{op}")


permutes_before = [_permute_after(op) for op in (*_UNARY, *_BINARY)]


@rule(numeric="exact")
def slice_before_cast(x, d, axis, start, end):
    """slice(cast(x)) = cast(slice(x))."""
    yield slice_(cast(x, d), axis, start, end)
    require(x.ndim > 0, "a number has no axes")
    yield cast(slice_(x, axis, start, end), d)


@rule(numeric="exact")
def permute_before_cast(x, d, axes):
    """permute(cast(x)) = cast(permute(x))."""
    yield permute(cast(x, d), axes)
    require(x.ndim > 0, "a number has no axes")
    yield cast(permute(x, axes), d)


@rule(numeric="exact")
def reshape_before_cast(x, d, shape):
    """reshape(cast(x)) = cast(reshape(x))."""
    yield reshape(cast(x, d), shape)
    require(x.ndim > 0, "a number has no axes")
    yield cast(reshape(x, shape), d)


# -- views through products ------------------------------------------------------------------------


@rule(numeric="reassociates")
def slice_rows_before_linear(x, w, axis, start, end):
    """Some rows of a product need only those rows of its left operand: the last token's logits."""
    yield slice_(linear(x, w), axis, start, end)
    require(axis < x.ndim - 1, "rows, not output features")
    yield linear(slice_(x, axis, start, end), w)


@rule(numeric="reassociates")
def slice_rows_before_matmul(x, y, axis, start, end):
    """The rows [start:end] of X Y are those rows of X, times Y."""
    yield slice_(matmul(x, y), axis, start, end)
    require(axis == x.ndim - 2, "rows of the left operand")
    yield matmul(slice_(x, axis, start, end), y)


@rule(numeric="reassociates")
def slice_columns_before_matmul(x, y, axis, start, end):
    """The columns [start:end] of X Y are X times those columns of Y."""
    yield slice_(matmul(x, y), axis, start, end)
    require(axis == x.ndim - 1, "columns of the right operand")
    yield matmul(x, slice_(y, axis, start, end))


# -- where the check cannot guess ------------------------------------------------------------------


def _cuts(n):
    """n adjacent slices of one axis."""

    def draw(rng):
        shape = tuple(rng.choice((1, 3, 5, 8)) for _ in range(rng.randint(1, 3)))
        axis = rng.randrange(len(shape))
        cuts = sorted(rng.randint(0, shape[axis]) for _ in range(n + 1))
        x = TensorType(shape, torch.float32)
        return {"x": x, "axis": axis, **{f"c{i}": c for i, c in enumerate(cuts)}}

    return draw


SAMPLES = {f"concat_of_slices_{n}": _cuts(n) for n in (2, 3, 4)}
