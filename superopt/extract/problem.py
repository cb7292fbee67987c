"""What extraction is, apart from tensors: choose one node per needed class, and pay each once.

A plan is a choice of one node for every class that it needs: the roots, and the children of every
chosen node. It must have no cycle. Its cost is the sum of its nodes' costs, each counted once,
however many nodes read it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from superopt.errors import ExtractError

if TYPE_CHECKING:
    from superopt.ir.egraph import EGraph, ENode

Plan = dict[int, int]
"""Class -> index of its chosen node in ``Problem.nodes``."""


@dataclass(frozen=True)
class Choice:
    """One way to make ``eclass`` out of the distinct classes ``children``; inf: forbidden."""

    eclass: int
    cost: float
    children: tuple[int, ...] = ()


@dataclass(frozen=True)
class Problem:
    """All nodes, and the classes that a plan must make. Raises ExtractError on a cost < 0 or NaN.

    A class that no node makes cannot be made; nodes that need it are never chosen.
    """

    nodes: list[Choice]
    roots: list[int]

    def __post_init__(self) -> None:
        for i, n in enumerate(self.nodes):
            if not n.cost >= 0.0:
                raise ExtractError(f"node {i} of class {n.eclass} costs {n.cost}; it must be >= 0")

    @cached_property
    def members(self) -> dict[int, list[int]]:
        """The indices of every class's nodes."""
        table: dict[int, list[int]] = {}
        for i, n in enumerate(self.nodes):
            table.setdefault(n.eclass, []).append(i)
        return table


def from_egraph(
    egraph: EGraph, price: Callable[[EGraph, int, ENode], float]
) -> tuple[Problem, list[ENode]]:
    """The problem of an e-graph whose nodes cost ``price(egraph, class, node)``, and its e-nodes.

    The list is parallel to ``Problem.nodes``. ``price`` gives inf for a node that must not be used.
    """
    choices: list[Choice] = []
    enodes: list[ENode] = []
    for number, eclass in egraph.classes.items():
        for n in eclass.nodes:
            children = tuple(dict.fromkeys(n.args))
            choices.append(Choice(number, float(price(egraph, number, n)), children))
            enodes.append(n)
    return Problem(choices, list(dict.fromkeys(egraph.roots))), enodes


def order(problem: Problem, plan: Plan) -> list[int]:
    """The classes that the plan needs, each after the children of its node.

    Raises ExtractError if the plan has a cycle, or lacks a class that it needs.
    """
    done: dict[int, bool] = {}  # False while its children are being visited
    result: list[int] = []
    stack = list(reversed(problem.roots))
    while stack:
        c = stack[-1]
        if done.get(c):
            stack.pop()
        elif c in done:
            stack.pop()
            done[c] = True
            result.append(c)
        else:
            done[c] = False
            for k in reversed(_node(problem, plan, c).children):
                if done.get(k) is False:
                    raise ExtractError(f"the plan needs class {k} to make class {k}")
                if k not in done:
                    stack.append(k)
    return result


def validate(problem: Problem, plan: Plan) -> float:
    """The plan's cost, found from nothing but the problem.

    Raises ExtractError if the plan has a cycle, lacks a class that it needs, uses a forbidden node,
    or makes a class by a node of another.
    """
    classes = order(problem, plan)
    for c in classes:
        if math.isinf(_node(problem, plan, c).cost):
            raise ExtractError(f"the plan makes class {c} by a forbidden node")
    return math.fsum(problem.nodes[plan[c]].cost for c in classes)


def _node(problem: Problem, plan: Plan, eclass: int) -> Choice:
    if eclass not in plan:
        raise ExtractError(f"the plan needs class {eclass} and has no node for it")
    node = problem.nodes[plan[eclass]]
    if node.eclass != eclass:
        raise ExtractError(f"the plan makes class {eclass} by a node of class {node.eclass}")
    return node
