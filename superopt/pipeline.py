"""The search, from a lifted graph to priced plans: the table of contents of the compiler.

It needs no GPU: a plan for any card can be found anywhere.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch

from superopt.blocks import split, stitch
from superopt.cost import Card, NodePricer, objective, price_plan
from superopt.extract import Extraction, extract_graphs
from superopt.ir.graph import Graph
from superopt.ir.plan import Plan
from superopt.lower import spilled_bytes
from superopt.ops import COMMUTATIVE
from superopt.options import Options
from superopt.rule import Rule
from superopt.saturate import Limits, Report, saturate
from superopt.schedule import mark_constant, schedule


@dataclass
class BlockRecord:
    """How one kind of block was solved: how often it occurs, its saturation, its extractions."""

    count: int
    report: Report
    extractions: list[Extraction]


@dataclass
class Search:
    """The plans found, cheapest first; what led to them; seconds per stage."""

    plans: list[Plan] = field(default_factory=list)
    blocks: list[BlockRecord] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start

    @property
    def rules(self) -> Counter[str]:
        """Matches applied, by rule, over all kinds of blocks."""
        total: Counter[str] = Counter()
        for b in self.blocks:
            total.update(b.report.applied)
        return total


def search(graph: Graph, card: Card, rules: Sequence[Rule], options: Options) -> Search:
    """Plans for ``graph`` on ``card``, cheapest first by the price of the whole plan."""
    found = Search()
    if card.arch == 0:  # nothing is generated there
        rules = [r for r in rules if r.group != "kernels"]
    with found.stage("split"):
        blocks = split(graph)
    kinds = {b.kind: b.graph for b in blocks}
    for kind in sorted(kinds):
        count = sum(b.kind == kind for b in blocks)
        found.blocks.append(_solve(kinds[kind], count, card, rules, options, found.stage))
    distinct: dict[tuple, Plan] = {}
    for choice in _combinations(found.blocks):
        if len(distinct) == options.k:
            break
        with found.stage("schedule"):
            plan = schedule(stitch(graph, blocks, choice), generate=card.arch > 0)
            plan = mark_constant(plan) if options.freeze else plan
        if _outline(plan) in distinct:
            continue
        with found.stage("price"):
            precision = torch.get_float32_matmul_precision()
            spilled = 0.0
            if options.lam > 0 and card.arch > 0:
                spilled = spilled_bytes(plan, card.arch, card.sms, precision=precision)
            plan.price = price_plan(
                plan, card, lam=options.lam, precision=precision, spilled=spilled
            )
        distinct[_outline(plan)] = plan
    found.plans = list(distinct.values())
    found.plans.sort(key=lambda p: objective(p.price, options.lam))  # type: ignore[arg-type]
    return found


def _solve(
    graph: Graph,
    count: int,
    card: Card,
    rules: Sequence[Rule],
    options: Options,
    stage: Callable,
) -> BlockRecord:
    limits = Limits(nodes=options.nodes, matches_per_rule=options.matches)
    with stage("saturate"):
        egraph, report = saturate(graph, rules, limits=limits)
    with stage("extract"):
        precision = torch.get_float32_matmul_precision()
        pricer = NodePricer(card, freeze=options.freeze, lam=options.lam, precision=precision)
        extractions = extract_graphs(
            egraph, pricer, time_limit=options.extract_limit, k=2 * options.k
        )
    return BlockRecord(count, report, extractions)


def _outline(plan: Plan) -> tuple:
    """What a plan runs, whatever its values are numbered: plans of one outline cost the same."""
    return tuple(
        (s.family, s.placement, tuple(_key(plan, n) for n in s.nodes))
        for s in plan.steps
        if s.family != "view"
    )


def _key(plan: Plan, i: int) -> tuple:
    n = plan.graph.nodes[i]
    operands = [plan.graph.nodes[a].type for a in n.args]
    if n.op in COMMUTATIVE:
        operands.sort(key=str)
    return n.op.name, n.attrs, n.type, tuple(operands)


def _combinations(blocks: Sequence[BlockRecord]) -> Iterator[list[Graph]]:
    """The best of every block; then, one rank at a time, each block's next best in all of them."""
    seen: set[tuple[int, ...]] = set()
    for rank in range(max((len(b.extractions) for b in blocks), default=1)):
        choice = tuple(min(rank, len(b.extractions) - 1) for b in blocks)
        if choice not in seen:
            seen.add(choice)
            yield [b.extractions[i].graph for b, i in zip(blocks, choice, strict=True)]
