"""Few rows: every weight is read once, at the speed of memory, by ordinary lanes.

A program computes BN outputs for all rows. It walks along K in blocks of BK, multiplies in fp32
(fp64 for float64) and folds each lane's FOLD neighbours at once, so that few registers hold sums;
the sums of a row meet at the end. Statistics of whole rows of x are computed by every program: x
is small and close. Groups have ranges of programs of their own.
"""

from __future__ import annotations

import torch

from superopt.ir.dims import is_static, same
from superopt.ir.plan import Config, Kernel, Site, Work
from superopt.kernels.gemm.groups import branch, corner, programs
from superopt.kernels.gemm.module import Draft, finish, refuse
from superopt.kernels.gemm.problem import Problem
from superopt.kernels.gemm.sizes import (
    ceil_div,
    config,
    divisor,
    first,
    power,
    prefer_even,
    ragged,
)
from superopt.kernels.gemm.work import traffic
from superopt.kernels.gemm.writer import Tile, Writer, indent
from superopt.kernels.spelling import register, triton_dtype, widen

NAME = "gemv"


def most_rows(arch: int) -> int:
    """Rows up to which lanes keep up with memory, and up to which they beat a dot without MMA."""
    return 4 if arch >= 80 else 8


def fits(problem: Problem, arch: int) -> bool:
    """A known, small number of rows."""
    return (
        problem.refusal is None
        and is_static(problem.M)
        and 1 <= problem.m <= most_rows(arch)
        and problem.weights_per_group <= 4
    )


def work(problem: Problem, arch: int, sms: int) -> Work:
    """Arithmetic on ordinary lanes; programs of the first config."""
    block = _configs(problem, arch)[0]["BN"]
    tiles = sum(ceil_div(problem.n(g), block) for g in range(len(problem.groups)))
    return traffic(problem, "simt", register(problem.dtype), problem.m, tiles, tiles)


def emit(site: Site) -> Kernel:
    """The kernel for a step; a LowerError where the family does not fit."""
    problem = Problem.at(site)
    refuse(problem, fits(problem, site.arch), NAME)
    writer = Writer(problem)
    configs = _configs(problem, site.arch)
    body, known = ["program = tl.program_id(0)"], []
    for row in range(problem.m):
        lines, folds = _statistics(writer, configs, row)
        body += lines
        known.append(folds)
    for group in range(len(problem.groups)):
        body += branch(writer, group, _group(writer, group, configs, known))
    pointers = [(name, slot.pointer, name) for name, slot in writer.pointers()]
    draft = Draft(NAME, body, [f"grid = ({programs(writer)},)"], configs, pointers)
    return finish(draft, site, writer)


def _statistics(writer: Writer, configs: tuple[Config, ...], row: int) -> tuple[list[str], dict]:
    p = writer.problem
    if not p.folds:
        return [], {}
    width = writer.dim(p.K)
    bound = f"k < {width}" if ragged(p.K, configs, "BS") else None
    tile = Tile(str(row), "k", None, bound)
    lines, known = writer.folds(tile, "1", "BS", f"for start in range(0, {width}, BS):")
    renamed = {fold: f"row{row}_{name}" for fold, name in known.items()}
    return lines + [f"{renamed[f]} = {known[f]}" for f in known], renamed


def _group(writer: Writer, group: int, configs: tuple[Config, ...], known: list[dict]) -> list[str]:
    """Lines that compute one group's block of outputs for every row."""
    p = writer.problem
    weights = p.groups[group][0]
    held = triton_dtype(register(p.dtype))
    lines = [f"columns = {corner(writer, group)} + tl.arange(0, BN)", "n = columns[:, None]"]
    sums = [(w, r) for w in weights for r in range(p.m)]
    fold = _fold_width(p)
    lines += [f"sum{w}_{r} = tl.zeros((BN, BK // {fold}), {held})" for w, r in sums]
    lines.append(f"for start in range(0, {writer.dim(p.K)}, BK):")
    lines += indent(_step(writer, group, configs, known, fold))
    lines += [f"acc{w}_{r} = tl.sum(sum{w}_{r}, 1)" for w, r in sums]
    bound = _column_bound(writer, group, configs)
    for r in range(p.m):
        tile = Tile(str(r), "columns", None, bound)
        lines += writer.epilogue(group, {w: f"acc{w}_{r}" for w in weights}, tile)
    return lines


