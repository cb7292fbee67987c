"""The generated kernels of a plan."""

from __future__ import annotations

from superopt.ir.plan import Kernel, Plan, Site
from superopt.kernels import emit


def generate(
    plan: Plan, arch: int, sms: int, *, precision: str = "highest", deterministic: bool = False
) -> list[Kernel | None]:
    """The kernel of each step for a card of that architecture; None where torch runs the step.

    ``precision`` is ``torch.get_float32_matmul_precision()``'s; ``deterministic`` forbids kernels
    whose results depend on the order in which programs run.
    """
    return [
        emit(Site(plan.graph, s, plan.strides, arch, sms, precision, deterministic))
        if s.family in ("region", "gemm")
        else None
        for s in plan.steps
    ]
