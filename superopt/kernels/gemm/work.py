"""What a generated product asks of a card."""

from __future__ import annotations

import torch

from superopt.ir.dims import hint, product
from superopt.ir.plan import Work
from superopt.kernels.gemm.problem import Problem
from superopt.kernels.gemm.rows import applications


def traffic(
    problem: Problem, engine: str, dtype: torch.dtype, rows: int, tiles: int, repeats: int
) -> Work:
    """The work of a product that multiplies ``rows`` rows (padding included).

    Every operand is read once and every output written once. The epilogue's arithmetic is done
    once, the prologue's ``repeats`` times: by every program that reads the same rows of x.
    """
    hints = problem.hints
    flops = 0.0
    for group, (weights, epilogue) in enumerate(problem.groups):
        flops += 2.0 * rows * problem.k * problem.n(group) * len(weights)
        flops += sum(
            hint(e.op.flops([a.type for a in e.args], e.type, *e.attrs), hints)
            for e in applications(epilogue)
        )
    if problem.body is not None:
        each = hint(product(problem.x.shape), hints) * len(list(applications(problem.body)))
        flops += float(each) * repeats
    extras = [e for i, e in enumerate(problem.extras) if i not in problem.constants]
    read = sum(t.nbytes(hints) for t in (problem.x, *problem.weights, *extras))
    write = sum(t.nbytes(hints) for t in problem.outs)
    return Work(engine, flops, float(read), float(write), tiles, dtype)
