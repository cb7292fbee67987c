"""Launching a Triton kernel again without Triton's per-call work.

``kernel[grid](…)`` works out the specialisation of every argument at each call, which costs tens of
microseconds on the host. A generated module calls its kernel with the same kinds of arguments every
time, so the compiled kernel is kept by what Triton specialises on: the alignment of pointers and
the values of integers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


class Direct:
    """Stands for a ``@triton.jit`` function in the module that launches it."""

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel
        self._names: list[str] = list(kernel.arg_names)
        self._compiled: dict[Any, Any] = {}

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        def launch(*args: Any, **settings: Any) -> None:
            key = (tuple(map(_kind, args)), *settings.values())
            compiled = self._compiled.get(key)
            if compiled is None:
                self._compiled[key] = self._kernel[grid](*args, **settings)
                return
            constants = [settings[n] for n in self._names[len(args) :]]
            compiled[(*grid, 1, 1)[:3]](*args, *constants)

        return launch


def _kind(arg: Any) -> Any:
    """What Triton specialises on, of one argument. Devices are those of the pointers."""
    if isinstance(arg, torch.Tensor):
        return arg.dtype, arg.data_ptr() % 16 == 0, arg.device.index
    if isinstance(arg, int):
        return arg
    # A descriptor: its block is one of the settings; its tensor's dtype never changes.
    return type(arg)
