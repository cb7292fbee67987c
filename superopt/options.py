"""What a user can set, with its default; and the only place that reads ``SUPEROPT_*`` variables."""

from __future__ import annotations

import difflib
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from superopt.errors import OptionError

MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


@dataclass(frozen=True)
class Options:
    """Settings of one ``torch.compile(model, backend="superopt", options={...})``.

    mode           "default", "reduce-overhead" or "max-autotune" (both replay CUDA graphs), or
                   "max-autotune-no-cudagraphs"; set through ``torch.compile(mode=...)``, or as an
                   option, since torch takes either a mode or options
    measure        on a GPU, time the best plans and Inductor's, keep the fastest (True); trust the
                   cost model alone (False)
    rival          Inductor's compile of the same graph takes part in the measurement
    strict         an error in any stage is raised instead of falling back
    freeze         weights may be treated as constants; they can no longer be updated
    lam            weight of launches, copied and spilled bytes and peak memory beside latency
                   (option name: "lambda")
    k              how many of the best plans to consider
    card           cost model to price with: a name, or a path of a .toml; the machine's own if None
    rules          rule files to load beside the built-in laws
    disable        names of rules to leave out
    nodes          e-nodes at which a saturation stops, per block
    matches        matches of one rule applied in one step
    extract_limit  seconds for the exact extraction of one block (a guard; it rarely matters)
    """

    mode: str = "default"
    measure: bool = True
    rival: bool = True
    strict: bool = False
    freeze: bool = False
    lam: float = 0.0
    k: int = 3
    card: str | None = None
    rules: tuple[str, ...] = ()
    disable: tuple[str, ...] = ()
    nodes: int = 4_000
    matches: int = 500
    extract_limit: float = 10.0

    @property
    def cudagraphs(self) -> bool:
        return self.mode in ("reduce-overhead", "max-autotune")


_RENAMED = {"lambda": "lam"}
_KEYS = sorted({f.name for f in fields(Options)} - {"lam"} | {"lambda"})


def parse(mode: str | None, options: Mapping[str, Any] | None) -> Options:
    """The options of one call of ``torch.compile``; OptionError says what is wrong, what fits."""
    values: dict[str, Any] = {"strict": flag("SUPEROPT_STRICT")}
    if mode is not None:
        values["mode"] = _checked("mode", mode)
    for key, value in (options or {}).items():
        if key not in _KEYS:
            close = difflib.get_close_matches(key, _KEYS, 1)
            hint = f" (did you mean {close[0]!r}?)" if close else ""
            raise OptionError(f"unknown option {key!r}{hint}; valid options: {', '.join(_KEYS)}")
        values[_RENAMED.get(key, key)] = _checked(key, value)
    return replace(Options(), **values)


def _checked(key: str, value: Any) -> Any:
    if key == "mode":
        return _expect(key, value, value in MODES, f"one of {', '.join(MODES)}")
    if key in ("measure", "rival", "strict", "freeze"):
        return _expect(key, value, isinstance(value, bool), "True or False")
    if key in ("rules", "disable"):
        names = [value] if isinstance(value, str | Path) else value
        listed = isinstance(names, list | tuple | set | frozenset)
        listed = listed and all(isinstance(n, str | Path) for n in names)
        return tuple(map(str, _expect(key, names, listed, "a list of names")))
    if key == "card":
        return _expect(key, value, isinstance(value, str | None), "a name or a path")
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if key in ("lambda", "extract_limit"):
        fits = number and 0 <= value < math.inf
        return float(_expect(key, value, fits, "a finite number >= 0"))
    low = 1
    return _expect(key, value, isinstance(value, int) and number and value >= low, "an int >= 1")


def _expect(key: str, value: Any, ok: bool, what: str) -> Any:
    if not ok:
        raise OptionError(f"option {key!r} is {value!r}; it must be {what}")
    return value


def flag(name: str) -> bool:
    """An environment variable as a switch: unset, empty, "0" and "false" are off."""
    return os.environ.get(name, "").lower() not in ("", "0", "false", "no")


def disabled() -> bool:
    """True when ``SUPEROPT_DISABLE`` sends everything to Inductor."""
    return flag("SUPEROPT_DISABLE")


def cache_dir() -> Path:
    """Where generated sources are written: ``SUPEROPT_CACHE_DIR``, or the user's cache folder."""
    from platformdirs import user_cache_dir

    return Path(os.environ.get("SUPEROPT_CACHE_DIR") or user_cache_dir("superopt"))
