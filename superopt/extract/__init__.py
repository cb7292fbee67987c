"""Extraction: from an e-graph and a price for its nodes to the cheapest programs in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from superopt.extract.problem import Choice, Problem, from_egraph, order
from superopt.extract.search import Solution, extract, validate
from superopt.ir.egraph import EGraph, ENode
from superopt.ir.graph import Graph

__all__ = [
    "Choice",
    "Extraction",
    "Problem",
    "Solution",
    "extract",
    "extract_graphs",
    "validate",
]


@dataclass(frozen=True)
class Extraction:
    """A program, and what is known of its price; see ``Solution`` for the figures."""

    graph: Graph
    cost: float
    bound: float
    gap: float
    method: str
    status: str


def extract_graphs(
    egraph: EGraph,
    price: Callable[[EGraph, int, ENode], float],
    *,
    time_limit: float = 10.0,
    k: int = 1,
) -> list[Extraction]:
    """Up to ``k`` programs that compute the roots, cheapest first.

    A node costs ``price(egraph, class, node)``, which is >= 0, or inf to forbid it; a program costs
    the sum over its nodes, each once however often it is read. Every program lacks a priced node of
    each before it. Raises ExtractError if a root has no finite, acyclic program.
    """
    problem, enodes = from_egraph(egraph, price)
    found = extract(problem, time_limit=time_limit, k=k)
    return [
        Extraction(_graph(egraph, problem, enodes, s), s.cost, s.bound, s.gap, s.method, s.status)
        for s in found
    ]


def _graph(egraph: EGraph, problem: Problem, enodes: list[ENode], solution: Solution) -> Graph:
    graph = Graph(hints=egraph.hints)
    index: dict[int, int] = {}
    for c in order(problem, solution.choice):
        n = enodes[solution.choice[c]]
        index[c] = graph.add(n.op, tuple(index[a] for a in n.args), n.attrs, n.law)
    graph.outputs = [index[r] for r in egraph.roots]
    return graph
