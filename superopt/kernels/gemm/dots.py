"""What the families that use ``tl.dot`` share: pairs of weights, descriptors, limits of a card.

Two weights of a group are one weight of twice the rows, though they lie apart: a tile of it holds
BN rows of each, so that one dot multiplies both. By pointers, each row of the tile has an address
of its own. By the tensor memory accelerator, one descriptor of shape (2, N, K) spans both; its
first stride is their distance.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch

from superopt.ir.dims import is_static, same
from superopt.ir.plan import Config
from superopt.kernels.gemm.problem import Problem
from superopt.kernels.gemm.sizes import power
from superopt.kernels.gemm.writer import Tile, Writer
from superopt.kernels.spelling import narrow, pointer_type

DOT_TYPES = (torch.float16, torch.bfloat16, torch.float32)


def deepest(problem: Problem, mma: bool) -> int:
    """The largest block along K. Where lanes multiply in fp32, a block is one chain of roundings,
    whose error grows with the root of its length; 16 keeps it below the library's."""
    return 16 if problem.dtype == torch.float32 and not mma else 4096


@dataclass(frozen=True)
class Chunk:
    """Weights of a group whose products one dot computes: a pair, or one."""

    weights: tuple[int, ...]

    @property
    def pair(self) -> bool:
        return len(self.weights) == 2

    @property
    def tag(self) -> str:
        """What the names of its variables end in."""
        return str(self.weights[0])

    @property
    def rows(self) -> str:
        """Rows of its tile."""
        return "2 * BN" if self.pair else "BN"

    @property
    def parameter(self) -> str:
        """The descriptor's name."""
        return f"pair{self.tag}" if self.pair else f"w{self.tag}"


def chunks(problem: Problem, group: int) -> list[Chunk]:
    """The weights of a group, two by two where they are strided alike."""
    found: list[Chunk] = []
    waiting: list[int] = []
    for w in problem.groups[group][0]:
        alike = waiting and problem.weight_strides(w) == problem.weight_strides(waiting[0])
        if waiting and alike:
            found.append(Chunk((waiting.pop(), w)))
        else:
            found += [Chunk((v,)) for v in waiting]
            waiting = [w]
    return found + [Chunk((v,)) for v in waiting]


def widest(problem: Problem) -> int:
    """2 where some group has a pair, 1 otherwise."""
    every = [c for g in range(len(problem.groups)) for c in chunks(problem, g)]
    return max(len(c.weights) for c in every)


def dots(problem: Problem) -> int:
    """The most dots that a group needs in one step."""
    return max(len(chunks(problem, g)) for g in range(len(problem.groups)))


def uses_mma(problem: Problem, arch: int) -> bool:
    """True when ``tl.dot`` becomes tensor core instructions, not scalar ones."""
    exact = problem.dtype == torch.float32 and problem.precision == "highest"
    return arch >= 80 and not exact


def descriptors(problem: Problem, arch: int) -> bool:
    """True when the weights can be moved by the tensor memory accelerator."""
    return arch >= 90 and all(
        _describable(problem.weight_strides(i), w.dtype.itemsize)
        for i, w in enumerate(problem.weights)
    )


def x_descriptor(problem: Problem) -> bool:
    """True when x can be moved so, too: it is multiplied as it lies, in evenly spaced rows."""
    view, size = problem.x_view(), problem.x.dtype.itemsize
    stride = view.row_stride
    if problem.prepared or stride is None or not same(view.column, 1):
        return False
    return is_static(problem.K) if not view.segments else _describable((stride, 1), size)


def out_descriptor(problem: Problem, group: int) -> bool:
    """True when an output can be stored so."""
    view, size = problem.out_view(group), problem.outs[group].dtype.itemsize
    return view.row_stride is not None and _describable((view.row_stride, view.column), size)


def _describable(strides: tuple, size: int) -> bool:
    row, column = strides
    aligned = is_static(row) and row > 0 and row * size % 16 == 0
    return bool(same(column, 1) and aligned)


_SHARED = {75: 64, 80: 163, 86: 99, 89: 99, 90: 227}


def shared_limit(arch: int) -> int:
    """Bytes of shared memory that one program can have."""
    known = [a for a in _SHARED if a <= arch]
    return _SHARED[max(known, default=75)] * 1024


