"""Many rows: tiles of the output, each by the tensor cores, neighbours close in time.

A tile is BM rows by BN outputs of each weight of its group; two weights make one dot of 2 BN
columns. With descriptors the programs are persistent: each walks over tiles, group after group,
and the loads of one tile begin while the one before is finished. Without them every tile has a
program of its own, and x may have a pointwise prologue.
"""

from __future__ import annotations

from dataclasses import replace

from superopt.ir.dims import is_static
from superopt.ir.expr import Hole, leaves
from superopt.ir.plan import Config, Kernel, Site, Work
from superopt.kernels.gemm import dots
from superopt.kernels.gemm.groups import blocks
from superopt.kernels.gemm.module import Draft, finish, refuse
from superopt.kernels.gemm.problem import Problem
from superopt.kernels.gemm.sizes import ceil_div, config, first, power, prefer_even, ragged
from superopt.kernels.gemm.view import View
from superopt.kernels.gemm.work import traffic
from superopt.kernels.gemm.writer import Tile, Writer, indent

NAME = "tiled"
LEAST_ROWS = 17


def fits(problem: Problem, arch: int) -> bool:
    """More than 16 rows of a type that ``tl.dot`` takes; no statistics of rows."""
    return (
        problem.refusal is None
        and problem.dtype in dots.DOT_TYPES
        and problem.m >= LEAST_ROWS
        and not problem.folds
        and problem.weights_per_group <= 4
    )


# How much longer a product takes on Hopper whose tiles do not come by TMA, as those of a prologue
# do not: 859 us against 628 and 699 in two runs (notebooks/results/gemm_h200.md, 2048 rows).
_WITHOUT_TMA = 1.4


def work(problem: Problem, arch: int, sms: int) -> Work:
    """Rows padded to tiles; tiles of the first config."""
    chosen = _configs(problem, arch, sms)[0]
    down = ceil_div(problem.m, chosen["BM"])
    across = sum(ceil_div(problem.n(g), chosen["BN"]) for g in range(len(problem.groups)))
    engine = "mma" if dots.uses_mma(problem, arch) else "simt"
    rows = down * chosen["BM"]
    found = traffic(problem, engine, problem.dtype, rows, down * across, across)
    if arch >= 90 and not _descriptors(problem, arch):
        found = replace(found, flops=found.flops * _WITHOUT_TMA)
    return found


def emit(site: Site) -> Kernel:
    """The kernel for a step; a LowerError where the family does not fit."""
    problem = Problem.at(site)
    refuse(problem, fits(problem, site.arch), NAME)
    writer = Writer(problem)
    configs = _configs(problem, site.arch, site.sms)
    tma = _descriptors(problem, site.arch)
    body = ["program = tl.program_id(0)", f"down = tl.cdiv({writer.dim(problem.M)}, BM)"]
    for group in range(len(problem.groups)):
        body += _group(writer, group, configs, tma, site.sms)
    return finish(_draft(writer, site, configs, body, tma), site, writer)


def _descriptors(problem: Problem, arch: int) -> bool:
    return dots.descriptors(problem, arch) and dots.x_descriptor(problem)


def _draft(
    writer: Writer, site: Site, configs: tuple[Config, ...], body: list[str], tma: bool
) -> Draft:
    """The draft of a body: its parameters, and the launch that fills them."""
    p = writer.problem
    parameters = [(name, slot.pointer, name) for name, slot in writer.pointers()]
    setup = ['BM, BN, BK = (constants[name] for name in ("BM", "BN", "BK"))']
    widths = [f"_ceil({writer.dim(p.N(g))}, BN)" for g in range(len(p.groups))]
    tiles = f"_ceil({writer.dim(p.M)}, BM) * ({' + '.join(widths)})"
    setup.append(f"grid = (min({site.sms}, {tiles}),)" if tma else f"grid = ({tiles},)")
    if not tma:
        return Draft(NAME, body, setup, configs, parameters, dot=True)
    every = [c for g in range(len(p.groups)) for c in dots.chunks(p, g)]
    every = list(dict.fromkeys(every))
    parameters = [q for q in parameters if not q[0].startswith("w")]
    parameters[0] = ("x", dots.described(p.dtype, "[{BM}, {BK}]"), "x_")
    parameters += [dots.descriptor_parameter(writer, c) for c in every]
    setup += [dots.describe_x(writer), *map(dots.describe, every)]
    for g in range(len(p.groups)):
        if dots.out_descriptor(p, g):
            at = next(i for i, q in enumerate(parameters) if q[0] == f"y{g}")
            block = dots.described(p.outs[g].dtype, f"[{{BM}}, {{BN/{_parts(p)}}}]")
            parameters[at] = (f"y{g}", block, f"y{g}_")
            setup.append(dots.describe_out(writer, g, _parts(p)))
    constants: list[tuple[str, object, str]] = [
        (f"SWAP{c.tag}", False, f"SWAP{c.tag}") for c in every if c.pair
    ]
    return Draft(
        NAME, body, setup, configs, parameters, constants,
        helpers=dots.helpers(p), dot=True, tma=True,
    )  # fmt: skip


