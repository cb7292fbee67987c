"""A problem in the form that reductions work on: small class numbers, children as sets.

Reductions make a table smaller and remember what they decided, so that the choices left over give
a plan of the original problem.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from superopt.errors import ExtractError
from superopt.extract.masks import bits, mask_of, union, weak_components
from superopt.extract.problem import Choice, Plan, Problem


@dataclass(frozen=True)
class Row:
    """A way to make a class: the original node, its cost, the classes that it needs.

    The cost includes that of other nodes that are chosen if and only if this one is.
    """

    node: int
    cost: float
    need: int


@dataclass
class Table:
    """The rows of every class that is still undecided.

    names   the original class of each number
    goal    classes that every plan makes
    fixed   the cost of decided nodes that every plan uses
    picks   original class -> node, where that is decided
    """

    names: list[int]
    rows: dict[int, list[Row]]
    goal: int
    fixed: float = 0.0
    picks: Plan = field(default_factory=dict)

    @property
    def size(self) -> tuple[int, int, int]:
        """Classes, rows and needs: what a reduction makes smaller."""
        rows = [r for c in self.rows.values() for r in c]
        return len(self.rows), len(rows), sum(r.need.bit_count() for r in rows)

    def below(self) -> dict[int, int]:
        """For every class, the classes that some row of it needs."""
        return {c: union(r.need for r in rows) for c, rows in self.rows.items()}

    def problem(self) -> Problem:
        """This table as a problem, whose nodes are the rows in order."""
        rows = [(c, r) for c, rows in self.rows.items() for r in rows]
        return Problem([Choice(c, r.cost, tuple(bits(r.need))) for c, r in rows], bits(self.goal))


def from_problem(problem: Problem) -> Table:
    """All nodes of the problem that are not forbidden, nor need what no node makes.

    Raises ExtractError if no node makes a root.
    """
    names = list(problem.members)
    number = {c: i for i, c in enumerate(names)}
    for r in problem.roots:
        if r not in number:
            raise ExtractError(f"no node makes root class {r}")
    rows: dict[int, list[Row]] = {i: [] for i in range(len(names))}
    for i, n in enumerate(problem.nodes):
        if not math.isinf(n.cost) and all(k in number for k in n.children):
            rows[number[n.eclass]].append(Row(i, n.cost, mask_of(number[k] for k in n.children)))
    return Table(names, rows, mask_of(number[r] for r in problem.roots))


def split(table: Table) -> list[Table]:
    """Tables that need nothing of one another, smallest first; together they are the table.

    What every plan makes is no need, so a table falls apart where all its plans meet.
    """
    parts = []
    for members in weak_components(table.below()):
        old = bits(members)
        new = {c: i for i, c in enumerate(old)}
        rows = {
            new[c]: [replace(r, need=mask_of(new[k] for k in bits(r.need))) for r in table.rows[c]]
            for c in old
        }
        goal = mask_of(new[c] for c in bits(table.goal & members))
        parts.append(Table([table.names[c] for c in old], rows, goal))
    return sorted(parts, key=lambda t: t.size)
