"""The saturation engine: provenance, limits, policies, and what happens when a rule is wrong."""

import pytest
import torch

from superopt.errors import RuleError, SaturateError
from superopt.ir.graph import Graph
from superopt.ir.types import TensorType
from superopt.ops import concat, input_, linear, mul, neg, permute, silu, slice_
from superopt.rule import make_rule, require, rule
from superopt.saturate import Limits, Run, Stop, saturate


@rule()
def swap(x, y):
    """x y = y x."""
    yield x * y
    yield y * x


@rule(numeric="reassociates")
def row_scale(x, r, w):
    """(x r) W^T = (x W^T) r."""
    yield linear(x * r, w)
    require(r.shape[-1] == 1, "one value a row")
    yield linear(x, w) * r


@rule(collect="w")
def together(x, w):
    """x W_i^T are slices of x [W_1; ...]^T."""
    yield [linear(x, v) for v in w]
    require(len(w) > 1, "several")
    big = linear(x, concat(*w, 0))
    at, parts = 0, []
    for v in w:
        parts.append(slice_(big, big.ndim - 1, at, at + v.shape[0]))
        at += v.shape[0]
    yield parts


def leaf(g, index, *shape, dtype=torch.float32, role="input"):
    return g.ref(g.add(input_, (), (index, TensorType(shape, dtype), role)))


def scaled(rows=4):
    g = Graph()
    x, r, w = leaf(g, 0, rows, 8), leaf(g, 1, rows, 1), leaf(g, 2, 16, 8, role="param")
    g.outputs = [g.insert(linear(r * x, w))]
    return g


def ops_of(egraph, cls):
    return {n.op.name: n.law for n in egraph.classes[cls].nodes}


def test_every_node_names_the_law_that_made_it():
    egraph, report = saturate(scaled(), [swap, row_scale])
    (root,) = egraph.roots
    assert ops_of(egraph, root)["linear"] == "input"
    assert ops_of(egraph, root)["mul"] in ("row_scale", "swap")
    assert report.applied["row_scale"] == 1
    assert report.stop == "saturated"


def test_guard_stops_a_law_that_does_not_hold():
    g = Graph()
    x, r, w = leaf(g, 0, 4, 8), leaf(g, 1, 4, 8), leaf(g, 2, 16, 8)
    g.outputs = [g.insert(linear(x * r, w))]
    egraph, report = saturate(g, [swap, row_scale])
    assert report.applied["row_scale"] == 0
    assert set(ops_of(egraph, egraph.roots[0])) == {"linear"}


def test_collecting_rule_gathers_unequal_widths_once():
    g = Graph()
    x = leaf(g, 0, 4, 8)
    g.outputs = [g.insert(linear(x, leaf(g, i, n, 8))) for i, n in ((1, 16), (2, 4), (3, 4))]
    egraph, report = saturate(g, [together])
    slices = [ops_of(egraph, r)["slice"] for r in egraph.roots]
    assert slices == ["together"] * 3
    wide = [c for c in egraph.classes.values() if c.type.shape == (4, 24)]
    assert len(wide) == 1 and report.stop == "saturated"


def test_same_input_gives_the_same_egraph():
    runs = [saturate(scaled(), [swap, row_scale])[0] for _ in range(3)]
    dumps = [
        [(c, [(n.op.name, n.args, n.law) for n in e.classes[c].nodes]) for c in e.classes]
        for e in runs
    ]
    assert dumps[0] == dumps[1] == dumps[2]


def test_node_limit_still_gives_an_answer():
    @rule()
    def grow(x):
        """A rule that never ends: -x = -(-(-x)))."""
        yield neg(x)
        yield neg(neg(neg(x)))

    @rule()
    def widen(x):
        """x = x, at more and more length."""
        yield silu(x)
        yield silu(permute(permute(silu_arg(x), (1, 0)), (1, 0)))

    def silu_arg(x):
        return neg(neg(x))

    g = Graph()
    g.outputs = [g.insert(silu(neg(leaf(g, 0, 3, 3))))]
    egraph, report = saturate(g, [grow, widen], limits=Limits(nodes=40, rounds=100))
    assert egraph.roots and report.nodes <= 60
    assert "limit" in report.stop or report.stop == "saturated"


