"""The order of imports: a module imports what stands above it in ORDER, and nothing else of ours.

Foreign libraries have their places too: egglog and HiGHS are each known to one stage.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

# Names of one line may import each other only where the line is in MUTUAL.
ORDER = (
    ("superopt", "errors"),
    ("options",),
    ("ir", "ops"),
    ("rule",),
    ("session", "shelf", "sample"),
    ("check",),
    ("kernels",),
    ("blocks", "cost", "extract", "lift", "lower", "run", "saturate", "schedule"),
    ("pipeline",),
    ("fallback",),
    ("choose",),
    ("compile",),
    ("backend",),
    ("trace",),
    ("doctor", "demo"),
    ("__main__",),
)
# An operator's entry is made of expressions, and an expression applies operators.
MUTUAL = (("ir", "ops"),)
KERNELS_READ_BY = ("cost", "lower", "schedule")
DATA = {"rules": {"rule", "ops", "ir"}, "costmodels": set()}
FOREIGN = {
    "egglog": {"saturate", "doctor"},
    "highspy": {"extract"},
    "transformers": {"demo"},
    "rich": {"demo", "doctor", "__main__"},
}

Import = tuple[str, int]


def place(part: str) -> int | None:
    """The line of ORDER that holds a module or folder."""
    return next((i for i, line in enumerate(ORDER) if part in line), None)


def part_of(module: str) -> str:
    """The folder or file below superopt/ that a dotted name means; "superopt" for the package."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "superopt"


def imports(file: Path) -> Iterator[Import]:
    """Modules that a file imports, anywhere in it, but for the sake of types alone."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    typing = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in typing:
            continue
        if isinstance(node, ast.Import):
            yield from ((a.name, node.lineno) for a in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file.name}:{node.lineno}: relative import"
            yield from ((m, node.lineno) for m in _targets(node))


def _targets(node: ast.ImportFrom) -> list[str]:
    """``from superopt import ops`` imports superopt.ops, but ``__version__`` is superopt's own."""
    module = node.module or ""
    if module != "superopt":
        return [module]
    names = [a.name for a in node.names]
    return [f"superopt.{n}" if place(n) is not None else "superopt" for n in names]


def allowed(importer: str, imported: str) -> bool:
    """May the one part import the other?"""
    if importer == imported:
        return True
    if imported == "kernels" and importer not in KERNELS_READ_BY:
        return place(importer) > place("pipeline")  # type: ignore[operator]
    if any(importer in line and imported in line for line in MUTUAL):
        return True
    return place(imported) < place(importer)  # type: ignore[operator]


def parts() -> list[Path]:
    """Files and folders directly below superopt/ that hold code."""
    found = [p for p in (ROOT / "superopt").iterdir() if p.suffix == ".py" or any(p.glob("*.py"))]
    return sorted(found)


def sources(part: Path) -> list[Path]:
    return sorted(part.rglob("*.py")) if part.is_dir() else [part]


def name_of(part: Path) -> str:
    return "superopt" if part.name == "__init__.py" else part.stem


def where(file: Path, line: int) -> str:
    return f"{file.relative_to(ROOT)}:{line}"


@pytest.mark.parametrize("part", parts(), ids=name_of)
def test_order(part: Path) -> None:
    me = name_of(part)
    assert place(me) is not None, f"superopt/{part.name} has no place in ORDER of {__file__}"
    wrong = []
    for file in sources(part):
        for module, line in imports(file):
            if module.split(".")[0] != "superopt":
                continue
            other = part_of(module)
            if other in DATA or place(other) is None:
                wrong.append(f"{where(file, line)}: {module} is not to be imported by name")
            elif me == "superopt" and other == "session":
                continue  # the one public function that is not a name
            elif not allowed(me, other):
                wrong.append(f"{where(file, line)}: {me} may not import {other}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("folder", DATA)
def test_data_folders(folder: str) -> None:
    wrong = [
        f"{where(file, line)}: {folder} may not import {module}"
        for file in sorted((ROOT / folder).glob("*.py"))
        for module, line in imports(file)
        if module.split(".")[0] == "superopt" and part_of(module) not in DATA[folder]
    ]
    assert not wrong, "\n".join(wrong)


def test_foreign_libraries_have_one_place() -> None:
    wrong = [
        f"{where(file, line)}: {module} belongs to {', '.join(sorted(FOREIGN[top]))}"
        for part in parts()
        for file in sources(part)
        for module, line in imports(file)
        if (top := module.split(".")[0]) in FOREIGN and name_of(part) not in FOREIGN[top]
    ]
    assert not wrong, "\n".join(wrong)


def test_a_planted_import_is_found(tmp_path: Path) -> None:
    file = tmp_path / "fx.py"
    file.write_text("import os\n\ndef f():\n    from superopt.lower import lower\n")
    (bad,) = [(m, n) for m, n in imports(file) if m.startswith("superopt")]
    assert bad == ("superopt.lower", 4)
    assert not allowed("lift", "lower")
    assert not allowed("run", "kernels")
    assert not allowed("ir", "rule")
    assert allowed("cost", "kernels") and allowed("pipeline", "extract")
