"""Scheduling: which nodes of a graph run together, in what order, and where values lie."""

from superopt.schedule.constants import mark_constant
from superopt.schedule.describe import describe
from superopt.schedule.steps import schedule

__all__ = ["describe", "mark_constant", "schedule"]
