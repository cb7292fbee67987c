"""Products that share their left operand: one read of it, one launch.

Both laws gather every weight that one x meets, so they need no order of pairs. What a law made
must not be gathered again, or it would feed on itself; ``_own`` keeps the program's weights.
"""

from inspect import Parameter, Signature

import torch

from superopt.ir.dims import is_static, same
from superopt.ir.expr import Hole
from superopt.ir.types import TensorType
from superopt.ops import concat, gemm, getitem, linear, pack, slice_
from superopt.ops.gemm import acc_type
from superopt.rule import make_rule, require, rule

_MOST = 8  # members of one product


def _own(w):
    """The gathered weights that the program itself has, in order of appearance.

    A later weight as wide as the first few together (two or more) is their concatenation, and
    what follows it was made by laws too.
    """
    found = sorted(w, key=lambda v: v.id)
    widths = [v.shape[0] for v in found]
    for at, width in enumerate(widths):
        sums = [sum(widths[:n]) for n in range(2, at + 1)]
        if width in sums:
            return found[: sums.index(width) + 2]
    return found


def _groupable(x, members) -> None:
    require(2 <= len(members) <= _MOST, "two to eight products")
    require(x.ndim > 1, "x has rows")
    require(all(is_static(v.shape[0]) for v in members), "the widths are known")


@rule(numeric="reassociates", collect="w")
def concat_projections(x, w):
    """x W_i^T = the i-th part of x [W_1; ...; W_n]^T: one product for all that share x."""
    yield [linear(x, v) for v in w]
    members = _own(w)
    _groupable(x, members)
    whole = linear(x, concat(*members, 0))
    part, at = {}, 0
    for v in members:
        end = at + v.shape[0]
        part[v] = slice_(whole, x.ndim - 1, at, end)
        at = end
    yield [part.get(v, linear(x, v)) for v in w]


def _kernel(x, members):
    """One kernel with an output a member."""
    groups = tuple(((i,), Hole("acc", i, acc_type(x.type, v.type))) for i, v in enumerate(members))
    return gemm(x, pack(*members), pack(), None, groups)


@rule(group="kernels", numeric="reassociates", collect="w")
def projection_kernel(x, w):
    """x W_i^T = output i of one kernel that reads x once, and every weight where it lies."""
    yield [linear(x, v) for v in w]
    members = _own(w)
    _groupable(x, members)
    whole = _kernel(x, members)
    part = {v: getitem(whole, i) for i, v in enumerate(members)}
    yield [part.get(v, linear(x, v)) for v in w]


@rule(group="kernels", numeric="reassociates", collect="w")
def projection_kernels_by_width(x, w):
    """As projection_kernel, but weights of different widths go to kernels of their own."""
    yield [linear(x, v) for v in w]
    members = _own(w)
    _groupable(x, members)
    widths = {v.shape[0]: [] for v in members}
    for v in members:
        widths[v.shape[0]].append(v)
    require(len(widths) > 1, "there are several widths")
    require(any(len(vs) > 1 for vs in widths.values()), "some weights are of one width")
    part = {}
    for vs in widths.values():
        whole = _kernel(x, vs)
        part.update({v: getitem(whole, i) for i, v in enumerate(vs) if len(vs) > 1})
    yield [part.get(v, linear(x, v)) for v in w]


# -- biases ----------------------------------------------------------------------------------------


def _biases_into_kernel(n):
    names = [f"b{i}" for i in range(n)]

    def law(x, ws, es, prologue, groups, **biases):
        bs = [biases[v] for v in names]
        k = gemm(x, ws, es, prologue, groups)
        yield [getitem(k, i) + b for i, b in enumerate(bs)]
        require(len(groups) == n and not es.items, "an output a bias, and nothing read yet")
        require(prologue is None, "biases come before a prologue")
        require(all(isinstance(body, Hole) for _, body in groups), "bare products")
        require(all(b.ndim == 1 for b in bs), "one value an output feature")
        fits = [same(b.shape[0], body.shape[-1]) for b, (_, body) in zip(bs, groups, strict=True)]
        require(all(fits), "one value an output feature")
        biased = tuple(
            (indices, body + Hole("in", i, b.type))
            for i, ((indices, body), b) in enumerate(zip(groups, bs, strict=True))
        )
        whole = gemm(x, ws, pack(*bs), None, biased)
        yield [getitem(whole, i) for i in range(n)]

    law.__doc__ = f"{n} outputs of one kernel, each with its bias, are outputs of one kernel."
    _of_many(law, ["x", "ws", "es", "prologue", "groups", *names])
    return make_rule(
        law, group="kernels", numeric="changes_rounding", name=f"biases_into_kernel_{n}"
    )


