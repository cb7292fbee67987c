"""All laws at once: saturation ends, finds what it should, and no class holds two values."""

from collections import Counter

import pytest
import torch

from superopt.check import compare
from superopt.ir.egraph import EGraph
from superopt.ir.graph import Graph
from superopt.ir.types import TensorType, TupleType
from superopt.ops import (
    concat,
    expand,
    input_,
    matmul,
    mean,
    permute,
    reshape,
    rsqrt,
    scalar,
    sigmoid,
    silu,
    slice_,
    softmax,
    standardise,
    tanh,
)
from superopt.saturate import Limits, saturate
from superopt.shelf import load_rules

F64 = torch.float64
RULES = load_rules()


class Program:
    """A graph under construction: inputs are named by shape, layers as AOTAutograd spells them."""

    def __init__(self):
        self.graph, self.count = Graph(), 0

    def input(self, *shape):
        index = self.graph.add(input_, (), (self.count, TensorType(shape, F64), "input"))
        self.count += 1
        return self.graph.ref(index)

    def keep(self, expr):
        return self.graph.ref(self.graph.insert(expr))

    def number(self, value):
        return scalar(value, F64)

    def layer(self, x, n, bias=False):
        """nn.Linear: flattened, transposed, multiplied, restored."""
        w = self.input(n, x.shape[-1])
        rows = 1
        for d in x.shape[:-1]:
            rows *= d
        y = matmul(reshape(x, (rows, x.shape[-1])), permute(w, (1, 0)))
        y = y + self.input(n) if bias else y
        return self.keep(reshape(y, (*x.shape[:-1], n)))

    def norm(self, x):
        r = rsqrt(mean(x * x, (x.ndim - 1,)) + self.number(1e-5))
        return self.keep(x * r * self.input(x.shape[-1]))


def gated(p):
    x = p.input(2, 3, 4)
    n = p.norm(x)
    g, u = p.layer(n, 6), p.layer(n, 6)
    return [x + p.layer(p.keep(g * sigmoid(g) * u), 4)]


def gated_from_one_weight(p):
    n = p.norm(p.input(2, 3, 4))
    y = p.layer(n, 12)
    g, u = slice_(y, 2, 0, 6), slice_(y, 2, 6, 12)
    return [p.layer(p.keep(u * silu(g)), 4)]


def attention(p, bias=False):
    x = p.norm(p.input(2, 3, 8))
    cos, sin = p.input(3, 4), p.input(3, 4)

    def heads(y, count):
        return permute(reshape(y, (2, 3, count, 4)), (0, 2, 1, 3))

    def rotated(y):
        turned = concat(-slice_(y, 3, 2, 4), slice_(y, 3, 0, 2), 3)
        return y * cos + turned * sin

    q, k = rotated(heads(p.layer(x, 8, bias), 2)), rotated(heads(p.layer(x, 4, bias), 1))
    v = heads(p.layer(x, 4, bias), 1)
    k, v = (reshape(expand(t, (2, 2, 3, 4)), (4, 3, 4)) for t in (k, v))
    scores = matmul(reshape(q, (4, 3, 4)), permute(k, (0, 2, 1))) * p.number(0.5)
    mixed = reshape(matmul(softmax(scores), v), (2, 2, 3, 4))
    return [p.layer(p.keep(reshape(permute(mixed, (0, 2, 1, 3)), (2, 3, 8))), 8)]


def biased_attention(p):
    return attention(p, bias=True)


def gelu_block(p):
    x = p.input(2, 3, 4)
    n = p.keep(standardise(x, 1e-5) * p.input(4) + p.input(4))
    y = p.layer(n, 6, bias=True)
    inner = (y + y * y * y * p.number(0.044715)) * p.number(0.7978845608028654)
    y = y * p.number(0.5) * (tanh(inner) + p.number(1.0))
    return [x + p.layer(p.keep(y), 4, bias=True)]


def adapters(p):
    x = p.input(2, 3, 6)
    outs = []
    for _ in range(2):
        outs.append(p.layer(x, 5) + p.layer(p.layer(x, 2), 5) * p.number(2.0))
    return outs


def low_rank_and_scaled(p):
    x, r = p.input(4, 3), p.input(4, 1)
    return [p.layer(p.keep(x * r / p.number(4.0)), 5), permute(p.layer(x, 2), (1, 0))]


