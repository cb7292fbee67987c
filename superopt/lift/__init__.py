"""FX graphs to typed terms."""

from superopt.lift.fx import Lifted, Output, lift

__all__ = ["Lifted", "Output", "lift"]
