"""Choices of block sizes that the families share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from superopt.ir.dims import Dim, is_static
from superopt.ir.plan import Config


def power(n: int) -> int:
    """The least power of two that is not below ``n``."""
    return 1 << max(n - 1, 0).bit_length()


def divisor(dim: Dim) -> int:
    """The largest power of two that divides a size; 1 where that is not known."""
    return dim & -dim if isinstance(dim, int) and dim else 1


def config(warps: int, stages: int, **constants: int) -> Config:
    return Config(tuple(constants.items()), warps, stages)


def ragged(dim: Dim, configs: Iterable[Config], name: str) -> bool:
    """True when blocks of some config do not tile the size, so that its edge needs a mask."""
    return not is_static(dim) or any(dim % c[name] for c in configs)  # type: ignore[operator]


def prefer_even(configs: Sequence[Config], dims: Iterable[Dim], name: str) -> list[Config]:
    """The configs whose blocks tile every size, and so need no mask; all where none does."""
    dims = list(dims)
    return [c for c in configs if not any(ragged(d, [c], name) for d in dims)] or list(configs)


def first(configs: Iterable[Config], count: int = 6) -> tuple[Config, ...]:
    """The first few distinct configs."""
    return tuple(dict.fromkeys(configs))[:count]


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)
