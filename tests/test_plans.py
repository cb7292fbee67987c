"""Whole plans as text: what the search chooses for known blocks, by card and number of rows.

A change of a law, a price or a kernel shows here as a change of plan; read it, then update with
``make golden``.
"""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from superopt.cost import load_card
from superopt.lift import lift
from superopt.options import Options
from superopt.pipeline import search
from superopt.schedule import describe
from superopt.shelf import load_rules
from superopt.trace import trace


class SwiGLU(torch.nn.Module):
    """RMSNorm and gated projections of Llama-2-7b's sizes."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.empty(4096))
        self.gate = torch.nn.Linear(4096, 11008, bias=False)
        self.up = torch.nn.Linear(4096, 11008, bias=False)

    def forward(self, x):
        h = x.float()
        h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-5)
        n = self.weight * h.to(x.dtype)
        return torch.nn.functional.silu(self.gate(n)) * self.up(n)


class Projections(torch.nn.Module):
    """q, k and v of unequal widths from one normalised input."""

    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(1024)
        self.q, self.k, self.v = (torch.nn.Linear(1024, n) for n in (1024, 256, 256))

    def forward(self, x):
        n = self.norm(x)
        return self.q(n), self.k(n), self.v(n)


class LoRA(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.base = torch.nn.Linear(4096, 4096, bias=False)
        self.a = torch.nn.Linear(4096, 16, bias=False)
        self.b = torch.nn.Linear(16, 4096, bias=False)

    def forward(self, x):
        return self.base(x) + self.b(self.a(x)) * 2.0


def plan(model, shape, card, dtype):
    torch.set_default_dtype(dtype)
    try:
        with FakeTensorMode(), torch.no_grad():
            traced = trace(model(), torch.empty(shape))
    finally:
        torch.set_default_dtype(torch.float32)
    lifted = lift(traced.graph, traced.params)
    return search(lifted.graph, load_card(card), load_rules(), Options())


CASES = [
    (SwiGLU, (1, 4096), "h200", torch.bfloat16),
    (SwiGLU, (16, 4096), "h200", torch.bfloat16),
    (SwiGLU, (2048, 4096), "h200", torch.bfloat16),
    (SwiGLU, (1, 4096), "t4", torch.float16),
    (SwiGLU, (128, 4096), "t4", torch.float16),
    (SwiGLU, (4, 4096), "cpu", torch.float32),
    (Projections, (2, 1024), "h200", torch.bfloat16),
    (Projections, (512, 1024), "t4", torch.float16),
    (LoRA, (1, 4096), "h200", torch.bfloat16),
]


@pytest.mark.parametrize(
    "model, shape, card, dtype", CASES, ids=[f"{m.__name__}-{s[0]}-{c}" for m, s, c, _ in CASES]
)
def test_plan(model, shape, card, dtype, golden):
    found = plan(model, shape, card, dtype)
    golden(f"plans/{model.__name__}_{shape[0]}_{card}", describe(found.plans[0]))


def test_gate_and_up_are_one_kernel_on_an_h200_at_any_size():
    for rows in (1, 16, 2048):
        steps = plan(SwiGLU, (rows, 4096), "h200", torch.bfloat16).plans[0].steps
        assert [s.family for s in steps if s.family in ("gemm", "aten")] == ["gemm"]


def test_every_extraction_reports_its_bound():
    for block in plan(LoRA, (8, 4096), "h200", torch.bfloat16).blocks:
        best = block.extractions[0]
        assert 0 < best.bound <= best.cost * (1 + 1e-9)
        assert best.gap >= 0 and best.status
