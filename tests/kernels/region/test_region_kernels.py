"""What is generated for a region, its name, sizes and configurations, and what it costs."""

from __future__ import annotations

import pytest
import sympy
import torch
from schedule.programs import Program

import superopt.ops as ops
from superopt.errors import LowerError
from superopt.ir.graph import Graph
from superopt.ir.plan import Kernel, Site, Step
from superopt.kernels import emit
from superopt.kernels.region import fits, work
from superopt.kernels.region.index import Axes, Sizes, collapse
from superopt.schedule import schedule


def kernels(graph: Graph, sms: int = 108) -> list[Kernel]:
    plan = schedule(graph)
    sites = (Site(graph, s, plan.strides, 80, sms) for s in plan.steps if s.family == "region")
    return [emit(site) for site in sites]


def swiglu(rows: int, columns: int) -> Graph:
    p = Program(torch.float16)
    x, y = p.input(rows, columns), p.input(rows, columns)
    return p.returns(ops.silu(x) * y)


def test_equal_regions_share_a_kernel():
    p = Program(torch.bfloat16)
    x, g, w = p.input(8, 64), p.input(64), p.input(64, 64)
    for _ in range(2):
        x = p.let(ops.linear(p.let(ops.rms(x, 1e-6) * g), w))
    first, second = kernels(p.returns(x))
    assert first.name == second.name and first.source == second.source
    assert first.inputs != second.inputs


def test_other_types_and_sizes_have_other_names():
    p = Program()
    assert len({kernels(swiglu(8, c))[0].name for c in (64, 65)}) == 2
    single = p.returns(ops.silu(p.input(8, 64)) * p.input(8, 64))
    assert kernels(single)[0].name != kernels(swiglu(8, 64))[0].name


def test_contiguous_operands_are_one_axis():
    (kernel,) = kernels(swiglu(64, 1000))
    body = kernel.source.split("def launch")[0]
    assert "in0 + index," in body and "//" not in body


def test_collapse():
    shape = (4, 1, 6, 8)
    assert collapse(shape, [(48, 0, 8, 1)]) == ([192], [[1]])
    assert collapse(shape, [(48, 0, 8, 1), (0, 0, 0, 1)]) == ([24, 8], [[8, 1], [0, 1]])
    assert collapse(shape, [(8, 0, 32, 1)]) == ([4, 6, 8], [[8, 32, 1]])
    assert collapse((), [()]) == ([], [[]])


def test_axes():
    axes = Axes("index", (4, 6), {7: (6, 1), 8: (0, 1), 9: (1, 4)}, Sizes())
    assert axes.lines == ["index0 = index // 6", "index1 = index % 6"]
    assert [axes.offset(i) for i in (7, 8, 9)] == ["index", "index1", "index0 + index1 * 4"]


def test_symbolic_sizes_are_parameters():
    n = sympy.Symbol("s7", positive=True, integer=True)
    p = Program()
    p.graph.hints = {n: 100}
    x, row = p.input(n, 64), p.input(64)
    (kernel,) = kernels(p.returns(ops.exp(x) + row))
    assert kernel.sizes[0] == 64 * n
    assert [k for k, t in kernel.signature if t == "i32"] == ["s0", "s1"]
    assert f"WIDE=s1 >= {2**31}" in kernel.source
    p = Program()
    assert not fits(p.returns(ops.softmax(p.input(4, n))), [1])


def test_offsets_beyond_32_bits():
    (small,), (large,) = kernels(swiglu(64, 64)), kernels(swiglu(2**16, 2**15))
    assert dict(small.constants) == {"WIDE": False}
    assert dict(large.constants) == {"WIDE": True}


def test_few_rows_get_more_warps():
    def norm(rows: int) -> Kernel:
        p = Program(torch.float16)
        return kernels(p.returns(ops.rms(p.input(rows, 4096), 1e-6)))[0]

    assert norm(1).configs[0].num_warps > norm(4096).configs[0].num_warps
    assert all(len(norm(r).configs) >= 2 for r in (1, 100, 4096))


def test_what_does_not_fit():
    p = Program(torch.bool)
    a, x = p.input(4, 4), p.input(4, 4, dtype=torch.int64)
    odd = [
        ops.mul(a, a),  # booleans have no arithmetic
        ops.sum_(x, (1,)),  # torch widens integers
        ops.scalar(0.5, torch.float32),
        ops.expand(p.input(1, 4, dtype=torch.complex64), (4, 4)),
    ]
    nodes = [p.let(e).id for e in odd]
    p.returns(*odd)
    assert not any(fits(p.graph, [i]) for i in nodes)
    with pytest.raises(LowerError):
        emit(Site(p.graph, Step("region", (nodes[0],), (0, 0), (nodes[0],)), {}, 80, 108))
    with pytest.raises(LowerError):
        emit(Site(p.graph, Step("aten", (nodes[0],), (0, 0), (nodes[0],)), {}, 80, 108))


def test_work_counts_every_operand_once():
    p = Program(torch.float16)
    x, residual, g = p.input(32, 128), p.input(32, 128), p.input(128)
    total = p.let(x + residual)
    graph = p.returns(total, ops.rms(total, 1e-6) * ops.expand(g, (32, 128)))
    plan = schedule(graph)
    asked = work(next(s for s in plan.steps if s.family == "region"), graph)
    assert asked.read == 2 * (2 * 32 * 128 + 128)
    assert asked.write == 2 * 2 * 32 * 128
    assert asked.flops == 32 * 128 * (1 + 4 + 1)
    assert asked.launches == 1 and asked.tiles == 4
