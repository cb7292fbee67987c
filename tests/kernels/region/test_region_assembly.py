"""Kernels of usual sizes assemble for every architecture and keep to their registers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from kernels.region.region_cases import CASES
from schedule.programs import Program

import superopt.ops as ops
from superopt.ir.graph import Graph
from superopt.ir.plan import Kernel, Site
from superopt.kernels import emit
from superopt.kernels.assemble import assemble
from superopt.schedule import schedule

SMS = {75: 40, 80: 108, 90: 132}


def norm(rows: int, columns: int, dtype: torch.dtype = torch.float16) -> Graph:
    p = Program(dtype)
    x, residual, g = p.input(rows, columns), p.input(rows, columns), p.input(columns)
    total = p.let(x + residual)
    return p.returns(total, ops.rms(total, 1e-5) * g)


def layer_norm(rows: int, columns: int) -> Graph:
    p = Program(torch.float32)
    x, w, b = p.input(rows, columns), p.input(columns), p.input(columns)
    return p.returns(ops.standardise(x, 1e-5) * w + b)


def softmax(columns: int) -> Graph:
    p = Program(torch.float16)
    x, mask = p.input(64, 128, columns), p.input(64, 1, columns, dtype=torch.bool)
    low = ops.scalar(float("-inf"), torch.float16)
    return p.returns(ops.softmax(ops.where(mask, x, low)))


def gated() -> Graph:
    p = Program(torch.float16)
    x = p.input(2048, 22016)
    return p.returns(ops.silu(ops.slice_(x, 1, 0, 11008)) * ops.slice_(x, 1, 11008, 22016))


def rotary() -> Graph:
    p = Program(torch.float16)
    q, cos, sin = p.input(2, 512, 32, 128), p.input(512, 128), p.input(512, 128)
    heads = ops.permute(q, (0, 2, 1, 3))
    return p.returns(heads * cos + ops.rotate_half(heads) * sin)


USUAL: dict[str, Callable[[], Graph]] = {
    "norm_768": lambda: norm(2048, 768),
    "norm_4096": lambda: norm(2048, 4096),
    "norm_4096_one_row": lambda: norm(1, 4096),
    "norm_8192": lambda: norm(2048, 8192, torch.bfloat16),
    "norm_16384": lambda: norm(2048, 16384),
    "layer_norm_1024": lambda: layer_norm(2048, 1024),
    "layer_norm_16384": lambda: layer_norm(2048, 16384),
    "softmax_128": lambda: softmax(128),
    "softmax_4096": lambda: softmax(4096),
    "gated": gated,
    "rotary": rotary,
}


def kernels(graph: Graph, arch: int) -> list[Kernel]:
    plan = schedule(graph)
    steps = [s for s in plan.steps if s.family == "region"]
    return [emit(Site(graph, s, plan.strides, arch, SMS[arch])) for s in steps]


@pytest.mark.parametrize("arch", SMS)
@pytest.mark.parametrize("name", USUAL)
def test_no_spills_and_wide_loads(name: str, arch: int):
    for kernel in kernels(USUAL[name](), arch):
        assembly = assemble(kernel, arch)
        assert assembly.stack == 0
        assert assembly.registers <= 128
        assert "ld.global.v4" in assembly.ptx


@pytest.mark.slow
@pytest.mark.parametrize("arch", SMS)
@pytest.mark.parametrize("name", USUAL)
def test_every_configuration(name: str, arch: int):
    for kernel in kernels(USUAL[name](), arch):
        for config in kernel.configs:
            assert assemble(kernel, arch, config).stack == 0, config


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_every_case_assembles(name: str):
    for kernel in kernels(CASES[name]()[0], 75):
        # The slow path of sin and cos keeps a table on the stack.
        assert assemble(kernel, 75).stack <= (64 if "tl.sin" in kernel.source else 0)
