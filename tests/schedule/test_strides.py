"""Stride arithmetic against torch."""

from __future__ import annotations

import sympy
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from superopt.schedule.strides import contiguous, expand, permute, reshape

sizes = st.lists(st.sampled_from([1, 2, 3, 4]), min_size=0, max_size=4)


def by_torch(x: torch.Tensor, shape: list[int]) -> tuple[int, ...] | None:
    try:
        return x.view(shape).stride()
    except RuntimeError:
        return None


@st.composite
def views(draw: st.DrawFn) -> torch.Tensor:
    shape = draw(sizes)
    x = torch.empty(shape)
    x = x.permute(draw(st.permutations(range(x.ndim))))
    if x.ndim and draw(st.booleans()):
        axis = draw(st.integers(0, x.ndim - 1))
        x = x.narrow(axis, 0, draw(st.integers(1, x.shape[axis])))
    if draw(st.booleans()):
        lead = draw(st.lists(st.sampled_from([1, 2]), max_size=2))
        x = x.expand([*lead, *x.shape])
    return x


@settings(max_examples=300, deadline=None)
@given(views(), st.data())
def test_reshape_is_a_view_exactly_where_torch_says_so(x: torch.Tensor, data: st.DataObject):
    factors: list[int] = []
    rest = x.numel()
    while rest > 1:
        f = data.draw(st.sampled_from([d for d in (2, 3, 4, rest) if rest % d == 0]))
        factors.append(f)
        rest //= f
    for _ in range(data.draw(st.integers(0, 2))):
        factors.insert(data.draw(st.integers(0, len(factors))), 1)
    assert reshape(tuple(x.shape), x.stride(), factors) == by_torch(x, factors)


@given(views(), st.data())
@settings(max_examples=100, deadline=None)
def test_permute_and_contiguous(x: torch.Tensor, data: st.DataObject):
    axes = data.draw(st.permutations(range(x.ndim)))
    assert permute(x.stride(), axes) == x.permute(axes).stride()
    assert contiguous(tuple(x.shape)) == torch.empty(x.shape).stride()


def test_expand():
    x = torch.empty(3, 1, 4)
    new = (2, 3, 5, 4)
    moved = expand(tuple(x.shape), x.stride(), new)
    assert moved == x.expand(new).stride()


def test_symbolic_sizes():
    b, t = sympy.Symbol("b", positive=True), sympy.Symbol("t", positive=True)
    x = (b, t, 64)
    assert contiguous(x) == (64 * t, 64, 1)
    assert reshape(x, contiguous(x), (b, t, 8, 8)) == (64 * t, 64, 8, 1)
    assert reshape(x, contiguous(x), (b * t, 64)) == (64, 1)
    swapped = permute(contiguous(x), (1, 0, 2))
    assert reshape((t, b, 64), swapped, (t * b, 64)) is None
    # Nothing says that b is a multiple of four.
    assert reshape((b, 64), (64, 1), (4, sympy.floor(b / 4), 64)) is None
