"""Extraction: the cheapest plans of a problem, with a bound on how much cheaper one could be."""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import islice

from superopt.extract.greedy import greedy
from superopt.extract.ilp import NEGLIGIBLE, Answer, Solver
from superopt.extract.problem import Plan, Problem, order, validate
from superopt.extract.reduce import reduce
from superopt.extract.table import Table, from_problem, split

__all__ = ["Solution", "extract", "validate"]


@dataclass(frozen=True)
class Solution:
    """A plan and what is known of it.

    choice  class -> index of its node in the problem, for all classes that the plan needs
    cost    the sum of their costs, each once
    bound   no plan that runs other nodes than the earlier solutions costs less
    method  which search found it: "greedy" or "ilp"
    status  "optimal", or "time limit" where the bound is not met
    """

    choice: Plan
    cost: float
    bound: float
    method: str
    status: str

    @property
    def gap(self) -> float:
        """How much cheaper a plan could be, as a share of this one's cost."""
        return (self.cost - self.bound) / self.cost if self.cost > 0 else 0.0


def extract(problem: Problem, *, time_limit: float = 10.0, k: int = 1) -> list[Solution]:
    """Up to ``k`` valid plans, cheapest first; every one lacks a priced node of each before it.

    Greedy first, then the integer program; the cheaper wins. ``time_limit``, in seconds, is a last
    guard: answers are the same every time unless it is hit. Raises ExtractError if a root cannot be
    made.
    """
    clock = _Clock(time_limit)
    quick = _solution(problem, greedy(problem), 0.0, "greedy", "time limit")
    table = from_problem(problem)
    blocks = _decompose(table, lossless=k > 1)
    found = [
        _solution(problem, plan, bound, "ilp", "optimal" if proven else "time limit")
        for plan, bound, proven in islice(_Sums(table, blocks, clock), k)
    ]
    best = found[0]
    if quick.cost <= best.cost * (1 + 1e-9):
        bound = min(best.bound, quick.cost)
        found.insert(0, replace(quick, bound=bound, status=best.status))
    return _distinct(problem, found)[:k]


def _solution(problem: Problem, plan: Plan, bound: float, method: str, status: str) -> Solution:
    """The plan without classes that it does not need, validated."""
    choice = {c: plan[c] for c in order(problem, plan)}
    cost = validate(problem, choice)
    return Solution(choice, cost, min(bound, cost), method, status)


class _Block:
    """A table on its own, and its plans as they are asked for."""

    def __init__(self, table: Table) -> None:
        self.names = table.names
        self.nodes = [r.node for rows in table.rows.values() for r in rows]
        self.solver = Solver(table, greedy(table.problem()))
        self.answers: list[Answer] = []
        self.more = True

    def answer(self, rank: int, seconds: float) -> Answer | None:
        """The plan of that rank, all earlier ones having been asked for; None if there is none."""
        if rank == len(self.answers) and self.more:
            found = self.solver.next(seconds)
            self.more = found is not None
            if found is not None:
                self.answers.append(found)
        return self.answers[rank] if rank < len(self.answers) else None

    @property
    def weight(self) -> int:
        """A guess at its share of the time: the square of the rows' number."""
        return len(self.nodes) ** 2


def _decompose(table: Table, lossless: bool) -> list[_Block]:
    """Reduce and split until nothing changes; what is decided on the way goes to ``table``."""
    reduce(table, lossless=lossless)
    todo = split(table)
    done: list[Table] = []
    while todo:
        part = todo.pop()
        problem = part.problem()
        reduce(part, lossless=lossless, limit=validate(problem, greedy(problem)))
        table.fixed += part.fixed
        table.picks.update(part.picks)
        pieces = split(part)
        (done if len(pieces) == 1 else todo).extend(pieces)
    return [_Block(t) for t in sorted(done, key=lambda t: t.size)]


class _Sums:
    """Plans of the whole, cheapest first: the least sums of one plan of every block."""

    def __init__(self, table: Table, blocks: list[_Block], clock: _Clock) -> None:
        self.table, self.blocks, self.clock = table, blocks, clock
        weights = [b.weight for b in blocks]
        for i, b in enumerate(blocks):
            b.answer(0, clock.left() * max(weights[i] / sum(weights[i:]), 1 / 3))
        self.first = self._bound((0,) * len(blocks))

    def __iter__(self) -> Iterator[tuple[Plan, float, bool]]:
        """Plan, bound, and whether it is proven."""
        start = (0,) * len(self.blocks)
        heap, seen = [(self._cost(start), start)], {start}
        while heap:
            _, ranks = heapq.heappop(heap)
            proven = all(a.optimal for a in self._answers(ranks))
            yield self._plan(ranks), self._bound(ranks) if proven else self.first, proven
            for i, rank in enumerate(ranks):
                more = (*ranks[:i], rank + 1, *ranks[i + 1 :])
                if more not in seen and self.blocks[i].answer(rank + 1, self.clock.left() / 4):
                    seen.add(more)
                    heapq.heappush(heap, (self._cost(more), more))

    def _answers(self, ranks: tuple[int, ...]) -> list[Answer]:
        return [b.answers[rank] for b, rank in zip(self.blocks, ranks, strict=True)]

    def _cost(self, ranks: tuple[int, ...]) -> float:
        return math.fsum([self.table.fixed, *(a.cost for a in self._answers(ranks))])

    def _bound(self, ranks: tuple[int, ...]) -> float:
        return math.fsum([self.table.fixed, *(a.bound for a in self._answers(ranks))])

    def _plan(self, ranks: tuple[int, ...]) -> Plan:
        plan = dict(self.table.picks)
        for block, answer in zip(self.blocks, self._answers(ranks), strict=True):
            plan.update((block.names[c], block.nodes[r]) for c, r in answer.plan.items())
        return plan


def _distinct(problem: Problem, found: list[Solution]) -> list[Solution]:
    """Sorted, without those that run all priced nodes of one before them."""
    kept: list[Solution] = []
    runs: list[set[int]] = []
    for s in sorted(found, key=lambda s: s.cost):
        priced = {i for i in s.choice.values() if problem.nodes[i].cost > NEGLIGIBLE * s.cost}
        if not any(r <= priced for r in runs):
            kept.append(s)
            runs.append(priced)
    return kept


@dataclass
class _Clock:
    """Seconds left of a limit."""

    limit: float
    start: float = field(default_factory=time.perf_counter)

    def left(self) -> float:
        return max(0.0, self.limit - (time.perf_counter() - self.start))
