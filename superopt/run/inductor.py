"""Inductor for what superopt does not generate: rewritten graphs on the CPU."""

from __future__ import annotations

import functools
import shutil
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx.experimental.proxy_tensor import make_fx

Boxed = Callable[[list[Any]], Sequence[Any]]


@functools.cache
def has_cpp_compiler() -> bool:
    """True where Inductor's C++ backend can work."""
    return any(shutil.which(c) for c in ("g++", "clang++", "c++"))


def compile_listing(
    run: Boxed, example: Sequence[Any], constants: Sequence[torch.Tensor], role: str
) -> Boxed | None:
    """What Inductor makes of ``run``; ``example`` are the traced (fake) arguments, which the
    ``constants`` follow. None where there is nothing to trace with.

    Inductor traces it anew with its own decompositions, in the fake mode of the arguments. Outputs
    keep the strides that they are traced with, but for tensors that are saved for backward.
    """
    from torch._guards import detect_fake_mode
    from torch._inductor.compile_fx import compile_fx_inner
    from torch._inductor.decomposition import select_decomp_table
    from torch._inductor.fx_passes.joint_graph import joint_graph_passes
    from torch._inductor.virtualized import V
    from torch.compiler import config as caching

    def program(*args: Any) -> Sequence[Any]:
        return run(list(args))

    mode = detect_fake_mode(list(example))
    if mode is None:
        return None
    with mode, V.set_fake_mode(mode), torch._C._DisableAutocast():
        args = [*example, *map(mode.from_tensor, constants)]
        gm = make_fx(program, decomposition_table=select_decomp_table())(*args)
        joint_graph_passes(gm)
        (output,) = gm.graph.find_nodes(op="output")
        visible = _visible(role, output)
        output.meta["user_visible_output_idxs"] = list(range(visible))
        tag = f"{caching.cache_key_tag} superopt {visible}"  # the key leaves them out
        with caching.patch(cache_key_tag=tag):  # type: ignore[attr-defined]
            return compile_fx_inner(
                gm, args, is_backward=role == "backward", is_inference=role == "inference"
            )


def _visible(role: str, output: torch.fx.Node) -> int:
    """How many of the first outputs the user sees; what follows is saved for backward."""
    context = torch._guards.TracingContext.try_get()
    if role != "forward" or context is None or context.fw_metadata is None:
        return len(output.args[0])  # type: ignore[arg-type]
    return context.fw_metadata.num_forward_returns
