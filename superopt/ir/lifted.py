"""A lifted graph with the signature that every alternative of it keeps."""

from __future__ import annotations

from dataclasses import dataclass, field

import sympy
import torch

from superopt.ir.dims import Dim
from superopt.ir.graph import Graph
from superopt.ir.memory import memory, written


@dataclass(frozen=True)
class Output:
    """One output of the user's graph: a tensor (its position among ``graph.outputs``), a size or
    None. ``strides`` are those the caller must see; outputs of one ``storage`` may share memory,
    others may not ("input:<i>" when it is memory of an input)."""

    position: int | None = None
    dim: Dim | None = None
    strides: tuple[Dim, ...] | None = None
    storage: str = ""


@dataclass
class Lifted:
    """A lifted graph with the signature that every alternative of it keeps.

    sizes      position of the call's integer arguments, by the symbol that each binds
    constants  tensors that the FX graph held; they follow the call's arguments as inputs
    """

    graph: Graph
    outputs: list[Output]
    sizes: dict[sympy.Symbol, tuple[int, int | None]]
    constants: list[torch.Tensor]
    arguments: int
    device: torch.device
    opaque: list[str] = field(default_factory=list)

    def written(self) -> list[int]:
        """Positions of the arguments that the graph writes to."""
        table, nodes = memory(self.graph), self.graph.nodes
        roots = {r for i in table for r in written(self.graph, i, table)}
        return sorted(nodes[r].attrs[0] for r in roots if nodes[r].op.name == "input")
