"""What the generated products compute, under Triton's interpreter and on a card, in float64."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from kernels.gemm.cases import BF16, F16, F32, F64
from kernels.gemm.listing import CASES, LARGE

SCRIPT = Path(__file__).with_name("run_cases.py")

# The interpreter cuts bfloat16 off where a card rounds to nearest, so its errors add up.
INTERPRETED = {F64: 1e-14, F32: 2e-6, F16: 2e-3, BF16: 2e-2}
# A card may use TF32 nowhere here: sites ask for the highest precision.
ON_A_CARD = {F64: 1e-14, F32: 2e-6, F16: 2e-3, BF16: 1e-2}


@functools.cache
def report(interpret: str) -> dict[str, list[dict]]:
    """Every case run in one process: by name, the outcome for each family that fits."""
    env = {**os.environ, "TRITON_INTERPRET": interpret, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, str(SCRIPT)], env=env, capture_output=True, text=True, check=False
    )
    found: dict[str, list[dict]] = {name: [] for name in CASES | LARGE}
    for line in done.stdout.splitlines():
        outcome = json.loads(line)
        found[outcome["case"]].append(outcome)
    if done.returncode:
        # Said once for each case that was not reached, without running all of them again.
        for name in (n for n in found if not found[n]):
            found[name].append({"family": "none", "failure": done.stderr, "error": 0.0})
    return found


def check(name: str, interpret: str, tolerance: dict[torch.dtype, float]) -> None:
    case = (CASES | LARGE)[name]
    for outcome in report(interpret)[name]:
        assert not outcome["failure"], f"{outcome['family']}: {outcome['failure']}"
        assert outcome["error"] <= tolerance[case.dtype], outcome["family"]


@pytest.mark.parametrize("name", CASES)
def test_interpreted(name: str):
    assert report("1")[name], "no family fits"
    check(name, "1", INTERPRETED)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("name", CASES | LARGE)
def test_on_a_card(name: str):
    check(name, "0", ON_A_CARD)
