"""Options and fixtures that all tests share."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).parent
# Test helpers are imported by their place below this folder: ``from schedule.programs import …``.
sys.path.insert(0, str(HERE))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write golden files instead of comparing"
    )


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """``golden("schedule/name", text)`` compares with tests/golden/schedule/name.txt."""

    def check(name: str, text: str) -> None:
        path = HERE / "golden" / f"{name}.txt"
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        assert path.exists(), f"{path.name} is missing; run pytest with --update-golden"
        assert text == path.read_text()

    return check