def within(
    problem: Problem, configs: Iterable[Config], arch: int, staged: float = 0
) -> list[Config]:
    """Configs whose tiles of x and of the weights fit in shared memory, in all stages at once.

    ``staged`` is the size of the elements of an output that a descriptor stores out of there.
    """
    # A little is left for the barriers of the pipeline.
    limit, columns = shared_limit(arch) - 1024, widest(problem) + 2 * (dots(problem) - 1)

    def need(c: Config) -> int:
        stages = c.num_stages if arch >= 80 else 1
        return (c["BM"] + columns * c["BN"]) * c["BK"] * problem.dtype.itemsize * stages

    def out(c: Config) -> float:
        return c["BM"] * c["BN"] * staged

    return [c for c in configs if need(c) + out(c) <= limit]


def light(problem: Problem, configs: Iterable[Config]) -> list[Config]:
    """Configs of scalar products that need no more than 128 registers, as assembled for sm_75.

    A step of such a product is unrolled as a whole: a lane holds what it multiplies.
    """
    columns, half = widest(problem) + 2 * (dots(problem) - 1), problem.dtype.itemsize == 2

    def fits(c: Config) -> bool:
        products = columns * c["BN"] * c["BM"] * c["BK"] // (32 * c.num_warps)
        return products * c["BK"] <= 4096 if half else products <= 512

    return [c for c in configs if fits(c)]


# Text ------------------------------------------------------------------------------------------


def lies_across(problem: Problem, chunk: Chunk) -> bool:
    """True when neighbours in memory are weights of neighbouring columns of the output."""
    row, column = problem.weight_strides(chunk.weights[0])
    return same(row, 1) and not same(column, 1)


def addresses(writer: Writer, chunk: Chunk, across: bool = False) -> list[str]:
    """Lines that set ``n``, the columns of a chunk's tile, and ``address``, where they begin.

    The columns are the tile's first axis, or its last where it is to lie ``across``.
    """
    tag, spread = chunk.tag, "[None, :]" if across else "[:, None]"
    rows = [
        f"w{w} + {writer.row_offset(writer.problem.weight_view(w), f'n{tag}')}"
        for w in chunk.weights
    ]
    if not chunk.pair:
        return [
            f"n{tag} = corner + tl.arange(0, BN)",
            f"address{tag} = ({rows[0]}){spread}",
        ]
    return [
        f"both{tag} = tl.arange(0, 2 * BN)",
        f"n{tag} = corner + both{tag} % BN",
        f"address{tag} = tl.where(both{tag} < BN, {rows[0]}, {rows[1]}){spread}",
    ]


def load_weights(
    writer: Writer, chunk: Chunk, k: str | None, n: str | None, across: bool = False
) -> list[str]:
    """Lines of a step that load a chunk's tile by pointers; ``k`` and ``n`` are its bounds."""
    tag, index = chunk.tag, "k"
    spread, lines = "[:, None]", []
    if across:
        index, spread = f"k{tag}", "[None, :]"
        lines.append(f"{index} = (start + tl.arange(0, BK))[:, None]")
    offset = writer.column_offset(writer.problem.weight_view(chunk.weights[0]), index)
    bounds = (n and f"n{tag}{spread} < {n}", k and f"{index} < {k}")
    mask = writer.mask(Tile("", "", *bounds))
    guard = f", mask={mask}, other=0.0" if mask else ""
    return [*lines, f"weight{tag} = tl.load(address{tag} + {offset}{guard})"]


def load_descriptor(chunk: Chunk) -> list[str]:
    """The line of a step that loads a chunk's tile by its descriptor."""
    name = chunk.parameter
    if chunk.pair:
        return [f"weight{chunk.tag} = {name}.load([0, corner, start]).reshape(2 * BN, BK)"]
    return [f"weight{chunk.tag} = {name}.load([corner, start])"]


