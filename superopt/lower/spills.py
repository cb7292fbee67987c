"""What a plan's kernels spill: known only once they are assembled."""

from __future__ import annotations

from superopt.ir.plan import Plan
from superopt.kernels.assemble import assemble
from superopt.lower.generate import generate


def spilled_bytes(plan: Plan, arch: int, sms: int, *, precision: str = "highest") -> float:
    """Bytes of stack that a plan's kernels need beside their registers, kernels added up.

    Each counts with the threads of one program on every multiprocessor, in its first
    configuration. Assembling takes a second or so a kernel and needs no GPU. Raises LowerError
    where a kernel does not compile.
    """
    total = 0.0
    kernels = {k.name: k for k in generate(plan, arch, sms, precision=precision) if k is not None}
    for kernel in kernels.values():
        threads = 32 * kernel.configs[0].num_warps
        total += assemble(kernel, arch).stack * threads * sms
    return total
