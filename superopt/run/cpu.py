"""A plan without generated kernels: Inductor's C++ backend, or torch where there is no compiler."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from superopt.ir.lifted import Lifted
from superopt.ir.plan import Listing
from superopt.run.inductor import compile_listing, has_cpp_compiler
from superopt.run.program import Program, cache_folder

Boxed = Callable[[list[Any]], Sequence[Any]]


def program(
    listing: Listing,
    lifted: Lifted,
    fakes: Sequence[Any],
    role: str,
    record: Any,
    *,
    traceable: bool,
) -> Boxed:
    """The plan as a callable. ``traceable`` is False for one that Inductor may not have: one that
    keeps values between calls, or copies what it is about to overwrite."""
    inner = Program(listing, cache_folder())
    record.path = str(inner.path)

    def through_torch(args: list[Any]) -> Sequence[Any]:
        with torch.no_grad():
            return inner(args)

    compiled = None
    if traceable and has_cpp_compiler():
        compiled = compile_listing(through_torch, fakes, lifted.constants, role)
    record.chosen = f"superopt #0 (through {'torch' if compiled is None else 'Inductor'})"
    chosen = compiled or through_torch

    def run(args: list[Any]) -> Sequence[Any]:
        args.extend(lifted.constants)
        return chosen(args)

    run._boxed_call = True  # type: ignore[attr-defined]
    return run
