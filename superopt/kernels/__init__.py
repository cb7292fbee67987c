"""Generated kernels: Triton source written for one step of a plan."""

from superopt.errors import LowerError
from superopt.ir.plan import Kernel, Site


def emit(site: Site) -> Kernel:
    """The kernel of a step, by its family; LowerError where no kernel is generated for it."""
    # Imported here, since the families' modules use the modules beside this one.
    if site.step.family == "region":
        from superopt.kernels import region

        return region.emit(site)
    if site.step.family == "gemm":
        from superopt.kernels import gemm

        return gemm.emit(site)
    raise LowerError(f"no kernel is generated for a step of family {site.step.family!r}")
