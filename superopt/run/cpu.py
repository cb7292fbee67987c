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
    """The plan as a callable. ``traceable`` is False for one that keeps values between calls."""
    inner = Program(listing, cache_folder())
    record.path = str(inner.path)

    def run(args: list[Any]) -> Sequence[Any]:
        args.extend(lifted.constants)
        with torch.no_grad():
            return inner(args)

    run._boxed_call = True  # type: ignore[attr-defined]
    if not traceable or not has_cpp_compiler():
        record.chosen = "superopt #0 (through torch)"
        return run
    record.chosen = "superopt #0 (through Inductor)"
    return compile_listing(run, fakes, role == "backward")
