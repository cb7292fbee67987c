"""Sets of small numbers as the bits of an int, and components of graphs over them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping


def bits(mask: int) -> list[int]:
    """The members of a set, ascending."""
    members = []
    while mask:
        low = mask & -mask
        members.append(low.bit_length() - 1)
        mask ^= low
    return members


def mask_of(members: Iterable[int]) -> int:
    """The set of the members."""
    mask = 0
    for i in members:
        mask |= 1 << i
    return mask


def union(masks: Iterable[int]) -> int:
    """The union of the sets."""
    total = 0
    for m in masks:
        total |= m
    return total


def strong_components(below: Mapping[int, int]) -> list[list[int]]:
    """Strongly connected components of the graph i -> members of ``below[i]``, children first."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    path: list[int] = []  # visited, of no component yet
    found: list[list[int]] = []

    def enter(i: int) -> tuple[int, Iterator[int]]:
        index[i] = low[i] = len(index)
        path.append(i)
        return i, iter(bits(below[i]))

    for start in below:
        stack = [enter(start)] if start not in index else []
        while stack:
            i, rest = stack[-1]
            k = next((k for k in rest if low.get(k, 0) >= 0), None)
            if k is None:
                stack.pop()
                if low[i] == index[i]:
                    found.append(_cut(path, i, low))
                elif stack:
                    low[stack[-1][0]] = min(low[stack[-1][0]], low[i])
            elif k in index:
                low[i] = min(low[i], index[k])
            else:
                stack.append(enter(k))
    return found


def _cut(path: list[int], first: int, low: dict[int, int]) -> list[int]:
    """Take the component that starts at ``first`` off the path; a negative ``low`` marks it."""
    part: list[int] = []
    while not part or part[-1] != first:
        part.append(path.pop())
        low[part[-1]] = -1
    return part


def weak_components(below: Mapping[int, int]) -> list[int]:
    """Connected components of the graph i - members of ``below[i]``, as sets, by least member."""
    parent = {i: i for i in below}

    def find(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    for i, mask in below.items():
        for k in bits(mask):
            a, b = sorted((find(i), find(k)))
            parent[b] = a
    parts: dict[int, int] = {}
    for i in sorted(below):
        parts[find(i)] = parts.get(find(i), 0) | 1 << i
    return list(parts.values())
