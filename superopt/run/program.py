"""Executable plans: modules loaded from the cache folder, kernels that can be tuned, one call."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from superopt.errors import RunError
from superopt.ir.plan import Config, Kernel, Listing
from superopt.options import cache_dir
from superopt.run.direct import Direct
from superopt.run.interpret import allocator, full, restride, run_opaque, typed
from superopt.run.timing import milliseconds

_RUNTIME = {"full": full, "restride": restride, "run_opaque": run_opaque, "typed": typed}


def cache_folder() -> Path:
    """Where generated modules go; a RunError where it cannot be written."""
    folder = cache_dir() / "generated"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise RunError(f"{folder} cannot be written ({e}); set SUPEROPT_CACHE_DIR") from e
    return folder


def write_module(folder: Path, name: str, source: str) -> Path:
    """``source`` as a file named after its content, written whole or not at all."""
    digest = hashlib.sha256(source.encode()).hexdigest()[:16]
    path = folder / f"{name}_{digest}.py"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=folder, suffix=".tmp")
        with os.fdopen(handle, "w") as f:
            f.write(source)
        os.replace(temporary, path)
    return path


def load_module(path: Path, names: dict[str, Any] | None = None) -> ModuleType:
    """A module from a file, with extra names bound in it before it runs."""
    spec = importlib.util.spec_from_file_location(f"superopt_generated.{path.stem}", path)
    if spec is None or spec.loader is None:
        raise RunError(f"{path} cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    module.__dict__.update(names or {})
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


class Launcher:
    """A generated kernel that can be called; it holds the configuration that it runs with."""

    def __init__(self, kernel: Kernel, folder: Path) -> None:
        self.kernel = kernel
        self.path = write_module(folder, kernel.name, kernel.source)
        module = load_module(self.path)
        self._launch = module.launch
        if hasattr(getattr(module, kernel.name), "arg_names"):
            setattr(module, kernel.name, Direct(getattr(module, kernel.name)))
        self.config: Config = kernel.configs[0]
        self.tuning = False

    def __call__(self, *args: Any) -> None:
        if self.tuning:
            self.tune(args)
        self._launch(*args, config=self.config)

    def tune(self, args: Sequence[Any]) -> None:
        """Time every configuration on these operands and keep the fastest."""
        self.tuning = False
        if len(self.kernel.configs) < 2:
            return
        times: list[tuple[float, int]] = []
        for i, config in enumerate(self.kernel.configs):
            try:
                run = self._bound(args, config)
                run()
                times.append((milliseconds(run), i))
            except Exception:  # a configuration that does not fit this card is no choice
                torch.cuda.synchronize()
        if not times:
            raise RunError(f"kernel {self.kernel.name}: no configuration runs; see {self.path}")
        self.config = self.kernel.configs[min(times)[1]]

    def _bound(self, args: Sequence[Any], config: Config) -> Callable[[], None]:
        return lambda: self._launch(*args, config=config)


class Program:
    """One plan made executable. Call it with a list of arguments, which it empties."""

    _boxed_call = True

    def __init__(self, listing: Listing, folder: Path) -> None:
        self.launchers = {n: Launcher(k, folder) for n, k in listing.kernels.items()}
        self.path = write_module(folder, "plan", listing.source)
        empty = allocator(listing.names["DEVICE"])
        names = {**_RUNTIME, "empty": empty, **listing.names, **self.launchers}
        self.module = load_module(self.path, names)
        self._prepared = False

    def __call__(self, args: list[Any]) -> Sequence[Any]:
        if not self._prepared:
            self.module.__dict__["CONSTANTS"] = self.module.prepare(args)
            self._prepared = True
        return self.module.call(args)

    def tune_on_next_call(self) -> None:
        """Let every kernel choose its configuration on the operands of the next call."""
        for launcher in self.launchers.values():
            launcher.tuning = True
