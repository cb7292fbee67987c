"""Generated matrix products: families of kernels for few, some and many rows.

Each family is a module with ``fits(problem, arch)``, ``work(problem, arch, sms)`` and
``emit(site)``; ``emit`` here takes the first that fits.
"""

from superopt.kernels.gemm.choose import emit, families, pick, work
from superopt.kernels.gemm.problem import Problem

__all__ = ["Problem", "emit", "families", "pick", "work"]
