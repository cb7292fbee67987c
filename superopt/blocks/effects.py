"""Effects in their order: what a rewritten graph must keep of the user's.

Random and effectful operators run in the order that the user wrote them in, so that a seed gives
the same numbers. Whoever reads memory that one of them writes reads it before, unless what it
reads is the writer's result: in a functional graph an input means its value at the call.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection

import torch

from superopt import ops
from superopt.errors import SuperoptError
from superopt.ir.graph import Graph
from superopt.ir.memory import Memory, memory, written
from superopt.ir.types import TensorType
from superopt.ops.opaque import Opaque, Slot


def settle(graph: Graph) -> Graph:
    """``graph`` with its nodes in an order that keeps effects, and copies where they are needed.

    A value that lies in memory about to be overwritten is copied first, when an output or a later
    effect wants it.
    """
    effects = _effects(graph)
    if not effects:
        return graph
    table = memory(graph)
    writes = {e: m for e in effects if (m := written(graph, e, table))}
    before = {i: set(graph.nodes[i].args) for i in graph.live()}
    for one, next_ in zip(effects, effects[1:], strict=False):
        before[next_].add(one)
    for w, overwritten in writes.items():
        after = _readers_of_result(graph, w)
        for r in before.keys() - after - set(effects):
            if any(table[a] & overwritten for a in graph.nodes[r].args):
                before[w].add(r)
    order = _sorted(before, last=writes.keys())
    return _Rebuilt(graph, order, _doomed(graph, effects, writes, table), table).out


def _effects(graph: Graph) -> list[int]:
    """Random and effectful operators in the user's order."""
    found = [
        i
        for i in graph.live()
        if graph.nodes[i].op.name == "opaque" and graph.nodes[i].attrs[0].uid is not None
    ]
    return sorted(found, key=lambda i: graph.nodes[i].attrs[0].uid)


def _readers_of_result(graph: Graph, start: int) -> set[int]:
    """A node and whatever depends on its result."""
    found = {start}
    for i in graph.live():
        if not found.isdisjoint(graph.nodes[i].args):
            found.add(i)
    return found


def _sorted(before: dict[int, set[int]], last: Collection[int]) -> list[int]:
    """The nodes, each after those that it needs, else in their present order; ``last`` as late as
    can be, since Inductor wants writes at the end of a graph."""
    left = {i: len(needs) for i, needs in before.items()}
    readers: dict[int, list[int]] = {i: [] for i in before}
    for i, needs in before.items():
        for n in needs:
            readers[n].append(i)
    ready = [(i in last, i) for i, count in left.items() if count == 0]
    heapq.heapify(ready)
    order = []
    while ready:
        _, i = heapq.heappop(ready)
        order.append(i)
        for r in readers[i]:
            left[r] -= 1
            if left[r] == 0:
                heapq.heappush(ready, (r in last, r))
    if len(order) < len(before):
        raise SuperoptError("no order of the plan keeps the order of its effects")
    return order


Doomed = dict[int, dict[int | None, set[int]]]


def _doomed(
    graph: Graph, effects: list[int], writes: dict[int, frozenset[int]], table: Memory
) -> Doomed:
    """For each writer the values to copy before it: those that a later effect, or the caller
    (None), reads although the writer has overwritten them by then."""
    found: Doomed = {}
    claimed: set[tuple[int, int | None]] = set()
    for w in (e for e in effects if e in writes):
        after = _readers_of_result(graph, w)
        later: list[tuple[int, int | None]] = [(o, None) for o in graph.outputs[: graph.visible]]
        for e in effects[effects.index(w) + 1 :]:
            own = written(graph, e, table)
            later += [(a, e) for a in graph.nodes[e].args if not table[a] <= own]
        for value, reader in later:
            if value not in after and table[value] & writes[w] and (value, reader) not in claimed:
                claimed.add((value, reader))
                found.setdefault(w, {}).setdefault(reader, set()).add(value)
    return found


class _Rebuilt:
    """A graph in a given order, with the copies put in."""

    def __init__(self, graph: Graph, order: list[int], doomed: Doomed, table: Memory) -> None:
        self.graph = graph
        self.table = table
        self.new = Graph()
        self.where: dict[int, int] = {}
        self.copies: dict[tuple[int, int | None], int] = {}
        self.uid = max(graph.nodes[e].attrs[0].uid for e in _effects(graph))
        for i in order:
            n = graph.nodes[i]
            for reader, values in doomed.get(i, {}).items():
                self.rescue(sorted(values), reader)
            args = tuple(self.copies.get((a, i), self.where[a]) for a in n.args)
            self.where[i] = self.new.add(n.op, args, n.attrs, n.law)
        visible = len(graph.outputs) if graph.visible is None else graph.visible
        outputs = [
            self.copies.get((o, None), self.where[o]) if k < visible else self.where[o]
            for k, o in enumerate(graph.outputs)
        ]
        self.out = graph.rebuilt(self.new, outputs)

    def rescue(self, values: list[int], reader: int | None) -> None:
        """Copy values. Those that lie in one memory, as a tensor and its views do, still will."""
        for v in values:
            together = [u for u in values if self.table[u] & self.table[v]]
            if len(together) == 1:
                self.copies[v, reader] = self.copy(v)
        known: dict[int, int] = {}
        for v in values:
            if (v, reader) not in self.copies:
                self.copies[v, reader] = self.again(v, known)

    def again(self, value: int, known: dict[int, int]) -> int:
        """The value, made once more from copies of the memory that it lies in."""
        if value not in known:
            n = self.graph.nodes[value]
            if value in self.table[value]:
                known[value] = self.copy(value)
            else:
                viewed = [a for a in n.args if self.table[a] & self.table[value]]
                made = {a: self.again(a, known) for a in viewed}
                args = tuple(made.get(a, self.where[a]) for a in n.args)
                known[value] = self.new.add(n.op, args, n.attrs, n.law)
        return known[value]

    def copy(self, value: int) -> int:
        type_ = self.graph.nodes[value].type
        assert isinstance(type_, TensorType)
        self.uid += 1
        spec = Opaque(
            "aten.clone.default",
            (Slot(0),),
            (("memory_format", torch.contiguous_format),),
            type_,
            (None,),
            (None,),
            self.uid,
        )
        return self.new.add(ops.opaque, (self.where[value],), (spec,))