def _of_many(law, names):
    """Give a law of keyword arguments the pattern variables ``names``."""
    kind = Parameter.POSITIONAL_OR_KEYWORD
    law.__signature__ = Signature([Parameter(n, kind) for n in names])
    return law


biases_into_kernels = [_biases_into_kernel(n) for n in (2, 3, 4)]


# -- parts of products -----------------------------------------------------------------------------


@rule(group="kernels", numeric="reassociates")
def slice_of_product(x, w, axis, start, end):
    """Some columns of x W^T are a kernel over those rows of W: half of a packed gate and up."""
    yield slice_(linear(x, w), axis, start, end)
    require(axis == x.ndim - 1 and w.dtype.is_floating_point, "output features")
    require(all(map(is_static, (start, end, w.shape[0]))), "the boundaries are known")
    require(end - start < w.shape[0], "a part")
    yield _kernel(x, [slice_(w, 0, start, end)])


def _weights_apart(n):
    names = [f"w{i}" for i in range(n)]

    def law(start, end, **ws):
        members = [ws[v] for v in names]
        yield slice_(concat(*members, 0), 0, start, end)
        at = 0
        for v in members:
            require(is_static(v.shape[0]), "the boundaries are known")
            if (start, end) == (at, at + v.shape[0]):
                yield v
            at += v.shape[0]

    law.__doc__ = f"A part of {n} joined weights is one of them."
    _of_many(law, [*names, "start", "end"])
    return make_rule(law, group="kernels", numeric="exact", name=f"weights_apart_{n}")


weights_apart = [_weights_apart(n) for n in range(2, _MOST + 1)]


# -- folded weights --------------------------------------------------------------------------------


@rule(numeric="exact")
def two_weights_folded(v, w, g, axis):
    """[V * g; W * g] = [V; W] * g, for g constant along the joined axis."""
    yield concat(v * g, w * g, axis)
    _folds((v, w), g, axis)
    yield concat(v, w, axis) * g


@rule(numeric="exact")
def three_weights_folded(u, v, w, g, axis):
    """[U * g; V * g; W * g] = [U; V; W] * g, for g constant along the joined axis."""
    yield concat(u * g, v * g, w * g, axis)
    _folds((u, v, w), g, axis)
    yield concat(u, v, w, axis) * g


def _folds(weights, g, axis) -> None:
    require(all((v * g).shape == v.shape for v in weights), "g enlarges none of them")
    at = axis - (weights[0].ndim - g.ndim)
    require(at < 0 or same(g.shape[at], 1), "g is constant along the joined axis")


# -- where the check cannot guess ------------------------------------------------------------------


def _biased(n):
    """n bare products of one x, and a bias for each."""

    def draw(rng):
        x = TensorType((rng.randint(1, 4), rng.randint(1, 5)), torch.float64)
        widths = [rng.randint(1, 5) for _ in range(n)]
        ws = tuple(TensorType((width, x.shape[-1]), x.dtype) for width in widths)
        groups = tuple(((i,), Hole("acc", i, acc_type(x, w))) for i, w in enumerate(ws))
        biases = {f"b{i}": TensorType((width,), x.dtype) for i, width in enumerate(widths)}
        return {"x": x, "ws": ws, "es": (), "prologue": None, "groups": groups, **biases}

    return draw


SAMPLES = {f"biases_into_kernel_{n}": _biased(n) for n in (2, 3, 4)}
