"""What was compiled in this process: one record a graph, for people who want to see it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from superopt.pipeline import Search


@dataclass
class Record:
    """One compiled graph (forward, backward or inference).

    chosen   which plan runs: "superopt #<rank>", "inductor" or "eager"
    measured milliseconds by plan name, where plans were timed
    path     the source of the plan that runs
    """

    role: str
    card: str
    search: Search
    opaque: list[str]
    chosen: str = "superopt #0"
    measured: dict[str, float] = field(default_factory=dict)
    path: str = ""
    notes: list[str] = field(default_factory=list)
    kernels: dict[str, Any] = field(default_factory=dict)


_RECORDS: list[Record] = []


def add(record: Record) -> None:
    _RECORDS.append(record)


def records() -> list[Record]:
    """Records of this process since the last reset, oldest first."""
    return list(_RECORDS)


def clear() -> None:
    _RECORDS.clear()
