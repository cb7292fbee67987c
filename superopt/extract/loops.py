"""Find inequalities that a fractional plan breaks: loop cuts.

Let S be a set of classes with ``c`` in it. If a plan makes c, then the first class of S that it
makes is made without the others: by a row that implies no class of S. Hence, for every S,

    made(c) <= sum of chosen(row) over the rows of classes in S that imply no class of S.

This cuts off cycles, and also fractional plans that make a class in many ways, a little each, all
of which need one expensive class. Finding the most broken S is hard; growing S greedily is quick
and finds most.
"""

from __future__ import annotations

from collections.abc import Sequence

from superopt.extract.masks import bits
from superopt.extract.table import Table

_ZERO = 1e-9
_BROKEN = 1e-4  # less is not worth a row
Cut = tuple[int, int]
"""The class c and the set S."""


class Loops:
    """The rows of a table, indexed to search for loop cuts. Rows are numbered in table order."""

    def __init__(self, table: Table, implied: Sequence[int]) -> None:
        self.implied = list(implied)
        self.own: dict[int, range] = {}
        self.owner: list[int] = []
        for c, rows in table.rows.items():
            self.own[c] = range(len(self.owner), len(self.owner) + len(rows))
            self.owner += [c] * len(rows)
        self.users: dict[int, list[int]] = {c: [] for c in table.rows}
        for r, needs in enumerate(self.implied):
            for k in bits(needs):
                self.users[k].append(r)

    def support(self, members: int) -> list[int]:
        """The rows of the classes of a set that imply no class of it."""
        rows = (r for c in bits(members) for r in self.own[c])
        return [r for r in rows if not self.implied[r] & members]

    def broken(self, chosen: Sequence[float]) -> list[Cut]:
        """Loop cuts that ``chosen``, the amount of every row, breaks."""
        made = {c: sum(chosen[r] for r in rows) for c, rows in self.own.items()}
        cuts: list[Cut] = []
        covered = 0
        for c in sorted(made, key=lambda c: (-made[c], c)):
            if made[c] < _BROKEN or covered >> c & 1:
                continue
            members, support = self._grow(c, made, chosen)
            if support < made[c] - _BROKEN:
                members = self._shrink(members, c, made, chosen)
                covered |= members
                cuts.append((c, members))
        return cuts

    def _grow(self, c: int, made: dict[int, float], chosen: Sequence[float]) -> tuple[int, float]:
        """A set with ``c`` whose support is small, and its support."""
        growth = _Growth(self, chosen)
        growth.add(c)
        while True:
            change, k = growth.best(made)
            if change > 1e-7:
                return growth.members, growth.support
            growth.add(k)

    def _shrink(self, members: int, c: int, made: dict[int, float], chosen: Sequence[float]) -> int:
        """Leave out classes that do not make the support smaller: sparser cuts are stronger."""
        for k in sorted(bits(members), key=lambda k: (made[k], k)):
            if k == c:
                continue
            rest = members & ~(1 << k)
            change = -sum(chosen[r] for r in self.own[k] if not self.implied[r] & members)
            for r in self.users[k]:
                if rest >> self.owner[r] & 1 and not self.implied[r] & rest:
                    change += chosen[r]
            if change <= _ZERO:
                members = rest
        return members


class _Growth:
    """A growing set, with what adding each class would take from its support, and bring to it."""

    def __init__(self, loops: Loops, chosen: Sequence[float]) -> None:
        self.loops, self.chosen = loops, chosen
        self.members = 0
        self.support = 0.0
        self.takes: dict[int, float] = {}
        self.blocked: dict[int, float] = {}  # amount of a class's rows that imply a member

    def best(self, made: dict[int, float]) -> tuple[float, int]:
        """The least change of the support by adding a class that takes from it, and the class."""
        return min(
            (
                (made[k] - self.blocked.get(k, 0.0) - takes, k)
                for k, takes in self.takes.items()
                if takes > _ZERO and not self.members >> k & 1
            ),
            default=(1.0, -1),
        )

    def add(self, c: int) -> None:
        for r in self.loops.users[c]:
            amount = self.chosen[r]
            if amount > _ZERO and not self.loops.implied[r] & self.members:
                owner = self.loops.owner[r]
                self.blocked[owner] = self.blocked.get(owner, 0.0) + amount
                if self.members >> owner & 1:
                    self._count(r, -amount)
        self.members |= 1 << c
        for r in self.loops.own[c]:
            if self.chosen[r] > _ZERO and not self.loops.implied[r] & self.members:
                self._count(r, self.chosen[r])

    def _count(self, row: int, amount: float) -> None:
        self.support += amount
        for k in bits(self.loops.implied[row]):
            self.takes[k] = self.takes.get(k, 0.0) + amount
