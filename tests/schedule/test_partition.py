"""Blocks stay in a valid order, whatever is merged."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from superopt.schedule.partition import Partition


def test_a_path_through_a_third_block_forbids_a_merge():
    p = Partition({0: set(), 1: {0}, 2: {0, 1}})
    assert p.merge(0, 2) is None
    assert p.merge(1, 2) == 1
    assert p.merge(0, 1) == 0
    assert p.ordered() == [[0, 1, 2]]


def test_a_path_between_blocks_counts_too():
    # 0 -> 1, 2 -> 3: once 1 and 2 are one block, it leads from 0 to 3.
    p = Partition({0: set(), 1: {0}, 2: set(), 3: {2}})
    p.merge(1, 2)
    assert p.merge(0, 3) is None


@given(st.data())
def test_random_merges(data: st.DataObject):
    count = data.draw(st.integers(1, 12))
    node = st.integers(0, count - 1)
    needs = {
        i: data.draw(st.sets(st.integers(0, i - 1), max_size=3)) if i else set()
        for i in range(count)
    }
    p = Partition(needs)
    for one, other in data.draw(st.lists(st.tuples(node, node), max_size=12)):
        if p.block(one) != p.block(other):
            p.merge(p.block(one), p.block(other))
        place = {i: k for k, block in enumerate(p.ordered()) for i in block}
        assert place.keys() == needs.keys()
        assert all(place[e] <= place[i] for i, earlier in needs.items() for e in earlier)
