"""FX graphs to typed terms."""

from superopt.lift.fx import lift

__all__ = ["lift"]
