"""torch.compile's door: ``torch.compile(model, backend="superopt")``.

``superopt`` is what the entry point names. It validates the options, hands Dynamo's graph to
AOTAutograd with our own compilers, and falls back to Inductor, with one warning, on any error.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Sequence
from typing import Any

import torch

from superopt.errors import OptionError, SuperoptError
from superopt.fallback import as_error, inductor, warn_fallback
from superopt.options import Options, disabled, parse

log = logging.getLogger("superopt")


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
        try:
            if unknown:
                raise OptionError(f"unknown settings {sorted(unknown)}; use mode= and options=")
            settings = parse(mode, options)
            if disabled():
                return inductor(gm, example_inputs, settings.mode)
            return _guarded(gm, list(example_inputs), settings)
        except SuperoptError as e:
            raise _shown(e) from e.__cause__

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
    except _torchs_own():
        raise
    except BaseException as e:  # egglog's panics are no Exceptions
        if settings.strict:
            raise as_error(e) from e
        error = e
    try:
        found, instead = inductor(copy.deepcopy(gm), inputs, settings.mode), "Inductor"
    except Exception as e:  # no compiler, say
        log.warning("Inductor could not compile this graph either: %s", e)
        found, instead = gm.forward, "PyTorch itself"
    warn_fallback(error, instead)
    return found


def _torchs_own() -> tuple[type[BaseException], ...]:
    """What AOTAutograd raises to tell Dynamo something: trace anew, break the graph here."""
    from torch._dynamo import exc

    return (
        exc.RestartAnalysis,
        exc.TensorifyScalarRestartAnalysis,
        exc.SkipFrame,
        *exc.exceptions_allowed_to_be_fallback,
    )


def _shown(error: SuperoptError) -> SuperoptError:
    """The error as an instance of a class that Dynamo lets through instead of wrapping it."""
    from torch._dynamo.exc import ShortenTraceback

    kind = type(error)
    bases: Any = (kind, ShortenTraceback)
    shown: Any = type(kind.__name__, bases, {"__module__": kind.__module__})
    raised: Any = shown.__new__(shown)
    raised.args = error.args
    raised.stage, raised.first_useful_frame = error.stage, None
    return raised
