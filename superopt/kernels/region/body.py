"""The statements of a region kernel: loads, assignments node by node, stores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from superopt.ir.expr import Apply, Expr, Ref
from superopt.ir.graph import Graph, Node
from superopt.ir.types import tensor
from superopt.kernels.rows import ROWS
from superopt.kernels.spelling import narrow, spell, widen
from superopt.ops.op import Kind
from superopt.ops.reduce import NEUTRAL


@dataclass(frozen=True)
class Operand:
    """How a tensor is reached: its parameter, offset and mask ("" for none of either).

    ``rows`` and ``columns`` say which of the two it varies along, hence its block's shape.
    ``turned`` is the offset half a row further on, round the end.
    """

    name: str
    offset: str
    mask: str = ""
    rows: bool = True
    columns: bool = True
    turned: str = ""

    def address(self, offset: str) -> str:
        """The first argument, and the mask, of a load."""
        place = f"{self.name} + {offset}" if offset else self.name
        return f"{place}, mask={self.mask}" if self.mask else place


@dataclass(frozen=True)
class Row:
    """What a reduction must know: a row's length, and the lanes that hold it."""

    length: int
    block: int


@dataclass
class Body:
    """Writes a kernel's statements. Values are numbered by their place in the region, so that
    equal regions of different graphs give equal text."""

    graph: Graph
    reads: Mapping[int, Operand]
    writes: Mapping[int, Operand]
    row: Row | None = None
    lines: list[str] = field(default_factory=list)
    _names: dict[Expr, str] = field(default_factory=dict)
    _shapes: dict[int, tuple[bool, bool]] = field(default_factory=dict)

    def write(self, nodes: tuple[int, ...], early: bool) -> list[str]:
        """The statements that compute ``nodes``; with ``early``, all loads come first."""
        if early:
            for i in self.reads:
                if any(i in self.graph.nodes[n].args for n in nodes if not self._turns(n)):
                    self._load(i)
        for k, i in enumerate(nodes):
            self._node(f"v{k}", i)
            if i in self.writes:
                self._store(i)
        return self.lines

    def _turns(self, i: int) -> bool:
        return self.graph.nodes[i].op.name == "rotate_half"

    def _ref(self, i: int) -> Ref:
        return self.graph.ref(i)

    def _load(self, i: int) -> None:
        operand, dtype = self.reads[i], tensor(self.graph.nodes[i].type).dtype
        name = operand.name.replace("in", "x")
        self.lines.append(f"{name} = {widen(f'tl.load({operand.address(operand.offset)})', dtype)}")
        self._names[self._ref(i)] = name
        self._shapes[i] = (operand.rows, operand.columns)

    def _store(self, i: int) -> None:
        operand, dtype = self.writes[i], tensor(self.graph.nodes[i].type).dtype
        value = narrow(self._names[self._ref(i)], dtype)
        place = f"{operand.name} + {operand.offset}"
        mask = f", mask={operand.mask}" if operand.mask else ""
        self.lines.append(f"tl.store({place}, {value}{mask})")

    def _node(self, name: str, i: int) -> None:
        node = self.graph.nodes[i]
        if self._turns(i):
            self._turn(name, i)
            return
        for a in node.args:
            if a in self.reads and self._ref(a) not in self._names:
                self._load(a)
        self.lines.append(f"# {name} = {self._comment(node)}")
        if node.op.kind in (Kind.REDUCE, Kind.ROW):
            self._fill_row(node.args[0])
        lines, (result,) = spell([self._expr(node)], self._names, f"{name}_", self._special(node))
        if lines and lines[-1].startswith(f"{result} = "):
            lines[-1], result = lines[-1].replace(result, name, 1), name
        self.lines += lines
        self._names[self._ref(i)] = result
        shapes = [self._shapes.get(a, (False, False)) for a in node.args]
        rows, columns = any(r for r, _ in shapes), any(c for _, c in shapes)
        self._shapes[i] = (rows, columns and node.op.kind is not Kind.REDUCE)

    def _expr(self, node: Node) -> Expr:
        """What the node computes from what it reads, without its whole-row operator."""
        args = tuple(self._argument(a) for a in node.args)
        if node.op.kind is Kind.ROW:
            return ROWS[node.op.name](*args, *node.attrs)
        return args[0] if node.op.name == "expand" else Apply(node.op, args, node.attrs)

    def _argument(self, i: int) -> Expr:
        node = self.graph.nodes[i]
        return Apply(node.op, (), node.attrs) if node.op.name == "scalar" else self._ref(i)

    def _comment(self, node: Node) -> str:
        parts = [
            str(self.graph.nodes[a].attrs[0])
            if self.graph.nodes[a].op.name == "scalar"
            else self._names[self._ref(a)]
            for a in node.args
        ]
        parts += [f"{k}={v}" for k, v in zip(node.op.attrs, node.attrs, strict=True)]
        return f"{node.op.name}({', '.join(parts)})"

    def _fill_row(self, i: int) -> None:
        """Give a value a column for every lane, which a reduction counts."""
        if not self._shapes[i][1]:
            assert self.row is not None
            name = self._names[self._ref(i)]
            full = f"{name}_row"
            self.lines.append(f"{full} = tl.broadcast_to({name}, (BLOCK_R, {self.row.block}))")
            self._names[self._ref(i)] = full
            self._shapes[i] = (True, True)

    def _special(self, node: Node):
        """Spells reductions: lanes beyond a row's end hold the neutral element."""

        def write(expr: Apply, args: list[str]) -> str | None:
            if expr.op.kind is not Kind.REDUCE or self.row is None:
                return None
            value = args[0]
            if self.row.length != self.row.block:
                value = f"tl.where(col_live, {value}, {NEUTRAL[expr.op.name]})"
            if node.op.kind is Kind.ROW and expr.op.name == "amax":
                # A NaN that the maximum drops comes back through the exponentials.
                return f"tl.max({value}, 1)[:, None]"
            assert expr.op.triton is not None
            return expr.op.triton.format(value, size=self.row.length)

        return write

    def _turn(self, name: str, i: int) -> None:
        """rotate_half: each lane loads from half a row away; the first half changes sign."""
        assert self.row is not None
        a = self.graph.nodes[i].args[0]
        operand, dtype = self.reads[a], tensor(self.graph.nodes[a].type).dtype
        load = widen(f"tl.load({operand.address(operand.turned)})", dtype)
        self.lines.append(f"# {name} = rotate_half of {operand.name}")
        self.lines.append(f"{name}_turned = {load}")
        half = self.row.length // 2
        self.lines.append(f"{name} = tl.where(col < {half}, -{name}_turned, {name}_turned)")
        self._names[self._ref(i)] = name
        self._shapes[i] = (operand.rows, True)