def _group(
    writer: Writer, group: int, configs: tuple[Config, ...], tma: bool, sms: int
) -> list[str]:
    """Lines that compute a group's tiles: all that are a persistent program's, or its one."""
    p = writer.problem
    before = " + ".join(f"down * {blocks(writer, g)}" for g in range(group)) or "0"
    head = [f"across = {blocks(writer, group)}"]
    tile = [*_place(), *_tile(writer, group, configs, tma)]
    if tma:
        # The first of this program's tiles that does not lie before the group.
        skip = f"tl.maximum(tl.cdiv({before} - program, {sms}), 0) * {sms}"
        start = "program" if group == 0 else f"program + {skip} - ({before})"
        loop = f"for tile in tl.range({start}, down * across, {sms}, flatten=True):"
        return [*head, loop, *indent(tile)]
    if len(p.groups) == 1:
        return [*head, "tile = program", *tile]
    inner = [*head, f"tile = program - ({before})", *tile]
    if group == len(p.groups) - 1:
        return ["else:", *indent(inner)]
    return [
        f"{'if' if group == 0 else 'elif'} program < {before} + down * {blocks(writer, group)}:",
        *indent(inner),
    ]


def _place() -> list[str]:
    """Tiles go down columns of GROUP tiles, so that those under way together share operands."""
    return [
        "band = tile // (GROUP * across)",
        "height = tl.minimum(down - band * GROUP, GROUP)",
        "top = (band * GROUP + (tile % (GROUP * across)) % height) * BM",
        "corner = (tile % (GROUP * across)) // height * BN",
    ]


def _tile(writer: Writer, group: int, configs: tuple[Config, ...], tma: bool) -> list[str]:
    """Lines that compute one tile of a group's output and store it."""
    p = writer.problem
    chunks = dots.chunks(p, group)
    lines = []
    if not tma:
        lines.append("rows = (top + tl.arange(0, BM))[:, None]")
        for c in chunks:
            lines += dots.addresses(writer, c, dots.lies_across(p, c))
    lines += [f"acc{c.tag} = tl.zeros((BM, {c.rows}), tl.float32)" for c in chunks]
    lines.append(f"for start in range(0, {writer.dim(p.K)}, BK):")
    lines += indent(_step(writer, group, configs, tma))
    if tma:
        lines.append("rows = (top + tl.arange(0, BM))[:, None]")
    return lines + _finish(writer, group, configs, tma)


def _finish(writer: Writer, group: int, configs: tuple[Config, ...], tma: bool) -> list[str]:
    """Lines that turn the accumulators into the output and store it, one half after the other
    where the whole would not fit in registers."""
    p = writer.problem
    lines: list[str] = []
    accumulators: dict[int, str] = {}
    for c in dots.chunks(p, group):
        split, found = dots.unpair(c, swapped=tma, transposed=False)
        lines += split
        accumulators |= found
    parts, width = _parts(p), p.N(group)
    size = "BN // 2" if parts == 2 else "BN"
    if parts == 2:
        ((weight, acc),) = accumulators.items()
        halves = f"tl.reshape({acc}, (BM, 2, BN // 2))"
        lines.append(f"{acc}_0, {acc}_1 = tl.split(tl.permute({halves}, (0, 2, 1)))")
    edge = f"columns < {writer.dim(width)}" if ragged(width, configs, "BN") else None
    tile = Tile("rows", "columns", _row_bound(writer, configs), edge)
    for part in range(parts):
        left = f"corner + {size}" if part else "corner"
        lines.append(f"columns = ({left} + tl.arange(0, {size}))[None, :]")
        held = {weight: f"{acc}_{part}"} if parts == 2 else accumulators
        if tma and dots.out_descriptor(p, group):
            lines += writer.result(group, held, tile)
            corner, shape = f"[top, {left}]", f"(BM, {size})"
            lines.append(writer.store_descriptor(group, "result", corner, shape))
        else:
            lines += writer.epilogue(group, held, tile)
    return lines


def _heavy(problem: Problem) -> bool:
    """True where an epilogue reads a whole tile beside those of the products."""
    return any(
        isinstance(h, Hole) and h.kind == "in" and _whole(problem.extra_view(h.index, problem.N(g)))
        for g, (_, epilogue) in enumerate(problem.groups)
        for h in leaves(epilogue)
    )


