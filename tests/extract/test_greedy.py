"""Greedy plans: valid, shared nodes once, and blind to joint moves."""

import math

import pytest

from superopt.errors import ExtractError
from superopt.extract.greedy import dag_greedy, greedy, tree_greedy
from superopt.extract.problem import Choice, Problem, order, validate


def test_shared_nodes_are_paid_once() -> None:
    shared, left, right, out = range(4)
    problem = Problem(
        [
            Choice(shared, 10.0),
            Choice(left, 1.0, (shared,)),
            Choice(right, 1.0, (shared,)),
            Choice(right, 8.0),
            Choice(out, 0.0, (left, right)),
        ],
        [out],
    )
    assert validate(problem, tree_greedy(problem)) == 19.0
    # By itself ``right`` is cheaper from its leaf; its class sees no use of ``shared`` elsewhere.
    assert validate(problem, greedy(problem)) == 19.0
    assert validate(problem, {shared: 0, left: 1, right: 2, out: 4}) == 12.0


def test_dag_greedy_beats_tree_greedy_where_one_class_shares() -> None:
    shared, left, right, out = range(4)
    problem = Problem(
        [
            Choice(shared, 10.0),
            Choice(left, 1.0, (shared,)),
            Choice(right, 1.0, (shared,)),
            Choice(out, 0.0, (left, right)),
            Choice(out, 15.0),
        ],
        [out],
    )
    tree = tree_greedy(problem)
    assert validate(problem, tree) == 15.0
    assert validate(problem, dag_greedy(problem, list(tree))) == 12.0
    assert validate(problem, greedy(problem)) == 12.0


def test_joint_moves_are_missed(qkv: Problem) -> None:
    assert validate(qkv, tree_greedy(qkv)) == 33.0
    assert validate(qkv, greedy(qkv)) == 33.0


def test_cycles_are_never_chosen(knot: Problem, trap: Problem) -> None:
    assert validate(knot, greedy(knot)) == 7.0
    validate(trap, greedy(trap))


def test_forbidden_nodes_are_never_chosen() -> None:
    problem = Problem([Choice(0, math.inf), Choice(0, 3.0), Choice(1, 1.0, (0,))], [1])
    assert greedy(problem) == {0: 1, 1: 2}


@pytest.mark.parametrize(
    "nodes",
    [
        [],
        [Choice(0, math.inf)],
        [Choice(0, 1.0, (0,))],
        [Choice(0, 1.0, (1,)), Choice(1, 1.0, (0,))],
        [Choice(0, 1.0, (7,))],
    ],
)
def test_a_root_that_cannot_be_made(nodes: list[Choice]) -> None:
    with pytest.raises(ExtractError, match="class 0"):
        greedy(Problem(nodes, [0]))


@pytest.mark.parametrize("cost", [-1.0, math.nan])
def test_costs_that_cannot_be(cost: float) -> None:
    with pytest.raises(ExtractError, match="must be >= 0"):
        Problem([Choice(0, cost)], [0])


def test_validate_refuses() -> None:
    problem = Problem(
        [Choice(0, 1.0, (1,)), Choice(1, 1.0, (0,)), Choice(1, math.inf), Choice(1, 2.0)], [0]
    )
    assert validate(problem, {0: 0, 1: 3}) == 3.0
    for plan, why in [
        ({0: 0, 1: 1}, "needs class 0 to make class 0"),
        ({0: 0}, "no node for it"),
        ({0: 0, 1: 2}, "forbidden"),
        ({0: 0, 1: 0}, "by a node of class 0"),
    ]:
        with pytest.raises(ExtractError, match=why):
            validate(problem, plan)


def test_order_puts_children_first(qkv: Problem) -> None:
    plan = greedy(qkv)
    classes = order(qkv, plan)
    for i, c in enumerate(classes):
        assert set(qkv.nodes[plan[c]].children) <= set(classes[:i])
