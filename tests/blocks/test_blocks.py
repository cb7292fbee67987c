"""Repeated blocks: found whatever surrounds them, and stitched back to the same program."""

import pytest
import torch

from superopt import ops
from superopt.blocks import split, stitch
from superopt.ir.graph import Graph
from superopt.ir.types import TensorType
from superopt.ops.meaning import run_graph
from superopt.ops.opaque import Opaque, Slot

F32 = torch.float32


def leaf(g, index, *shape):
    return g.ref(g.add(ops.input_, (), (index, TensorType(shape, F32), "input")))


def layer(g, x, weights, shared):
    n = ops.rms(x, 1e-5) * weights[0]
    a, b = ops.linear(n, weights[1]), ops.linear(n, weights[2])
    h = ops.silu(a) * b + shared
    return x + ops.linear(ops.tanh(h), weights[3]) * ops.scalar(0.5, F32)


def stack(layers, before=2, after=3):
    g = Graph()
    x, shared = leaf(g, 0, 5, 8), leaf(g, 1, 5, 16)
    at = 2
    for _ in range(before):
        x = ops.exp(ops.neg(x))
    shared = ops.cos(shared)
    for _ in range(layers):
        shapes = [(8,), (16, 8), (16, 8), (8, 16)]
        weights = [leaf(g, at + i, *s) for i, s in enumerate(shapes)]
        at += 4
        x = g.ref(g.insert(layer(g, x, weights, shared)))
    for _ in range(after):
        x = ops.sigmoid(x)
    g.outputs = [g.insert(x)]
    return g


def tensors(g):
    inputs = {n.attrs[0]: n.attrs[1] for n in g.nodes if n.op.name == "input"}
    torch.manual_seed(0)
    return [torch.randn(inputs[i].shape) for i in range(len(inputs))]


@pytest.mark.parametrize("layers", [1, 2, 3, 7])
@pytest.mark.parametrize("before", [0, 2])
def test_stitching_the_blocks_gives_the_program_back(layers, before):
    g = stack(layers, before)
    blocks = split(g)
    kinds = {b.kind: b.graph for b in blocks}
    whole = stitch(g, blocks, [kinds[k] for k in sorted(kinds)])
    args = tensors(g)
    for a, b in zip(run_graph(g, args), run_graph(whole, args), strict=True):
        assert torch.equal(a, b)


def test_layers_are_one_kind():
    blocks = split(stack(9))
    assert max(sum(b.kind == k for b in blocks) for k in {b.kind for b in blocks}) >= 7
    assert len({b.kind for b in blocks}) <= 4


def test_block_reads_and_gives_few_values():
    blocks = split(stack(6))
    repeated = [b for b in blocks if sum(c.kind == b.kind for c in blocks) > 1]
    assert {len(b.outputs) for b in repeated} == {1}


def test_random_operators_keep_their_own_numbers():
    g = Graph()
    x = leaf(g, 0, 4, 8)
    for uid in range(1, 6):
        spec = Opaque("aten.bernoulli.p", (Slot(0), 0.5), (), x.type, (None,), (None,), uid)
        h = ops.sigmoid(ops.tanh(ops.neg(ops.exp(ops.cos(ops.sin(ops.silu(x)))))))
        x = g.ref(g.add(ops.opaque, (g.insert(h),), (spec,)))
    g.outputs = [x.id]
    blocks = split(g)
    assert len({b.kind for b in blocks}) == 1 and len(blocks) == 5
    whole = stitch(g, blocks, [blocks[0].graph])
    uids = [n.attrs[0].uid for n in whole.nodes if n.op.name == "opaque"]
    assert uids == [1, 2, 3, 4, 5]


def test_random_operators_keep_the_users_order_whatever_the_solution_lists_first():
    g = Graph()
    x = leaf(g, 0, 4, 8)

    def noise(uid):
        spec = Opaque("aten.bernoulli.p", (Slot(0), 0.5), (), x.type, (None,), (None,), uid)
        return g.ref(g.add(ops.opaque, (x.id,), (spec,)))

    a, b, c = noise(1), noise(2), noise(3)
    g.outputs = [g.insert(ops.exp(a) + b * c)]
    (block,) = split(g)
    turned = Graph()
    y = turned.ref(turned.add(ops.input_, (), (0, x.type, "input")))
    specs = [n.attrs for n in block.graph.nodes if n.op.name == "opaque"]
    made = {s[0].uid: turned.ref(turned.add(ops.opaque, (y.id,), s)) for s in reversed(specs)}
    turned.outputs = [turned.insert(made[2] * made[1] + ops.exp(made[0]))]
    whole = stitch(g, [block], [turned])
    assert [n.attrs[0].uid for n in whole.nodes if n.op.name == "opaque"] == [1, 2, 3]
