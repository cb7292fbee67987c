"""A model under eager, Inductor and superopt, side by side on the same inputs."""

from __future__ import annotations

import copy
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from rich.console import Console

from superopt import session

ROUNDS, FEWEST = 15, 5  # calls of each contestant
BUDGET = 12.0  # seconds after which no round beyond the fewest begins


@dataclass
class Contestant:
    """One way to run the model.

    compiled   seconds of the first call, less those of a later one
    generated  kernels (loops on a CPU) that Inductor wrote for it
    times      seconds of each call
    """

    name: str
    call: Callable[..., torch.Tensor]
    output: torch.Tensor
    compiled: float = 0.0
    generated: int = 0
    times: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(self.times)

    @property
    def quartiles(self) -> tuple[float, float]:
        low, _, high = statistics.quantiles(self.times, n=4, method="inclusive")
        return low, high


@contextmanager
def progress(console: Console, what: str) -> Iterator[None]:
    """Says what is being done while it is done, and how long it took."""
    start = time.perf_counter()
    with console.status(f"{what} …"):
        yield
    console.print(f"  {what}: {time.perf_counter() - start:.1f} s", style="dim")


def compare(
    console: Console, model: torch.nn.Module, inputs: Sequence[torch.Tensor]
) -> tuple[list[Contestant], list[session.Record]]:
    """Eager, Inductor and superopt on ``inputs``; and what superopt compiled."""
    with progress(console, "loading the compilers"):
        _warm_up(inputs[0].device)
    with torch.inference_mode(False), torch.no_grad():
        found = [Contestant("eager", model, model(*inputs))]
        with progress(console, "compiling with Inductor"):
            found.append(_compiled("Inductor", "inductor", model, inputs))
        before = len(session.records())
        with progress(console, "compiling with superopt"):
            found.append(_compiled("superopt", "superopt", model, inputs))
        records = session.records()[before:]
        with progress(console, "timing the three in turn"):
            _time(found, inputs)
    for c in found[1:]:
        c.compiled = max(0.0, c.compiled - c.median)
    return found, records


def in_float64(model: torch.nn.Module, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
    """The model's output in float64, the reference for errors."""
    wide = [x.double() if x.is_floating_point() else x for x in inputs]
    with torch.no_grad():
        return copy.deepcopy(model).double()(*wide)


def _warm_up(device: torch.device) -> None:
    """A compile each, large enough to run in parallel, so that none pays for what both load.

    On a CPU that includes Inductor's precompiled headers, which are kept apart from its caches.
    """
    x = torch.ones(256, 1024, device=device)
    for backend in ("inductor", "superopt"):
        with torch.no_grad():
            torch.compile(lambda v: torch.softmax(v * 2, -1) + v.mean(), backend=backend)(x)


def _compiled(
    name: str, backend: str, model: torch.nn.Module, inputs: Sequence[torch.Tensor]
) -> Contestant:
    from torch._inductor import metrics

    metrics.reset()
    start = time.perf_counter()
    call = torch.compile(copy.deepcopy(model), backend=backend, dynamic=False)
    with _no_caches():
        output = call(*inputs)
    _synchronise(output)
    seconds = time.perf_counter() - start
    return Contestant(name, call, output.clone(), seconds, metrics.generated_kernel_count)


@contextmanager
def _no_caches() -> Iterator[None]:
    """Compile seconds are those of a first compile, whatever an earlier run has left on disk."""
    from torch._inductor.utils import fresh_cache

    with fresh_cache():
        yield


def _time(found: Sequence[Contestant], inputs: Sequence[torch.Tensor]) -> None:
    begun = time.perf_counter()
    for c in found:
        _synchronise(c.call(*inputs))
    for _ in range(ROUNDS):
        for c in found:
            start = time.perf_counter()
            _synchronise(c.call(*inputs))
            c.times.append(time.perf_counter() - start)
        if len(found[0].times) >= FEWEST and time.perf_counter() - begun > BUDGET:
            break


def _synchronise(x: torch.Tensor) -> None:
    if x.is_cuda:
        torch.cuda.synchronize(x.device)
