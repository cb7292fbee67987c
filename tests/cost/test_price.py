"""Prices of single operations: finite, monotone, and in the order that was measured."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from superopt.cost import Burden, Card, PlanPrice, card_names, load_card, objective, seconds
from superopt.ir.plan import Price, Work

CARDS = [load_card(n) for n in card_names()]
Priced = Callable[..., dict[str, float]]

amounts = st.floats(0, 1e15)
works = st.builds(
    Work,
    engine=st.sampled_from(["simt", "library", "mma"]),
    flops=amounts,
    read=amounts,
    write=amounts,
    tiles=st.integers(0, 10**6),
    dtype=st.sampled_from([torch.float16, torch.bfloat16, torch.float32, torch.float64]),
    launches=st.integers(0, 5),
)


@given(works, st.sampled_from(CARDS), st.floats(1, 4), st.sampled_from(["flops", "read", "write"]))
@settings(max_examples=300, deadline=None)
def test_finite_and_monotone(work: Work, card: Card, factor: float, what: str) -> None:
    before = seconds(work, card)
    more = replace(work, **{what: getattr(work, what) * factor})
    assert math.isfinite(before) and before >= 0
    assert seconds(more, card) >= before


@pytest.mark.parametrize("card", CARDS, ids=lambda c: c.name)
def test_more_launches_cost_more(card: Card) -> None:
    one, two = (Work(read=1e6, launches=n) for n in (1, 2))
    assert seconds(Work(launches=0, read=1e9), card) == 0
    assert seconds(Work(), card) == pytest.approx(1e-6 * (card.launch_us + card.min_us))
    assert seconds(two, card) > seconds(one, card)


def test_waves() -> None:
    card = load_card("h200")
    full, over = (Work("mma", 1e12 * n, tiles=n, dtype=torch.float16) for n in (132, 133))
    assert seconds(over, card) - 2e-6 == pytest.approx(2 * (seconds(full, card) - 2e-6), rel=1e-3)


def test_few_programs_draw_little_bandwidth() -> None:
    card = load_card("h200")
    one, half, all_ = (seconds(Work(read=1e9, tiles=t), card) for t in (1, 66, 132))
    assert one > 60 * half
    assert half == all_


def test_l2_counts_only_where_known() -> None:
    card, work = load_card("h200"), Work(read=1e7, write=1e7)
    assert seconds(work, card, cached=1e7) == seconds(work, card)
    known = replace(card, l2_gbs=4 * card.dram_gbs)
    assert seconds(work, known, cached=1e7) < seconds(work, card)
    assert seconds(work, known, cached=1e9) == seconds(work, known, cached=1e7)


def test_precision_allows_tf32() -> None:
    card, work = load_card("h200"), Work("library", 1e12)
    assert seconds(work, card, precision="high") < seconds(work, card) / 5


def pairs() -> list[dict[str, str]]:
    lines = (Path(__file__).parent / "pairs.csv").read_text().splitlines()
    return list(csv.DictReader(line for line in lines if not line.startswith("#")))


@pytest.mark.parametrize("pair", pairs(), ids=lambda p: "-".join(p.values()))
def test_measured_pairs(pair: dict[str, str], priced: Priced) -> None:
    """Order, and 15% of the time. The same table gave eta, beta and the library's rate: this
    guards the model's form and says nothing of other shapes."""
    price = priced(int(pair["m"]), load_card("h200"))
    assert price[pair["faster"]] < price[pair["slower"]]
    for form in ("faster", "slower"):
        assert 1e6 * price[pair[form]] == pytest.approx(float(pair[f"{form}_us"]), rel=0.15)


@pytest.mark.parametrize("m", [1, 16, 2048])
def test_h200_generates(m: int, priced: Priced) -> None:
    price = priced(m, load_card("h200"))
    assert min(price, key=price.__getitem__) == "generated"


@pytest.mark.parametrize("f16_tflops", [20.4, 22.0, 42.0])
@pytest.mark.parametrize("lanes_eta", [0.4, 0.5, 0.6])
@pytest.mark.parametrize("launch_us", [2, 20])
def test_t4_prefers_the_library_but_for_one_row(
    f16_tflops: float, lanes_eta: float, launch_us: float, priced: Priced
) -> None:
    """Whatever the clocks, the quality of the code and the launch, within the published spread."""
    card = load_card("t4")
    rates = {**card.library_tflops, "f16": f16_tflops}
    card = replace(card, library_tflops=rates, lanes_eta=lanes_eta, launch_us=launch_us)
    for m in (128, 512, 2048):
        price = priced(m, card, torch.float16)
        assert price["inductor"] < 0.5 * price["generated"]
    one = priced(1, card, torch.float16)
    assert one["generated"] < min(one["packed"], one["inductor"])


def test_objective() -> None:
    plain = Price(1e-3, launches=10, traffic=1e9, peak_bytes=2e6)
    assert objective(plain, 0.0) == 1e-3
    assert objective(plain, 2.0) == pytest.approx(1e-3 + 2 * (10e-6 + 2e-6))
    copying = PlanPrice(1e-3, launches=10, peak_bytes=2e6, copied=3e6)
    assert objective(copying, 1.0) == pytest.approx(1e-3 + 10e-6 + 2e-6 + 3e-6)
    assert objective(plain, 1.0, Burden(0, 0, 0, 0)) == 1e-3
