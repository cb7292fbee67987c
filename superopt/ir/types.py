"""Types of values: a tensor's shape and dtype, or a tuple of them for several outputs."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from superopt.ir.dims import Dim, Hints, hint, product


@dataclass(frozen=True)
class TensorType:
    """Shape (one Dim per axis) and dtype. Strides are not part of a value: layout is explicit."""

    shape: tuple[Dim, ...]
    dtype: torch.dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def numel(self) -> Dim:
        return product(self.shape)

    @property
    def contiguous(self) -> tuple[Dim, ...]:
        """Strides of a contiguous tensor of this shape, as torch counts them."""
        strides: list[Dim] = []
        step: Dim = 1
        for size in reversed(self.shape):
            strides.insert(0, step)
            step = product((step, size)) if size != 0 else step
        return tuple(strides)

    def nbytes(self, hints: Hints | None = None) -> int:
        """Bytes at the traced sizes."""
        return hint(self.numel, hints) * self.dtype.itemsize

    def __str__(self) -> str:
        name = str(self.dtype).removeprefix("torch.")
        return f"{name}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True)
class TupleType:
    """The type of an operator with several outputs; None where an output is not a tensor."""

    items: tuple[TensorType | None, ...]

    def nbytes(self, hints: Hints | None = None) -> int:
        return sum(t.nbytes(hints) for t in self.items if t is not None)

    def __str__(self) -> str:
        return "(" + ", ".join(map(str, self.items)) + ")"


Type = TensorType | TupleType


def tensor(type_: Type) -> TensorType:
    """The type itself when it is a tensor's; a TypeError otherwise."""
    if not isinstance(type_, TensorType):
        raise TypeError(f"a tensor is needed here, not a tuple {type_}")
    return type_
