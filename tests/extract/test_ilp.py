"""The integer program on tables that nothing has reduced, and the reductions on their own."""

from collections.abc import Callable

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from superopt.errors import ExtractError
from superopt.extract.greedy import greedy, tree_greedy
from superopt.extract.ilp import Answer, Solver
from superopt.extract.loops import Loops
from superopt.extract.masks import bits, mask_of, strong_components, weak_components
from superopt.extract.problem import Choice, Problem, validate
from superopt.extract.reduce import implications, reduce, row_implications
from superopt.extract.table import from_problem, split

ByHand = Callable[[Problem, int], list[float]]


def answers(problem: Problem, count: int) -> list[Answer]:
    """The first plans by the integer program alone; checks what it says of them."""
    table = from_problem(problem)
    solver = Solver(table, greedy(table.problem()))
    found = []
    for _ in range(count):
        answer = solver.next(20.0)
        if answer is None:
            break
        assert answer.optimal
        assert answer.cost == validate(table.problem(), answer.plan)
        assert answer.bound <= answer.cost <= answer.bound * (1 + 1e-6) + 1e-9
        found.append(answer)
    return found


def test_joint_moves_are_found(qkv: Problem) -> None:
    assert answers(qkv, 1)[0].cost == 17.5


@pytest.mark.parametrize("name", ["qkv", "knot", "trap"])
def test_next_best(name: str, by_hand: ByHand, request: pytest.FixtureRequest) -> None:
    problem = request.getfixturevalue(name)
    costs = [a.cost for a in answers(problem, 100)]
    assert costs == pytest.approx(by_hand(problem, 100))


def test_costs_in_seconds(qkv: Problem) -> None:
    """Costs near 1e-6 are far above the solver's tolerances, once scaled."""
    micro = [Choice(n.eclass, n.cost * 1e-6, n.children) for n in qkv.nodes]
    assert answers(Problem(micro, qkv.roots), 1)[0].cost == pytest.approx(17.5e-6, rel=1e-9)


def test_no_time_leaves_the_start(qkv: Problem) -> None:
    table = from_problem(qkv)
    answer = Solver(table, greedy(table.problem())).next(0.0)
    assert answer is not None and not answer.optimal
    assert (answer.cost, answer.bound) == (33.0, 0.0)


def test_rounding_that_lets_a_cycle_through_is_cut_off(knot: Problem) -> None:
    table = from_problem(knot)
    solver = Solver(table, greedy(table.problem()))
    solver.above.clear()  # no levels: nothing but cuts against cycles
    solver._tighten = lambda deadline: None  # type: ignore[method-assign]
    answer = solver.next(20.0)
    assert answer is not None and answer.cost == 7.0


def test_loop_cuts_cut_off_a_fractional_cycle(knot: Problem) -> None:
    table = from_problem(knot)
    parts = strong_components(table.below())
    made = row_implications(table, parts, implications(table, parts))
    loops = Loops(table, [below for c in table.rows for below in made[c]])
    rows = [i for rows in knot.members.values() for i in rows]
    amount = {0: 0.9, 1: 0.9, 2: 0.1, 3: 0.1, 4: 1.0, 5: 1.0}  # by node of the problem
    cuts = loops.broken([amount[r] for r in rows])
    assert cuts
    for c, members in cuts:
        assert members >> c & 1
        support = sum(amount[rows[r]] for r in loops.support(members))
        assert support < sum(amount[rows[r]] for r in loops.own[c])


def test_implications_are_what_all_ways_share() -> None:
    a, b, c, d, e = range(5)
    problem = Problem(
        [
            Choice(a, 1.0, (b,)),
            Choice(a, 1.0, (c,)),
            Choice(b, 1.0, (d,)),
            Choice(b, 1.0, (a,)),
            Choice(c, 1.0, (d, e)),
            Choice(d, 1.0),
            Choice(e, 1.0),
        ],
        [a],
    )
    table = from_problem(problem)
    implied = implications(table, strong_components(table.below()))
    at = {name: i for i, name in enumerate(table.names)}
    assert implied[at[a]] == mask_of((at[a], at[d]))
    assert implied[at[b]] == mask_of((at[b], at[d]))
    assert implied[at[c]] == mask_of((at[c], at[d], at[e]))


def test_reduction_decides_what_has_no_choice(qkv: Problem) -> None:
    table = from_problem(qkv)
    reduce(table)
    assert table.fixed == 3.0
    assert [t.size[0] for t in split(table)] == [4]  # q, k, v, and all of them at once


def test_reduction_drops_what_is_dominated() -> None:
    problem = Problem(
        [Choice(0, 2.0, (1,)), Choice(0, 2.0, (1, 2)), Choice(0, 3.0, (1,)), Choice(1, 1.0)]
        + [Choice(2, 0.0)],
        [0],
    )
    table = from_problem(problem)
    reduce(table)
    assert (table.rows, table.fixed, table.picks[0]) == ({}, 3.0, 0)
    kept = from_problem(problem)
    reduce(kept, lossless=True)
    assert len(kept.rows[0]) == 3


def test_reduction_of_what_cannot_be_made() -> None:
    problem = Problem([Choice(0, 1.0, (1,)), Choice(1, 1.0, (0,))], [0])
    assert tree_greedy(problem) == {}
    with pytest.raises(ExtractError, match="class 0"):
        reduce(from_problem(problem))


@given(st.lists(st.sets(st.integers(0, 7)), min_size=8, max_size=8))
def test_components_are_those_of_networkx(below: list[set[int]]) -> None:
    masks = {i: mask_of(ks) for i, ks in enumerate(below)}
    graph = nx.DiGraph({i: sorted(ks) for i, ks in enumerate(below)})
    strong = strong_components(masks)
    expected = {frozenset(p) for p in nx.strongly_connected_components(graph)}
    assert {frozenset(p) for p in strong} == expected
    rank = {i: n for n, p in enumerate(strong) for i in p}
    assert all(rank[k] <= rank[i] for i, ks in enumerate(below) for k in ks)
    weak = {frozenset(bits(p)) for p in weak_components(masks)}
    assert weak == {frozenset(p) for p in nx.weakly_connected_components(graph)}
