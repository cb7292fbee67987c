"""Runs the cases in Triton's interpreter and prints their errors as JSON lines.

A process of its own: Triton decides when it is imported whether it compiles or interprets.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

os.environ["TRITON_INTERPRET"] = "1"

import torch

from superopt.ir.plan import Kernel
from superopt.kernels.assemble import load
from superopt.kernels.gemm import Problem, families
from superopt.ops import gemm
from tests.kernels.gemm.cases import Built, build, exact
from tests.kernels.gemm.listing import CASES


@dataclass
class Outcome:
    """A family's kernel on a case: the largest relative error of an output, or what went wrong."""

    case: str
    family: str
    error: float = float("inf")
    failure: str = ""
    seconds: float = 0.0


def reference(built: Built) -> list[torch.Tensor]:
    """The product in float64, from the operands as they are."""
    graph, (index,) = built.site.graph, built.site.step.nodes
    node = graph.nodes[index]
    x, weights, extras = (
        [built.tensors[v].double() for v in vs]
        for vs in ((node.args[0],), graph.nodes[node.args[1]].args, graph.nodes[node.args[2]].args)
    )
    prologue, groups = node.attrs
    prologue = exact(prologue) if prologue is not None else None
    out = gemm.torch(x[0], weights, extras, prologue, tuple((w, exact(e)) for w, e in groups))
    return list(out) if isinstance(out, tuple) else [out]


def run(kernel: Kernel, built: Built, folder: Path) -> list[torch.Tensor]:
    """The kernel's outputs, which start out as NaNs."""
    types = Problem.at(built.site).outs
    shapes = [[int(d.subs(built.sizes)) if hasattr(d, "subs") else d for d in t.shape] for t in types]
    outs = [torch.full(s, torch.nan, dtype=t.dtype) for s, t in zip(shapes, types, strict=True)]
    sizes = [int(s.subs(built.sizes)) for s in kernel.sizes]
    inputs = [built.tensors[i] for i in kernel.inputs]
    load(kernel, folder).launch(*inputs, *outs, *sizes, config=kernel.configs[0])
    return outs


def outcomes(names: list[str]) -> Iterator[Outcome]:
    """Every family that fits, on every case."""
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            built = build(CASES[name])
            expected = reference(built)
            problem = Problem.at(built.site)
            for family in families():
                short = family.NAME
                if short not in CASES[name].families or not family.fits(problem, built.site.arch):
                    continue
                start = time.perf_counter()
                outcome = Outcome(name, short)
                try:
                    found = run(family.emit(built.site), built, Path(folder))
                    pairs = zip(found, expected, strict=True)
                    outcome.error = max(
                        ((f.double() - e).norm() / e.norm()).nan_to_num(torch.inf).item()
                        for f, e in pairs
                    )
                except Exception as error:
                    outcome.failure = f"{type(error).__name__}: {error}"
                outcome.seconds = time.perf_counter() - start
                yield outcome


if __name__ == "__main__":
    for found in outcomes(sys.argv[1:] or list(CASES)):
        print(json.dumps(asdict(found)), flush=True)