def test_a_rule_that_changes_a_type_is_named():
    @rule()
    def wrong_shape(x, w):
        """x W^T = x, which it is not."""
        yield linear(x, w)
        yield x

    g = Graph()
    g.outputs = [g.insert(linear(leaf(g, 0, 4, 8), leaf(g, 1, 16, 8)))]
    with pytest.raises(RuleError, match=r"wrong_shape .*float32\[4, 16\] into float32\[4, 8\]"):
        saturate(g, [wrong_shape])


def test_a_rule_that_builds_nonsense_is_named():
    @rule()
    def nonsense(x, w):
        """x W^T = W x^T, whatever the shapes."""
        yield linear(x, w)
        yield linear(w, x)

    g = Graph()
    g.outputs = [g.insert(linear(leaf(g, 0, 2, 4, 8), leaf(g, 1, 16, 8)))]
    with pytest.raises(RuleError, match="nonsense"):
        saturate(g, [nonsense])


def test_egglogs_panic_becomes_our_error():
    from superopt.saturate.engine import Engine

    engine = Engine([swap])
    with pytest.raises(SaturateError, match="egglog"):
        engine._run(engine._parse('(function f (T) i64 :no-merge) (panic "planted")'))


def test_malformed_rules_are_refused_with_their_place():
    def nameless(x):
        yield neg(x)
        yield x

    with pytest.raises(RuleError, match="nameless .*no docstring"):
        make_rule(nameless)

    def unbound(x, y):
        """-x = y."""
        yield neg(x)
        yield y

    with pytest.raises(RuleError, match="does not bind y"):
        make_rule(unbound)

    def plain(x):
        """x = x."""
        return neg(x)

    with pytest.raises(RuleError, match="yields nothing"):
        make_rule(plain)


def test_policy_decides_what_runs_and_every_step_is_logged():
    asked = []

    def policy(state):
        asked.append(len(state.log))
        return Run("algebra", 1) if len(state.log) < 2 else Stop("enough")

    _, report = saturate(scaled(), [swap, row_scale], policy=policy)
    assert report.stop == "enough"
    assert [s.group for s in report.steps] == ["algebra", "algebra"]
    assert asked == [0, 1, 2]
    assert all(s.cap == 1 for s in report.steps)


def test_equal_numbers_of_other_types_stay_apart():
    from superopt.saturate.engine import Interner

    names = Interner()
    assert len({names.number(v) for v in (0.0, -0.0, 0, False)}) == 4
    assert names.number(float("nan")) == names.number(float("nan"))


def test_random_operators_are_never_merged():
    from superopt.ops import opaque
    from superopt.ops.opaque import Opaque, Slot

    g = Graph()
    x = leaf(g, 0, 4, 8)
    noise = [
        g.ref(
            g.add(
                opaque,
                (x.id,),
                (Opaque("aten.bernoulli.p", (Slot(0), 0.5), (), x.type, (None,), (None,), uid),),
            )
        )
        for uid in (1, 2)
    ]
    g.outputs = [g.insert(mul(noise[0], noise[1]))]
    egraph, _ = saturate(g, [swap])
    assert len([c for c in egraph.classes.values() if c.nodes[0].op.name == "opaque"]) == 2


@pytest.mark.parametrize("uses", range(0, 24, 2))
def test_egglog_does_not_confuse_the_names_of_nodes(uses):
    """It makes fresh names by adding digits: node 8 became node 81 after some uses."""
    from superopt.saturate.engine import Engine

    engine = Engine([swap])
    for i in range(100):
        engine.add(i, "input", (), (i, TensorType((1,), torch.float32), "input"))
    for k in range(uses):
        engine.add(100 + k, "add", (8, 20 + k), ())
    last = 100 + uses
    engine.add(last, "mul", (8, 81), ())
    engine.add(last + 1, "mul", (81, 81), ())
    classes, _ = engine.snapshot(last + 2)
    assert classes == list(range(last + 2))
