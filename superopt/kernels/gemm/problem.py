"""What one generated product has to do: shapes, types, bodies and strides, apart from any plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import torch

from superopt.errors import LowerError
from superopt.ir.dims import Dim, Hints, hint, product, same
from superopt.ir.expr import Apply, Expr, Hole, leaves, substitute
from superopt.ir.plan import Site, Strides
from superopt.ir.types import TensorType, TupleType, Type, tensor
from superopt.kernels.gemm import rows
from superopt.kernels.gemm.view import View, contiguous
from superopt.kernels.spelling import supported
from superopt.ops import gemm
from superopt.ops.gemm import Group
from superopt.ops.op import Kind


@dataclass(frozen=True)
class Problem:
    """One application of ``gemm``.

    ``strides`` are those of x, of the weights, of the extras and of the outputs, in this order;
    before anything is scheduled they are taken to be contiguous. ``constants`` are the positions
    of extras that are numbers and stand in the bodies as such: a kernel does not receive them.
    """

    x: TensorType
    weights: tuple[TensorType, ...]
    extras: tuple[TensorType, ...]
    prologue: Expr | None
    groups: tuple[Group, ...]
    outs: tuple[TensorType, ...]
    strides: tuple[Strides, ...]
    constants: frozenset[int] = frozenset()
    precision: str = "highest"
    hints: Hints = field(default_factory=dict, compare=False)

    @staticmethod
    def of(
        types: Sequence[Type],
        prologue: Expr | None,
        groups: tuple[Group, ...],
        hints: Hints | None = None,
        precision: str = "highest",
    ) -> Problem:
        """The problem of ``gemm`` on operands of these types (x, weights, extras)."""
        x, weights, extras = tensor(types[0]), _items(types[1]), _items(types[2])
        outs = _outs(gemm.infer(types, prologue, groups))
        everything = (x, *weights, *extras, *outs)
        strides = tuple(contiguous(t.shape) for t in everything)
        return Problem(
            x, weights, extras, prologue, groups, outs, strides,
            precision=precision, hints=hints or {},
        )  # fmt: skip

    @staticmethod
    def at(site: Site) -> Problem:
        """The problem that a plan's step poses, with the strides that its operands really have."""
        graph, (index,) = site.graph, site.step.nodes
        node = graph.nodes[index]
        values = operands(site)
        types = [graph.nodes[v].type for v in values]
        found = [tensor(t) for t in types]
        strides = [
            site.strides.get(v, contiguous(t.shape)) for v, t in zip(values, found, strict=True)
        ]
        outs = _outs(node.type)
        whole = site.strides.get(index) if len(outs) == 1 else None
        strides += [contiguous(t.shape) for t in outs] if whole is None else [whole]
        count = len(graph.nodes[node.args[1]].args)
        first = 1 + count
        numbers: dict[Expr, Expr] = {
            Hole("in", i, found[first + i]): Apply(n.op, (), n.attrs)
            for i, n in enumerate(graph.nodes[v] for v in values[first:])
            if n.op.name == "scalar"
        }
        prologue, groups = node.attrs
        return Problem(
            found[0], tuple(found[1:first]), tuple(found[first:]),
            prologue and substitute(prologue, numbers),
            tuple((w, substitute(e, numbers)) for w, e in groups),
            outs, tuple(strides),
            constants=frozenset(h.index for h in numbers if isinstance(h, Hole)),
            precision=site.precision, hints=graph.hints,
        )  # fmt: skip

    @property
    def lead(self) -> tuple[Dim, ...]:
        """The leading axes, which make the rows."""
        return self.x.shape[:-1]

    @property
    def M(self) -> Dim:
        """Rows of x."""
        return product(self.lead)

    @property
    def K(self) -> Dim:
        """Length of a row of x."""
        return self.x.shape[-1]

    def N(self, group: int) -> Dim:
        """Width of a group's output."""
        return self.outs[group].shape[-1]

    @property
    def m(self) -> int:
        """Rows at the traced sizes."""
        return hint(self.M, self.hints)

    @property
    def k(self) -> int:
        """Length of a row at the traced sizes."""
        return hint(self.K, self.hints)

    def n(self, group: int) -> int:
        """Width of a group's output at the traced sizes."""
        return hint(self.N(group), self.hints)

    @property
    def dtype(self) -> torch.dtype:
        """What the product multiplies."""
        return self.weights[0].dtype

    @property
    def weights_per_group(self) -> int:
        """The most weights that any group has."""
        return max(len(w) for w, _ in self.groups)

    @cached_property
    def body(self) -> Expr | None:
        """The prologue in pointwise operators and folds along the row."""
        return None if self.prologue is None else rows.unfold(self.prologue)

    @property
    def folds(self) -> list[list[Apply]]:
        """The statistics of a row that the prologue needs, in an order they can be computed in."""
        return [] if self.body is None else rows.levels(self.body)

    @property
    def prepared(self) -> bool:
        """True when x is not multiplied as it lies in memory."""
        return self.prologue is not None

    def weight_strides(self, index: int) -> Strides:
        return self.strides[1 + index]

    def x_view(self) -> View:
        return View.of(self.x, self.strides[0], self.lead, self.K)

    def weight_view(self, index: int) -> View:
        """A weight as a matrix whose rows are the columns of its output. No axis is dropped."""
        weight, (row, column) = self.weights[index], self.weight_strides(index)
        wide = View.of(weight, (row, column), weight.shape[:1], self.K).wide
        return View(weight, ((weight.shape[0], row),), column, wide)

    def extra_view(self, index: int, width: Dim) -> View:
        """The extra, as it broadcasts to rows of ``width``."""
        strides = self.strides[1 + len(self.weights) + index]
        return View.of(self.extras[index], strides, self.lead, width)

    def out_view(self, group: int) -> View:
        strides = self.strides[len(self.strides) - len(self.outs) + group]
        return View.of(self.outs[group], strides, self.lead, self.N(group))

    @cached_property
    def refusal(self) -> str | None:
        """Why no family can compute this; None where one may."""
        types = (self.x, *self.weights, *self.extras, *self.outs)
        strange = [t for t in types if not supported(t.dtype)]
        if strange:
            return f"generated kernels have no values of type {strange[0].dtype}"
        if len({w.dtype for w in self.weights}) != 1 or not self.dtype.is_floating_point:
            return "the weights are not of one floating-point type"
        try:
            self._check_bodies()
        except LowerError as error:
            return str(error)
        return None

    def _check_bodies(self) -> None:
        """Raise a LowerError where a body cannot be spelled or an extra does not broadcast."""
        self.x_view()
        if any(same(s, 0) for i in range(len(self.weights)) for s in self.weight_strides(i)):
            raise LowerError("a weight is a broadcast value, not a matrix")
        if self.body is not None:
            rows.check(self.body, self.K)
            self._check_extras(self.body, self.K)
        for group, (_, epilogue) in enumerate(self.groups):
            check_pointwise(epilogue)
            self._check_extras(epilogue, self.N(group))

    def _check_extras(self, body: Expr, width: Dim) -> None:
        for leaf in leaves(body):
            if isinstance(leaf, Hole) and leaf.kind == "in":
                self.extra_view(leaf.index, width)


def check_pointwise(expr: Expr) -> None:
    """Raise a LowerError unless the body consists of pointwise operators and numbers."""
    for e in rows.applications(expr):
        if e.op.name != "scalar" and e.op.kind is not Kind.POINTWISE:
            raise LowerError(f"{e.op.name} is not pointwise and cannot stand in a kernel's body")


def operands(site: Site) -> tuple[int, ...]:
    """The values that the product reads: x, the weights, the extras."""
    nodes = site.graph.nodes
    (index,) = site.step.nodes
    x, weights, extras = nodes[index].args
    return (x, *nodes[weights].args, *nodes[extras].args)


def _items(type_: Type) -> tuple[TensorType, ...]:
    if not isinstance(type_, TupleType):
        raise LowerError(f"a pack of operands is needed, not {type_}")
    return tuple(tensor(t) for t in type_.items if t is not None)


def _outs(type_: Type) -> tuple[TensorType, ...]:
    return _items(type_) if isinstance(type_, TupleType) else (type_,)
