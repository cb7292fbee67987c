"""Writes the parts of a kernel's text that all families share: addresses, loads and bodies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch

from superopt.ir.dims import Dim, is_static, product, same
from superopt.ir.expr import Apply, Expr, Hole, leaves
from superopt.kernels.gemm.problem import Problem
from superopt.kernels.gemm.view import View
from superopt.kernels.spelling import (
    narrow,
    pointer_type,
    register,
    spell,
    triton_dtype,
    widen,
)
from superopt.ops.reduce import NEUTRAL


@dataclass(frozen=True)
class Tile:
    """A block of a matrix: texts of its row and column indices, and of what keeps them in bounds.

    Indices are shaped to broadcast against each other. A mask is None where nothing can lie
    outside.
    """

    rows: str
    columns: str
    row_mask: str | None = None
    column_mask: str | None = None


class Writer:
    """The names and texts of one kernel.

    Parameters are ``x``, ``w0…`` (weights), ``e0…`` (extras), ``y0…`` (outputs) and ``s0…``, the
    sizes that are known only at run time, in order of their first use.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._sizes: dict[Dim, str] = {}
        self._fresh = 0

    @property
    def sizes(self) -> dict[Dim, str]:
        """The symbolic sizes used so far, and their names."""
        return self._sizes

    def dim(self, dim: Dim) -> str:
        """A size as text: its digits, or the parameter that holds it."""
        if is_static(dim):
            return str(dim)
        return self._sizes.setdefault(dim, f"s{len(self._sizes)}")

    def fresh(self) -> str:
        """A prefix for names that nothing else in the kernel has."""
        self._fresh += 1
        return f"t{self._fresh}_"

    def pointers(self) -> list[tuple[str, TensorSlot]]:
        """Every tensor parameter in the order of a launch, and what it is."""
        p = self.problem
        slots = [("x", TensorSlot("x", 0, p.x.dtype))]
        slots += [(f"w{i}", TensorSlot("w", i, w.dtype)) for i, w in enumerate(p.weights)]
        slots += [
            (f"e{i}", TensorSlot("e", i, e.dtype))
            for i, e in enumerate(p.extras)
            if i not in p.constants
        ]
        slots += [(f"y{i}", TensorSlot("y", i, y.dtype)) for i, y in enumerate(p.outs)]
        return slots

    # Addresses -----------------------------------------------------------------------------

    def row_offset(self, view: View, rows: str) -> str:
        """Elements from the start of an operand to the rows with these indices."""
        terms = []
        inner: Dim = 1
        index = f"{rows}.to(tl.int64)" if view.wide and not rows.isdigit() else rows
        for place, (size, stride) in enumerate(view.segments):
            digit = index if same(inner, 1) else f"({index} // {self.dim(inner)})"
            if place + 1 < len(view.segments):
                digit = f"({digit} % {self.dim(size)})"
            if not same(stride, 0) and digit != "0":
                terms.append(digit if same(stride, 1) else f"{digit} * {self.dim(stride)}")
            inner = product((inner, size))
        return " + ".join(terms)

    def column_offset(self, view: View, columns: str) -> str:
        """Elements from the start of a row to these columns."""
        if not view.by_column:
            return ""
        if same(view.column, 1):
            return columns
        index = f"{columns}.to(tl.int64)" if view.wide else columns
        return f"{index} * {self.dim(view.column)}"

    def address(self, pointer: str, view: View, tile: Tile, whole: bool = False) -> str:
        """The pointers to a tile of an operand; to every element of it, if equal, where ``whole``.

        Otherwise an axis along which the operand does not vary has size 1.
        """
        row = self.row_offset(view, tile.rows)
        column = self.column_offset(view, tile.columns)
        if whole:
            row = row or ("" if tile.rows.isdigit() else f"{tile.rows} * 0")
            column = column or f"{tile.columns} * 0"
        return " + ".join([pointer, *filter(None, (row, column))])

    def mask(self, tile: Tile, view: View | None = None) -> str | None:
        """What keeps an access in bounds; None where nothing has to."""
        bounds = []
        if tile.row_mask and (view is None or view.by_row):
            bounds.append(tile.row_mask)
        if tile.column_mask and (view is None or view.by_column):
            bounds.append(tile.column_mask)
        return " & ".join(f"({b})" for b in bounds) if len(bounds) > 1 else "".join(bounds) or None

    def load(self, pointer: str, view: View, tile: Tile, raw: bool = False) -> str:
        """Text that loads a tile into registers, or as it lies in memory where ``raw``."""
        mask = self.mask(tile, view)
        guard = f", mask={mask}, other=0.0" if mask else ""
        if mask and not view.type.dtype.is_floating_point:
            guard = f", mask={mask}, other=0"
        text = f"tl.load({self.address(pointer, view, tile)}{guard})"
        return text if raw else widen(text, view.type.dtype)

    def store(self, group: int, value: str, tile: Tile) -> str:
        """Text that stores a tile of a group's output, the whole of which the mask must cover."""
        view = self.problem.out_view(group)
        mask = self.mask(tile)
        guard = f", mask={mask}" if mask else ""
        text = narrow(value, view.type.dtype)
        return f"tl.store({self.address(f'y{group}', view, tile, whole=True)}, {text}{guard})"

    def store_descriptor(self, group: int, value: str, corner: str, shape: str) -> str:
        """Text that stores a tile of this shape through the output's descriptor."""
        text = narrow(value, self.problem.outs[group].dtype)
        return f"y{group}.store({corner}, tl.broadcast_to({text}, {shape}))"

    # Bodies --------------------------------------------------------------------------------

    def body(
        self, exprs: Sequence[Expr], known: Mapping[Expr, str], tile: Tile, width: Dim
    ) -> tuple[list[str], list[str]]:
        """Lines that compute expressions over a tile of x and the extras, and the results' names.

        ``known`` are the sub-expressions that have names already; ``width`` is the length of the
        rows that the extras broadcast to.
        """
        prefix = self.fresh()
        lines, names = [], dict(known)
        for leaf in self._unknown(exprs, known):
            name = f"{prefix}{leaf.kind}{leaf.index}"
            if leaf.kind == "x":
                text = self.load("x", self.problem.x_view(), tile)
            else:
                view = self.problem.extra_view(leaf.index, width)
                text = self.load(f"e{leaf.index}", view, tile)
            lines.append(f"{name} = {text}")
            names[leaf] = name
        spelled, results = spell(exprs, names, prefix)
        return lines + spelled, results

    def _unknown(self, exprs: Iterable[Expr], known: Mapping[Expr, str]) -> list[Hole]:
        """Holes that must be loaded: those reached without passing through a known value."""
        found: dict[Hole, None] = {}
        seen: set[Expr] = set(known)

        def go(e: Expr) -> None:
            if e in seen:
                return
            seen.add(e)
            if isinstance(e, Hole):
                found.setdefault(e)
            for a in e.args if isinstance(e, Apply) else ():
                go(a)

        for e in exprs:
            go(e)
        return list(found)

    def epilogue(self, group: int, accumulators: Mapping[int, str], tile: Tile) -> list[str]:
        """Lines that turn the accumulators (by weight) into the group's output and store it."""
        lines = self.result(group, accumulators, tile)
        return [*lines, self.store(group, "result", tile)]

    def result(self, group: int, accumulators: Mapping[int, str], tile: Tile) -> list[str]:
        """Lines that turn the accumulators into ``result``, a tile of the group's output."""
        _, body = self.problem.groups[group]
        known: dict[Expr, str] = {
            h: accumulators[h.index]
            for h in leaves(body)
            if isinstance(h, Hole) and h.kind == "acc"
        }
        lines, (result,) = self.body([body], known, tile, self.problem.N(group))
        return [*lines, f"result = {result}"]

    def prologue(self, folds: Mapping[Expr, str], tile: Tile) -> tuple[list[str], str]:
        """Lines that compute a tile of what is multiplied, in registers, and its name.

        Columns outside the row come out as zeros, whatever the prologue makes of a zero.
        """
        p = self.problem
        body = p.body if p.body is not None else Hole("x", 0, p.x)
        lines, (result,) = self.body([body], folds, tile, p.K)
        if tile.column_mask and p.prepared:
            result, value = f"{result}_", result
            lines.append(f"{result} = tl.where({tile.column_mask}, {value}, 0.0)")
        return lines, result

    def folds(self, tile: Tile, rows: str, block: str, header: str) -> tuple[list[str], dict]:
        """Lines that fold whole rows of x before the product, and the names of the folds.

        ``tile`` has columns ``k``, a row of ``block`` indices that each pass of the loop ``header``
        sets from ``start``; ``rows`` is the number of its rows.
        """
        known: dict[Expr, str] = {}
        lines: list[str] = []
        for level in self.problem.folds:
            lines += self._fold_level(level, known, tile, (rows, block), header)
            known |= {fold: f"fold{len(known) + i}" for i, fold in enumerate(level)}
        return lines, known

    def _fold_level(
        self,
        level: list[Apply],
        known: Mapping[Expr, str],
        tile: Tile,
        shape: tuple[str, str],
        header: str,
    ) -> list[str]:
        rows, block = shape
        operands = [fold.args[0] for fold in level]
        inner, values = self.body(operands, known, tile, self.problem.K)
        before, after = [], []
        for i, (fold, value) in enumerate(zip(level, values, strict=True), len(known)):
            part, name = f"part{i}", fold.op.name
            neutral, held = NEUTRAL[name], triton_dtype(register(fold.dtype))
            before.append(f"{part} = tl.full(({rows}, {block}), {neutral}, {held})")
            if tile.column_mask:
                value = f"tl.where({tile.column_mask}, {value}, {neutral})"
            inner.append(f"{part} = {_STEP[name].format(part, value)}")
            template = fold.op.triton or ""
            after.append(f"fold{i} = {template.format(part, size=self.dim(self.problem.K))}")
        index = f"k = (start + tl.arange(0, {block}))[None, :]"
        return [*before, header, *indent([index, *inner]), *after]


# How a part of a fold takes in more elements.
_STEP = {
    "sum": "{0} + {1}",
    "mean": "{0} + {1}",
    "amax": "_maximum({0}, {1})",
    "amin": "_minimum({0}, {1})",
}


@dataclass(frozen=True)
class TensorSlot:
    """A tensor that a kernel receives: what it is ("x", "w", "e", "y"), which, and its type."""

    kind: str
    index: int
    dtype: torch.dtype

    @property
    def pointer(self) -> str:
        return pointer_type(self.dtype)


def indent(lines: Iterable[str], depth: int = 1) -> list[str]:
    """Lines moved to the right by ``depth`` levels."""
    return ["    " * depth + line if line else line for line in lines]
