"""Our own e-graph: plain, serialisable, independent of the engine that saturated it.

egglog's e-graph is bound to its thread and knows no provenance. This one outlives it: it holds
every e-node with the law that made it and every class's type, so a saved e-graph can be priced
under another card and extracted again elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from superopt.ir.dims import Hints
from superopt.ir.types import Type
from superopt.ops.op import Op


@dataclass(frozen=True)
class ENode:
    """``op`` applied to classes; ``law`` is the law that first made it ("input" for the user's)."""

    op: Op
    args: tuple[int, ...]
    attrs: tuple[Any, ...]
    law: str = "input"


@dataclass
class EClass:
    """All known ways to compute one value."""

    type: Type
    nodes: list[ENode]


@dataclass
class EGraph:
    """Classes by number, and the classes of the outputs. Nodes' args are class numbers.

    An e-graph may be cyclic: a class may be reachable from one of its own nodes.
    """

    classes: dict[int, EClass] = field(default_factory=dict)
    roots: list[int] = field(default_factory=list)
    hints: Hints = field(default_factory=dict)

    @property
    def node_count(self) -> int:
        return sum(len(c.nodes) for c in self.classes.values())
