"""Generated kernels: what a matrix product can take in before it reads, and before it stores.

``gemm(x, weights, extras, prologue, groups)`` is described in superopt/ops/gemm.py. A law here
takes one operator into a body. Bodies are kept in one form, so that the order in which operators
were taken in leaves no trace: extras are sorted and occur once, operands of commutative operators
are sorted by their text. What a kernel may hold is bounded, or the residual stream would be taken
in from one end to the other.
"""

from inspect import Parameter, Signature

from superopt.ir.expr import Apply, Hole, leaves, size
from superopt.ops import (
    COMMUTATIVE,
    Kind,
    add,
    cast,
    div,
    every,
    gemm,
    linear,
    maximum,
    minimum,
    mul,
    pack,
    rms,
    scalar,
    standardise,
    sub,
    where,
)
from superopt.ops.gemm import acc_type
from superopt.rule import make_rule, require, rule

_EPILOGUE_OPS = 12  # operators in an epilogue
_PROLOGUE_OPS = 6  # operators in a prologue; each is computed again by every tile
_FULL_EXTRAS = 2  # extras of an epilogue that are as large as the output
_WEIGHTS = 4

_UNARY = [
    op
    for op in every()
    if op.kind is Kind.POINTWISE and op.arity == 1 and op.triton and not op.attrs
    and op.name != "logical_not"
]  # fmt: skip
_BINARY = (add, sub, mul, div, maximum, minimum)


# -- bodies ----------------------------------------------------------------------------------------


def _join(op, args, attrs=()):
    """``op`` applied in a body, its operands sorted where their order does not matter."""
    args = sorted(args, key=str) if op in COMMUTATIVE else args
    return Apply(op, tuple(args), tuple(attrs))


def _rename(body, table):
    """The body with some leaves replaced, in the one form that bodies have."""
    memo = dict(table)

    def go(e):
        if e not in memo:
            whole = isinstance(e, Apply)
            memo[e] = _join(e.op, [go(a) for a in e.args], e.attrs) if whole else e
        return memo[e]

    return go(body)


def _kernel(x, weights, extras, prologue, groups):
    """The kernel with its extras sorted, each once."""
    order = sorted({e.id: e for e in extras}.values(), key=lambda e: e.id)
    place = {e.id: j for j, e in enumerate(order)}
    table = {Hole("in", j, e.type): Hole("in", place[e.id], e.type) for j, e in enumerate(extras)}
    groups = tuple((indices, _rename(body, table)) for indices, body in groups)
    prologue = prologue and _rename(prologue, table)
    return gemm(x, pack(*weights), pack(*order), prologue, groups)


def _full(body, shape):
    """How many holes for extras have the full shape."""
    return sum(h.kind == "in" and h.of.shape == shape for h in leaves(body) if isinstance(h, Hole))


def _epilogue_fits(before, after) -> None:
    require(after.shape == before.shape, "the output keeps its shape")
    require(size(after) <= _EPILOGUE_OPS, "the epilogue is short")
    require(_full(after, after.shape) <= _FULL_EXTRAS, "the epilogue reads little")


def _prologue_fits(y, body) -> None:
    require(body.shape == y.shape, "the prologue keeps the shape")
    require(size(body) <= _PROLOGUE_OPS, "the prologue is short")
    require(_full(body, y.shape) <= 1, "the prologue reads little beside x")


def _around(prologue, x, inner):
    """The prologue of a kernel whose x is ``inner``, a body over its own operand."""
    if prologue is None:
        return inner
    require(inner.op is cast or not _has_row(prologue), "below a norm only a cast is taken in")
    return _rename(prologue, {Hole("x", 0, x.type): inner})


def _has_row(body) -> bool:
    return isinstance(body, Apply) and (body.op.kind is Kind.ROW or any(map(_has_row, body.args)))


def _scaled(body) -> bool:
    """True for a body times a number. Another number would not stand beside it: two in a row are
    one by a law of their own, and where numbers cancel there would be no end of them."""
    return isinstance(body, Apply) and body.op is mul and any(_is_number(a) for a in body.args)


def _is_number(body) -> bool:
    return isinstance(body, Apply) and body.op is scalar


def _scales_x(body) -> bool:
    """True where a prologue begins with a number times x."""
    if not isinstance(body, Apply):
        return False
    begins = _scaled(body) and any(isinstance(a, Hole) and a.kind == "x" for a in body.args)
    return begins or any(map(_scales_x, body.args))


# -- the kernel ------------------------------------------------------------------------------------


@rule(group="kernels", numeric="reassociates")
def kernel_from_linear(x, w):
    """x W^T can be computed by a generated kernel."""
    yield linear(x, w)
    require(w.dtype.is_floating_point, "floating-point values")
    body = Hole("acc", 0, acc_type(x.type, w.type))
    yield gemm(x, pack(w), pack(), None, (((0,), body),))


def _arranged(arity, at, others):
    """Operands in order: those in ``at`` have their place, the others fill the rest."""
    free = iter(others)
    return [at[i] if i in at else next(free) for i in range(arity)]


def _made(law, names, docstring, name):
    kind = Parameter.POSITIONAL_OR_KEYWORD
    law.__signature__ = Signature([Parameter(n, kind) for n in names])
    law.__doc__ = docstring
    return make_rule(law, group="kernels", numeric="changes_rounding", name=name)


def _names(place, arity, number, attrs):
    """Variables of an operator's operands beside the product, of its number, of its attributes."""
    others = [f"y{i}" for i in range(arity) if i not in (place, number)]
    return others, ["v", "d"] if number is not None else [], list(attrs)


def _called(op, place, arity, number):
    which = f"_{place}" if arity > 1 else ""
    return f"{op}{which}" + ("_number" if number is not None else "")


