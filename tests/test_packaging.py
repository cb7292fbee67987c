"""What is packaged: every folder of code, and the data files beside it."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TOOL = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
ELSEWHERE: dict[str, str] = TOOL["package-dir"]


def folder_of(package: str) -> Path:
    return ROOT / ELSEWHERE.get(package, package.replace(".", "/"))


def packages_in_tree() -> set[str]:
    """Every folder that holds Python files, by the name it is imported by."""
    found = {p.parent.relative_to(ROOT) for p in (ROOT / "superopt").rglob("*.py")}
    return {".".join(f.parts) for f in found} | set(ELSEWHERE)


def test_every_folder_is_a_package() -> None:
    assert set(TOOL["packages"]) == packages_in_tree()
    for package in TOOL["packages"]:
        assert (folder_of(package) / "__init__.py").is_file(), f"{package} has no __init__.py"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Names of the files in a wheel built from the tree as it is."""
    pytest.importorskip("setuptools")
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "README.md", "LICENSE", "superopt", "rules", "costmodels"):
        _copy(ROOT / name, source / name)
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation"]
    done = subprocess.run(
        [*command, "--wheel-dir", str(out), str(source)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = out.glob("*.whl")
    return set(zipfile.ZipFile(built).namelist())


def _copy(source: Path, target: Path) -> None:
    if source.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(source.read_bytes())
    elif source.is_dir() and source.name != "__pycache__":
        for child in source.iterdir():
            _copy(child, target / child.name)


def expected() -> set[str]:
    """Where the wheel must hold each source and data file."""
    files = {"superopt/py.typed", "superopt/demo/sentences.txt"}
    for package in TOOL["packages"]:
        for file in folder_of(package).iterdir():
            if file.suffix in (".py", ".toml", ".txt", ".md"):
                files.add(f"{package.replace('.', '/')}/{file.name}")
    return files


def test_the_wheel_holds_everything(wheel: set[str]) -> None:
    assert not expected() - wheel


def test_the_wheel_holds_nothing_else(wheel: set[str]) -> None:
    others = {f for f in wheel - expected() if ".dist-info/" not in f}
    assert not others


def test_the_backend_is_announced_to_torch() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    entry = project["entry-points"]["torch_dynamo_backends"]
    assert entry == {"superopt": "superopt.backend:superopt"}
    assert project["scripts"] == {"superopt": "superopt.__main__:main"}
