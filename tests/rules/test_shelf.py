"""Rule files and cost models are found by file name."""

import pytest

from superopt.errors import OptionError, RuleError
from superopt.shelf import costmodel_files, load_rules

LAW = '''
"""A family of one."""
from superopt.ops import relu
from superopt.rule import rule


@rule(numeric="exact", name="{name}")
def law(x):
    """relu(relu(x)) = relu(x)."""
    yield relu(relu(x))
    yield relu(x)


family = [law]
'''


def test_families_are_loaded_in_one_order():
    first, second = load_rules(), load_rules()
    assert [r.name for r in first] == [r.name for r in second]
    families = list(dict.fromkeys(r.family for r in first))
    assert families == sorted(families) and "matmul" in families
    assert len({r.name for r in first}) == len(first)


def test_a_law_and_a_list_that_holds_it_are_no_two_laws(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(LAW.format(name="relu_twice"))
    rules = load_rules([str(file)])
    assert [r.name for r in rules].count("relu_twice") == 1
    assert rules[-1].family.endswith("mine")


def test_two_laws_of_one_name_are_refused(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(LAW.format(name="negate_twice"))
    with pytest.raises(RuleError, match="two rules are named negate_twice"):
        load_rules([str(file)])


def test_a_missing_file_is_named():
    with pytest.raises(OptionError, match=r"no rule file nowhere\.py"):
        load_rules(["nowhere.py"])


def test_laws_can_be_left_out():
    names = {r.name for r in load_rules(disabled=["row_scale_past_linear"])}
    assert "row_scale_past_linear" not in names and "row_scale_past_matmul" in names


def test_a_law_that_does_not_exist_cannot_be_left_out():
    with pytest.raises(OptionError, match="row_scale_past_linear"):
        load_rules(disabled=["row_scale_past_liner"])


def test_cost_models_are_named_by_their_files():
    files = costmodel_files()
    assert "t4" in files and files["t4"].suffix == ".toml" and files["t4"].is_file()
