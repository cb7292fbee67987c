"""Which family computes a product."""

from __future__ import annotations

from typing import Protocol

from superopt.ir.plan import Kernel, Site, Work
from superopt.kernels.gemm import gemv, skinny, tiled
from superopt.kernels.gemm.module import refuse
from superopt.kernels.gemm.problem import Problem


class Family(Protocol):
    """A way to compute products: when it can, what it costs, and its kernel."""

    NAME: str

    def fits(self, problem: Problem, arch: int) -> bool: ...

    def work(self, problem: Problem, arch: int, sms: int) -> Work: ...

    def emit(self, site: Site) -> Kernel: ...


def families() -> tuple[Family, ...]:
    """All families, those for fewer rows first."""
    return (gemv, skinny, tiled)  # type: ignore[return-value]


def pick(problem: Problem, arch: int) -> Family | None:
    """The first family that fits; None where none does: no kernel is generated for the product."""
    return next((f for f in families() if f.fits(problem, arch)), None)


def emit(site: Site) -> Kernel:
    """The kernel for a step; a LowerError says why where there is none."""
    problem = Problem.at(site)
    family = pick(problem, site.arch)
    refuse(problem, family is not None, "generated")
    assert family is not None
    return family.emit(site)


def work(problem: Problem, arch: int, sms: int) -> Work | None:
    """What the product asks of a card; None where no family fits: its price is infinite."""
    family = pick(problem, arch)
    return family.work(problem, arch, sms) if family else None
