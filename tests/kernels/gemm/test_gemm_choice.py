"""Which products have a kernel, which family computes them, and what they are said to cost."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from kernels.gemm.cases import BF16, F16, F32, F64, Case, bias, build, llama, plain, swiglu
from kernels.gemm.listing import GATED, QKV

from superopt.errors import LowerError
from superopt.ir.expr import Hole
from superopt.ir.types import TensorType, TupleType
from superopt.kernels.gemm import Problem, emit, pick, work
from superopt.kernels.gemm.view import View, contiguous
from superopt.ops import softmax


def problem(case: Case) -> Problem:
    return Problem.at(build(case).site)


def gated(m: int, dtype: torch.dtype = BF16, **more) -> Case:
    return Case("gated", (m,), 64, (48, 48), GATED, dtype, **more)


@pytest.mark.parametrize(
    ("m", "arch", "name"),
    [(1, 90, "gemv"), (4, 90, "gemv"), (5, 90, "skinny"), (8, 75, "gemv"), (64, 80, "skinny"),
     (65, 80, "tiled")],
)  # fmt: skip
def test_family_by_rows(m: int, arch: int, name: str):
    family = pick(problem(gated(m)), arch)
    assert family is not None
    assert name == family.NAME


def test_statistics_of_many_rows_have_no_kernel():
    case = gated(40, extras=((64,),), prologue=llama)
    assert pick(problem(case), 90) is None
    assert work(problem(case), 90, 132) is None
    with pytest.raises(LowerError, match="does not fit"):
        emit(build(case).site)


def test_doubles_have_lanes_only():
    assert pick(problem(gated(2, F64)), 90) is not None
    assert pick(problem(gated(20, F64)), 90) is None


def test_unknown_operators_are_refused_with_a_reason():
    acc = TensorType((4, 48), F32)
    types = [
        TensorType((4, 64), F32),
        TupleType((TensorType((48, 64), F32),)),
        TupleType(()),
    ]
    found = Problem.of(types, None, (((0,), softmax(Hole("acc", 0, acc))),))
    assert found.refusal == "softmax is not pointwise and cannot stand in a kernel's body"
    assert pick(found, 90) is None


def test_pricing_needs_no_plan():
    types = [
        TensorType((1, 4096), BF16),
        TupleType((TensorType((11008, 4096), BF16),) * 2),
        TupleType(()),
    ]
    a = [Hole("acc", i, TensorType((1, 11008), BF16)) for i in range(2)]
    asked = work(Problem.of(types, None, (((0, 1), swiglu(a, [])),)), 90, 132)
    assert asked is not None
    assert asked.engine == "simt"
    assert asked.flops >= 2 * 2 * 4096 * 11008
    assert asked.read == 2 * (2 * 11008 * 4096 + 4096)
    assert asked.write == 2 * 11008
    assert asked.tiles > 132


def test_products_without_tensor_cores_are_priced_so():
    for case, arch, engine in (
        (gated(16), 90, "mma"),
        (gated(16, F16), 75, "simt"),
        (gated(16, F32), 90, "simt"),
        (gated(100), 80, "mma"),
    ):
        found = work(problem(case), arch, 40)
        assert found is not None
        assert found.engine == engine
    exact = problem(gated(100, F32))
    found = work(replace(exact, precision="high"), 90, 132)
    assert found is not None
    assert found.engine == "mma"


def test_groups_have_tiles_of_their_own():
    case = Case("qkv", (1,), 64, (96, 32, 40), QKV, F16)
    alone = Case("one", (1,), 64, (96,), (((0,), plain),), F16)
    both = work(problem(case), 90, 132), work(problem(alone), 90, 132)
    assert all(both)
    assert both[0].tiles > both[1].tiles  # type: ignore[union-attr]


def test_inputs_of_a_kernel_leave_numbers_out():
    case = Case("number", (20,), 64, (40,), (((0,), bias),), F16, (2.5,))
    made = build(case)
    assert len(emit(made.site).inputs) == 2


@pytest.mark.parametrize(
    ("shape", "strides", "segments", "column"),
    [
        ((3, 4, 8), (32, 8, 1), ((12, 8),), 1),
        ((3, 4, 8), (64, 8, 1), ((4, 8), (3, 64)), 1),
        ((4, 8), (8, 1), ((4, 8), (3, 0)), 1),
        ((8,), (1,), ((12, 0),), 1),
        ((3, 1, 1), (1, 1, 1), ((4, 0), (3, 1)), 0),
        ((3, 4, 8), (1, 3, 12), ((4, 3), (3, 1)), 12),
    ],
)
def test_views_collapse_what_they_can(shape, strides, segments, column):
    view = View.of(TensorType(shape, F32), strides, (3, 4), 8)
    assert (view.segments, view.column) == (segments, column)


def test_large_offsets_are_64_bits_wide():
    shape = (70_000, 40_000)
    view = View.of(TensorType(shape, F32), contiguous(shape), shape[:1], shape[1])
    assert view.wide
