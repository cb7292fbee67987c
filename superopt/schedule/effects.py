"""What must run before what: data, the order of effects, and writes to what others read."""

from __future__ import annotations

from superopt.ir.graph import Graph, Node
from superopt.ir.memory import memory, written

# Operators that need no work of their own where a kernel reads through them.
TRANSPARENT = {"expand", "pack"}


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
    where = memory(graph)
    writes = {e: written(graph, e, where) for e in effects}
    if not any(writes.values()):
        return
    reads = {i: {r for a in graph.nodes[i].args for r in where[a]} for i in table}
    for e, overwritten in writes.items():
        for reader in (i for i, read in reads.items() if read & overwritten and i != e):
            table[max(reader, e)].add(min(reader, e))
