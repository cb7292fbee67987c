"""A few rows, up to 64: the weights stand on the long side of the tensor cores' product.

A program computes BN outputs (of each weight of its group) for BM rows, as the transposed product
acc[BN, BM] = W[BN, K] x^T[K, BM]. The weights, which are nearly all of the traffic, go from memory
to the tensor cores untouched, by descriptors where the card has them and else by asynchronous
copies; x is small, so its prologue, statistics of rows included, is computed by every program.
"""

from __future__ import annotations

from superopt.ir.dims import is_static
from superopt.ir.plan import Config, Kernel, Site, Work
from superopt.kernels.gemm import dots
from superopt.kernels.gemm.groups import branch, corner, programs
from superopt.kernels.gemm.module import Draft, finish, refuse
from superopt.kernels.gemm.problem import Problem
from superopt.kernels.gemm.sizes import ceil_div, config, divisor, first, power, prefer_even, ragged
from superopt.kernels.gemm.work import traffic
from superopt.kernels.gemm.writer import Tile, Writer, indent

NAME = "skinny"
MOST_ROWS = 64
# Every program computes the statistics of all rows again, out of the second-level cache.
MOST_ROWS_WITH_STATISTICS = 16


def fits(problem: Problem, arch: int) -> bool:
    """Up to 64 rows (16 with row statistics) of a type that ``tl.dot`` takes."""
    most = MOST_ROWS_WITH_STATISTICS if problem.prologue and problem.folds else MOST_ROWS
    return (
        problem.refusal is None
        and problem.dtype in dots.DOT_TYPES
        and 1 <= problem.m <= most
        and problem.weights_per_group <= 4
    )


def work(problem: Problem, arch: int, sms: int) -> Work:
    """Rows padded to a tile; programs of the first config."""
    chosen = _configs(problem, arch, sms)[0]
    blocks = ceil_div(problem.m, chosen["BM"])
    tiles = sum(ceil_div(problem.n(g), chosen["BN"]) for g in range(len(problem.groups)))
    engine = "mma" if dots.uses_mma(problem, arch) else "simt"
    rows = blocks * chosen["BM"]
    return traffic(problem, engine, problem.dtype, rows, tiles * blocks, tiles)


def emit(site: Site) -> Kernel:
    """The kernel for a step; a LowerError where the family does not fit."""
    problem = Problem.at(site)
    refuse(problem, fits(problem, site.arch), NAME)
    writer = Writer(problem)
    configs = _configs(problem, site.arch, site.sms)
    tma = dots.descriptors(problem, site.arch)
    body = ["program = tl.program_id(0)", "top = tl.program_id(1) * BM"]
    body.append("rows = (top + tl.arange(0, BM))[:, None]")
    statistics, known = _statistics(writer, configs)
    body += statistics
    for group in range(len(problem.groups)):
        body += branch(writer, group, _group(writer, group, configs, known, tma))
    return finish(_draft(writer, configs, body, tma), site, writer)


def _draft(writer: Writer, configs: tuple[Config, ...], body: list[str], tma: bool) -> Draft:
    """The draft of a body: its parameters, and the launch that fills them."""
    problem = writer.problem
    setup = [f'grid = ({programs(writer)}, _ceil({writer.dim(problem.M)}, constants["BM"]))']
    parameters = [(name, slot.pointer, name) for name, slot in writer.pointers()]
    constants: list[tuple[str, object, str]] = []
    if tma:
        every = [c for g in range(len(problem.groups)) for c in dots.chunks(problem, g)]
        every = list(dict.fromkeys(every))
        parameters = [p for p in parameters if not p[0].startswith("w")]
        parameters += [dots.descriptor_parameter(writer, c) for c in every]
        setup.append('BM, BN, BK = (constants[name] for name in ("BM", "BN", "BK"))')
        setup += [dots.describe(c) for c in every]
        constants = [(f"SWAP{c.tag}", False, f"SWAP{c.tag}") for c in every if c.pair]
        if dots.x_descriptor(problem):
            parameters[0] = ("x", dots.described(problem.dtype, "[{BM}, {BK}]"), "x_")
            setup.append(dots.describe_x(writer))
    return Draft(
        NAME, body, setup, configs, parameters, constants,
        helpers=dots.helpers(problem) if tma else "", dot=True, tma=tma,
    )  # fmt: skip


def _row_bound(writer: Writer, configs: tuple[Config, ...]) -> str | None:
    m = writer.problem.M
    return f"rows < {writer.dim(m)}" if ragged(m, configs, "BM") else None


