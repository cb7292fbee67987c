"""Timing on a GPU: medians of CUDA-graph replays where possible, of plain calls otherwise."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

import torch


def milliseconds(fn: Callable[[], object], repeats: int = 15) -> float:
    """Median milliseconds of ``fn``, which is called several times in a captured graph."""
    try:
        return _replayed(fn, repeats)
    except Exception:  # synchronising operators cannot be captured
        torch.cuda.synchronize()
        return interleaved([fn], repeats)[0]


def _replayed(fn: Callable[[], object], repeats: int) -> float:
    calls = 4
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        fn()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for _ in range(calls):
                fn()
    torch.cuda.current_stream().wait_stream(stream)
    return interleaved([graph.replay], repeats)[0] / calls


def interleaved(fns: Sequence[Callable[[], object]], repeats: int = 15) -> list[float]:
    """Median milliseconds of each function, called in turn so that drift meets all alike."""
    times: list[list[float]] = [[] for _ in fns]
    for fn in fns:
        fn()
    for _ in range(repeats):
        for fn, found in zip(fns, times, strict=True):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            fn()
            end.record()
            end.synchronize()
            found.append(start.elapsed_time(end))
    return [statistics.median(t) for t in times]
