"""Structurally identical regions of a graph (the layers of a transformer) as blocks of one kind.

A graph is cut into consecutive blocks; blocks of one kind are equal up to which values they read.
Each kind is optimised once, and the result is replayed for every block of that kind. Fusion into
pointwise and row kernels happens after the blocks are stitched together, so it crosses their edges.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from superopt import ops
from superopt.blocks.effects import settle
from superopt.ir.graph import Graph, Node
from superopt.ops.op import Kind


@dataclass
class Block:
    """A region: its kind, its own graph, and where that graph's inputs and outputs are.

    ``graph`` is shared by all blocks of one kind. ``inputs`` and ``outputs`` are node indices of
    the whole graph. ``uids`` are the numbers of its random and effectful operators, in order.
    """

    kind: int
    graph: Graph
    inputs: list[int]
    outputs: list[int]
    uids: list[int]


def split(graph: Graph, *, smallest: int = 8) -> list[Block]:
    """Cut ``graph`` into blocks, in order. One block where nothing repeats."""
    body = [i for i in graph.live() if graph.nodes[i].op.kind is not Kind.LEAF]
    kinds: dict[Any, int] = {}
    graphs: list[Graph] = []
    blocks = []
    for nodes in _regions(graph, body, smallest):
        key, sub, inputs, outputs, uids = _extract(graph, nodes)
        if key not in kinds:
            kinds[key] = len(graphs)
            graphs.append(sub)
        kind = kinds[key]
        blocks.append(Block(kind, graphs[kind], inputs, outputs, uids))
    return blocks


def stitch(graph: Graph, blocks: Sequence[Block], solved: Sequence[Graph]) -> Graph:
    """The whole graph again, each block replaced by the solution of its kind; effects in order."""
    out = Graph()
    where: dict[int, int] = {}
    for i in graph.live():
        n = graph.nodes[i]
        if n.op.kind is Kind.LEAF:
            where[i] = out.add(n.op, (), n.attrs, n.law)
    for block in blocks:
        solution = solved[block.kind]
        local: dict[int, int] = {}
        for i in solution.live():
            n = solution.nodes[i]
            if n.op.name == "input":
                local[i] = where[block.inputs[n.attrs[0]]]
            else:
                attrs = _with_uid(n, block.uids)
                local[i] = out.add(n.op, tuple(local[a] for a in n.args), attrs, n.law)
        for target, source in zip(block.outputs, solution.outputs, strict=True):
            where[target] = local[source]
    return settle(graph.rebuilt(out, [where[o] for o in graph.outputs]))


def _with_uid(n: Node, uids: Sequence[int]) -> tuple:
    if n.op.name != "opaque" or n.attrs[0].uid is None:
        return n.attrs
    return (replace(n.attrs[0], uid=uids[n.attrs[0].uid]),)


def _regions(graph: Graph, body: list[int], smallest: int) -> list[list[int]]:
    found = _repetition([_signature(graph.nodes[i]) for i in body], smallest)
    if found is None:
        return [body] if body else []
    start, period, count = found
    start, count = _best_cut(graph, body, start, period, count)
    cuts = [0, *(start + k * period for k in range(count + 1)), len(body)]
    return [body[a:b] for a, b in zip(cuts, cuts[1:], strict=False) if a < b]


def _signature(n: Node) -> Any:
    attrs = n.attrs
    if n.op.name == "opaque":
        attrs = (replace(attrs[0], uid=None),)
    return (n.op.name, attrs, n.type)


def _repetition(sequence: list[Any], smallest: int) -> tuple[int, int, int] | None:
    """(start, period, count) of the tandem repetition that covers most; None where none does."""
    numbers: dict[Any, int] = {}
    ids = [numbers.setdefault(s, len(numbers)) for s in sequence]
    last: dict[int, int] = {}
    distances: Counter[int] = Counter()
    for i, s in enumerate(ids):
        if s in last:
            distances[i - last[s]] += 1
        last[s] = i
    # A layer holds some operators several times; their distances add up to its length.
    candidates = {p for p, _ in distances.most_common(40) if p >= smallest}
    best: tuple[int, int, int, int] | None = None
    for period in sorted(candidates):
        run = 0
        for i in range(len(ids) - period + 1):
            if i + period < len(ids) and ids[i] == ids[i + period]:
                run += 1
                continue
            count = run // period + 1
            if count >= 2 and (best is None or count * period > best[0]):
                best = (count * period, i - run, period, count)
            run = 0
    return best and (best[1], best[2], best[3])


def _best_cut(
    graph: Graph, body: list[int], start: int, period: int, count: int
) -> tuple[int, int]:
    """Rotate the cut to where the fewest values cross it, at the cost of at most one block."""
    position = {n: i for i, n in enumerate(body)}
    reach = dict.fromkeys(range(len(body)), -1)
    for i, n in enumerate(body):
        for a in graph.nodes[n].args:
            if a in position:
                reach[position[a]] = i
    crossing = [0] * (len(body) + 1)
    for i, r in reach.items():
        if r > i:
            crossing[i + 1] += 1
            crossing[r + 1] -= 1
    for i in range(len(body)):
        crossing[i + 1] += crossing[i]
    middle = start + (count // 2 - 1) * period
    shift = min(range(period), key=lambda o: (crossing[middle + o], o))
    length = period * count
    fits = count if shift == 0 else (length - shift) // period
    return start + shift, max(fits, 1)


def _extract(graph: Graph, nodes: list[int]) -> tuple[Any, Graph, list[int], list[int], list[int]]:
    """A region as a graph of its own, and a key that equal regions share."""
    inside = set(nodes)
    needed_outside = set(graph.outputs)
    for i in graph.live():
        if i not in inside:
            needed_outside.update(graph.nodes[i].args)
    sub = Graph(hints=graph.hints)
    local: dict[int, int] = {}
    inputs: list[int] = []
    uids: list[int] = []
    key: list[Any] = []

    def place(a: int) -> int:
        if a not in local:
            n = graph.nodes[a]
            if n.op.name == "scalar":
                local[a] = sub.add(n.op, (), n.attrs)
            else:
                role = n.attrs[2] if n.op.name == "input" else "input"
                local[a] = sub.add(ops.input_, (), (len(inputs), n.type, role))
                key.append(("input", n.type, role))
                inputs.append(a)
        return local[a]

    for i in nodes:
        n = graph.nodes[i]
        attrs = n.attrs
        if n.op.name == "opaque" and attrs[0].uid is not None:
            uids.append(attrs[0].uid)
            attrs = (replace(attrs[0], uid=len(uids) - 1),)
        args = tuple(place(a) for a in n.args)
        local[i] = sub.add(n.op, args, attrs, n.law)
        key.append((n.op.name, args, attrs, n.type))
    outputs = [i for i in nodes if i in needed_outside]
    sub.outputs = [local[i] for i in outputs]
    return (tuple(key), tuple(sub.outputs)), sub, inputs, outputs, uids
