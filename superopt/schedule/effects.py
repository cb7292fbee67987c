"""What must run before what: data, the order of effects, and writes to what others read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from superopt.ir.graph import Graph, Node
from superopt.ops.opaque import Slot, resolve

# Operators that need no work of their own where a kernel reads through them.
TRANSPARENT = {"expand", "pack"}
# Operators whose result may share its operand's memory.
_VIEWS = {"expand", "pack", "reshape", "permute", "slice", "getitem"}


def has_effect(node: Node) -> bool:
    """True for an operator that must keep its place among its like."""
    return node.op.name == "opaque" and node.attrs[0].uid is not None


def behind(graph: Graph, value: int) -> list[int]:
    """The nodes whose work yields a value, looking through what is transparent."""
    node = graph.nodes[value]
    if node.op.name not in TRANSPARENT:
        return [value]
    return [found for a in node.args for found in behind(graph, a)]


def needs(graph: Graph) -> dict[int, set[int]]:
    """For each live node that works, the nodes that must run before it.

    Leaves and transparent nodes do not work. Random and effectful operators keep their order, and
    whoever reads memory that one of them writes stays on its side of the write.
    """
    idle = TRANSPARENT | {"input", "scalar"}
    table: dict[int, set[int]] = {
        i: set() for i in graph.live() if graph.nodes[i].op.name not in idle
    }
    for i, earlier in table.items():
        earlier |= {s for a in graph.nodes[i].args for s in behind(graph, a) if s in table}
    effects = [i for i in table if has_effect(graph.nodes[i])]
    for earlier_effect, effect in zip(effects, effects[1:], strict=False):
        table[effect].add(earlier_effect)
    _add_hazards(graph, table, effects)
    return table


def _add_hazards(graph: Graph, table: dict[int, set[int]], effects: list[int]) -> None:
    writes = {e: set(_written(graph, graph.nodes[e])) for e in effects}
    if not any(writes.values()):
        return
    reads = {i: {r for a in graph.nodes[i].args for r in _memory(graph, a)} for i in table}
    for e, written in writes.items():
        for reader in (i for i, memory in reads.items() if memory & written and i != e):
            table[max(reader, e)].add(min(reader, e))


def _memory(graph: Graph, value: int) -> set[int]:
    """The values whose memory this one may share."""
    node = graph.nodes[value]
    if node.op.name not in _VIEWS:
        return {value}
    return {m for a in node.args for m in _memory(graph, a)}


def _written(graph: Graph, node: Node) -> Iterator[int]:
    """The values whose memory an opaque operator writes."""
    spec = node.attrs[0]
    named = dict(spec.kwargs)
    for place, argument in enumerate(resolve(spec.target)._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = spec.args[place] if place < len(spec.args) else named.get(argument.name)
            for slot in _slots(value):
                yield from _memory(graph, node.args[slot.index])


def _slots(template: Any) -> Iterator[Slot]:
    if isinstance(template, Slot):
        yield template
    elif isinstance(template, tuple):
        for part in template:
            yield from _slots(part)
