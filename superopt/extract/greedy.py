"""Greedy extraction: for every class the node that is cheapest with all that it needs.

Fast, and within a few percent where alternatives do not need one another. It misses what pays only
when several classes move together, for which see ``ilp``.
"""

from __future__ import annotations

import heapq
import math
from collections import deque

import numpy as np

from superopt.errors import ExtractError
from superopt.extract.masks import union
from superopt.extract.problem import Plan, Problem, validate


def greedy(problem: Problem) -> Plan:
    """A valid plan, the cheaper of two greedy ones: shared nodes paid once, or once per use.

    Deterministic. Raises ExtractError if a root cannot be made.
    """
    tree = tree_greedy(problem)
    for r in problem.roots:
        if r not in tree:
            raise ExtractError(f"root class {r} has no finite, acyclic way to be made")
    dag = dag_greedy(problem, list(tree))
    try:
        return dag if validate(problem, dag) <= validate(problem, tree) else tree
    except ExtractError:
        # Choices made at different times can close a cycle; the tree's never do.
        return tree


def tree_greedy(problem: Problem) -> Plan:
    """The cheapest node of every class that can be made, counting a node once per use.

    Acyclic: every class is chosen after the children of its node.
    """
    waiting = [len(n.children) for n in problem.nodes]
    total = [n.cost for n in problem.nodes]
    users = _users(problem)
    ready = [(n.cost, i) for i, n in enumerate(problem.nodes) if not n.children]
    heapq.heapify(ready)
    plan: Plan = {}
    while ready:
        cost, i = heapq.heappop(ready)
        c = problem.nodes[i].eclass
        if c in plan or math.isinf(problem.nodes[i].cost):
            continue
        plan[c] = i
        for u in users.get(c, ()):
            waiting[u] -= 1
            total[u] += cost
            if not waiting[u]:
                heapq.heappush(ready, (total[u], u))
    return plan


def dag_greedy(problem: Problem, classes: list[int]) -> Plan:
    """For every class the node whose whole set of needed nodes costs least, shared ones once.

    ``classes`` are those that can be made. The plan may have a cycle.
    """
    at = {c: i for i, c in enumerate(classes)}
    current = np.zeros(len(at))  # the cost of the class's chosen node
    best: dict[int, tuple[float, int, int]] = {}  # class -> cost of the set, node, set of classes
    users = _users(problem)
    leaves = (i for i, n in enumerate(problem.nodes) if not n.children)
    queue = deque(i for i in leaves if not math.isinf(problem.nodes[i].cost))
    queued = set(queue)
    while queue:
        i = queue.popleft()
        queued.discard(i)
        node = problem.nodes[i]
        if any(k not in best for k in node.children):
            continue
        need = union(best[k][2] for k in node.children)
        if need >> at[node.eclass] & 1:
            continue
        cost = node.cost + _weight(need, current)
        if node.eclass in best and cost >= best[node.eclass][0] * (1 - 1e-9):
            continue
        best[node.eclass] = (cost, i, need | 1 << at[node.eclass])
        current[at[node.eclass]] = node.cost
        for u in users.get(node.eclass, ()):
            if u not in queued and not math.isinf(problem.nodes[u].cost):
                queue.append(u)
                queued.add(u)
    return {c: i for c, (_, i, _) in best.items()}


def _users(problem: Problem) -> dict[int, list[int]]:
    """The nodes that have each class as a child."""
    users: dict[int, list[int]] = {}
    for i, n in enumerate(problem.nodes):
        for k in n.children:
            users.setdefault(k, []).append(i)
    return users


def _weight(members: int, weights: np.ndarray) -> float:
    """The sum of the weights of the members of a set."""
    raw = np.frombuffer(members.to_bytes((len(weights) + 7) // 8, "little"), dtype=np.uint8)
    flags = np.unpackbits(raw, count=len(weights), bitorder="little")
    return float(flags @ weights)
