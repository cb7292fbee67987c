"""Expressions as Triton text."""

from __future__ import annotations

import pytest
import torch

from superopt.errors import LowerError
from superopt.ir.expr import Apply, Hole
from superopt.ir.types import TensorType
from superopt.kernels.spelling import literal, pointer_type, prelude, register, spell, widen
from superopt.ops import cast, gelu_tanh, linear, maximum, mean, rms, scalar, silu, sqrt, where

BF16, F32 = torch.bfloat16, torch.float32
A, B = (Hole("acc", i, TensorType((4, 8), BF16)) for i in range(2))
NAMES = {A: "a", B: "b"}


def test_shared_parts_are_written_once():
    gate = silu(A)
    lines, results = spell([gate * B, gate + B], NAMES)
    assert lines == ["t0 = (a * _sigmoid(a))", "t1 = (t0 * b)", "t2 = (t0 + b)"]
    assert results == ["t1", "t2"]


def test_leaves_need_no_lines():
    assert spell([A], NAMES) == ([], ["a"])


def test_casts_round_only_to_half_types():
    lines, _ = spell([cast(cast(A, F32), BF16), cast(A, torch.int32)], NAMES)
    assert lines == ["t0 = a.to(tl.bfloat16).to(tl.float32)", "t1 = a.to(tl.int32)"]


def test_numbers_stand_bare_beside_tensors_only():
    lines, _ = spell([A + scalar(2, BF16), maximum(A, scalar(0.5, BF16))], NAMES)
    assert lines == [
        "t0 = (a + 2.0)",
        "t1 = tl.full((), 0.5, tl.float32)",
        "t2 = _maximum(a, t1)",
    ]


@pytest.mark.parametrize(
    ("value", "dtype", "text"),
    [
        (float("-inf"), BF16, 'float("-inf")'),
        (float("nan"), F32, 'float("nan")'),
        (1e300, F32, 'float("inf")'),
        (1e300, torch.float64, "1e+300"),
        (2.0, torch.int64, "2"),
        (1, torch.bool, "True"),
        (1, BF16, "1.0"),
    ],
)
def test_literals(value, dtype, text):
    assert literal(value, dtype) == text


def test_doubles_have_spellings_of_their_own():
    d = Hole("acc", 0, TensorType((4, 8), torch.float64))
    assert spell([sqrt(d)], {d: "a"})[0] == ["t0 = tl.sqrt(a)"]
    assert register(torch.float64) == torch.float64


def test_what_is_not_pointwise_is_the_callers():
    fold = mean(A, (1,))

    def special(e: Apply, args: list[str]) -> str | None:
        return f"fold({args[0]})" if e.op is mean else None

    assert spell([fold * B], NAMES, special=special)[0] == ["t0 = fold(a)", "t1 = (t0 * b)"]
    with pytest.raises(LowerError, match="rms has no spelling"):
        spell([rms(A, 1e-5)], NAMES)
    with pytest.raises(LowerError, match="linear has no spelling"):
        spell([linear(A, Hole("x", 0, TensorType((8, 8), BF16)))], {**NAMES, **_w()})


def _w() -> dict:
    return {Hole("x", 0, TensorType((8, 8), BF16)): "w"}


def test_unnamed_leaves_are_refused():
    with pytest.raises(LowerError, match="nothing was loaded for acc1"):
        spell([A * B], {A: "a"})


def test_prelude_holds_what_is_called_and_no_more():
    lines, _ = spell([gelu_tanh(A)], NAMES)
    text = prelude("\n".join(lines))
    assert text.index("def _sigmoid") < text.index("def _gelu_tanh")
    assert "def _tanh" not in text
    assert prelude("x = tl.exp(y)") == ""


def test_types():
    assert pointer_type(torch.bool) == "*i1"
    assert widen("v", BF16) == "v.to(tl.float32)"
    with pytest.raises(LowerError, match="complex64"):
        pointer_type(torch.complex64)


def test_conditions_choose():
    mask = Hole("in", 0, TensorType((4, 8), torch.bool))
    lines, _ = spell([where(mask, A, B)], {**NAMES, mask: "m"})
    assert lines == ["t0 = tl.where(m, a, b)"]
