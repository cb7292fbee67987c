"""A plan: the operations that compute a graph's outputs, in order; and what each of them costs.

Scheduling makes a plan, cost models price it as a whole, lowering turns its kernels into source,
and the runtime executes it. A compiled callable reads its plan through a replaceable pointer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from superopt.ir.dims import Dim
from superopt.ir.graph import Graph

Strides = tuple[Dim, ...]


@dataclass(frozen=True)
class Work:
    """What one operation asks of a card, at the traced sizes.

    engine       which peak bounds its arithmetic: "simt" (ordinary lanes), "mma" (tensor cores
                 through generated code) or "library" (the vendor's product)
    flops        floating-point operations
    read, write  bytes to and from memory, each distinct buffer once
    tiles        independent programs, for wave quantisation; 0 when it does not matter
    dtype        what the arithmetic reads
    launches     kernels started (0 for a view)
    """

    engine: str = "simt"
    flops: float = 0.0
    read: float = 0.0
    write: float = 0.0
    tiles: int = 0
    dtype: torch.dtype = torch.float32
    launches: int = 1


@dataclass(frozen=True)
class Step:
    """One operation of a plan: the graph nodes it computes, what it reads and what it writes.

    family     which family of kernels runs it: "region", "gemm", "aten" or "view"
    effects    True when it must keep its place among other effects
    stream     the stream it runs on (0 today)
    placement  "device" (every call) or "once" (only constants below it: computed at first call)
    """

    family: str
    nodes: tuple[int, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    effects: bool = False
    stream: int = 0
    placement: str = "device"


@dataclass(frozen=True)
class Price:
    """Predicted seconds of a plan, and what they are made of (seconds, bytes, launches)."""

    seconds: float
    per_step: tuple[float, ...] = ()
    launches: int = 0
    traffic: float = 0.0
    peak_bytes: float = 0.0


@dataclass
class Plan:
    """Steps in order over a graph; strides of every value; the price once it has one."""

    graph: Graph
    steps: list[Step]
    strides: dict[int, Strides]
    price: Price | None = None
    notes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Config:
    """One way to run a kernel: compile-time constants, warps and pipeline stages."""

    constants: tuple[tuple[str, Any], ...]
    num_warps: int = 4
    num_stages: int = 2

    def __getitem__(self, name: str) -> Any:
        return dict(self.constants)[name]


@dataclass(frozen=True)
class Kernel:
    """A generated kernel: a Python module's source and how to call it.

    The module defines the Triton function ``name`` and ``launch(*inputs, *outputs, *sizes,
    config)``, where ``inputs`` and ``outputs`` are tensors in the order of the fields below and
    ``sizes`` are integers, the values of the symbolic ``sizes``. ``configs`` are the ways to run
    it, the model's first choice first; tuning may pick another. ``signature`` and ``constants``
    serve to assemble it without a GPU: (parameter, Triton type) for every run-time parameter, and
    the compile-time constants that no config sets.
    """

    name: str
    family: str
    source: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    sizes: tuple[Dim, ...]
    configs: tuple[Config, ...]
    signature: tuple[tuple[str, str], ...]
    constants: tuple[tuple[str, Any], ...] = ()
    deterministic: bool = True


@dataclass(frozen=True)
class Site:
    """Where a kernel is wanted: the step, its graph, the strides of its values, and the target.

    arch           compute capability as an int (75, 80, 90)
    sms            multiprocessors of the card
    precision      fp32 products: "highest" (IEEE) or "high"/"medium" (TF32 allowed)
    deterministic  True forbids atomics whose order varies
    """

    graph: Graph
    step: Step
    strides: Mapping[int, Strides]
    arch: int
    sms: int
    precision: str = "highest"
    deterministic: bool = False


@dataclass
class Listing:
    """A plan's source, the names it uses, and its kernels by name."""

    source: str
    names: dict[str, Any]
    kernels: dict[str, Kernel] = field(default_factory=dict)
