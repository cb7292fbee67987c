"""What lies on the shelf: rule files and cost models, found by file name.

A file in ``rules/`` or ``costmodels/`` is found because it is there; nothing lists them.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import pkgutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType

import superopt
from superopt.errors import OptionError, RuleError
from superopt.rule import Numeric, Rule


def load_rules(
    extra_files: Sequence[str] = (),
    disabled: Sequence[str] = (),
    *,
    finite_only: bool = False,
) -> tuple[Rule, ...]:
    """All laws: those of ``rules/`` by file and place, then those of further files.

    Laws that fail for NaN, inf or -0.0 come only with ``finite_only``. Raises OptionError for a
    file that does not exist or a disabled name that no law has, RuleError for two laws of one name.
    """
    modules = [*_rule_modules(), *map(_from_path, extra_files)]
    rules = list({id(r): r for m in modules for r in rules_of(m)}.values())
    _check_unique(rules)
    _check_known(disabled, [r.name for r in rules])
    return tuple(
        r
        for r in rules
        if r.name not in disabled and (finite_only or r.numeric is not Numeric.FINITE_ONLY)
    )


def rules_of(module: ModuleType) -> list[Rule]:
    """The laws at a module's top level, alone or in lists, in order, each once."""
    found: dict[int, Rule] = {}
    for value in vars(module).values():
        for v in value if isinstance(value, list | tuple) else [value]:
            if isinstance(v, Rule):
                found.setdefault(id(v), v)
    return list(found.values())


def costmodel_files() -> dict[str, Path]:
    """The .toml files of ``costmodels/``, by name."""
    folders = _package("costmodels").__path__
    files = sorted(f for folder in folders for f in Path(folder).glob("*.toml"))
    return {f.stem: f for f in files}


def _rule_modules() -> Iterator[ModuleType]:
    package = _package("rules")
    for name in sorted(m.name for m in pkgutil.iter_modules(package.__path__)):
        yield importlib.import_module(f"{package.__name__}.{name}")


def _package(name: str) -> ModuleType:
    """``superopt.<name>``; in a checkout without installation, the folder beside superopt."""
    full = f"superopt.{name}"
    try:
        return importlib.import_module(full)
    except ModuleNotFoundError as e:
        if e.name != full:
            raise
    folder = Path(superopt.__file__).resolve().parent.parent / name
    if not (folder / "__init__.py").is_file():
        raise OptionError(f"there is no package {full}, and no folder {folder}")
    return _load(full, folder / "__init__.py", search=[str(folder)])


def _from_path(path: str) -> ModuleType:
    file = Path(path).expanduser().resolve()
    if not file.is_file():
        raise OptionError(f"there is no rule file {path}")
    return _load(f"superopt_rules_{file.stem}", file)


def _load(name: str, file: Path, search: list[str] | None = None) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, file, submodule_search_locations=search)
    if spec is None or spec.loader is None:
        raise OptionError(f"{file} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _check_unique(rules: Sequence[Rule]) -> None:
    where: dict[str, Rule] = {}
    for r in rules:
        if where.setdefault(r.name, r) is not r:
            raise RuleError(f"two rules are named {r.name}: {where[r.name].where} and {r.where}")


def _check_known(names: Sequence[str], known: Sequence[str]) -> None:
    for name in names:
        if name not in known:
            close = difflib.get_close_matches(name, known, 3) or sorted(known)
            raise OptionError(f"no rule named {name!r} to disable; valid: {', '.join(close)}")
