"""End-to-end tests run plans through torch; those marked ``inductor`` let the C++ compiler in."""

from __future__ import annotations

import pytest
import torch

import superopt.run.cpu


@pytest.fixture(autouse=True)
def _fresh(request, monkeypatch, tmp_path_factory):
    monkeypatch.setenv("SUPEROPT_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "superopt"))
    monkeypatch.delenv("SUPEROPT_DISABLE", raising=False)
    monkeypatch.delenv("SUPEROPT_STRICT", raising=False)
    if not request.node.get_closest_marker("inductor"):
        monkeypatch.setattr(superopt.run.cpu, "has_cpp_compiler", lambda: False)
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()
