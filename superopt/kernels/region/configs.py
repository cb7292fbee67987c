"""Ways to run a region kernel, the likeliest first.

A program should hold some 8 to 32 elements a thread: fewer waste threads on addresses, more spill.
Where there are too few programs to fill the card, smaller ones come first.
"""

from __future__ import annotations

from superopt.ir.plan import Config

TILE = 1024  # elements that a program holds at first, unless one row is longer

# Length of a row, rounded up to a power of two: (rows a program, warps), for many rows.
_ROWS = {
    512: ((1, 1), (2, 2), (4, 4), (8, 4)),
    1024: ((1, 1), (1, 2), (2, 4), (4, 4)),
    2048: ((1, 4), (2, 8), (1, 8)),
    4096: ((1, 8), (1, 16), (2, 16)),
    8192: ((1, 8), (1, 16)),
    16384: ((1, 16), (1, 32)),
}


def power_of_two(size: int) -> int:
    """The smallest power of two that is no less."""
    return 1 << (size - 1).bit_length()


def flat(numel: int, sms: int) -> tuple[Config, ...]:
    """Block sizes for ``numel`` elements on a card of ``sms`` multiprocessors."""
    blocks = [(TILE, 4), (512, 4), (2048, 8), (256, 2)]
    if numel <= 2 * TILE * sms:
        blocks = [(256, 2), (512, 4), (128, 1)]
    return tuple(Config((("BLOCK", size),), num_warps=w, num_stages=1) for size, w in blocks)


def rows(count: int, block: int, sms: int) -> tuple[Config, ...]:
    """Rows a program for ``count`` rows, each in ``block`` lanes."""
    if block <= 256:
        several = TILE // block
        choices = [(several, 4), (several // 2, 2), (several * 2, 4), (1, 1)]
    else:
        choices = list(_ROWS[block])
    if count <= 2 * sms:
        # Latency counts: one row a program, as many warps as it can feed.
        wide = min(16, max(1, block // 256))
        choices = [(1, wide), (1, max(1, wide // 2)), *choices]
    limit = power_of_two(max(1, count))
    fitting = dict.fromkeys((min(r, limit), w) for r, w in choices)
    return tuple(Config((("BLOCK_R", r),), num_warps=w, num_stages=1) for r, w in fitting)
