"""Every law of every file holds on random tensors."""

import ast
from pathlib import Path

import pytest

from superopt.check import check_rule
from superopt.rule import GROUPS, Numeric
from superopt.shelf import load_rules

RULES = load_rules(finite_only=True)
FOLDER = Path(__file__).resolve().parents[2] / "rules"


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.name)
def test_both_sides_agree(rule):
    result = check_rule(rule)
    assert result.ok, str(result)
    assert result.applied >= 5, str(result)


def test_every_law_is_of_a_known_group_and_says_what_it_states():
    assert len(RULES) > 200
    for rule in RULES:
        assert rule.group in GROUPS
        assert rule.law.endswith((".", ".)")), rule.name


def test_laws_that_need_finite_values_are_off():
    names = {r.name for r in load_rules()}
    for rule in RULES:
        assert (rule.name in names) == (rule.numeric is not Numeric.FINITE_ONLY)


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.py")), ids=lambda f: f.stem)
def test_rule_files_see_only_rules_operators_and_terms(file):
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("superopt"):
            assert node.module.startswith(("superopt.rule", "superopt.ops", "superopt.ir"))
        if isinstance(node, ast.Import):
            assert all(not n.name.startswith("superopt") for n in node.names)
