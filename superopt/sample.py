"""Random types and attributes that a law's pattern admits, for checking the law.

Types are drawn from the leaves up, each operand with a view to those before it (a weight that fits
its x, an operand that broadcasts), and refused where the pattern is ill-typed after all.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import sympy
import torch

from superopt.ir.dims import Dim, is_static, product, same
from superopt.ir.expr import Apply, Expr, Hole, Ref, Var
from superopt.ir.types import TensorType, TupleType, Type, tensor
from superopt.ops import add, mul, relu, rms, scalar, silu
from superopt.ops.gemm import acc_type
from superopt.ops.op import Kind, Op
from superopt.rule import Rule

SIZES = (2, 3, 4, 5, 6, 7, 8)  # a draw uses three of them, and 1
_NUMBERS = (1.0, 1.0, 0.0, -1.0, 0.5, 2.0, -0.25, 3.0, 1.702)
_CASTS = (torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.int32, torch.int64)


class Draw:
    """One random match of a rule's patterns. ``sizes`` are the values of the symbolic sizes."""

    def __init__(self, rng: random.Random, dtype: torch.dtype, fixed: Mapping[str, Any]) -> None:
        self.rng, self.dtype = rng, dtype
        self.sizes: dict[sympy.Symbol, int] = {}
        self.pool: list[Dim] = [*rng.sample(SIZES, 3), 1]
        if rng.random() < 0.3:
            symbol = sympy.Symbol("s0", integer=True, positive=True)
            self.sizes[symbol] = int(self.pool[0])  # type: ignore[arg-type]
            self.pool[:1] = [symbol, symbol]
        self._count = self._joined = 0  # values so far; the axis of the concat being drawn
        self._env: dict[str, Any] = {k: self._given(v) for k, v in fixed.items()}

    def binding(self, rule: Rule) -> dict[str, Any]:
        """A value for every variable; TypeError where this attempt came to nothing."""
        if rule.collect is None:
            for p in rule.patterns:
                self._expr(p, None)
        else:
            members = []
            for _ in range(self.rng.randint(2, 4)):
                self._env.pop(rule.collect, None)
                for p in rule.patterns:
                    self._expr(p, None)
                members.append(self._env[rule.collect])
            self._env[rule.collect] = tuple(members)
        return {v: self._env[v] for v in rule.variables}

    # -- expressions ---------------------------------------------------------------------------

    def _expr(self, e: Expr, want: TensorType | None) -> Expr:
        """The pattern with its variables drawn; ``want`` is the type that would suit."""
        if isinstance(e, Var):
            if e.name not in self._env:
                self._env[e.name] = self._ref(want or self._type())
            found = self._env[e.name]
            if not isinstance(found, Ref):
                raise TypeError(f"{e.name} is an attribute")
            return found
        assert isinstance(e, Apply)
        if e.op.name == "gemm":
            return self._gemm(e)
        args: list[Expr] = []
        for a in e.args:
            args.append(self._expr(a, self._suits(e.op, [tensor(b.type) for b in args], want)))
        attrs: list[Any] = []
        for name, value in zip(e.op.attrs, e.attrs, strict=True):
            attrs.append(self._attr(e.op, name, value, args, attrs))
        out = Apply(e.op, tuple(args), tuple(attrs))
        _ = out.type  # TypeError where the operands do not fit
        return out

    def _ref(self, of: Type, items: Sequence[Ref] = ()) -> Ref:
        self._count += 1
        return Ref(self._count, of, tuple(items))

    def _given(self, value: Any) -> Any:
        """What SAMPLES fixes: a type becomes a value of it, a tuple of types a pack."""
        if isinstance(value, tuple) and all(isinstance(v, TensorType) for v in value):
            return self._pack([self._ref(v) for v in value])
        return self._ref(value) if isinstance(value, TensorType) else value

    def _pack(self, items: Sequence[Ref]) -> Ref:
        return self._ref(TupleType(tuple(tensor(r.type) for r in items)), items)

    # -- types ---------------------------------------------------------------------------------

    def _size(self) -> Dim:
        return self.rng.choice(self.pool)

    def _type(self, low: int = 0) -> TensorType:
        rank = max(low, self.rng.choice((0, 1, 1, 2, 2, 2, 3, 3, 3, 4)))
        return TensorType(tuple(self._size() for _ in range(rank)), self.dtype)

    def _beside(self, t: TensorType) -> TensorType:
        """A type that broadcasts with ``t``, more often than not without enlarging it."""
        shape = list(t.shape)
        if not shape:
            return TensorType(self._type().shape, t.dtype)
        match self.rng.randrange(8):
            case 0 | 1 | 2:
                pass
            case 3:
                shape = shape[self.rng.randint(0, len(shape)) :]
            case 4:
                shape = [self.rng.choice((d, 1)) for d in shape]
            case 5:
                shape[-1] = 1
            case 6:
                shape = [1] * (len(shape) - 1) + shape[-1:]
            case _:
                shape = [self._size() if d == 1 else d for d in shape]
        return TensorType(tuple(shape), t.dtype)

    def _suits(self, op: Op, before: Sequence[TensorType], want: TensorType | None) -> TensorType:
        """A type for the operand of ``op`` that follows ``before``."""
        match op.name:
            case "linear" | "linear_bias" | "matmul":
                return self._product(op, before, want)
            case "concat" if before and before[0].ndim:
                sizes = list(before[0].shape)
                if len(before) == 1:
                    self._joined = self.rng.randrange(len(sizes))
                sizes[self._joined] = self._size()
                return TensorType(tuple(sizes), before[0].dtype)
            case "where" if len(before) == 1:
                return TensorType(self._beside(before[0]).shape, self.dtype)
            case "where" | "logical_and" | "logical_or" | "logical_not" if not before:
                return TensorType((want or self._type()).shape, torch.bool)
            case "cast":
                shape = (want or self._type()).shape
                return TensorType(shape, self.rng.choice((self.dtype, *_CASTS)))
            case "permute" if want:
                return TensorType(tuple(reversed(want.shape)), want.dtype)
        if before:
            return self._beside(before[-1])
        return want or self._type(0 if op.kind is Kind.POINTWISE else 1)

    def _product(self, op: Op, before: Sequence[TensorType], want: TensorType | None) -> TensorType:
        """An operand of a matrix product that makes it ``want``, where that is given."""
        batched = op.name == "matmul"
        if not before:
            like = want if want and want.ndim > batched else self._type(1 + batched)
            return TensorType((*like.shape[:-1], self._size()), self.dtype)
        if len(before) == 2:
            return TensorType(before[1].shape[:1], before[0].dtype)
        width = want.shape[-1] if want and want.ndim else self._size()
        left = before[0]
        if not left.ndim:
            raise TypeError("a product of a number")
        if batched:
            return TensorType((*left.shape[:-2], left.shape[-1], width), left.dtype)
        return TensorType((width, left.shape[-1]), left.dtype)

    # -- attributes ----------------------------------------------------------------------------

    def _attr(
        self, op: Op, name: str, value: Any, args: Sequence[Expr], before: Sequence[Any]
    ) -> Any:
        """An attribute: as the pattern has it, as it was drawn before, or drawn now."""
        if not isinstance(value, Var):
            return value
        if value.name not in self._env:
            self._env[value.name] = self._any(op, name, args, before)
        return self._env[value.name]

    def _any(self, op: Op, name: str, args: Sequence[Expr], before: Sequence[Any]) -> Any:
        rng, x = self.rng, args[0] if args else None
        match op.name, name:
            case "scalar", "value":
                return rng.choice(_NUMBERS)
            case "scalar", "dtype":
                return self.dtype
            case "cast", "dtype":
                return rng.choice((self.dtype, *_CASTS))
            case _, "eps":
                return rng.choice((1e-5, 1e-2))
            case "getitem", "index":
                return 0
        assert x is not None
        match op.name, name:
            case "permute", "axes":
                return tuple(rng.sample(range(x.ndim), x.ndim))
            case _, "axes":
                some = rng.sample(range(x.ndim), rng.randint(1, x.ndim)) if x.ndim else []
                return (x.ndim - 1,) if rng.random() < 0.6 else tuple(sorted(some))
            case "reshape", "shape":
                return self._reshaped(x)
            case "expand", "shape":
                wide = [self._size() if d == 1 else d for d in x.shape]
                return (*(self._size() for _ in range(rng.randint(0, 2))), *wide)
            case "slice", "axis":
                return rng.choice((x.ndim - 1, rng.randrange(max(x.ndim, 1))))
            case "slice", "start" | "end":
                return self._cut(x, before)
            case "concat", "axis":
                return self._joined if len(args) > 1 else 0
        raise NotImplementedError(f"cannot draw {name} of {op}; say how in SAMPLES")

    def _reshaped(self, x: Expr) -> tuple[Dim, ...]:
        """A shape with as many elements: flattened, split by 1s, or like another value's."""
        shape = x.shape
        choices: list[tuple[Dim, ...]] = [shape, (1, *shape), (*shape, 1)]
        if x.ndim > 1:
            choices.append((product(shape[:-1]), shape[-1]))
            choices.append((shape[0], product(shape[1:])))
        seen = [v.shape for v in self._env.values() if isinstance(v, Ref) and v is not x]
        rows = [(*s[:-1], shape[-1]) for s in seen if s and shape]
        fits = [s for s in (*seen, *rows) if same(product(s), product(shape))]
        return self.rng.choice(choices + 3 * fits)

    def _cut(self, x: Expr, before: Sequence[Any]) -> Dim:
        """A boundary of a slice: ``before`` holds its axis, and its start if this is its end."""
        axis, *start = before
        if not 0 <= axis < x.ndim:
            raise TypeError("there is no such axis")
        size = x.shape[axis]
        if not is_static(size):
            return size if start else 0
        low = start[0] if start else 0
        if not is_static(low) or low > size:
            raise TypeError("there is no such slice")
        some = self.rng.randint(low, int(size))  # type: ignore[arg-type]
        return self.rng.choice((some, some, size if start else 0))

    # -- kernels -------------------------------------------------------------------------------

    def _gemm(self, e: Apply) -> Expr:
        """A generated product with small random bodies."""
        x = self._expr(e.args[0], self._type(1))
        if not x.ndim:
            raise TypeError("x has no rows")
        names = [_name(v) for v in (*e.args[1:], *e.attrs)]
        if all(n in self._env for n in names):
            return e.op(x, *(self._env[n] for n in names))
        extras: list[Ref] = []
        known = names[2] in self._env
        prologue = self._env[names[2]] if known else self._prologue(x, extras)
        if known and prologue is not None:
            raise TypeError("two kernels with one prologue do not share their extras")
        rows = tensor(x.type if prologue is None else prologue.type)
        if not rows.dtype.is_floating_point:
            raise TypeError("kernels multiply floating-point values")
        alone = self.rng.random() < 0.65
        bare = self.rng.random() < 0.5
        count, width = self.rng.choice((1, 1, 2, 2, 3)), self._size()
        weights, groups = [], []
        for i in range(count):
            size = width if alone else self._size()
            weights.append(self._ref(TensorType((size, rows.shape[-1]), rows.dtype)))
            groups.append(((i,), Hole("acc", i, acc_type(rows, tensor(weights[i].type)))))
        if alone:
            body = self._body([h for _, h in groups], extras)
            made: Any = ((tuple(range(count)), body),)
        else:
            made = tuple((i, h if bare else self._body([h], extras)) for i, h in groups)
        values = (self._pack(weights), self._pack(extras), prologue, made)
        out = e.op(x, *values)
        _ = out.type  # TypeError where a body does not fit
        self._env.update(zip(names, values, strict=True))
        return out

    def _prologue(self, x: Expr, extras: list[Ref]) -> Expr | None:
        hole = Hole("x", 0, tensor(x.type))
        match self.rng.randrange(8):
            case 0:
                return silu(hole)
            case 1:
                return rms(hole, 1e-3)
            case 2:
                body = mul(rms(hole, 1e-3), self._read(extras, hole.of))
                return body if body.shape == x.shape else None
        return None

    def _read(self, extras: list[Ref], beside: TensorType) -> Hole:
        extras.append(self._ref(self._beside(beside)))
        return Hole("in", len(extras) - 1, tensor(extras[-1].type))

    def _body(self, accs: Sequence[Hole], extras: list[Ref]) -> Expr:
        """An epilogue over all of ``accs``."""
        rng = self.rng
        body: Expr = accs[0]
        for other in accs[1:]:
            body = mul(rng.choice((silu, relu))(body), other)
        match rng.randrange(4):
            case 0:
                body = add(body, scalar(0.5, accs[0].of.dtype))
            case 1:
                longer = add(body, self._read(extras, accs[0].of))
                body = longer if longer.shape == accs[0].shape else body
        return body


def _name(e: Any) -> str:
    if not isinstance(e, Var):
        raise NotImplementedError("a kernel in a pattern has variables only")
    return e.name
