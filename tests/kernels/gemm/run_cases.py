"""Runs cases and prints their errors as JSON lines.

A process of its own: Triton decides when it is imported whether it interprets (TRITON_INTERPRET=1)
or compiles for the card.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from kernels.gemm.cases import Built, Case, build, exact
from kernels.gemm.listing import CASES, LARGE

from superopt.ir.dims import Dim
from superopt.ir.plan import Config, Kernel
from superopt.kernels.assemble import load
from superopt.kernels.gemm import Problem, families
from superopt.kernels.gemm.choose import Family
from superopt.ops import gemm

INTERPRETING = os.environ.get("TRITON_INTERPRET") == "1"


@dataclass
class Outcome:
    """A family's kernel on a case: its largest relative error, or what went wrong."""

    case: str
    family: str
    error: float = float("inf")
    failure: str = ""
    seconds: float = 0.0


def reference(built: Built) -> list[torch.Tensor]:
    """The product in float64, from the operands as they are."""
    graph, (index,) = built.site.graph, built.site.step.nodes
    node = graph.nodes[index]

    def value(v: int) -> torch.Tensor | float:
        if graph.nodes[v].op.name == "scalar":
            return graph.nodes[v].attrs[0]
        tensor = built.tensors[v]
        return tensor.double() if tensor.is_floating_point() else tensor

    x, weights, extras = node.args
    prologue, groups = node.attrs
    out = gemm.torch(
        value(x),
        [value(v) for v in graph.nodes[weights].args],
        [value(v) for v in graph.nodes[extras].args],
        exact(prologue) if prologue is not None else None,
        tuple((w, exact(e)) for w, e in groups),
    )
    return list(out) if isinstance(out, tuple) else [out]


def run(kernel: Kernel, built: Built, config: Config, launch: Callable) -> list[torch.Tensor]:
    """The kernel's outputs, which start out as NaNs."""

    def size(dim: Dim) -> int:
        return dim if isinstance(dim, int) else int(dim.subs(built.sizes))

    inputs = [built.tensors[i] for i in kernel.inputs]
    outs = [
        torch.full([size(d) for d in t.shape], torch.nan, dtype=t.dtype, device=inputs[0].device)
        for t in Problem.at(built.site).outs
    ]
    launch(*inputs, *outs, *map(size, kernel.sizes), config=config)
    return outs


def error(found: list[torch.Tensor], expected: list[torch.Tensor]) -> float:
    """The largest relative error of an output; infinite where it is not even a number."""
    errors = [(f.double() - e).norm() / e.norm() for f, e in zip(found, expected, strict=True)]
    return max(e.nan_to_num(torch.inf).item() for e in errors)


def attempt(case: Case, family: Family, built: Built, folder: Path) -> Outcome:
    """A family's kernel on a case, in its first and last way; on a card in every way."""
    start = time.perf_counter()
    outcome = Outcome(case.name, family.NAME, 0.0)
    try:
        kernel = family.emit(built.site)
        launch = load(kernel, folder).launch
        configs = kernel.configs
        ends = configs[:: max(1, len(configs) - 1)]
        expected = reference(built)
        for config in ends if INTERPRETING else configs:
            found = error(run(kernel, built, config, launch), expected)
            outcome.error = max(outcome.error, found)
    except Exception as failure:
        outcome.failure = f"{type(failure).__name__}: {failure}"
    outcome.seconds = time.perf_counter() - start
    return outcome


def outcomes(names: list[str]) -> Iterator[Outcome]:
    """Every family that fits, on every case that the device can run."""
    arch = 90
    if not INTERPRETING:
        major, minor = torch.cuda.get_device_capability()
        arch = 10 * major + minor
    with tempfile.TemporaryDirectory() as folder, torch.device("cpu" if INTERPRETING else "cuda"):
        for case in (c for c in (CASES | LARGE).values() if c.name in names and c.arch <= arch):
            built = build(case)
            problem = Problem.at(built.site)
            for family in families():
                if family.NAME in case.families and family.fits(problem, case.arch):
                    yield attempt(case, family, built, Path(folder))


if __name__ == "__main__":
    for found in outcomes(sys.argv[1:] or list(CASES if INTERPRETING else CASES | LARGE)):
        print(json.dumps(asdict(found)), flush=True)
