"""Which values may lie in one another's memory, and which operators write to it.

Equality in a graph is equality of values, so an input that an operator overwrites has one value for
who reads it before and another for who reads what the operator returns. Whoever orders or lowers a
graph asks here what shares memory with what.
"""

from __future__ import annotations

from collections.abc import Sequence

from superopt.ir.graph import Graph, Node
from superopt.ops.op import Kind
from superopt.ops.opaque import shared_slots, written_slots

Memory = dict[int, frozenset[int]]


def memory(graph: Graph) -> Memory:
    """For each live node the nodes whose memory its value may lie in: itself if it is no view."""
    table: Memory = {}
    for i in graph.live():
        n = graph.nodes[i]
        viewed = [table[a] for a in _viewed(graph, n)]
        table[i] = frozenset().union(*viewed) if viewed else frozenset({i})
    return table


def _viewed(graph: Graph, n: Node) -> Sequence[int]:
    """The operands whose memory the result may share."""
    if n.op.name == "opaque":
        return [n.args[s] for s in shared_slots(n.attrs[0])]
    if n.op.name == "cast":  # torch gives the tensor itself where it has the dtype already
        return n.args if n.type == graph.nodes[n.args[0]].type else ()
    if n.op.name == "getitem":  # one of several results has memory of its own, unless it is a view
        producer = graph.nodes[n.args[0]]
        return n.args if producer.op.name == "opaque" and shared_slots(producer.attrs[0]) else ()
    return n.args if n.op.kind is Kind.LAYOUT and n.op.name != "concat" else ()


def written(graph: Graph, index: int, table: Memory) -> frozenset[int]:
    """The memory that a node writes to: of inputs, or of other values."""
    n = graph.nodes[index]
    if n.op.name != "opaque" or n.attrs[0].uid is None:
        return frozenset()
    return frozenset().union(*(table[n.args[s]] for s in written_slots(n.attrs[0])))
