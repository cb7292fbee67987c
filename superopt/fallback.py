"""What runs instead when a stage fails, and the one warning that says so."""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from superopt.errors import SuperoptError


def as_error(error: BaseException) -> SuperoptError:
    """The error as one of ours, its message naming the stage."""
    if isinstance(error, SuperoptError):
        return error
    stage = _stage(error)
    wrapped = SuperoptError(f"the {stage} stage failed: {type(error).__name__}: {error}")
    wrapped.stage = stage
    return wrapped


def warn_fallback(error: BaseException, instead: str) -> None:
    """One warning: which stage failed, why, and what runs ``instead``."""
    stage = error.stage if isinstance(error, SuperoptError) else _stage(error)
    reason = f"{error}".strip().split("\n")[0]
    if not isinstance(error, SuperoptError):
        reason = f"{type(error).__name__}: {reason}"
    warnings.warn(
        f"superopt: the {stage} stage failed ({reason}); this graph runs through {instead}. "
        'Set options={"strict": True} to see the error.',
        RuntimeWarning,
        stacklevel=2,
    )


_STAGES = {
    "blocks", "choose", "cost", "extract", "kernels", "lift", "lower", "run", "saturate", "schedule"
}  # fmt: skip


def _stage(error: BaseException) -> str:
    """The innermost of our stages in the error's traceback."""
    here = Path(__file__).parent
    name = "compile"
    for frame in traceback.extract_tb(error.__traceback__):
        file = Path(frame.filename)
        if file.is_relative_to(here):
            part = file.relative_to(here).parts[0].removesuffix(".py")
            name = part if part in _STAGES else name
    return name


def inductor(gm: torch.fx.GraphModule, inputs: Sequence[Any], mode: str) -> Callable[..., Any]:
    """Inductor's compile of Dynamo's graph, in the mode that the user named."""
    from torch._inductor import list_mode_options
    from torch._inductor.compile_fx import compile_fx

    patches = dict(list_mode_options(mode)) if mode != "default" else {}
    return compile_fx(gm, list(inputs), config_patches=patches)  # type: ignore[return-value]