def _parts(problem: Problem) -> int:
    """In how many parts a tile is finished: a heavy epilogue has not the registers for a whole one.

    The tiles of a pair of weights are half as wide, and so are halves already.
    """
    return 2 if problem.weights_per_group == 1 and _heavy(problem) else 1


def _whole(view: View) -> bool:
    return view.by_row and view.by_column


def _row_bound(writer: Writer, configs: tuple[Config, ...]) -> str | None:
    m = writer.problem.M
    return f"rows < {writer.dim(m)}" if ragged(m, configs, "BM") else None


def _step(writer: Writer, group: int, configs: tuple[Config, ...], tma: bool) -> list[str]:
    """One pass of the loop along K."""
    p = writer.problem
    lines = []
    bound = writer.dim(p.K) if ragged(p.K, configs, "BK") else None
    edge = writer.dim(p.N(group)) if ragged(p.N(group), configs, "BN") else None
    if tma:
        lines.append("xs = x.load([top, start])")
    else:
        lines.append("k = (start + tl.arange(0, BK))[None, :]")
        tile = Tile("rows", "k", _row_bound(writer, configs), bound and f"k < {bound}")
        lines += dots.load_x(writer, {}, tile)
    for c in dots.chunks(p, group):
        across = not tma and dots.lies_across(p, c)
        load = dots.load_descriptor(c)
        lines += load if tma else dots.load_weights(writer, c, bound, edge, across)
        right = f"weight{c.tag}" if across else f"weight{c.tag}.T"
        lines.append(f"acc{c.tag} = _dot(xs, {right}, acc{c.tag}, INTERPRET)")
    return lines


# (BM, columns of all dots together, BK of 2-byte elements, warps, stages), largest first.
_HOPPER = (
    (128, 256, 64, 8, 3),
    (128, 256, 64, 8, 4),
    (128, 128, 64, 8, 4),
    (128, 128, 64, 4, 4),
    (64, 256, 64, 4, 4),
    (64, 128, 64, 4, 5),
    (64, 64, 64, 4, 6),
    (64, 64, 32, 4, 3),
)
_AMPERE = (
    (128, 128, 32, 8, 3),
    (128, 256, 32, 8, 3),
    (128, 128, 64, 8, 3),
    (64, 128, 32, 4, 4),
    (64, 64, 64, 4, 4),
    (64, 64, 32, 4, 3),
    (32, 64, 32, 4, 3),
)
_LANES = (
    (64, 128, 16, 8, 1),
    (64, 64, 16, 8, 1),
    (64, 32, 16, 4, 1),
    (32, 64, 16, 8, 1),
    (32, 32, 16, 4, 1),
)


def _configs(problem: Problem, arch: int, sms: int) -> tuple[Config, ...]:
    """Candidates, best guess first: the one that leaves the fewest tiles' time idle."""
    mma = dots.uses_mma(problem, arch)
    shapes = _LANES if not mma else _HOPPER if arch >= 90 else _AMPERE
    size = max(problem.dtype.itemsize, 2)
    columns = dots.widest(problem) if dots.dots(problem) == 1 else 2 * dots.dots(problem)
    longest = max(power(problem.k), 16) if is_static(problem.K) else 4096
    longest = min(longest, dots.deepest(problem, mma))
    parts, widest = _parts(problem), power(columns)
    configs = [
        config(w, s, BM=bm, BN=max(16 * parts, n // widest), BK=max(16, min(k, longest)), GROUP=8)
        for bm, n, k, w, s in ((bm, n, 2 * bk // size, w, s) for bm, n, bk, w, s in shapes)
    ]
    staged = 0.0
    if _descriptors(problem, arch):
        # The output's tile; where an epilogue is heavy, a part of it again.
        staged = problem.outs[0].dtype.itemsize * (2 if _heavy(problem) else 1) / parts
    configs = configs if mma else dots.light(problem, configs)
    configs = prefer_even(dots.within(problem, configs, arch, staged), [problem.K], "BK")
    return first(sorted(configs, key=lambda c: _waves(problem, c, sms)))


def _waves(problem: Problem, c: Config, sms: int) -> float:
    """Time of a product in this config, in units of the rate that large tiles reach."""
    across = sum(ceil_div(problem.n(g), c["BN"]) for g in range(len(problem.groups)))
    tiles = ceil_div(problem.m, c["BM"]) * across
    area = c["BM"] * c["BN"] * problem.weights_per_group
    # A tile's operands grow with its edges, its work with its area: small tiles are slower.
    return ceil_div(tiles, sms) * area * (1 + 4096 / area)
