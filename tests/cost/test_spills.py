"""Register spills: told by the assembler, and part of the objective where lambda is not 0."""

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from superopt.cost import load_card, objective, price_plan
from superopt.lift import lift
from superopt.lower import spilled_bytes
from superopt.options import Options
from superopt.pipeline import search
from superopt.shelf import load_rules
from superopt.trace import trace


def plans(lam):
    with FakeTensorMode(), torch.no_grad():
        w, u = (torch.empty(512, 256, dtype=torch.float16) for _ in range(2))

        def block(x, w, u):
            f = torch.nn.functional
            return f.silu(f.linear(x, w)) * f.linear(x, u)

        traced = trace(block, torch.empty(1, 256, dtype=torch.float16), w, u)
    lifted = lift(traced.graph, traced.params)
    return search(lifted.graph, load_card("t4"), load_rules(), Options(lam=lam)).plans


def test_usual_kernels_spill_nothing():
    card = load_card("t4")
    assert spilled_bytes(plans(0.0)[0], card.arch, card.sms) == 0


def test_spills_are_priced_where_lambda_asks_for_it(monkeypatch):
    monkeypatch.setattr("superopt.pipeline.spilled_bytes", lambda *a, **k: 4e6)
    cheap, dear = plans(0.0)[0].price, plans(2.0)[0].price
    assert cheap.spilled == 0 and dear.spilled == 4e6
    plan = plans(2.0)[0]
    without = price_plan(plan, load_card("t4"), lam=2.0)
    assert objective(plan.price, 2.0) - objective(without, 2.0) == 2.0 * 4e6 * 1e-12
