"""Problems, and every plan of a small one."""

import itertools
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from superopt.errors import ExtractError
from superopt.extract.problem import Choice, Plan, Problem, order, validate

GYM = Path(__file__).parents[1] / "data" / "extraction-gym"


def all_plans(problem: Problem) -> Iterator[Plan]:
    """Every valid plan, without classes that it does not need."""
    seen = set()
    classes = list(problem.members)
    for nodes in itertools.product(*problem.members.values()):
        plan = dict(zip(classes, nodes, strict=True))
        try:
            validate(problem, plan)
        except ExtractError:
            continue
        plan = {c: plan[c] for c in order(problem, plan)}
        key = tuple(sorted(plan.items()))
        if key not in seen:
            seen.add(key)
            yield plan


def costs_by_hand(problem: Problem, k: int) -> list[float]:
    """The costs of the ``k`` best plans, each lacking a priced node of every better one."""
    found: list[tuple[float, set[int]]] = []
    for plan in sorted(all_plans(problem), key=lambda p: validate(problem, p)):
        priced = {i for i in plan.values() if problem.nodes[i].cost > 0}
        if not any(p <= priced for _, p in found):
            found.append((validate(problem, plan), priced))
    return [c for c, _ in found[:k]]


@pytest.fixture
def by_hand() -> Callable[[Problem, int], list[float]]:
    return costs_by_hand


@pytest.fixture
def qkv() -> Problem:
    """Three products of one input: 10 each, or 14 for all at once and a free view for each.

    No one of them gains by moving alone.
    """
    x, wq, wk, wv, wqkv, q, k, v, all_, out = range(10)
    nodes = [Choice(c, 0.0) for c in (x, wq, wk, wv)]
    nodes.append(Choice(wqkv, 0.5, (wq, wk, wv)))
    nodes.append(Choice(all_, 14.0, (x, wqkv)))
    for c, w in ((q, wq), (k, wk), (v, wv)):
        nodes += [Choice(c, 10.0, (x, w)), Choice(c, 0.0, (all_,))]
    nodes.append(Choice(out, 3.0, (q, k, v)))
    return Problem(nodes, [out])


@pytest.fixture
def knot() -> Problem:
    """Two classes that are free views of one another; each can also be made from a leaf."""
    a, b, leaf, out = range(4)
    return Problem(
        [
            Choice(a, 0.0, (b,)),
            Choice(b, 0.0, (a,)),
            Choice(a, 7.0, (leaf,)),
            Choice(b, 5.0, (leaf,)),
            Choice(leaf, 1.0),
            Choice(out, 1.0, (a, b)),
        ],
        [out],
    )


@pytest.fixture
def trap() -> Problem:
    """A cycle of three that a linear program would pay nearly nothing for.

    Each of a, b, c comes free from the pair that it is in; each pair comes free from its members,
    or for 6. Members cost 5, 5, 5 on their own.
    """
    a, b, c, ab, bc, ca, out = range(7)
    nodes = [Choice(x, 5.0) for x in (a, b, c)]
    for pair, one, two in ((ab, a, b), (bc, b, c), (ca, c, a)):
        nodes.append(Choice(pair, 0.0, (one, two)))
        nodes.append(Choice(pair, 6.0))
        nodes += [Choice(one, 0.0, (pair,)), Choice(two, 0.0, (pair,))]
    nodes.append(Choice(out, 0.0, (a, b, c)))
    return Problem(nodes, [out])


@pytest.fixture
def gym() -> Callable[[str], Problem]:
    """Reads one graph of the extraction gym; SUPEROPT_GYM may name another folder."""

    def read(name: str) -> Problem:
        folder = Path(os.environ.get("SUPEROPT_GYM", GYM))
        data = json.loads((folder / f"{name}.json").read_text())
        nodes = data["nodes"]
        number = {c: i for i, c in enumerate(dict.fromkeys(n["eclass"] for n in nodes.values()))}

        def children(node: dict) -> tuple[int, ...]:
            return tuple(dict.fromkeys(number[nodes[k]["eclass"]] for k in node["children"]))

        choices = [Choice(number[n["eclass"]], n["cost"], children(n)) for n in nodes.values()]
        return Problem(choices, [number[r] for r in data["root_eclasses"]])

    return read
