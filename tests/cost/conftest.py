"""Works of RMSNorm + gate/up + SwiGLU in its three forms, written down by hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from superopt.cost import Card, seconds
from superopt.cost.works import dot_work
from superopt.ir.plan import Work

K, F = 4096, 11008


def norm(m: int, dtype: torch.dtype) -> Work:
    return Work(flops=5 * m * K, read=2 * m * K + 2 * K, write=2 * m * K, tiles=m, dtype=dtype)


def swiglu(m: int, dtype: torch.dtype) -> Work:
    return Work(flops=6 * m * F, read=4 * m * F, write=2 * m * F, dtype=dtype)


def library(m: int, n: int, dtype: torch.dtype) -> Work:
    return Work("library", 2 * m * K * n, 2 * (m * K + K * n), 2 * m * n, 0, dtype)


def generated(m: int, dtype: torch.dtype, card: Card) -> Work:
    """Tiles as measured: 16 columns (GEMV), 64 of each weight up to 64 rows, then 128."""
    rows = 1 if m == 1 else -(-m // 16) * 16 if m <= 64 else -(-m // 128) * 128
    columns = 16 if m == 1 else 64 if m <= 64 else 128
    tiles = -(-m // 128) * -(-F // columns)
    read, write = 2 * (m * K + 2 * K * F), 2 * m * F
    work = Work("simt", 4 * rows * K * F, read, write, tiles, dtype)
    return work if m == 1 else dot_work(work, K, card)


def forms(m: int, dtype: torch.dtype, card: Card) -> dict[str, list[Work]]:
    before = [] if m == 1 else [norm(m, dtype)]
    tail = [swiglu(m, dtype)]
    return {
        "generated": [*before, generated(m, dtype, card)],
        "packed": [norm(m, dtype), library(m, 2 * F, dtype), *tail],
        "inductor": [norm(m, dtype), library(m, F, dtype), library(m, F, dtype), *tail],
    }


@pytest.fixture
def priced() -> Callable[..., dict[str, float]]:
    """(tokens, card, dtype) -> seconds by form."""

    def price(m: int, card: Card, dtype: torch.dtype = torch.bfloat16) -> dict[str, float]:
        table = forms(m, dtype, card)
        return {f: sum(seconds(w, card) for w in works) for f, works in table.items()}

    return price
