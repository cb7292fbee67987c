"""The final choice: the fastest contestant wins, and the records say which one runs."""

from types import SimpleNamespace

import pytest
import torch

from superopt import choose as chooser
from superopt.options import Options
from superopt.session import Record


class Graph:
    """A compiled graph with three plans that all give the same result."""

    def __init__(self):
        self.plans = [object() for _ in range(3)]
        self.fallback = object()
        self.current = self.plans[0]
        self.record = Record("inference", "h200", SimpleNamespace(), [])

    def select(self, rank):
        self.current = self.plans[rank]
        self.record.chosen = f"superopt #{rank}"


@pytest.fixture
def race(monkeypatch):
    """``race(times)`` makes the contestants take these times, in their order."""

    def run(times, **settings):
        graph = Graph()
        ours, rival = (lambda *a: (a[0] + 1,)), (lambda *a: (a[0] + 1,))
        monkeypatch.setattr(chooser, "interleaved", lambda fns: times[: len(fns)])
        monkeypatch.setattr(chooser, "_rival", lambda *a: rival)
        won = chooser.choose(ours, None, [torch.ones(3)], [graph], Options(**settings))
        return graph, won is rival

    return run


def test_our_fastest_plan_is_kept(race):
    graph, inductor = race([3.0, 1.0, 2.0, 1.5])
    assert not inductor and graph.current is graph.plans[1]
    assert graph.record.chosen == "superopt #1"
    assert graph.record.measured == {
        "superopt #0": 3.0,
        "superopt #1": 1.0,
        "superopt #2": 2.0,
        "inductor": 1.5,
    }


def test_inductor_runs_where_it_is_faster_and_counts_as_a_miss(race):
    graph, inductor = race([3.0, 1.0, 2.0, 0.5])
    assert inductor and graph.record.chosen == "inductor"


def test_without_a_rival_only_our_plans_compete(race):
    graph, inductor = race([3.0, 2.0, 1.0, 0.1], rival=False)
    assert not inductor and graph.record.chosen == "superopt #2"
    assert "inductor" not in graph.record.measured


def test_a_graph_that_fell_back_is_left_alone(monkeypatch):
    graph = Graph()
    graph.current = graph.fallback
    chooser._select([graph], 1)
    assert graph.current is graph.fallback


def test_buffers_are_private_and_parameters_are_not():
    p, x = torch.nn.Parameter(torch.ones(3)), torch.arange(12.0).reshape(3, 4).t()
    assert chooser._private(p) is p
    twin = chooser._private(x)
    assert twin is not x and twin.stride() == x.stride() and torch.equal(twin, x)
    assert chooser._private(5) == 5


def test_gradients_are_timed_but_not_kept():
    w = torch.nn.Parameter(torch.ones(3))
    calls = []

    def fn(w, x):
        calls.append(1)
        return (w * x,)

    chooser._runner([w, torch.ones(3)])(fn)
    assert calls and w.grad is None
