"""A program: nodes in topological order, each an operator applied to earlier nodes.

Lifting produces a graph, extraction produces rewritten graphs, scheduling reads one. Structurally
equal pure nodes are one node (hash-consing), so sharing in a graph is sharing in the program.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from superopt.ir.dims import Dim, Hints
from superopt.ir.expr import Apply, Expr, Ref
from superopt.ir.types import Type
from superopt.ops.op import Op


@dataclass(frozen=True)
class Node:
    """``op(args, attrs) : type``; args are indices of earlier nodes. ``law`` made the node."""

    op: Op
    args: tuple[int, ...]
    attrs: tuple[Any, ...]
    type: Type
    law: str = "input"

    @property
    def key(self) -> tuple[str, tuple[int, ...], tuple[Any, ...]]:
        return (self.op.name, self.args, self.attrs)


@dataclass
class Graph:
    """Nodes, the indices of the outputs, and example values of the symbolic sizes.

    ``input_strides`` holds the strides of each input by its input index; where one is missing the
    input is contiguous. The first ``visible`` outputs are the program's; the rest are effects
    (writes to inputs) that must happen, in that order.
    """

    nodes: list[Node] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    hints: Hints = field(default_factory=dict)
    input_strides: dict[int, tuple[Dim, ...]] = field(default_factory=dict)
    visible: int | None = None
    _index: dict[tuple, int] = field(default_factory=dict, repr=False)

    def add(self, op: Op, args: tuple[int, ...], attrs: tuple = (), law: str = "input") -> int:
        """Index of the node ``op(args, attrs)``, made if it does not exist yet."""
        key = (op.name, args, attrs)
        if key not in self._index:
            type_ = op.infer([self.nodes[a].type for a in args], *attrs)
            self.nodes.append(Node(op, args, attrs, type_, law))
            self._index[key] = len(self.nodes) - 1
        return self._index[key]

    def insert(self, expr: Expr, law: str = "input") -> int:
        """Index of the value of ``expr``, whose leaves are ``Ref``s into this graph."""
        if isinstance(expr, Ref):
            return expr.id
        if not isinstance(expr, Apply):
            raise TypeError(f"{expr} is not a value of this graph")
        return self.add(expr.op, tuple(self.insert(a, law) for a in expr.args), expr.attrs, law)

    def ref(self, index: int) -> Ref:
        return Ref(index, self.nodes[index].type)

    def live(self) -> list[int]:
        """Indices that the outputs need, ascending."""
        seen: set[int] = set()
        stack = list(self.outputs)
        while stack:
            i = stack.pop()
            if i not in seen:
                seen.add(i)
                stack.extend(self.nodes[i].args)
        return sorted(seen)

    def rebuilt(self, nodes_from: Graph, outputs: list[int]) -> Graph:
        """``nodes_from`` with other outputs, and this graph's sizes, strides and visibility."""
        nodes_from.outputs = outputs
        nodes_from.hints, nodes_from.input_strides = self.hints, self.input_strides
        nodes_from.visible = self.visible
        return nodes_from

    def users(self) -> dict[int, list[int]]:
        """For each live node, the live nodes that read it."""
        table: dict[int, list[int]] = {i: [] for i in self.live()}
        for i in table:
            for a in dict.fromkeys(self.nodes[i].args):
                table[a].append(i)
        return table

    def __str__(self) -> str:
        lines = []
        for i in self.live():
            n = self.nodes[i]
            parts = [f"%{a}" for a in n.args]
            parts += [f"{k}={v}" for k, v in zip(n.op.attrs, n.attrs, strict=True)]
            lines.append(f"%{i} = {n.op.name}({', '.join(parts)}) : {n.type}")
        lines.append("return " + ", ".join(f"%{i}" for i in self.outputs))
        return "\n".join(lines)
