"""A plan with generated kernels on a GPU, replayed as a CUDA graph where the mode asks for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from superopt.ir.lifted import Lifted
from superopt.ir.plan import Listing
from superopt.options import Options
from superopt.run.program import Program, cache_folder

Boxed = Callable[[list[Any]], Sequence[Any]]


def program(
    listing: Listing,
    lifted: Lifted,
    fakes: Sequence[Any],
    role: str,
    settings: Options,
    record: Any,
) -> Boxed:
    """The plan as a callable; its kernels choose their configuration in the first call."""
    inner = Program(listing, cache_folder())
    record.path = record.path or str(inner.path)
    record.kernels.update({n: str(x.path) for n, x in inner.launchers.items()})
    if settings.measure:
        inner.tune_on_next_call()
    constants = lifted.constants

    index = lifted.device.index or 0

    def run(args: list[Any]) -> Sequence[Any]:
        args.extend(constants)
        if torch.cuda.current_device() == index:
            return inner(args)
        with torch.cuda.device(index):  # Triton launches on the current one
            return inner(args)

    run._boxed_call = True  # type: ignore[attr-defined]
    if settings.cudagraphs and not constants:
        return _graphed(run, fakes, lifted, role)
    return run


def _graphed(run: Boxed, fakes: Sequence[Any], lifted: Lifted, role: str) -> Boxed:
    """``run`` behind torch's CUDA-graph trees: captured on its second call, then replayed."""
    from torch._inductor.cudagraph_trees import cudagraphify_impl

    if lifted.sizes or any(not isinstance(f, torch.Tensor) or not f.is_cuda for f in fakes):
        return run  # sizes that vary, or tensors on other devices, cannot be captured
    static = [
        lifted.graph.nodes[i].attrs[0]
        for i in lifted.graph.live()
        if lifted.graph.nodes[i].op.name == "input" and lifted.graph.nodes[i].attrs[2] == "param"
    ]
    if _mutated(lifted):
        return run
    captured: list[Boxed] = []

    def call(args: list[Any]) -> Sequence[Any]:
        if not captured:
            out = run(list(args))  # compile and tune outside the capture
            captured.append(
                cudagraphify_impl(
                    run,  # type: ignore[arg-type]
                    args,
                    static,
                    device_index=lifted.device.index or 0,
                    is_backward=role == "backward",
                    is_inference=role == "inference",
                    stack_traces=[None] * len(lifted.outputs),
                    placeholders=(),
                    mutated_input_idxs=(),
                )
            )
            args.clear()
            return out
        return captured[0](args)

    call._boxed_call = True  # type: ignore[attr-defined]
    return call


def _mutated(lifted: Lifted) -> list[int]:
    """Arguments that the graph writes to."""
    g = lifted.graph
    effects = g.outputs[g.visible :] if g.visible is not None else []
    targets = [g.nodes[e].args[0] for e in effects if g.nodes[e].args]
    return [g.nodes[t].attrs[0] for t in targets if g.nodes[t].op.name == "input"]