def unpair(chunk: Chunk, swapped: bool, transposed: bool) -> tuple[list[str], dict[int, str]]:
    """Lines that take a pair's accumulator apart, and the accumulators by weight.

    ``transposed`` says that the columns are the accumulator's first axis. ``swapped`` asks for the
    constant SWAP, true when the second weight of the pair lies first in the descriptor.
    """
    tag = chunk.tag
    if not chunk.pair:
        return [], {chunk.weights[0]: f"acc{tag}"}
    shape, order = ("2, BN, BM", "1, 2, 0") if transposed else ("BM, 2, BN", "0, 2, 1")
    one, two = (f"acc{tag}_{i}" for i in (0, 1))
    split = f"tl.split(tl.permute(tl.reshape(acc{tag}, ({shape})), ({order})))"
    lines = [f"{one}, {two} = {split}"]
    if swapped:
        lines += [f"if SWAP{tag}:", f"    {one}, {two} = {two}, {one}"]
    return lines, dict(zip(chunk.weights, (one, two), strict=True))


def descriptor_parameter(writer: Writer, chunk: Chunk) -> tuple[str, str, str]:
    """A chunk's descriptor as a parameter: name, type (its block from the config), argument."""
    block = "[2, {BN}, {BK}]" if chunk.pair else "[{BN}, {BK}]"
    return chunk.parameter, described(writer.problem.dtype, block), f"{chunk.parameter}_"


def described(dtype: torch.dtype, block: str) -> str:
    """The type of a descriptor in a signature."""
    return f"tensordesc<{pointer_type(dtype)[1:]}{block}>"


def describe(chunk: Chunk) -> str:
    """The line of a launch that makes a chunk's descriptor."""
    tag = chunk.tag
    if chunk.pair:
        one, two = (f"w{w}" for w in chunk.weights)
        return f"pair{tag}_, SWAP{tag} = _pair({one}, {two}, [2, BN, BK])"
    return f"w{tag}_ = _matrix(w{tag}, list(w{tag}.shape), list(w{tag}.stride()), [BN, BK])"


# What launches call to make descriptors. The accelerator reads from 16-byte boundaries only and
# spans less than 2^40 bytes; operands that lie otherwise, which is rare, are copied.
DESCRIBE = """\
def _matrix(tensor, shape, strides, block):
    if tensor.data_ptr() % 16:
        tensor = torch.empty_strided(
            tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device
        ).copy_(tensor)
    return TensorDescriptor(tensor, shape, strides, block)
"""

PAIR = '''\
def _pair(one, two, block):
    """A descriptor over two weights where they lie, and whether the second lies first."""
    swap = two.data_ptr() < one.data_ptr()
    low, high = (two, one) if swap else (one, two)
    distance = high.data_ptr() - low.data_ptr()
    if low.data_ptr() % 16 or high.data_ptr() % 16 or not 0 < distance < 2**40:
        low, swap = torch.stack((one, two)), False
        return TensorDescriptor(low, list(low.shape), list(low.stride()), block), swap
    strides = [distance // low.element_size(), *low.stride()]
    return TensorDescriptor(low, [2, *low.shape], strides, block), swap
'''


def helpers(problem: Problem) -> str:
    """The functions that a launch with descriptors calls."""
    return DESCRIBE + ("\n\n" + PAIR if widest(problem) == 2 else "")


def describe_x(writer: Writer) -> str:
    """The line of a launch that makes the descriptor of x."""
    p, view = writer.problem, writer.problem.x_view()
    # A single row may have any stride that the accelerator takes.
    row = view.row_stride if view.segments else power(p.k) * 16
    shape = f"[{writer.dim(p.M)}, {writer.dim(p.K)}]"
    return f"x_ = _matrix(x, {shape}, [{writer.dim(row)}, 1], [BM, BK])"


def describe_out(writer: Writer, group: int, parts: int) -> str:
    """The line of a launch that makes the descriptor of an output, stored in ``parts`` blocks."""
    p = writer.problem
    stride = p.out_view(group).row_stride
    shape = f"[{writer.dim(p.M)}, {writer.dim(p.N(group))}]"
    strides, block = f"[{writer.dim(stride)}, 1]", f"[BM, BN // {parts}]"
    return f"y{group}_ = TensorDescriptor(y{group}, {shape}, {strides}, {block})"


def load_x(writer: Writer, known: dict, tile: Tile) -> list[str]:
    """Lines of a step that load ``xs``, a tile of x, by pointers and prepare it for the dot."""
    p = writer.problem
    if p.prepared:
        lines, value = writer.prologue(known, tile)
        value = narrow(value, p.dtype)
    else:
        lines, value = [], writer.load("x", p.x_view(), tile, raw=True)
    return [*lines, f"xs = tl.broadcast_to({value}, (BM, BK))"]
