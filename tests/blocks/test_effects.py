"""Effects keep the user's order, and what they overwrite is read, or copied, before."""

import torch

from superopt import ops
from superopt.blocks.effects import settle
from superopt.ir.graph import Graph
from superopt.ir.types import TensorType
from superopt.ops.meaning import run_graph
from superopt.ops.opaque import Opaque, Slot

T = TensorType((3, 4), torch.float32)


def leaf(g, index):
    return g.ref(g.add(ops.input_, (), (index, T, "input")))


def write(g, target, value, uid):
    """target.copy_(value)."""
    spec = Opaque("aten.copy_.default", (Slot(0), Slot(1)), (), T, (None, None), (None,), uid)
    return g.ref(g.add(ops.opaque, (target.id, value.id), (spec,)))


def noise(g, like, uid):
    spec = Opaque("aten.bernoulli.p", (Slot(0), 0.5), (), T, (None,), (None,), uid)
    return g.ref(g.add(ops.opaque, (like.id,), (spec,)))


def keep(g, e):
    return g.ref(g.insert(e))


def returns(g, outputs, effects=()):
    g.outputs, g.visible = [o.id for o in (*outputs, *effects)], len(outputs)
    return settle(g)


def run(g, count=2):
    inputs = [torch.full((3, 4), float(i + 1)) for i in range(count)]
    return run_graph(g, inputs)[: g.visible], inputs


def targets(g):
    return [g.nodes[i].attrs[0].target for i in g.live() if g.nodes[i].op.name == "opaque"]


def test_a_graph_without_effects_stays_as_it_is():
    g = Graph()
    g.outputs = [keep(g, ops.neg(leaf(g, 0))).id]
    assert settle(g) is g


def test_readers_come_before_the_write_however_they_were_listed():
    g = Graph()
    x, y = leaf(g, 0), leaf(g, 1)
    w = write(g, x, y, 1)
    part = keep(g, ops.slice_(x, 0, 1, 3))
    old, new = keep(g, ops.neg(part)), keep(g, ops.neg(w))
    (a, b), inputs = run(returns(g, [old, new], [w]))
    assert a.unique().tolist() == [-1.0] and b.unique().tolist() == [-2.0]
    assert inputs[0].unique().tolist() == [2.0]


def test_random_operators_run_in_the_users_order():
    g = Graph()
    x = leaf(g, 0)
    second, first = noise(g, x, 2), noise(g, x, 1)
    out = returns(g, [keep(g, second - first)])
    uids = [out.nodes[i].attrs[0].uid for i in out.live() if out.nodes[i].op.name == "opaque"]
    assert uids == [1, 2]


def test_an_output_that_is_about_to_be_overwritten_is_copied():
    g = Graph()
    x, y = leaf(g, 0), leaf(g, 1)
    w = write(g, x, y, 1)
    out = returns(g, [x], [w])
    (a,), _ = run(out)
    assert a.unique().tolist() == [1.0]
    assert targets(out) == ["aten.clone.default", "aten.copy_.default"]


def test_a_value_and_its_view_are_copied_together():
    g = Graph()
    x, y = leaf(g, 0), leaf(g, 1)
    w = write(g, x, y, 1)
    out = returns(g, [x, keep(g, ops.slice_(x, 0, 1, 3))], [w])
    (a, b), _ = run(out)
    assert a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()
    assert b.unique().tolist() == [1.0] and targets(out).count("aten.clone.default") == 1


def test_two_inputs_change_places():
    g = Graph()
    x, y = leaf(g, 0), leaf(g, 1)
    one, two = write(g, x, y, 1), write(g, y, x, 2)
    _, inputs = run(returns(g, [], [one, two]))
    assert [t.unique().tolist() for t in inputs] == [[2.0], [1.0]]
