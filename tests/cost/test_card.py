"""Cards: every file loads and cites its figures; a wrong file is refused by field."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
import torch

from superopt.cost import card_names, detect_card, load_card
from superopt.cost.card import _files
from superopt.errors import CostModelError, OptionError

GOOD = """
name = "toy"
kind = "assumption"
devices = ["Toy 1"]
arch = { value = 80, source = "made up" }
sms = { value = 10, source = "made up" }
launch_us = { value = 2, source = "made up" }
min_us = { value = 0.5, source = "made up" }
dram_gbs = { value = 1000, source = "made up" }
l2_bytes = { value = 0, source = "made up" }
beta = { value = 0.1, source = "made up" }
eta = { value = 0.8, source = "made up" }
lanes_eta = { value = 0.5, source = "made up" }
half_rate_tile = { value = 0, source = "made up" }
[simt_tflops]
f32 = { value = 10, source = "made up" }
f64 = { value = 5, source = "made up" }
[library_tflops]
f16 = { value = 100, source = "made up" }
tf32 = { value = 50, source = "made up" }
[mma_tflops]
bf16 = { value = 200, source = "made up" }
"""


def write(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "toy.toml"
    file.write_text(text)
    return file


@pytest.mark.parametrize("name", card_names())
def test_every_card_loads_with_sources(name: str) -> None:
    card = load_card(name)
    assert card.sms > 0 and 0 <= card.beta <= 1 and 0 < card.eta <= 1
    assert all(len(s) > 3 for s in card.sources.values())
    raw = tomllib.loads(_files()[name].read_text())
    assert {k for k in raw if isinstance(raw[k], dict) and "value" in raw[k]} <= set(card.sources)


def test_shipped_cards() -> None:
    assert card_names() == ("a100", "cpu", "h100", "h200", "l4", "t4")
    assert load_card("cpu").arch == 0
    assert not load_card("t4").mma_tflops
    assert hash(load_card("t4")) == hash(load_card("t4")) and load_card("t4") == load_card("t4")


def test_path(tmp_path: Path) -> None:
    file = write(tmp_path, GOOD)
    assert load_card(file) == load_card(str(file))
    assert load_card(file).sources["library_tflops.f16"] == "made up"


def test_rates(tmp_path: Path) -> None:
    card = load_card(write(tmp_path, GOOD))
    assert card.rate("library", torch.float16) == 100e12
    assert card.rate("library", torch.float32) == 10e12
    assert card.rate("library", torch.float32, "high") == 50e12
    assert card.rate("library", torch.float64) == 5e12
    assert card.rate("simt", torch.bfloat16) == 10e12
    assert card.rate("mma", torch.float16) == 5e12
    assert card.rate("mma", torch.bfloat16) == pytest.approx(160e12)
    with pytest.raises(CostModelError, match="warp.*library, mma, simt"):
        card.rate("warp", torch.float16)


def test_unknown_name_lists_the_known() -> None:
    with pytest.raises(OptionError, match="v100.*a100, cpu, h100, h200, l4, t4"):
        load_card("v100")
    with pytest.raises(OptionError, match="nowhere.toml"):
        load_card("nowhere.toml")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('sms = { value = 10, source = "made up" }', "", "toy.toml: sms: missing field"),
        ("sms", "smx", "toy.toml: smx: unknown field; valid: .*sms"),
        ("value = 1000", "value = -1", "toy.toml: dram_gbs: -1 is not > 0"),
        ("value = 1000", "value = 0", "toy.toml: dram_gbs: 0 is not > 0"),
        ("value = 1000", "value = nan", "dram_gbs: nan is not a finite number"),
        ("value = 1000", "value = inf", "dram_gbs: inf is not a finite number"),
        ("value = 1000", "value = true", "dram_gbs: True is not a finite number"),
        ("value = 1000", 'value = "9"', "dram_gbs: '9' is not a finite number"),
        ("value = 10,", "value = 10.5,", "sms: 10.5 is not a whole number"),
        ("value = 0.1", "value = 1.1", "beta: 1.1 is a share"),
        ("value = 2, ", "value = -2, ", "launch_us: -2 is not ≥ 0"),
        ('1000, source = "made up"', '1000, source = " "', "dram_gbs: its source is empty"),
        ('{ value = 1000, source = "made up" }', "1000", "dram_gbs: a figure is"),
        ('f64 = { value = 5, source = "made up" }', "", "simt_tflops.f64: missing field"),
        ("f16 =", "fp16 =", "library_tflops.fp16: unknown field; valid: f16, bf16"),
        ("value = 100,", "value = -100,", "library_tflops.f16: -100 is not > 0"),
        ('"assumption"', '"guess"', "kind: 'guess' is none of measured, published"),
        ('["Toy 1"]', "[1]", "devices: strings are needed"),
        ('"toy"', "3", "name: a string is needed"),
        ('name = "toy"', "name = ", "not a TOML file"),
    ],
)
def test_malformed(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in GOOD
    with pytest.raises(CostModelError, match=message):
        load_card(write(tmp_path, GOOD.replace(old, new)))


@pytest.mark.parametrize(
    ("device", "capability", "name"),
    [
        ("Tesla T4", (7, 5), "t4"),
        ("NVIDIA H200", (9, 0), "h200"),
        ("NVIDIA H100 80GB HBM3", (9, 0), "h100"),
        ("NVIDIA A100-SXM4-40GB", (8, 0), "a100"),
        ("NVIDIA L4", (8, 9), "l4"),
        ("NVIDIA L40S", (8, 9), "l4"),
        ("NVIDIA A10G", (8, 6), "l4"),
        ("NVIDIA T400 4GB", (7, 5), "t4"),
        ("NVIDIA B200", (10, 0), "h100"),
        ("Tesla V100-SXM2-16GB", (7, 0), "t4"),
    ],
)
def test_detect(monkeypatch: pytest.MonkeyPatch, device: str, capability: tuple, name: str) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: device)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: capability)
    assert detect_card() == name


def test_detect_notes_a_stranger(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "NVIDIA B200")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (10, 0))
    detect_card()
    assert "no cost model for NVIDIA B200 (sm_100); using that of h100" in caplog.text


def test_detect_without_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert detect_card() == "cpu"
