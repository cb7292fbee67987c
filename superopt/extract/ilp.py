"""Exact extraction: an integer program for HiGHS.

One 0/1 column per row (chosen or not) and per class (made or not); a class with one row has one
column for both.

    made(c) = sum of chosen(row) over the rows of c
    made(k) >= sum of chosen(row) over the rows of c that imply k      for every c and k
    made(g) = 1 for the goal

Classes of one strong component also have a level, above those of all that they imply there, so
that no plan has a cycle. Levels say little about fractional plans; loop cuts (see ``loops``) do,
and are added while only the linear program is solved.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import highspy
import numpy as np

from superopt.errors import ExtractError
from superopt.extract.greedy import greedy
from superopt.extract.loops import Cut, Loops
from superopt.extract.masks import bits, mask_of, strong_components
from superopt.extract.problem import Plan, Problem, order, validate
from superopt.extract.reduce import implications, row_implications
from superopt.extract.table import Table

_MANY = 200_000  # implications beyond which only direct needs are used
_ROUNDS = 200  # of loop cuts


@dataclass(frozen=True)
class Answer:
    """A plan (class -> row number, in table order), its cost, and what is proven of it.

    ``bound``: no plan that was still allowed costs less. ``optimal``: it is the cost, up to
    rounding.
    """

    plan: Plan
    cost: float
    bound: float
    optimal: bool


# A node of a smaller share of the whole (the tie-break of a view) does not make a plan another.
NEGLIGIBLE = 1e-6


class Solver:
    """The plans of one reduced table, cheapest first; each lacks a priced row of every earlier one.

    ``start`` is any valid plan, class -> row number.
    """

    def __init__(self, table: Table, start: Plan) -> None:
        self.problem = table.problem()
        self.start = start
        self.ceiling = validate(self.problem, start)
        self.costs = np.array([n.cost for n in self.problem.nodes])
        # HiGHS has absolute tolerances near 1e-7, and costs may be seconds.
        self.scale = 1e3 / self.ceiling if self.ceiling > 0 else 1.0
        self.components = strong_components(table.below())
        self.implied = implications(table, self.components)
        made = row_implications(table, self.components, self.implied)
        needs = [below for c in table.rows for below in made[c]]
        if sum(n.bit_count() for n in needs) > _MANY:
            needs = [r.need for rows in table.rows.values() for r in rows]
        self.loops = Loops(table, needs)
        self.model = _silent()
        self.bound = 0.0
        self.levels: dict[int, int] = {}
        self.first, self.integer = True, False
        self._add_columns(mask_of(self.problem.roots))
        self._add_rows(mask_of(self.problem.roots))

    def next(self, seconds: float) -> Answer | None:
        """The next plan; None if there is no other, or none was found in the time."""
        deadline = time.perf_counter() + seconds
        first, self.first = self.first, False
        if first:
            self._tighten(deadline)
            self._round()
            if self.bound >= self.ceiling * (1 - 1e-9):
                return self._accept(self.start, optimal=True)
        if not self.integer:
            self._require_integers()
        if first:
            self._suggest()
        answer = self._branch(deadline)
        return self._accept(self.start, optimal=False) if first and answer is None else answer

    def _accept(self, plan: Plan, optimal: bool) -> Answer:
        """Record the plan, and forbid it and all that contain its priced rows."""
        classes = order(self.problem, plan)
        priced = [plan[c] for c in classes if self.costs[plan[c]] > NEGLIGIBLE * self.ceiling]
        self._add_row(-np.inf, len(priced) - 1.0, dict.fromkeys(priced, 1.0))
        cost = validate(self.problem, plan)
        return Answer({c: plan[c] for c in classes}, cost, min(self.bound, cost), optimal)

    # The model.

    def _add_columns(self, goal: int) -> None:
        count = len(self.costs)
        self.made: dict[int, int] = {}
        for c, rows in self.loops.own.items():
            self.made[c] = rows[0] if len(rows) == 1 else count
            count += len(rows) > 1
        self.model.addVars(count, np.zeros(count), np.ones(count))
        priced = np.arange(len(self.costs), dtype=np.int32)
        self.model.changeColsCost(len(priced), priced, self.costs * self.scale)
        for c in bits(goal):
            self.model.changeColBounds(self.made[c], 1.0, 1.0)

    def _add_rows(self, goal: int) -> None:
        part = {c: i for i, p in enumerate(self.components) if len(p) > 1 for c in p}
        self.above: list[tuple[int, int, list[int]]] = []  # class, class below, by these rows
        for c, rows in self.loops.own.items():
            if len(rows) > 1:
                self._add_row(0.0, 0.0, {self.made[c]: -1.0, **dict.fromkeys(rows, 1.0)})
            for k, users in self._links(c).items():
                if not goal >> k & 1:
                    terms = dict.fromkeys(users, 1.0)
                    self._add_row(-np.inf, 0.0, {self.made[k]: -1.0, **terms})
                if c in part and part.get(k) == part[c]:
                    self.above.append((c, k, users))
        self.basic = self.model.getNumRow()

    def _links(self, c: int) -> dict[int, list[int]]:
        """For what the rows of ``c`` imply, which do; without what follows from other links."""
        users: dict[int, int] = {}
        for r in self.loops.own[c]:
            for k in bits(self.loops.implied[r]):
                users[k] = users.get(k, 0) | 1 << r
        follows = {
            k
            for j, by in users.items()
            for k in bits(self.implied[j])
            if k != j and k in users and not users[k] & ~by
        }
        return {k: bits(by) for k, by in users.items() if k not in follows}

    def _add_row(self, low: float, high: float, terms: dict[int, float]) -> None:
        index = np.fromiter(terms, dtype=np.int32, count=len(terms))
        value = np.fromiter(terms.values(), dtype=np.float64, count=len(terms))
        self.model.addRow(low, high, len(terms), index, value)

    def _cut(self, c: int, members: int) -> None:
        terms = dict.fromkeys(self.loops.support(members), -1.0)
        terms[self.made[c]] = terms.get(self.made[c], 0.0) + 1.0
        self._add_row(-np.inf, 0.0, terms)

    # The linear program.

    def _tighten(self, deadline: float) -> None:
        """Add loop cuts until the linear program breaks none, then drop the slack ones."""
        cuts: list[Cut] = []
        for _ in range(_ROUNDS):
            for c, members in cuts:
                self._cut(c, members)
            if not self._run(deadline) or not self._optimal():
                return
            self._raise_bound(self.model.getInfo().objective_function_value)
            cuts = self.loops.broken(self.model.getSolution().col_value[: len(self.costs)])
            if not cuts or self.bound >= self.ceiling * (1 - 1e-9):
                break
        values = self.model.getSolution().row_value
        slack = [i for i in range(self.basic, len(values)) if abs(values[i]) > 1e-6]
        self.model.deleteRows(len(slack), np.array(slack, dtype=np.int32))

    def _run(self, deadline: float) -> bool:
        left = deadline - time.perf_counter()
        if left <= 0:
            return False
        self.model.setOptionValue("time_limit", left)
        self.model.run()
        return True

    def _optimal(self) -> bool:
        return self.model.getModelStatus() == highspy.HighsModelStatus.kOptimal

    def _raise_bound(self, scaled: float) -> None:
        self.bound = max(self.bound, scaled / self.scale)

    def _round(self) -> None:
        """Start from a greedy plan that pays little for what the linear program chose, if better.

        Where several classes gain only together, the linear program says which move.
        """
        chosen = np.clip(self.model.getSolution().col_value[: len(self.costs)], 0.0, 1.0)
        if len(chosen) < len(self.costs):
            return
        biased = self.costs * (1.0 + 1e-3 - chosen)
        nodes = [replace(n, cost=c) for n, c in zip(self.problem.nodes, biased, strict=True)]
        plan = greedy(Problem(nodes, self.problem.roots))
        cost = validate(self.problem, plan)
        if cost < self.ceiling:
            self.start, self.ceiling = plan, cost

    # The integer program.

    def _require_integers(self) -> None:
        self.integer = True
        count = self.model.getNumCol()
        for p in self.components:
            for c in p if len(p) > 1 else ():
                self.levels[c] = self.model.getNumCol()
                self.model.addVar(0.0, len(p) - 1.0)
        size = {c: float(len(p)) for p in self.components for c in p}
        for c, k, users in self.above:
            terms = {self.levels[c]: 1.0, self.levels[k]: -1.0, **dict.fromkeys(users, -size[c])}
            self._add_row(1.0 - size[c], np.inf, terms)
        columns = np.arange(count, dtype=np.int32)
        kinds = np.full(count, highspy.HighsVarType.kInteger)
        self.model.changeColsIntegrality(count, columns, kinds)

    def _suggest(self) -> None:
        """Give HiGHS the start to improve on."""
        values = np.zeros(self.model.getNumCol())
        part = {c: i for i, p in enumerate(self.components) for c in p}
        height = [0] * len(self.components)
        for c in order(self.problem, self.start):
            values[self.start[c]] = values[self.made[c]] = 1.0
            if c in self.levels:
                values[self.levels[c]] = height[part[c]]
                height[part[c]] += 1
        solution = highspy.HighsSolution()
        solution.col_value = values.tolist()
        self.model.setSolution(solution)

    def _branch(self, deadline: float) -> Answer | None:
        """The cheapest allowed plan; cuts off cycles, should rounding let one through."""
        while self._run(deadline):
            info = self.model.getInfo()
            if np.isfinite(info.mip_dual_bound):
                self._raise_bound(info.mip_dual_bound)
            if info.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
                return None
            plan = self._plan(self.model.getSolution().col_value)
            try:
                validate(self.problem, plan)
            except ExtractError:
                self._cut_cycles(plan)
                continue
            return self._accept(plan, self._optimal())
        return None

    def _plan(self, values: list[float]) -> Plan:
        made = {c: rows for c, rows in self.loops.own.items() if values[self.made[c]] > 0.5}
        return {c: max(rows, key=lambda r: values[r]) for c, rows in made.items()}

    def _cut_cycles(self, plan: Plan) -> None:
        needs = {c: self.problem.nodes[r].children for c, r in plan.items()}
        below = {c: mask_of(k for k in ks if k in plan) for c, ks in needs.items()}
        for p in strong_components(below):
            for c in p if len(p) > 1 else ():
                self._cut(c, mask_of(p))


def _silent() -> highspy.Highs:
    """A solver without output, whose answers do not depend on timing until a limit is hit."""
    model = _Silent()
    model.setOptionValue("output_flag", False)
    model.setOptionValue("threads", 1)
    model.setOptionValue("random_seed", 0)
    model.setOptionValue("mip_rel_gap", 1e-9)
    return model


class _Silent(highspy.Highs):
    """HiGHS greets on stdout in its constructor's last call unless it is silenced before that."""

    def enableCallbacks(self) -> None:
        self.setOptionValue("output_flag", False)
        super().enableCallbacks()
