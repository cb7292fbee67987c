"""Inductor for what superopt does not generate: a rewritten graph on the CPU, or a fallback."""

from __future__ import annotations

import functools
import shutil
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from superopt.ir.graph import Graph
from superopt.run.interpret import interpret, sizes_of

Boxed = Callable[[list[Any]], Sequence[Any]]


@functools.cache
def has_cpp_compiler() -> bool:
    """True where Inductor's C++ backend can work."""
    return any(shutil.which(c) for c in ("g++", "clang++", "c++"))


def compile_graph(
    graph: Graph,
    places: Any,
    device: torch.device,
    example: Sequence[Any],
    *,
    static: Sequence[int] = (),
    is_backward: bool = False,
) -> Boxed:
    """A callable that Inductor made of ``graph``; ``example`` are the traced (fake) arguments.

    Inductor traces the graph anew with its own decompositions, inside the caller's fake mode.
    """
    from torch._inductor.compile_fx import compile_fx_inner
    from torch._inductor.decomposition import select_decomp_table

    def program(*args: Any) -> list[Any]:
        return interpret(graph, args, sizes_of(places, args), device)

    gm = make_fx(program, decomposition_table=select_decomp_table(), tracing_mode="real")(*example)
    return compile_fx_inner(
        gm, list(example), static_input_idxs=list(static), is_backward=is_backward
    )
