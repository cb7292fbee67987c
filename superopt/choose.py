"""The one place where a plan is finally chosen: by measuring it against the others and Inductor."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Sequence
from typing import Any

import torch

from superopt.fallback import inductor
from superopt.options import Options
from superopt.run.timing import interleaved

log = logging.getLogger("superopt")
Call = Callable[..., Any]


def choose(
    ours: Call,
    rival_graph: torch.fx.GraphModule,
    inputs: Sequence[Any],
    compiled: Sequence[Any],
    settings: Options,
) -> Call:
    """The fastest of our plans and Inductor's compile of the same graph, timed on real buffers.

    ``compiled`` are our graphs behind ``ours``; their plan pointers are left at the best rank.
    """
    from torch._dynamo.utils import preserve_rng_state
    from torch.utils._python_dispatch import _disable_current_modes

    with _disable_current_modes(), preserve_rng_state():
        run = _runner(inputs)
        run(ours)  # compiles the kernels, tunes them, and makes the lazy backward graphs
        ranks = max((len(c.plans) for c in compiled), default=1)
        for rank in range(ranks):
            _select(compiled, rank)
            run(ours)
        rival = _rival(rival_graph, inputs, settings.mode) if settings.rival else None
        times = _race(ours, rival, ranks, compiled, run)
    best = min(range(ranks), key=lambda r: times[f"superopt #{r}"])
    _select(compiled, best)
    _report(times, compiled)
    if "inductor" in times and times["inductor"] < times[f"superopt #{best}"]:
        for c in compiled:
            c.record.chosen = "inductor"
        assert rival is not None
        return rival
    return ours


def _race(
    ours: Call, rival: Call | None, ranks: int, compiled: Sequence[Any], run: Call
) -> dict[str, float]:
    def ranked(rank: int) -> Call:
        def go() -> None:
            _select(compiled, rank)
            run(ours)

        return go

    contestants = {f"superopt #{r}": ranked(r) for r in range(ranks)}
    if rival is not None:
        contestants["inductor"] = lambda: run(rival)
    return dict(zip(contestants, interleaved(list(contestants.values())), strict=True))


def _rival(gm: torch.fx.GraphModule, inputs: Sequence[Any], mode: str) -> Call | None:
    try:
        return inductor(copy.deepcopy(gm), list(inputs), mode)
    except Exception as e:  # no rival is no reason not to run ours
        log.warning("Inductor could not compile this graph: %s", e)
        return None


def _select(compiled: Sequence[Any], rank: int) -> None:
    for c in compiled:
        if c.current is not c.fallback:
            c.select(rank)


def _report(times: dict[str, float], compiled: Sequence[Any]) -> None:
    for c in compiled:
        c.record.measured = dict(times)
    log.info("measured (ms): %s", times)


def _runner(inputs: Sequence[Any]) -> Call:
    """Calls a candidate on buffers that the user does not see, forward and backward."""
    grad = torch.is_grad_enabled()
    buffers = [_private(x) for x in inputs]
    wanted = [x for x in buffers if isinstance(x, torch.Tensor) and x.requires_grad]

    def run(fn: Call) -> None:
        outs = fn(*buffers)
        if not (grad and wanted):
            return
        outs = [o for o in outs if isinstance(o, torch.Tensor) and o.requires_grad]
        if outs:
            torch.autograd.grad(outs, wanted, [torch.ones_like(o) for o in outs], allow_unused=True)

    return run


def _private(x: Any) -> Any:
    """Parameters as they are; a copy of anything that a graph may write to."""
    if not isinstance(x, torch.Tensor) or isinstance(x, torch.nn.Parameter):
        return x
    with torch.no_grad():
        twin = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=x.device)
        twin = twin.copy_(x)
    return twin.requires_grad_(x.requires_grad)