PROGRAMS = [
    gated,
    gated_from_one_weight,
    attention,
    biased_attention,
    gelu_block,
    adapters,
    low_rank_and_scaled,
]


def saturated(program, limits=None):
    p = Program()
    p.graph.outputs = [p.graph.insert(e) for e in program(p)]
    return p.graph, *saturate(p.graph, RULES, limits=limits or Limits(nodes=20_000))


def values(egraph: EGraph) -> dict[int, object]:
    """One value a class: random for inputs, else by the first node whose arguments are known."""
    generator = torch.Generator().manual_seed(0)
    found: dict[int, object] = {}
    while len(found) < len(egraph.classes):
        before = len(found)
        for number, cls in sorted(egraph.classes.items()):
            for n in cls.nodes:
                if number not in found and all(a in found for a in n.args):
                    found[number] = value(n, found, generator)
        assert len(found) > before, "some class has no acyclic node"
    return found


def value(node, found, generator=None):
    if node.op is input_:
        return torch.randn(node.attrs[1].shape, dtype=F64, generator=generator)
    return node.op.torch(*(found[a] for a in node.args), *node.attrs)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_every_node_of_a_class_has_its_value(program):
    _, egraph, _ = saturated(program)
    found = values(egraph)
    for number, cls in egraph.classes.items():
        for n in cls.nodes:
            if n.op is input_ or n.op.name in ("scalar", "pack"):
                continue
            mine, other = value(n, found), found[number]
            assert isinstance(mine, tuple) == isinstance(cls.type, TupleType)
            pairs = zip(mine, other) if isinstance(mine, tuple) else [(mine, other)]
            for a, b in pairs:
                assert compare(a, b, 1e-8) is None, f"{n.law}: {n.op}{n.args} {n.attrs}"


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_saturation_ends_of_itself(program):
    *_, report = saturated(program)
    assert report.stop == "saturated" or report.nodes < 1_500
    assert report.nodes < 2_000


def operators(program):
    _, egraph, _ = saturated(program)
    return egraph, Counter(n.op.name for c in egraph.classes.values() for n in c.nodes)


@pytest.mark.parametrize(
    ("program", "names"),
    [
        (gated, {"rms", "silu", "linear"}),
        (attention, {"rms", "rotate_half", "softmax"}),
        (biased_attention, {"linear_bias"}),
        (gelu_block, {"gelu_tanh", "linear_bias"}),
    ],
)
def test_composites_are_recognised(program, names):
    _, found = operators(program)
    assert names <= set(found)


def kernels(program):
    """(weights, prologue, epilogues) of every kernel, as text."""
    egraph, _ = operators(program)
    out = set()
    for cls in egraph.classes.values():
        for n in cls.nodes:
            if n.op.name == "gemm":
                weights = len(egraph.classes[n.args[1]].nodes[0].args)
                out.add((weights, str(n.attrs[0]), tuple(str(e) for _, e in n.attrs[1])))
    return out


@pytest.mark.parametrize("program", [gated, gated_from_one_weight])
def test_a_gated_unit_becomes_one_kernel_with_its_norm(program):
    gates = ("mul(acc1, silu(acc0))",), ("mul(acc0, silu(acc1))",)
    found = kernels(program)
    assert any((2, "mul(in0, rms(x0, eps=1e-05))", g) in found for g in gates)
    assert any((2, "rms(x0, eps=1e-05)", g) in found for g in gates)


def test_projections_become_one_kernel():
    assert (3, "None", ("acc0", "acc1", "acc2")) in kernels(attention)
    biased = ("add(acc0, in0)", "add(acc1, in1)", "add(acc2, in2)")
    assert (3, "None", biased) in kernels(biased_attention)


def test_an_activation_and_a_residual_end_a_kernel():
    ends = {e for _, _, e in kernels(gelu_block)}
    assert ("gelu_tanh(add(acc0, in0))",) in ends
    assert any("add(add(acc0, in" in e[0] for e in ends)


def test_what_laws_made_is_not_gathered_again():
    egraph, _ = operators(attention)
    pieces = [
        len(n.args)
        for c in egraph.classes.values()
        for n in c.nodes
        if n.op is concat and n.law == "concat_projections"
    ]
    assert pieces and max(pieces) == 3
