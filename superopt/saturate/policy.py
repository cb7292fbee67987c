"""What to run next: a policy maps the state of a saturation to an action, and each step is logged.

Limits count nodes and matches, never seconds, so the same program gives the same plan on every run
and machine. The clock is only a last guard against a step that does not come back soon.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from superopt.rule import GROUPS


@dataclass(frozen=True)
class Run:
    """Search with the rules of ``group``; apply at most ``cap`` matches of each rule."""

    group: str
    cap: int


@dataclass(frozen=True)
class Stop:
    """End the saturation; ``reason`` is shown to the user."""

    reason: str


Action = Run | Stop


@dataclass(frozen=True)
class Step:
    """One logged step: what ran, what it did, how long it took (seconds, for information)."""

    group: str
    cap: int
    matches: int
    applied: int
    new_nodes: int
    merged: int
    seconds: float


@dataclass
class State:
    """What a policy may look at."""

    nodes: int = 0
    classes: int = 0
    seconds: float = 0.0
    log: list[Step] = field(default_factory=list)


Policy = Callable[[State], Action]


@dataclass(frozen=True)
class Limits:
    """Sizes at which a saturation stops (counts), and the last guard (seconds)."""

    nodes: int = 8_000
    rounds: int = 12
    matches_per_rule: int = 500
    seconds: float = 30.0


def phased(limits: Limits) -> Policy:
    """Recognition until it is quiet, then algebra and recognition in turn, then kernels.

    A phase ends when a whole round of it changed nothing, or after ``limits.rounds`` rounds.
    """
    phases = (("recognition",), ("algebra", "recognition"), ("kernels",))
    assert set(sum(phases, ())) <= set(GROUPS)
    position = {"phase": 0, "start": 0}

    def choose(state: State) -> Action:
        if state.nodes >= limits.nodes:
            return Stop(f"node limit ({limits.nodes})")
        if state.seconds >= limits.seconds:
            return Stop(f"time limit ({limits.seconds:g} s)")
        while position["phase"] < len(phases):
            groups = phases[position["phase"]]
            done = state.log[position["start"] :]
            last_round = done[-len(groups) :]
            quiet = len(done) >= len(groups) and not any(
                s.new_nodes or s.merged for s in last_round
            )
            if not quiet and len(done) < limits.rounds * len(groups):
                return Run(groups[len(done) % len(groups)], limits.matches_per_rule)
            position["phase"] += 1
            position["start"] = len(state.log)
        return Stop("saturated" if _all_quiet(state, len(phases)) else "round limit")

    return choose


def _all_quiet(state: State, phases: int) -> bool:
    return not state.log or not (state.log[-1].new_nodes or state.log[-1].merged)
