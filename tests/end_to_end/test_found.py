"""Each case was a wrong result once; each stands for its whole kind."""

import pytest
import torch
import torch.nn.functional as F

from superopt.backend import superopt as backend
from superopt.cost import load_card
from superopt.lift import lift
from superopt.options import Options
from superopt.pipeline import search
from superopt.run.interpret import interpret
from superopt.shelf import load_rules
from superopt.trace import trace

F32_MIN = torch.finfo(torch.float32).min
MASK = torch.tensor([1.0, 0.0, 1.0, 1.0])


def strict(fn, *args, **options):
    torch._dynamo.reset()
    with torch.no_grad():
        compiled = torch.compile(fn, backend=backend, options={"strict": True, **options})
        return compiled(*args), fn(*args)


@pytest.fixture(autouse=True)
def through_torch(monkeypatch):
    monkeypatch.setattr("superopt.run.cpu.has_cpp_compiler", lambda: False)


SCALED = {
    "mask of the lowest number, twice": lambda s: ((1 - MASK) * F32_MIN * 2 + s).softmax(-1),
    "mask divided": lambda s: (1 - MASK) * F32_MIN / 0.125 + s,
    "two large scales": lambda s: (s - s) * 1e30 * 1e30,
    "two small scales": lambda s: (s * 1e30) * 1e-30 * 1e-30,
    "a subnormal divisor": lambda s: s * 1e-38 / 1e-40,
    "quick gelu of a tiny slope": lambda s: s * torch.sigmoid(s * 1e-30),
}


@pytest.mark.parametrize("name", SCALED)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_extreme_constants_are_not_folded(name, dtype):
    ours, eager = strict(SCALED[name], torch.tensor([0.5, -1.5, 0.25, 2.0]).to(dtype))
    torch.testing.assert_close(ours, eager, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int32, torch.bool])
def test_a_sum_has_the_dtype_that_was_asked_for(dtype):
    x = torch.tensor([[100, 100, 100], [1, 0, 1]]).to(torch.int32)
    for fn in (lambda x: x.sum(dtype=dtype), lambda x: x.sum(1, dtype=dtype).to(torch.int32) + 1):
        ours, eager = strict(fn, x)
        assert ours.dtype == eager.dtype and torch.equal(ours, eager)


@pytest.mark.parametrize("card", ["t4", "h200"])
def test_plans_for_another_card_run_where_nothing_is_generated(card):
    def block(x, w, u, b):
        q, k = F.linear(x, w), F.linear(x, u)
        return F.silu(q) * k, F.relu(F.linear(x, w, b)), q + 1

    args = (torch.randn(4, 16), torch.randn(8, 16), torch.randn(8, 16), torch.randn(8))
    for ours, eager in zip(*strict(block, *args, card=card), strict=True):
        torch.testing.assert_close(ours, eager)


@pytest.mark.parametrize("a, b", [(1e-3, 1e3), (1e-30, 1e30), (0.5, 0.25), (0.5, 2.0)])
def test_constants_that_cancel_do_not_multiply(a, b):
    """x joined with (x a) b would hold every power of a."""
    x, w = torch.randn(4, 16), torch.randn(8, 16)

    def fn(x, w):
        return F.linear(x * a, w * b) * 2

    with torch.no_grad():
        traced = trace(fn, x, w)
    lifted = lift(traced.graph, traced.params)
    for card in ("h200", "t4"):
        found = search(lifted.graph, load_card(card), load_rules(), Options(k=5))
        assert found.blocks[0].report.stop == "saturated"
        assert found.blocks[0].report.nodes < 1000
        for plan in found.plans:
            (got,) = interpret(plan.graph, [x, w], {}, torch.device("cpu"))
            torch.testing.assert_close(got, fn(x, w))
