"""Which nodes share a kernel: blocks are merged greedily, where that saves most traffic first."""

from __future__ import annotations

from collections.abc import Mapping

from superopt.ir.dims import Dim, same
from superopt.ir.graph import Graph
from superopt.ir.types import tensor
from superopt.kernels.region.space import fits, readers, source, space
from superopt.schedule.partition import Partition

Readers = Mapping[int, list[int]]


def with_broadcasts(graph: Graph, members: list[int]) -> list[int]:
    """A block's nodes and the broadcasts of its own values (or numbers) that they read."""
    nodes = set(members)
    for i in members:
        for a in graph.nodes[i].args:
            origin = source(graph, a)
            if origin in nodes or graph.nodes[origin].op.name == "scalar":
                while a != origin:
                    nodes.add(a)
                    (a,) = graph.nodes[a].args
    return sorted(nodes)


def fuse(graph: Graph, partition: Partition, fusible: set[int]) -> None:
    """Merge blocks of ``fusible`` nodes for as long as one kernel can compute the result."""
    read = readers(graph)

    def merge(one: int, other: int) -> bool:
        """Join the blocks of two nodes if one kernel can be both; True when it did."""
        a, b = partition.block(one), partition.block(other)
        if a == b:
            return False
        members = partition.members(a) + partition.members(b)
        if not fits(graph, with_broadcasts(graph, members), read):
            return False
        return partition.merge(a, b) is not None

    chains = _chains(graph, fusible, read)
    while any([merge(p, q) for p, q in chains]):
        pass
    for p, q in _siblings(graph, fusible, read):
        if len({_shape(graph, partition, p), _shape(graph, partition, q)}) == 1:
            merge(p, q)


def _shape(graph: Graph, partition: Partition, node: int) -> tuple[Dim, ...]:
    """What the kernel that holds a node iterates over."""
    found = space(graph, with_broadcasts(graph, partition.members(partition.block(node))))
    assert found is not None
    return found.shape


def _chains(graph: Graph, fusible: set[int], read: Readers) -> list[tuple[int, int]]:
    """(producer, consumer) pairs, by the bytes that joining them keeps out of memory.

    A value read by its one consumer need not be written at all, so it counts twice.
    """
    pairs: dict[tuple[int, int], int] = {}
    for q in sorted(fusible):
        for p in (source(graph, a) for a in graph.nodes[q].args):
            if p in fusible:
                times = 2 if len(read[p]) == 1 else 1
                pairs[p, q] = times * graph.nodes[p].type.nbytes(graph.hints)
    return sorted(pairs, key=lambda pair: (-pairs[pair], pair))


def _siblings(graph: Graph, fusible: set[int], read: Readers) -> list[tuple[int, int]]:
    """Readers of one tensor, next to each other, which a kernel of both would read once; those of
    the largest tensors first, and none of single elements."""
    found: dict[tuple[int, int], int] = {}
    for value, users in read.items():
        near = sorted(u for u in users if u in fusible)
        if len(near) < 2 or same(tensor(graph.nodes[value].type).numel, 1):
            continue
        for pair in zip(near, near[1:], strict=False):
            found[pair] = max(found.get(pair, 0), graph.nodes[value].type.nbytes(graph.hints))
    return sorted(found, key=lambda pair: (-found[pair], pair))
