"""Nodes in blocks that run one after another, in an order that is kept while blocks are merged."""

from __future__ import annotations

from collections.abc import Mapping


class Partition:
    """A partition of nodes into blocks, always in a valid order.

    ``needs`` gives, for every node, the nodes that must run before it, all of smaller index. Two
    blocks may be merged unless a path leads from one to the other through a third, since the
    merged block would then have to run both before and after that one.
    """

    def __init__(self, needs: Mapping[int, set[int]]):
        order = sorted(needs)
        self._blocks = {i: [i] for i in order}  # a block goes by its smallest node
        self._home = {i: i for i in order}
        self._next: dict[int, set[int]] = {i: set() for i in order}
        for node, earlier in needs.items():
            for e in earlier:
                self._next[e].add(node)
        self._rank = {b: float(k) for k, b in enumerate(order)}

    def block(self, node: int) -> int:
        """The block that a node is in."""
        return self._home[node]

    def members(self, block: int) -> list[int]:
        """Its nodes, ascending."""
        return self._blocks[block]

    def ordered(self) -> list[list[int]]:
        """The members of all blocks, in a valid order."""
        return [self._blocks[b] for b in sorted(self._blocks, key=self._rank.__getitem__)]

    def merge(self, one: int, other: int) -> int | None:
        """Make one block of two; its name, or None where that would close a cycle."""
        first, last = sorted((one, other), key=self._rank.__getitem__)
        after = self._between(first, last)
        if after is None:
            return None
        self._reorder(first, last, after)
        keep, gone = sorted((first, last))
        self._blocks[keep] = sorted(self._blocks[keep] + self._blocks.pop(gone))
        self._next[keep] |= self._next.pop(gone)
        self._rank[keep] = self._rank[first]
        del self._rank[gone]
        for node in self._blocks[keep]:
            self._home[node] = keep
        return keep

    def _successors(self, block: int) -> set[int]:
        return {self._home[n] for n in self._next[block]} - {block}

    def _between(self, first: int, last: int) -> set[int] | None:
        """Blocks after ``first`` and ranked before ``last``; None if one of them leads to it."""
        limit = self._rank[last]
        found: set[int] = set()
        stack = [b for b in self._successors(first) if b != last]
        while stack:
            b = stack.pop()
            if b == last:
                return None
            if b not in found and self._rank[b] < limit:
                found.add(b)
                stack.extend(self._successors(b))
        return found

    def _reorder(self, first: int, last: int, after: set[int]) -> None:
        """Rank ``first`` behind every block up to ``last`` that does not come after it."""
        low, high = self._rank[first], self._rank[last]
        window = sorted(
            (b for b, r in self._rank.items() if low < r < high), key=self._rank.__getitem__
        )
        wanted = [b for b in window if b not in after]
        wanted += [first, *(b for b in window if b in after)]
        places = sorted(self._rank[b] for b in wanted)
        for b, place in zip(wanted, places, strict=True):
            self._rank[b] = place
