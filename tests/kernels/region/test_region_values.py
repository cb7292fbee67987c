"""What region kernels compute, under Triton's interpreter and on a GPU, against float64."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from kernels.region.region_cases import CASES

SCRIPT = Path(__file__).with_name("run_cases.py")


@functools.cache
def report(interpret: str) -> dict[str, str]:
    """Every case run in one process; by name, what is wrong with it."""
    path = os.pathsep.join(sys.path)
    env = {**os.environ, "TRITON_INTERPRET": interpret, "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, str(SCRIPT)], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", CASES)
def test_interpreted(name: str):
    assert not report("1")[name]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("name", CASES)
def test_on_a_gpu(name: str):
    assert not report("0")[name]
