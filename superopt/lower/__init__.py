"""Plans to source: one module a kernel, and one that calls them in order."""

from superopt.lower.generate import generate
from superopt.lower.spills import spilled_bytes
from superopt.lower.wrapper import lower

__all__ = ["generate", "lower", "spilled_bytes"]
