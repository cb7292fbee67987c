"""Equality saturation with egglog."""

from superopt.saturate.policy import Limits, Policy, Run, State, Stop, phased
from superopt.saturate.saturate import Report, saturate

__all__ = ["Limits", "Policy", "Report", "Run", "State", "Stop", "phased", "saturate"]
