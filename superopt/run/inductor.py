"""Inductor for what superopt does not generate: rewritten graphs on the CPU."""

from __future__ import annotations

import functools
import shutil
from collections.abc import Callable, Sequence
from typing import Any

from torch.fx.experimental.proxy_tensor import make_fx

Boxed = Callable[[list[Any]], Sequence[Any]]


@functools.cache
def has_cpp_compiler() -> bool:
    """True where Inductor's C++ backend can work."""
    return any(shutil.which(c) for c in ("g++", "clang++", "c++"))


def compile_listing(run: Boxed, example: Sequence[Any], is_backward: bool) -> Boxed:
    """What Inductor makes of ``run``; ``example`` are the traced (fake) arguments.

    Inductor traces it anew with its own decompositions, in the fake mode of the arguments.
    """
    from torch._guards import detect_fake_mode
    from torch._inductor.compile_fx import compile_fx_inner
    from torch._inductor.decomposition import select_decomp_table

    def program(*args: Any) -> Sequence[Any]:
        return run(list(args))

    mode = detect_fake_mode(list(example))
    if mode is None:
        return run
    with mode:
        gm = make_fx(program, decomposition_table=select_decomp_table())(*example)
        return compile_fx_inner(gm, list(example), is_backward=is_backward)
