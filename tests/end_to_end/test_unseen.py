"""Models and shapes that nothing else here mentions also get generated kernels, on every card.

Sizes and structure are drawn at random (from a fixed seed), plans are searched for several cards,
and every generated kernel is assembled for its architecture; none of this needs a GPU.
"""

import random

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from superopt.cost import load_card
from superopt.kernels.assemble import assemble
from superopt.lift import lift
from superopt.lower import generate
from superopt.options import Options
from superopt.pipeline import search
from superopt.shelf import load_rules
from superopt.trace import trace

ACTIVATIONS = (nn.functional.silu, nn.functional.gelu, torch.tanh, torch.relu, torch.sigmoid)


class Unseen(nn.Module):
    """A gated or plain feed-forward net with some norm, of odd sizes."""

    def __init__(self, rng):
        super().__init__()
        dim, inner = (rng.randrange(40, 400) // 8 * 8 for _ in range(2))
        self.dim, self.gated = dim, rng.random() < 0.5
        self.act, self.scale = rng.choice(ACTIVATIONS), rng.random()
        self.norm = rng.choice((nn.LayerNorm, nn.RMSNorm))(dim)
        bias = rng.random() < 0.5
        self.a, self.b = nn.Linear(dim, inner, bias), nn.Linear(dim, inner, bias)
        self.out = nn.Linear(inner, dim)

    def forward(self, x):
        n = self.norm(x)
        h = self.act(self.a(n))
        h = h * self.b(n) if self.gated else h + self.scale
        return (x + self.out(h)).softmax(-1)


def plan_for(seed, card):
    rng = random.Random(seed)
    rows = rng.choice((1, 3, 19, 130, 1000))
    with FakeTensorMode(), torch.no_grad():
        torch.set_default_dtype(torch.float16)
        try:
            model = Unseen(rng)
            traced = trace(model, torch.empty(rows, model.dim))
        finally:
            torch.set_default_dtype(torch.float32)
    lifted = lift(traced.graph, traced.params)
    assert lifted.opaque == []
    return search(lifted.graph, card, load_rules(), Options(k=1)).plans[0]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("card", ["t4", "a100", "h200"])
def test_every_plan_has_kernels_and_they_assemble(seed, card):
    figures = load_card(card)
    plan = plan_for(seed, figures)
    kernels = {k.name: k for k in generate(plan, figures.arch, figures.sms) if k is not None}
    assert kernels, "nothing was generated"
    families = {s.family for s in plan.steps}
    assert "region" in families or "gemm" in families
    loose = [
        plan.graph.nodes[n].op.name for s in plan.steps if s.family == "aten" for n in s.nodes
    ]
    assert set(loose) <= {"linear", "linear_bias", "matmul"}, "more than products left to torch"
    for kernel in kernels.values():
        found = assemble(kernel, figures.arch)
        assert found.cubin and found.shared <= figures.arch * 1024 * 3
