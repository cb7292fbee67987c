"""Addresses: how a loop variable over several axes reaches the elements of each operand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from superopt.ir.dims import Dim, is_static, product, same, simplify
from superopt.ir.plan import Strides
from superopt.ir.types import TensorType


class Sizes:
    """The symbolic sizes that a kernel's text needs, each a parameter ``s0``, ``s1``, …"""

    def __init__(self) -> None:
        self.dims: list[Dim] = []

    def text(self, dim: Dim) -> str:
        """The size as a number, or as the name of its parameter."""
        dim = simplify(dim)
        if is_static(dim):
            return str(dim)
        if dim not in self.dims:
            self.dims.append(dim)
        return f"s{self.dims.index(dim)}"

    @property
    def names(self) -> list[str]:
        """The parameters, in the order of ``dims``."""
        return [f"s{k}" for k in range(len(self.dims))]


def aligned(type_: TensorType, strides: Strides, shape: Sequence[Dim]) -> Strides:
    """Strides of an operand along the axes of ``shape``, to which it broadcasts."""
    lead = len(shape) - type_.ndim
    moves = zip(type_.shape, strides, strict=True)
    return (0,) * lead + tuple(0 if same(d, 1) else s for d, s in moves)


def collapse(
    shape: Sequence[Dim], operands: Sequence[Strides]
) -> tuple[list[Dim], list[list[Dim]]]:
    """The fewest axes that still address every operand, and the operands' strides along them.

    Axes of size 1 go; neighbours become one axis where every operand moves through both evenly.
    """
    dims: list[Dim] = []
    moves: list[list[Dim]] = [[] for _ in operands]
    for axis, dim in enumerate(shape):
        if same(dim, 1):
            continue
        here = [strides[axis] for strides in operands]
        pairs = zip(moves, here, strict=True)
        if dims and all(same(m[-1], simplify(dim * s)) for m, s in pairs):
            dims[-1] = simplify(dims[-1] * dim)
            for m, s in zip(moves, here, strict=True):
                m[-1] = s
        else:
            dims.append(dim)
            for m, s in zip(moves, here, strict=True):
                m.append(s)
    return dims, moves


class Axes:
    """A loop variable that runs over several axes at once.

    An operand that moves evenly through all of them is addressed by the variable itself, others by
    the coordinates that ``lines`` define.
    """

    def __init__(
        self, name: str, shape: Sequence[Dim], operands: Mapping[int, Strides], sizes: Sizes
    ):
        self.sizes = sizes
        self._terms: dict[int, list[tuple[str, Dim]]] = {}
        for operand, strides in operands.items():
            _, (even,) = collapse(shape, [strides])
            if len(even) <= 1:
                self._terms[operand] = [(name, step) for step in even]
        others = {o: s for o, s in operands.items() if o not in self._terms}
        dims, moves = collapse(shape, list(others.values()))
        coordinates = [f"{name}{k}" for k in range(len(dims))]
        for operand, steps in zip(others, moves, strict=True):
            self._terms[operand] = list(zip(coordinates, steps, strict=True))
        self.lines = _coordinates(name, dims, sizes) if others else []

    def offset(self, operand: int, instead: str | None = None) -> str:
        """Distance of an operand's element from its first; "" where it does not move.

        ``instead`` stands for another variable in the place of this one.
        """
        terms = []
        for variable, stride in self._terms[operand]:
            variable = instead or variable
            if same(stride, 1):
                terms.append(variable)
            elif not same(stride, 0):
                terms.append(f"{variable} * {self.sizes.text(stride)}")
        return " + ".join(terms)


def _coordinates(name: str, dims: Sequence[Dim], sizes: Sizes) -> list[str]:
    lines = []
    for k, dim in enumerate(dims):
        inner = product(dims[k + 1 :])
        text = name if same(inner, 1) else f"{name} // {sizes.text(inner)}"
        if k:
            text = f"{text} % {sizes.text(dim)}"
        lines.append(f"{name}{k} = {text}")
    return lines


def reach(shape: Sequence[Dim], operands: Iterable[Strides]) -> Dim:
    """A bound on every offset: the sum over the operands, and the number of elements."""
    spans = [sum((d - 1) * s for d, s in zip(shape, strides, strict=True)) for strides in operands]
    return simplify(sum(spans) + product(shape))
