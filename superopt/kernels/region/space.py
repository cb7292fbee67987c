"""What one region kernel can compute: nodes whose values all broadcast to one iteration space."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import torch

from superopt.ir.dims import Dim, is_static, product, same
from superopt.ir.graph import Graph, Node
from superopt.ir.types import TensorType, tensor
from superopt.kernels.rows import ROWS
from superopt.kernels.spelling import register, supported
from superopt.ops.infer import broadcast
from superopt.ops.op import Kind
from superopt.ops.reduce import NEUTRAL

Shape = tuple[Dim, ...]

MAX_ROW = 16384  # elements of a row: it lives in the registers of one program
MAX_LIVE = 3 * MAX_ROW  # 32-bit registers for rows that live at one time, of the 65536 there are
MAX_TENSORS = 24  # inputs and outputs of one kernel

# Pointwise operators that mean the same on booleans in torch and in Triton.
_BOOLEAN = {"logical_and", "logical_or", "logical_not", "where", "eq", "ne", "cast"}


@dataclass(frozen=True)
class Space:
    """What a region iterates over.

    shape    the shape that every value broadcasts to
    columns  how many of its last axes make a row; 0 when no node looks along a row
    """

    shape: Shape
    columns: int

    @property
    def rows_shape(self) -> Shape:
        """The axes that number the rows."""
        return self.shape[: len(self.shape) - self.columns]

    @property
    def columns_shape(self) -> Shape:
        """The axes that make a row."""
        return self.shape[len(self.shape) - self.columns :]

    @property
    def length(self) -> int:
        """Elements of a row."""
        length = product(self.columns_shape)
        assert isinstance(length, int)
        return length


def source(graph: Graph, value: int) -> int:
    """The value that ``value`` is a broadcast of; itself where it is none."""
    while graph.nodes[value].op.name == "expand":
        value = graph.nodes[value].args[0]
    return value


def readers(graph: Graph) -> dict[int, list[int]]:
    """Who reads each live value; -1 stands for the caller, who gets the outputs."""
    table = graph.users()
    for i in dict.fromkeys(graph.outputs):
        table[i].append(-1)
    return table


def inputs(graph: Graph, nodes: Collection[int]) -> list[int]:
    """The tensors that ``nodes`` read from elsewhere, by first use."""
    args = (a for i in sorted(nodes) for a in graph.nodes[i].args)
    outside = (a for a in args if a not in nodes and graph.nodes[a].op.name != "scalar")
    return list(dict.fromkeys(outside))


def outputs(graph: Graph, nodes: Collection[int], read: Mapping[int, list[int]]) -> list[int]:
    """The values among ``nodes`` that are wanted elsewhere. A broadcast is not: its source is."""
    wanted = {i for i in nodes if any(u not in nodes for u in read[i])}
    if all(graph.nodes[i].op.name == "expand" for i in nodes):
        return sorted(wanted)
    return sorted({s for i in wanted if (s := source(graph, i)) in nodes})


def fits(graph: Graph, nodes: Collection[int], read: Mapping[int, list[int]] | None = None) -> bool:
    """True when one kernel can compute ``nodes``. ``read`` is ``readers(graph)``, if at hand."""
    where = space(graph, nodes)
    if where is None:
        return False
    wanted = outputs(graph, nodes, read or readers(graph))
    if len(wanted) + len(inputs(graph, nodes)) > MAX_TENSORS:
        return False
    stored = all(_storable(where, tensor(graph.nodes[i].type)) for i in wanted)
    return stored and (not where.columns or pressure(graph, nodes, where) <= MAX_LIVE)


def space(graph: Graph, nodes: Iterable[int]) -> Space | None:
    """The iteration space that ``nodes`` share; None when there is none, or it is out of reach."""
    nodes = set(nodes)
    if not all(_expressible(graph, graph.nodes[i], nodes) for i in nodes):
        return None
    folds = [graph.nodes[i] for i in nodes if graph.nodes[i].op.kind in (Kind.REDUCE, Kind.ROW)]
    rows = [tensor(graph.nodes[n.args[0]].type).shape for n in folds]
    try:
        shape = broadcast([*rows, *(tensor(graph.nodes[i].type).shape for i in nodes)])
    except TypeError:
        return None
    if any(same(d, 0) for d in shape) or not all(_equal(r, shape) for r in rows):
        return None
    counts = {_columns(graph, n) for n in folds} or {0}
    count = counts.pop()
    if counts or count is None:
        return None
    length = product(shape[len(shape) - count :])
    return Space(shape, count) if is_static(length) and length <= MAX_ROW else None


def _expressible(graph: Graph, node: Node, nodes: set[int]) -> bool:
    """True when the operator can be written for these operands."""
    operands = [graph.nodes[a] for a in node.args]
    types = [node.type, *(a.type for a in operands)]
    if not all(isinstance(t, TensorType) and supported(t.dtype) for t in types):
        return False
    numbers = [a.attrs[0] for a in operands if a.op.name == "scalar"]
    if not all(isinstance(v, bool | int | float) for v in numbers):
        return False
    dtype = tensor(operands[0].type).dtype if operands else None
    match node.op.kind:
        case Kind.POINTWISE:
            plain = dtype != torch.bool or node.op.name in _BOOLEAN
            return node.op.triton is not None and plain
        case Kind.REDUCE:
            return node.op.name in NEUTRAL and dtype is not None and dtype.is_floating_point
        case Kind.ROW if node.op.name == "rotate_half":
            # A register cannot be read at another column, memory can.
            return node.args[0] not in nodes and operands[0].op.name != "scalar"
        case Kind.ROW:
            return node.op.name in ROWS
    return node.op.name == "expand"


def _columns(graph: Graph, node: Node) -> int | None:
    """How many last axes a node folds; None when it folds others."""
    if node.op.kind is Kind.ROW:
        return 1
    rank = tensor(graph.nodes[node.args[0]].type).ndim
    axes = sorted(node.attrs[0])
    return len(axes) if axes == list(range(rank - len(axes), rank)) else None


def _strip(shape: Shape) -> Shape:
    """The shape without leading ones."""
    lead = next((k for k, d in enumerate(shape) if not same(d, 1)), len(shape))
    return shape[lead:]


def _equal(left: Shape, right: Shape) -> bool:
    """True for the same elements in the same place: equal but for leading ones."""
    left, right = _strip(left), _strip(right)
    return len(left) == len(right) and all(map(same, left, right))


def _storable(where: Space, type_: TensorType) -> bool:
    """True for one value per element, or per row: each is then written by one program only."""
    per_row = (*where.rows_shape, *(1,) * where.columns)
    return _equal(type_.shape, where.shape) or _equal(type_.shape, per_row)


def _registers(where: Space, type_: TensorType) -> int:
    """32-bit registers that one row of such a value takes; 0 for a value per row."""
    last = type_.shape[max(0, type_.ndim - where.columns) :]
    if all(same(d, 1) for d in last):
        return 0
    return where.length * max(1, register(type_.dtype).itemsize // 4)


def pressure(graph: Graph, nodes: Collection[int], where: Space) -> int:
    """Registers that a row needs where most are in use, loading and storing as late and soon
    as can be."""
    order = sorted(nodes)
    last = {v: k for k, i in enumerate(order) for v in (*graph.nodes[i].args, i)}
    size = {v: _registers(where, tensor(graph.nodes[v].type)) for v in last}
    live: set[int] = set()
    most = 0
    for k, i in enumerate(order):
        live.update(a for a in graph.nodes[i].args if graph.nodes[a].op.name != "scalar")
        most = max(most, sum(size[v] for v in live) + size[i])
        live = {v for v in live | {i} if last[v] > k}
    return most
