"""Tables of what was compared and of what the compiler did."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Sequence

import torch
from rich.console import Console
from rich.table import Table

from superopt.demo.compare import Contestant
from superopt.ir.plan import Plan
from superopt.pipeline import Search
from superopt.rule import Rule
from superopt.session import Record

FAMILIES = {
    "gemm": "matrix products generated",
    "region": "other kernels generated",
    "aten": "operators left to torch",
}


def comparison(
    console: Console, found: Sequence[Contestant], exact: torch.Tensor, records: Sequence[Record]
) -> None:
    """Latency, compile seconds and differences of the contestants."""
    table = _table("eager, Inductor and superopt", "")
    for head in ("median ms", "quartiles", "compile s", "max |Δ| eager", "max |Δ| f64", "min cos"):
        table.add_column(head, justify="right")
    eager = found[0].output
    for c in found:
        low, high = (1e3 * t for t in c.quartiles)
        table.add_row(
            c.name,
            f"{1e3 * c.median:.2f}",
            f"{low:.2f}–{high:.2f}",
            "–" if c is found[0] else f"{c.compiled:.1f}",
            "–" if c is found[0] else f"{_difference(c.output, eager):.1e}",
            f"{_difference(c.output, exact):.1e}",
            f"{_cosine(c.output, exact):.7f}",
        )
    console.print(table)
    for r in records:
        console.print(f"  what ran, {r.role} graph: {r.chosen}; cost model: {r.card}")
    alone, below = (c.generated for c in found[1:])
    console.print(f"  kernels that Inductor wrote: {alone} alone, {below} below superopt's plan")
    runs = len(found[0].times)
    console.print(
        f"  {runs} calls of each, in turn; compile s: the first call with empty caches; cosine of"
        " each row with\n  its float64 value, the smallest",
        style="dim",
    )


def plan(console: Console, before: Plan, after: Plan) -> None:
    """The traced graph and the plan, by who computes their steps."""
    table = _table("the plan", "steps")
    table.add_column("as traced", justify="right")
    table.add_column("superopt's plan", justify="right")
    counts = [Counter(s.family for s in p.steps) for p in (before, after)]
    for family, label in FAMILIES.items():
        if any(c[family] for c in counts):
            table.add_row(label, *(str(c[family]) for c in counts))
    for label, field in (("predicted launches", "launches"), ("predicted MB moved", "traffic")):
        scale = 1e6 if field == "traffic" else 1
        values = [getattr(p.price, field) / scale for p in (before, after)]
        table.add_row(label, *(f"{v:.0f}" for v in values))
    console.print(table)


def predicted(console: Console, records: Sequence[Record], found: Sequence[Contestant]) -> None:
    """Seconds that the cost model predicted for the plans, against the measured median."""
    prices = [r.search.plans[0].price for r in records]
    seconds = sum(p.seconds for p in prices if p is not None)
    ours = found[-1].median
    console.print(
        f"  predicted {1e3 * seconds:.2f} ms, measured {1e3 * ours:.2f} ms"
        f" (measured / predicted: {ours / seconds:.2f})"
    )


def ran(records: Sequence[Record]) -> bool:
    """True where every graph runs a plan that was compiled: ours, or Inductor's where faster."""
    return bool(records) and all(r.chosen != "eager" for r in records)


def rules(console: Console, found: Search, chosen: Plan, known: Sequence[Rule], most: int) -> None:
    """The rules that fired most: matches applied, and terms of the plan that they made."""
    made = Counter(chosen.graph.nodes[i].law for i in chosen.graph.live())
    laws = {r.name: r.law.split("\n")[0] for r in known}
    table = _table(f"rules that fired ({len(found.rules)})", "rule")
    table.add_column("matches", justify="right")
    table.add_column("in the plan", justify="right")
    table.add_column("law", no_wrap=True)
    ranked = sorted(found.rules.items(), key=lambda item: (-made[item[0]], -item[1], item[0]))
    left = console.width - max((len(name) for name, _ in ranked[:most]), default=0) - 31
    for name, count in ranked[:most]:
        law = textwrap.shorten(laws.get(name, ""), max(left, 10), placeholder=" …")
        table.add_row(name, str(count), str(made[name] or ""), law)
    if len(ranked) > most:
        rest = sum(count for _, count in ranked[most:])
        table.add_row(f"and {len(ranked) - most} more", str(rest), "", "")
    console.print(table)


def search(console: Console, found: Search) -> None:
    """The e-graph of every kind of block, and seconds per stage."""
    table = _table("the search", "block")
    for head in ("times", "terms", "e-nodes", "e-classes"):
        table.add_column(head, justify="right")
    table.add_column("stopped because")
    table.add_column("extraction")
    for i, b in enumerate(found.blocks):
        r, best = b.report, b.extractions[0]
        counts = (b.count, r.nodes_before, r.nodes, r.classes)
        how = f"{best.method}, gap {100 * best.gap:.1f}%"
        table.add_row(str(i), *map(str, counts), r.stop, how)
    console.print(table)
    stages = ", ".join(f"{name} {s:.2f}" for name, s in found.seconds.items())
    console.print(f"  seconds: {stages} (on a CPU, lower includes Inductor's compile of the plan)")


def _table(title: str, first: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column(first, no_wrap=True)
    return table


def _difference(a: torch.Tensor, b: torch.Tensor) -> float:
    return float((a.double() - b.double()).abs().max())


def _cosine(a: torch.Tensor, b: torch.Tensor) -> float:
    return float(torch.cosine_similarity(a.double(), b.double(), dim=-1).min())
