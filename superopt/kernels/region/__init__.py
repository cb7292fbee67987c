"""Regions: pointwise and row operators fused into one generated kernel.

A region is a set of nodes whose values all broadcast to one shape. Where none of them looks along
a row, every element is computed by itself; otherwise a program holds whole rows in registers.
"""

from superopt.kernels.region.emit import emit
from superopt.kernels.region.space import fits
from superopt.kernels.region.work import work

__all__ = ["emit", "fits", "work"]
