"""What the generated products become as machine code, for cards that need not be present."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

import pytest
from kernels.gemm.cases import BF16, F16, F32, Case, activated, build, llama, plain, swiglu
from kernels.gemm.listing import CASES, GATED, LARGE, QKV

from superopt.ir.plan import Config, Kernel
from superopt.kernels.assemble import Assembly, assemble
from superopt.kernels.gemm import Problem, families
from superopt.kernels.gemm.dots import shared_limit

FAMILIES = {f.NAME: f for f in families()}
K, N = 4096, 11008
GAIN = ((K,),)


@cache
def kernel(family: str, case: Case, arch: int) -> Kernel:
    return FAMILIES[family].emit(replace(build(case).site, arch=arch, sms=132))


@cache
def built(family: str, case: Case, arch: int, config: Config | None = None) -> Assembly:
    return assemble(kernel(family, case, arch), arch, config)


def shape(m: int, dtype=F16, prologue=None) -> Case:
    """A gated unit's product, as large as a model has it but for the rows that are stored."""
    extras = GAIN if prologue else ()
    return Case(f"gated_{m}", (m,), K, (2752, 2752), GATED, dtype, extras, prologue)


PLAIN = Case("plain", (2048,), K, (2816,), (((0,), plain),), F16)
MAIN = [
    ("gemv", shape(1, prologue=llama)),
    ("gemv", shape(4)),
    ("gemv", Case("qkv", (1,), K, (4096, 1024, 1024), QKV, F16, GAIN, llama)),
    ("skinny", shape(16, prologue=llama)),
    ("skinny", shape(64)),
    ("tiled", shape(2048)),
    ("tiled", PLAIN),
]
NAMES = [f"{family}_{case.name}" for family, case in MAIN]


@pytest.mark.parametrize("arch", [75, 80, 90])
@pytest.mark.parametrize(("family", "case"), MAIN, ids=NAMES)
def test_first_choice_spills_nothing_and_fits(family: str, case: Case, arch: int):
    made = built(family, case, arch)
    assert made.stack == 0
    assert made.shared <= shared_limit(arch)
    assert made.registers <= (128 if arch == 75 else 255)


@pytest.mark.slow
@pytest.mark.parametrize("arch", [75, 80, 90])
@pytest.mark.parametrize(("family", "case"), MAIN, ids=NAMES)
def test_every_choice_fits(family: str, case: Case, arch: int):
    for config in kernel(family, case, arch).configs:
        made = built(family, case, arch, config)
        assert made.stack == 0, config
        assert made.shared <= shared_limit(arch), config


@pytest.mark.parametrize(("family", "case"), [m for m in MAIN if m[0] != "gemv"], ids=NAMES[3:])
def test_tensor_cores_and_descriptors(family: str, case: Case):
    assert not built(family, case, 75).has_mma
    assert built(family, case, 80).has_mma
    hopper = built(family, case, 90)
    assert hopper.has_mma
    assert hopper.has_tma


def test_large_tiles_are_multiplied_by_warp_groups():
    for case in (shape(2048), PLAIN, LARGE["large_residual"]):
        assert any("wgmma.mma_async" in name for name in built("tiled", case, 90).mma)


def test_exact_products_of_fp32_stay_off_the_tensor_cores():
    case = replace(shape(64, F32), name="exact")
    assert not built("skinny", case, 80).has_mma
    site = replace(build(case).site, precision="high")
    assert assemble(FAMILIES["skinny"].emit(site), 80).has_mma


@pytest.mark.parametrize("dtype", [F16, BF16, F32], ids=str)
@pytest.mark.parametrize("arch", [75, 90])
def test_gemv_loads_sixteen_bytes_at_a_time(dtype, arch: int):
    ptx = built("gemv", shape(1, dtype), arch).ptx
    assert "ld.global.v4" in ptx
    assert not re.findall(r"ld\.global\.(?:b|v2)", ptx)


def test_weights_go_to_shared_memory_without_passing_registers():
    for family, case in (("skinny", shape(16)), ("tiled", shape(2048))):
        ptx = built(family, case, 80).ptx
        assert "cp.async.cg.shared.global" in ptx
        assert "ld.global" not in ptx


@pytest.mark.parametrize("name", ["activated_20", "three", "w_transposed", "qkv_20", "symbolic"])
@pytest.mark.parametrize("arch", [75, 80, 90])
def test_ragged_products_assemble(name: str, arch: int):
    for family in FAMILIES.values():
        site = replace(build(CASES[name]).site, arch=arch)
        if family.NAME != "gemv" and family.fits(Problem.at(site), arch):
            made = assemble(family.emit(site), arch)
            assert made.shared <= shared_limit(arch)


@pytest.mark.parametrize("arch", [80, 90])
def test_epilogue_on_a_large_tile_spills_nothing(arch: int):
    for config in kernel("tiled", LARGE["large_residual"], arch).configs:
        made = built("tiled", LARGE["large_residual"], arch, config)
        assert made.stack == 0, config
        assert made.shared <= shared_limit(arch), config


def test_equal_products_are_one_module():
    one, two = (kernel("gemv", replace(shape(1), name=n), 90) for n in ("one", "two"))
    assert one == two
    other = kernel("gemv", Case("other", (1,), K, (2752, 2752), (((0, 1), swiglu),), BF16), 90)
    assert other.name != one.name


def test_source_is_what_a_reader_expects():
    case = Case("read", (5,), 64, (40,), (((0,), activated),), F16, ((40,), (5, 1), (5, 40)))
    text = kernel("skinny", case, 80).source
    assert "y0 = add(mul(relu(add(acc0, e0)), e1), e2), acc0 = x w0^T" in text
