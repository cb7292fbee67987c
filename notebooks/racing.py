"""Racing superopt against eager and Inductor by CUDA-graph replays, with errors from float64."""

from __future__ import annotations

import copy
import datetime
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
import triton

import superopt

OPTIONS = {"strict": True, "rival": False}
CONTESTANTS: dict[str, dict[str, Any]] = {
    "eager": {},
    "inductor": {"backend": "inductor"},
    "inductor max-autotune": {"backend": "inductor", "mode": "max-autotune-no-cudagraphs"},
    "superopt": {"backend": "superopt", "options": OPTIONS},
}


def captured(fn: Callable[[], object], calls: int = 10) -> torch.cuda.CUDAGraph:
    """``calls`` calls of ``fn`` as one CUDA graph."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            fn()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for _ in range(calls):
                fn()
    torch.cuda.current_stream().wait_stream(stream)
    return graph


def race(
    fns: dict[str, Callable[[], object]], repeats: int, calls: int = 1
) -> dict[str, list[float]]:
    """Microseconds a call of each contestant, called in turn."""
    times: dict[str, list[float]] = {name: [] for name in fns}
    for _ in range(repeats):
        for name, fn in fns.items():
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            fn()
            end.record()
            end.synchronize()
            times[name].append(start.elapsed_time(end) * 1000 / calls)
    return times


def measure(
    label: str,
    model: torch.nn.Module,
    inputs: Sequence[torch.Tensor],
    repeats: int = 60,
    names: Sequence[str] = tuple(CONTESTANTS),
) -> list[str]:
    """One table row a contestant. Under ``torch.no_grad()``."""
    reference = copy.deepcopy(model).double()(*(x.double() for x in inputs))
    graphs, calls, notes = {}, {}, {}
    for name in names:
        torch._dynamo.reset()
        how = CONTESTANTS[name]
        fn = torch.compile(model, dynamic=False, **how) if how else model
        begin = time.perf_counter()
        out = fn(*inputs)
        torch.cuda.synchronize()
        seconds = time.perf_counter() - begin
        error = ((out.double() - reference).norm() / reference.norm()).item()
        notes[name] = f"{error:.2e} | {seconds:.1f} | {_plan(name)}"
        calls[name] = lambda fn=fn: fn(*inputs)
        graphs[name] = captured(calls[name])
    replayed = race({n: g.replay for n, g in graphs.items()}, repeats, 10)
    plain = race(calls, repeats)
    return [
        f"| {label} | {name} | {statistics.median(replayed[name]):.1f} | "
        f"{_spread(replayed[name])} | {statistics.median(plain[name]):.0f} | {notes[name]} |"
        for name in names
    ]


def _spread(times: list[float]) -> str:
    cuts = statistics.quantiles(times, n=20)
    return f"{cuts[0]:.1f} to {cuts[-1]:.1f}"


def _plan(name: str) -> str:
    if name != "superopt":
        return ""
    (record,) = superopt.records()
    rank = int(record.chosen.rsplit("#", 1)[-1])
    steps = [s.family for s in record.search.plans[rank].steps]
    return (
        f"{record.chosen}: {steps.count('gemm')} gemm, {steps.count('region')} region, "
        f"{steps.count('aten')} library; predicted "
        f"{record.search.plans[rank].price.seconds * 1e6:.1f} us"
    )


def header(title: str) -> list[str]:
    """The title, the machine, and the head of the table that ``measure`` fills."""
    p = torch.cuda.get_device_properties(0)
    return [
        f"# {title}",
        "",
        f"{p.name}, torch {torch.__version__}, triton {triton.__version__}, "
        f"Python {platform.python_version()}, {datetime.date.today()}; bf16. Microseconds a call: "
        "CUDA-graph replays (median, 5th and 95th percentile), and the call as a user makes it "
        "(median), contestants in turn. The error is the norm of the difference from float64, "
        "relative to its norm.",
        "",
        "| workload | contestant | us | 5% to 95% | plain call us | error | first call s | plan |",
        "|---|---|---|---|---|---|---|---|",
    ]
