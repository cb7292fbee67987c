"""Whatever torch function, every program that the search finds for it, for any card, equals it.

Plans for GPUs are executed node by node, each operator by its meaning in torch, so that the algebra
behind them is checked without a GPU. ``HYPOTHESIS_EXAMPLES`` asks for more examples than the few
that run by default; these are the same in every run.
"""

from __future__ import annotations

import os

import pytest
import torch
from end_to_end.checks import compiled
from end_to_end.programs import Program, programs, stacked
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from superopt.check import compare
from superopt.cost import load_card
from superopt.ir.egraph import EGraph
from superopt.ir.types import TupleType
from superopt.lift import lift
from superopt.lower import lower
from superopt.options import Options
from superopt.pipeline import search
from superopt.run.interpret import interpret
from superopt.run.program import Program as Executable
from superopt.saturate import Limits, saturate
from superopt.shelf import load_rules

RULES = load_rules()
CPU = torch.device("cpu")
MORE = int(os.environ.get("HYPOTHESIS_EXAMPLES", "0"))
SLACK = {torch.float64: 1e-8, torch.float32: 1e-3, torch.bfloat16: 0.25}


def examples(count):
    return settings(
        max_examples=MORE or count,
        derandomize=not MORE,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


def scale(p: Program) -> float:
    floating = [v for v in p.values.values() if v.is_floating_point() and v.numel()]
    return max(
        (float(v[v.isfinite()].abs().max()) for v in floating if v.isfinite().any()), default=1
    )


def agree(p: Program, got, want) -> None:
    assert len(got) == len(want)
    for i, (a, b) in enumerate(zip(got, want, strict=True)):
        a = torch.as_tensor(a, dtype=b.dtype) if not isinstance(a, torch.Tensor) else a
        assert (a.dtype, a.shape) == (b.dtype, b.shape), f"output {i}"
        why = compare(a, b, SLACK[p.dtype] * (1 + scale(p)))
        assert why is None, f"output {i}: {why}"


def eager(p: Program):
    with torch.no_grad():
        return list(p.function()(*p.inputs))


@examples(25)
@given(programs(dtypes=(torch.float64, torch.float64, torch.float32, torch.bfloat16)),
       st.sampled_from(["h200", "t4"]))  # fmt: skip
def test_plans_for_every_card_compute_the_program(p: Program, card: str):
    note(p.source)
    lifted = lift(p.trace())
    want = eager(p)
    args = [*p.inputs, *lifted.constants]
    agree(p, interpret(lifted.graph, args, {}, CPU)[: lifted.graph.visible], want)
    for name in ("cpu", card):
        found = search(lifted.graph, load_card(name), RULES, Options(nodes=2_000))
        for rank, plan in enumerate(found.plans):
            note(f"{name} #{rank}:\n{plan.graph}")
            agree(p, interpret(plan.graph, args, {}, CPU)[: plan.graph.visible], want)
            if name == "cpu":
                listing = lower(plan, [None] * len(plan.steps), lifted, "A plan.")
                got = Executable(listing, FOLDER)(list(args))
                agree(p, got, want)
                assert [g.stride() for g in got] == [w.stride() for w in want]


@pytest.fixture(scope="module", autouse=True)
def _folder(tmp_path_factory):
    global FOLDER
    FOLDER = tmp_path_factory.mktemp("plans")


@examples(25)
@given(programs())
def test_every_node_of_a_class_has_its_value(p: Program):
    note(p.source)
    lifted = lift(p.trace())
    egraph, _ = saturate(lifted.graph, RULES, limits=Limits(nodes=1_500))
    args = [*p.inputs, *lifted.constants]
    check_classes(egraph, args, 1e-8 * (1 + scale(p)) ** 2)


@examples(10)
@given(programs(most=4), st.integers(2, 4), st.sampled_from(["cpu", "h200"]))
def test_stacks_of_a_program_compute_it(p: Program, layers: int, card: str):
    """Repeated blocks are solved once and put together again."""
    if not p.inputs[0].is_floating_point() or p.values[p.outputs[-1]].numel() == 0:
        return
    if p.values[p.outputs[-1]].dtype == torch.bool:
        return
    p = stacked(p, layers)
    note(p.source)
    lifted = lift(p.trace())
    found = search(lifted.graph, load_card(card), RULES, Options(nodes=2_000, k=2))
    args = [*p.inputs, *lifted.constants]
    for plan in found.plans:
        agree(p, interpret(plan.graph, args, {}, CPU)[: plan.graph.visible], eager(p))


@examples(10)
@given(programs(most=5))
def test_gradients_are_eagers(p: Program):
    """The whole way through torch.compile: joint graphs, the partition, lazy backward graphs."""
    note(p.source)
    torch._dynamo.reset()
    fn = p.function()
    got, want = gradients(p, compiled(fn, dynamic=False)), gradients(p, fn)
    assert [g is None for g in got] == [w is None for w in want]
    worst = max((float(w.abs().nan_to_num().max()) for w in want if w is not None), default=1.0)
    for i, (a, b) in enumerate(zip(got, want, strict=True)):
        if b is not None:
            assert steps(a) == steps(b)
            why = compare(a, b, 1e-7 * (1 + scale(p)) * (1 + worst))
            assert why is None, f"gradient {i}: {why}"


def steps(x: torch.Tensor) -> list[int]:
    """The strides that matter: an axis of one element has none."""
    return [s for n, s in zip(x.shape, x.stride(), strict=True) if n > 1]


def gradients(p: Program, fn):
    inputs = [x.clone().requires_grad_(x.is_floating_point()) for x in p.inputs]
    outs = [o for o in fn(*inputs) if o.requires_grad and o.numel()]
    wanted = [x for x in inputs if x.requires_grad]
    if not outs or not wanted:
        return []
    return torch.autograd.grad([o.square().sum() for o in outs], wanted, allow_unused=True)


def check_classes(egraph: EGraph, args, tolerance: float) -> None:
    """Every node gives the value of its class, whatever law made it."""
    found: dict[int, object] = {}
    law: dict[int, str] = {}
    left = [(c, n) for c, cls in sorted(egraph.classes.items()) for n in cls.nodes]
    while left:
        waiting = []
        for c, n in left:
            if not all(a in found for a in n.args):
                waiting.append((c, n))
                continue
            if n.op.name == "input":
                value = args[n.attrs[0]]
            else:
                value = n.op.torch(*(found[a] for a in n.args), *n.attrs)
            if c not in found:
                found[c], law[c] = value, n.law
            elif n.op.name not in ("scalar", "pack"):
                same_value(egraph, c, n, value, found[c], law[c], tolerance)
        assert len(waiting) < len(left) or not waiting, "some class has no acyclic node"
        left = waiting


def same_value(egraph, c, node, value, known, known_law, tolerance) -> None:
    several = isinstance(egraph.classes[c].type, TupleType)
    types = egraph.classes[c].type.items if several else [egraph.classes[c].type]
    pairs = zip(value, known, strict=True) if several else [(value, known)]
    for (a, b), t in zip(pairs, types, strict=True):
        if t is None:
            continue
        a, b = (
            v if isinstance(v, torch.Tensor) else torch.tensor(v, dtype=t.dtype) for v in (a, b)
        )
        assert (a.dtype, tuple(a.shape)) == (t.dtype, t.shape), f"{node.law}: {node.op}{node.attrs}"
        why = compare(a, b, tolerance)
        assert why is None, f"{node.law} (against {known_law}): {node.op}{node.args}: {why}"
