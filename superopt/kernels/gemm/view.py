"""How an operand lies in memory, seen as a matrix.

The leading axes of a product are collapsed to one row index, its last axis is the column. Where
the strides of the leading axes are not those of one flat axis, the row index is taken apart again
by division, so any strided or broadcast operand can be read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from superopt.errors import LowerError
from superopt.ir.dims import Dim, is_static, product, same, simplify
from superopt.ir.plan import Strides
from superopt.ir.types import TensorType

_INT32 = 2**31


@dataclass(frozen=True)
class View:
    """Row ``r`` and column ``c`` lie at ``sum_i digit_i(r) * stride_i + c * column`` elements.

    ``segments`` are (size, stride) pairs, innermost first: the digits of ``r`` in that mixed radix.
    A stride is 0 where the operand is broadcast. ``wide`` says that offsets may exceed 32 bits.
    """

    type: TensorType
    segments: tuple[tuple[Dim, Dim], ...]
    column: Dim
    wide: bool

    @staticmethod
    def of(type_: TensorType, strides: Strides, lead: Sequence[Dim], width: Dim) -> View:
        """The view of an operand that broadcasts to ``(*lead, width)``."""
        pad = len(lead) + 1 - type_.ndim
        if pad < 0:
            raise LowerError(f"{type_} has more axes than the product it takes part in")
        shape = (*(1,) * pad, *type_.shape)
        steps = (*(0,) * pad, *strides)
        steps = tuple(0 if same(d, 1) else s for d, s in zip(shape, steps, strict=True))
        for size, full in zip(shape, (*lead, width), strict=True):
            if not same(size, 1) and not same(size, full):
                raise LowerError(f"{type_} does not broadcast to {[*map(str, (*lead, width))]}")
        extents = [s * (d - 1) for d, s in zip(shape, steps, strict=True)]
        wide = not all(map(is_static, extents)) or sum(extents) >= _INT32  # type: ignore[operator]
        return View(type_, _collapse(lead, steps[:-1]), steps[-1], wide)

    @property
    def by_row(self) -> bool:
        """True where rows differ."""
        return any(not same(s, 0) for _, s in self.segments)

    @property
    def by_column(self) -> bool:
        """True where columns differ."""
        return not same(self.column, 0)

    @property
    def row_stride(self) -> Dim | None:
        """The distance of neighbouring rows; None where there is no one such distance."""
        if len(self.segments) > 1:
            return None
        return self.segments[0][1] if self.segments else 0


def _collapse(lead: Sequence[Dim], strides: Sequence[Dim]) -> tuple[tuple[Dim, Dim], ...]:
    """Axes as few (size, stride) segments, innermost first."""
    segments: list[tuple[Dim, Dim]] = []
    for size, stride in zip(reversed(lead), reversed(strides), strict=True):
        if same(size, 1):
            continue
        if segments and same(stride, simplify(segments[-1][0] * segments[-1][1])):
            inner, step = segments[-1]
            segments[-1] = (product((inner, size)), step)
        else:
            segments.append((size, stride))
    return tuple(segments)


def contiguous(shape: Sequence[Dim]) -> Strides:
    """Strides of a contiguous tensor."""
    return tuple(product(shape[i + 1 :]) for i in range(len(shape)))