def _statistics(writer: Writer, configs: tuple[Config, ...]) -> tuple[list[str], dict]:
    p = writer.problem
    if not p.folds:
        return [], {}
    width = writer.dim(p.K)
    bound = f"k < {width}" if ragged(p.K, configs, "BS") else None
    tile = Tile("rows", "k", _row_bound(writer, configs), bound)
    # Unrolled, so that the loads of several passes are under way at once.
    header = f"for start in tl.range(0, {width}, BS, loop_unroll_factor=4):"
    return writer.folds(tile, "BM", "BS", header)


def _group(
    writer: Writer, group: int, configs: tuple[Config, ...], known: dict, tma: bool
) -> list[str]:
    """Lines that compute one group's block of outputs."""
    p = writer.problem
    chunks = dots.chunks(p, group)
    lines = [f"corner = {corner(writer, group)}"]
    for c in chunks if not tma else ():
        lines += dots.addresses(writer, c)
    lines += [f"acc{c.tag} = tl.zeros(({c.rows}, BM), tl.float32)" for c in chunks]
    lines.append(f"for start in range(0, {writer.dim(p.K)}, BK):")
    lines += indent(_step(writer, group, configs, known, tma))
    accumulators: dict[int, str] = {}
    for c in chunks:
        split, found = dots.unpair(c, swapped=tma, transposed=True)
        lines += split
        accumulators |= found
    lines.append("columns = (corner + tl.arange(0, BN))[:, None]")
    lines.append("across = (top + tl.arange(0, BM))[None, :]")
    bound = _row_bound(writer, configs)
    width = p.N(group)
    edge = f"columns < {writer.dim(width)}" if ragged(width, configs, "BN") else None
    tile = Tile("across", "columns", bound and bound.replace("rows", "across"), edge)
    return lines + writer.epilogue(group, accumulators, tile)


def _step(
    writer: Writer, group: int, configs: tuple[Config, ...], known: dict, tma: bool
) -> list[str]:
    """One pass of the loop along K."""
    p = writer.problem
    width = writer.dim(p.K)
    bound = width if ragged(p.K, configs, "BK") else None
    edge = writer.dim(p.N(group)) if ragged(p.N(group), configs, "BN") else None
    lines = []
    if tma and dots.x_descriptor(p):
        lines.append("xs = x.load([top, start])")
    else:
        lines.append("k = (start + tl.arange(0, BK))[None, :]")
        tile = Tile("rows", "k", _row_bound(writer, configs), bound and f"k < {bound}")
        lines += dots.load_x(writer, known, tile)
    for c in dots.chunks(p, group):
        lines += dots.load_descriptor(c) if tma else dots.load_weights(writer, c, bound, edge)
        lines.append(f"acc{c.tag} = _dot(weight{c.tag}, xs.T, acc{c.tag}, INTERPRET)")
    return lines


# (rows of a dot, bytes of a row of its tile, warps, stages), by what the tile is multiplied with.
_TENSOR = (
    (128, 128, 4, 5),
    (64, 256, 4, 5),
    (128, 256, 4, 4),
    (64, 128, 4, 8),
    (32, 256, 4, 6),
    (32, 512, 4, 4),
    (128, 128, 4, 3),
    (64, 128, 4, 4),
    (32, 128, 4, 4),
    (64, 64, 4, 2),
)
_LANES = (
    (64, 64, 8, 1),
    (64, 32, 8, 1),
    (32, 64, 4, 1),
    (64, 32, 4, 1),
    (32, 64, 8, 1),
    (32, 32, 4, 1),
    (32, 32, 8, 1),
)


def _configs(problem: Problem, arch: int, sms: int) -> tuple[Config, ...]:
    """Candidates, best guess first: the largest tiles that still give every multiprocessor one."""
    bm = min(MOST_ROWS, max(16, power(problem.m)))
    width, size = dots.widest(problem), problem.dtype.itemsize
    longest = max(power(problem.k), 16) if is_static(problem.K) else 4096
    mma = dots.uses_mma(problem, arch)
    longest = min(longest, dots.deepest(problem, mma))
    extra = {}
    if problem.folds:
        most = 4096 // bm
        even = divisor(problem.K)
        extra["BS"] = min(even if even >= 32 else max(longest, 32), most)
    configs = [
        config(w, s, BM=bm, BN=max(16, r // width), BK=max(16, min(b // size, longest)), **extra)
        for r, b, w, s in (_TENSOR if mma else _LANES)
    ]
    configs = dots.within(problem, configs if mma else dots.light(problem, configs), arch)
    configs = prefer_even(configs, [problem.K], "BK")

    def idle(c: Config) -> int:
        tiles = sum(ceil_div(problem.n(g), c["BN"]) for g in range(len(problem.groups)))
        return max(0, sms - tiles * ceil_div(problem.m, bm))

    return first(sorted(configs, key=idle))