# -- epilogues -------------------------------------------------------------------------------------


def _epilogue(op, place=0, arity=1, number=None, attrs=()):
    """``op`` on a kernel's output, at ``place`` of ``arity``, is a kernel that ends with ``op``.

    The other operands are extras, but for the one at ``number``, a number that stands in the body.
    """
    others, numeral, attrs = _names(place, arity, number, attrs)

    def law(x, ws, es, prologue, groups, **rest):
        ys, values = [rest[n] for n in others], [rest[n] for n in attrs]
        fixed = {number: scalar(*(rest[n] for n in numeral))} if numeral else {}
        product = gemm(x, ws, es, prologue, groups)
        yield op(*_arranged(arity, {place: product, **fixed}, ys), *values)
        require(len(groups) == 1, "one output")
        require(all(y.ndim > 0 for y in ys), "numbers stand in bodies")
        ((indices, body),) = groups
        require(not (numeral and op is mul and _scaled(body)), "two numbers are one")
        extras = [Hole("in", len(es.items) + j, y.type) for j, y in enumerate(ys)]
        after = _join(op, _arranged(arity, {place: body, **fixed}, extras), values)
        _epilogue_fits(body, after)
        yield _kernel(x, ws.items, [*es.items, *ys], prologue, ((indices, after),))

    names = ["x", "ws", "es", "prologue", "groups", *others, *numeral, *attrs]
    text = f"{op} of a kernel's output (operand {place}) is the end of a kernel."
    return _made(law, names, text, f"epilogue_{_called(op, place, arity, number)}")


def _places(op):
    return (0,) if op in COMMUTATIVE else (0, 1)


epilogues = [
    *(_epilogue(op) for op in _UNARY),
    _epilogue(cast, attrs=("d",)),
    *(_epilogue(op, p, 2) for op in _BINARY for p in _places(op)),
    *(_epilogue(op, p, 2, number=1 - p) for op in _BINARY for p in _places(op)),
    *(_epilogue(where, p, 3) for p in (1, 2)),
    *(_epilogue(where, p, 3, number=3 - p) for p in (1, 2)),
]


def _merged(op):
    """``op`` of two kernels on one x is one kernel: a gate and what it gates."""

    def law(x, v, e, w, f, prologue, g, h):
        yield op(gemm(x, v, e, prologue, g), gemm(x, w, f, prologue, h))
        require(prologue is None, "kernels are merged before they have prologues")
        require(len(g) == len(h) == 1, "one output each")
        ((_, left),), ((_, right),) = g, h
        require(left.shape == right.shape, "neither is broadcast")
        weights = sorted({r.id: r for r in (*v.items, *w.items)}.values(), key=lambda r: r.id)
        require(len(weights) <= _WEIGHTS, "few weights")
        place = {r.id: i for i, r in enumerate(weights)}
        left = _rename(left, _moved(left, v, place, 0))
        right = _rename(right, _moved(right, w, place, len(e.items)))
        body = _join(op, [left, right])
        _epilogue_fits(left, body)
        groups = ((tuple(range(len(weights))), body),)
        yield _kernel(x, weights, [*e.items, *f.items], None, groups)

    names = ["x", "v", "e", "w", "f", "prologue", "g", "h"]
    return _made(law, names, f"{op} of two kernels on one x is one kernel.", f"merged_{op}")


def _moved(body, ws, place, shift):
    """Where the holes of a body go when its weights and extras get other positions."""
    table = {}
    for h in leaves(body):
        if isinstance(h, Hole) and h.kind == "acc":
            table[h] = Hole("acc", place[ws.items[h.index].id], h.of)
        elif isinstance(h, Hole):
            table[h] = Hole(h.kind, h.index + shift, h.of)
    return table


merged = [_merged(op) for op in _BINARY]


# -- prologues -------------------------------------------------------------------------------------


def _prologue(op, place=0, arity=1, number=None, attrs=()):
    """``op`` before a kernel, the kernel's x at ``place``, is a kernel that begins with ``op``."""
    others, numeral, attrs = _names(place, arity, number, attrs)

    def law(x, ws, es, prologue, groups, **rest):
        ys, values = [rest[n] for n in others], [rest[n] for n in attrs]
        fixed = {number: scalar(*(rest[n] for n in numeral))} if numeral else {}
        before = op(*_arranged(arity, {place: x, **fixed}, ys), *values)
        yield gemm(before, ws, es, prologue, groups)
        require(x.ndim > 0 and all(y.ndim > 0 for y in ys), "numbers stand in bodies")
        require(not (numeral and op is mul and _scales_x(prologue)), "two numbers are one")
        extras = [Hole("in", len(es.items) + j, y.type) for j, y in enumerate(ys)]
        inner = _arranged(arity, {place: Hole("x", 0, x.type), **fixed}, extras)
        body = _around(prologue, before, _join(op, inner, values))
        _prologue_fits(x, body)
        yield _kernel(x, ws.items, [*es.items, *ys], body, groups)

    names = ["x", *others, *numeral, *attrs, "ws", "es", "prologue", "groups"]
    text = f"{op} before a kernel (x its operand {place}) is the beginning of a kernel."
    return _made(law, names, text, f"prologue_{_called(op, place, arity, number)}")


prologues = [
    *(_prologue(op) for op in _UNARY),
    _prologue(cast, attrs=("d",)),
    _prologue(rms, attrs=("eps",)),
    _prologue(standardise, attrs=("eps",)),
    *(_prologue(op, p, 2) for op in _BINARY for p in _places(op)),
    *(_prologue(op, p, 2, number=1 - p) for op in _BINARY for p in _places(op)),
]