def _step(
    writer: Writer, group: int, configs: tuple[Config, ...], known: list[dict], fold: int
) -> list[str]:
    """One pass of the loop along K: load the weights, load and prepare each row, multiply."""
    p = writer.problem
    width = writer.dim(p.K)
    bound = f"k < {width}" if ragged(p.K, configs, "BK") else None
    column = _column_bound(writer, group, configs)
    rows_bound = column and column.replace("columns", "n")
    lines = ["k = (start + tl.arange(0, BK))[None, :]"]
    weights = p.groups[group][0]
    for w in weights:
        text = writer.load(f"w{w}", p.weight_view(w), Tile("n", "k", rows_bound, bound), raw=True)
        lines.append(f"weight{w} = {text}")
    lines += [f"weight{w} = {widen(f'weight{w}', p.dtype)}" for w in weights if _is_half(p)]
    for r in range(p.m):
        inner, x = writer.prologue(known[r], Tile(str(r), "k", None, bound))
        lines += inner
        for w in weights:
            product = f"weight{w} * {x}"
            if fold > 1:
                product = f"tl.sum(tl.reshape({product}, (BN, BK // {fold}, {fold})), 2)"
            lines.append(f"sum{w}_{r} += {product}")
    return lines


def _column_bound(writer: Writer, group: int, configs: tuple[Config, ...]) -> str | None:
    width = writer.problem.N(group)
    return f"columns < {writer.dim(width)}" if ragged(width, configs, "BN") else None


def _is_half(problem: Problem) -> bool:
    return problem.dtype in (torch.float16, torch.bfloat16)


def _rows_contiguous(problem: Problem) -> bool:
    """True when weights are contiguous along K, which then is the axis to vectorise along."""
    return all(
        same(problem.weight_strides(i)[1], 1) or same(w.shape[1], 1)
        for i, w in enumerate(problem.weights)
    )


def _fold_width(problem: Problem) -> int:
    """Neighbours along K that one lane holds: those of one 16-byte load."""
    return 16 // problem.dtype.itemsize if _rows_contiguous(problem) else 1


# (BN, BK, warps), best guess first. A lane should have several 16-byte loads in flight.
_WIDE = ((4, 1024, 4), (2, 2048, 4), (1, 4096, 4), (4, 512, 2), (4, 2048, 8), (8, 256, 1))
_SMALL = ((2, 1024, 4), (2, 512, 2), (4, 256, 1), (2, 256, 1), (1, 256, 1))
# For weights that are contiguous along N.
_TRANSPOSED = ((64, 32, 4), (128, 16, 4), (64, 16, 2), (32, 64, 4))


def _configs(problem: Problem, arch: int) -> tuple[Config, ...]:
    contiguous, fold = _rows_contiguous(problem), _fold_width(problem)
    shapes = [*_WIDE, *_SMALL] if contiguous else list(_TRANSPOSED)
    longest = max(power(problem.k), fold, 16) if is_static(problem.K) else 2048
    budget = 96 if arch >= 80 else 64
    shapes = [s for s in shapes if _registers(problem, s) <= budget] or [shapes[-1]]
    extra = {}
    if problem.folds:
        even = divisor(problem.K)
        extra["BS"] = min(4096, even if even >= 256 else longest)
    configs = []
    for bn, bk, warps in shapes:
        block = min(bk, longest)
        # All warps side by side along K: otherwise x is passed on through shared memory.
        warps = min(warps, max(1, block // (32 * fold))) if contiguous else warps
        configs.append(config(warps, 1, BN=bn, BK=block, **extra))
    widths = [problem.N(g) for g in range(len(problem.groups))]
    wide = [c for c in configs if c["BK"] >= min(longest, 512)] or configs
    if any(not ragged(problem.K, [c], "BK") for c in wide):
        configs = prefer_even(configs, [problem.K], "BK")
    return first(prefer_even(configs, widths, "BN") if contiguous else configs)


def _registers(problem: Problem, shape: tuple[int, int, int]) -> int:
    """Registers a lane needs for sums and for what one step loads, about."""
    bn, bk, warps = shape
    each, words = max(bn * bk // (32 * warps), 1), problem.dtype.itemsize / 4
    products = each * problem.weights_per_group
    sums = products * problem.m / _fold_width(problem) * max(words, 1)
    return int(sums + (products + each) * words)
