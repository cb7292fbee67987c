"""End-to-end tests run CPU plans through torch; those that ask for ``inductor`` use C++."""

from __future__ import annotations

import pytest
import torch

import superopt.run.cpu


@pytest.fixture
def inductor():
    """Let Inductor's C++ backend compile the plans of this test."""
    if not superopt.run.cpu.has_cpp_compiler():
        pytest.skip("needs a C++ compiler")


@pytest.fixture(autouse=True)
def _fresh(request, monkeypatch, tmp_path_factory):
    monkeypatch.setenv("SUPEROPT_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "superopt"))
    monkeypatch.delenv("SUPEROPT_DISABLE", raising=False)
    monkeypatch.delenv("SUPEROPT_STRICT", raising=False)
    if "inductor" not in request.fixturenames:
        monkeypatch.setattr(superopt.run.cpu, "has_cpp_compiler", lambda: False)
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()
