"""The two forms of a region kernel, whole, with holes."""

from __future__ import annotations

from string import Template

# Every element by itself: out[i] = f(in[i], …) for i below $numel, BLOCK of them a program.
FLAT = Template("""\
# $summary
import triton
import triton.language as tl


$prelude@triton.jit
def $name($parameters, BLOCK: tl.constexpr, WIDE: tl.constexpr):
    program = tl.program_id(0)
    if WIDE:  # offsets need 64 bits
        program = program.to(tl.int64)
    index = program * BLOCK + tl.arange(0, BLOCK)
    $masks
    $body


def launch($parameters, config):
    grid = (-(-($numel) // config["BLOCK"]),)
    $name[grid](
        $arguments, BLOCK=config["BLOCK"], WIDE=$wide,
        num_warps=config.num_warps, num_stages=config.num_stages,
    )
""")

# Row by row: BLOCK_R rows a program, each of $length elements whole in registers.
ROWS = Template("""\
# $summary
import triton
import triton.language as tl


$prelude@triton.jit
def $name($parameters, BLOCK_R: tl.constexpr, WIDE: tl.constexpr):
    program = tl.program_id(0)
    if WIDE:  # offsets need 64 bits
        program = program.to(tl.int64)
    row = program * BLOCK_R + tl.arange(0, BLOCK_R)[:, None]
    col = tl.arange(0, $block)[None, :]
    $masks
    $body


def launch($parameters, config):
    grid = (-(-($rows) // config["BLOCK_R"]),)
    $name[grid](
        $arguments, BLOCK_R=config["BLOCK_R"], WIDE=$wide,
        num_warps=config.num_warps, num_stages=config.num_stages,
    )
""")

# No mask where every program is full: its absence is what lets loads and stores be wide.
FLAT_MASKS = Template("""\
if $numel % BLOCK == 0:
    live = None
else:
    live = index < $numel
""")

ROWS_MASKS = Template("""\
$columns
if $full:
    row_live = None
    live = $in_row
else:
    row_live = row < $rows
    live = $in_both
""")


def indent(lines: list[str] | str) -> str:
    """Lines as the text of a hole in a function's body."""
    parts = lines.strip().splitlines() if isinstance(lines, str) else lines
    return "\n    ".join(parts)
