"""torch.compile's door: ``torch.compile(model, backend="superopt")``.

``superopt`` is what the entry point names. It validates the options, hands Dynamo's graph to
AOTAutograd with our own compilers, and falls back to Inductor, with one warning, on any error.
"""

from __future__ import annotations

import threading
import traceback
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch

from superopt.errors import OptionError, SuperoptError
from superopt.options import Options, disabled, parse

_LOCK = threading.RLock()  # torch's compile stack is not thread-safe


class Backend:
    """The backend as a value: one instance, so that torch recognises equal calls as equal."""

    __name__ = "superopt"

    def __call__(
        self,
        gm: torch.fx.GraphModule,
        example_inputs: Sequence[Any],
        *,
        mode: str | None = None,
        options: dict[str, Any] | None = None,
        **unknown: Any,
    ) -> Callable[..., Any]:
        """Compile one of Dynamo's graphs. Raises OptionError for what is not a valid setting."""
        if unknown:
            raise OptionError(f"unknown settings {sorted(unknown)}; use mode= and options=")
        settings = parse(mode, options)
        if disabled():
            return inductor(gm, example_inputs, settings.mode)
        with _LOCK:
            return _guarded(gm, list(example_inputs), settings)

    def reset(self) -> None:
        """Called by ``torch._dynamo.reset()``: forget records and cached plans."""
        from superopt import session

        session.clear()


superopt = Backend()


def _guarded(gm: torch.fx.GraphModule, inputs: list[Any], settings: Options) -> Callable[..., Any]:
    from superopt.compile import compile_dynamo_graph

    try:
        return compile_dynamo_graph(gm, inputs, settings)
    except (OptionError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as e:  # egglog's panics are no Exceptions
        if settings.strict:
            raise as_error(e) from e
        warn_fallback(e)
        return inductor(gm, inputs, settings.mode)


def as_error(error: BaseException) -> SuperoptError:
    """The error as one of ours, its message naming the stage."""
    if isinstance(error, SuperoptError):
        return error
    wrapped = SuperoptError(f"{type(error).__name__}: {error}")
    wrapped.stage = _stage(error)
    return wrapped


def warn_fallback(error: BaseException) -> None:
    """One warning: which stage failed, why, and what runs instead."""
    e = as_error(error)
    reason = str(e).strip().split("\n")[0]
    warnings.warn(
        f"superopt: the {e.stage} stage failed ({reason}); this graph runs through Inductor. "
        'Set options={"strict": True} to see the error.',
        RuntimeWarning,
        stacklevel=2,
    )


def _stage(error: BaseException) -> str:
    """The innermost of our stages in the error's traceback."""
    name = "compile"
    for frame in traceback.extract_tb(error.__traceback__):
        parts = frame.filename.replace("\\", "/").split("/")
        if "superopt" in parts[:-1]:
            inner = parts[len(parts) - 1 - parts[::-1].index("superopt") + 1 :]
            name = inner[0].removesuffix(".py")
    return name


def inductor(gm: torch.fx.GraphModule, inputs: Sequence[Any], mode: str) -> Callable[..., Any]:
    """Inductor's compile of Dynamo's graph, in the mode that the user named."""
    from torch._inductor import list_mode_options
    from torch._inductor.compile_fx import compile_fx

    patches = dict(list_mode_options(mode)) if mode != "default" else {}
    return compile_fx(gm, list(inputs), config_patches=patches)
