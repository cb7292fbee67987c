"""Make a table smaller without losing its cheapest plan.

Each step is linear or nearly so; together they run until nothing changes:

* drop rows that no plan can use: what they need cannot be made, or cannot be made without them;
* force what every plan makes: it is paid anyway, so needing it costs nothing;
* drop rows that another row of the class replaces at no greater cost;
* inline classes with one row into the rows that need them.

What a class *implies* is what every way to make it makes: itself, and what all its rows imply. It
is the key to all of these, and to a tight integer program.
"""

from __future__ import annotations

import math

from superopt.errors import ExtractError
from superopt.extract.masks import bits, mask_of, strong_components, union
from superopt.extract.table import Row, Table

_EFFORT = 200_000  # evaluations of a row per pass of ``row_implications`` over one component


def reduce(table: Table, *, lossless: bool = False, limit: float = math.inf) -> None:
    """Reduce in place. Keeps a cheapest plan; when ``lossless``, all plans.

    Plans that cost more than ``limit`` may be dropped. Raises ExtractError if the goal cannot be
    made.
    """
    before = None
    while table.size != before:
        before = table.size
        _drop_impossible(table)
        components = strong_components(table.below())
        implied = implications(table, components)
        made = {c: [joined(r.need, implied) for r in rows] for c, rows in table.rows.items()}
        _drop_circular(table, made)
        _force(table, components, implied)
        if not lossless:
            if not math.isinf(limit):
                _drop_dear(table, made, limit)
            _drop_dominated(table, made)
        _inline(table)
        _settle(table)


def implications(table: Table, components: list[list[int]]) -> dict[int, int]:
    """For every class, the classes that every acyclic way to make it makes, itself included.

    ``components`` are the strong ones, children first.
    """
    everything = mask_of(table.rows)
    implied: dict[int, int] = {}
    for part in components:
        implied.update(dict.fromkeys(part, everything))
        _meet(table, part, implied, everything)
    return implied


def _meet(table: Table, part: list[int], implied: dict[int, int], everything: int) -> None:
    """Lower ``implied`` of the classes of a strong component to its greatest fixed point."""
    changed = True
    while changed:
        changed = False
        for c in part:
            new = everything
            for r in table.rows[c]:
                new &= joined(r.need, implied)
            new |= 1 << c
            changed |= new != implied[c]
            implied[c] = new
        changed &= len(part) > 1


def joined(need: int, implied: dict[int, int]) -> int:
    """All that the members of ``need`` imply."""
    total = 0
    for k in bits(need):
        total |= implied[k]
    return total


def row_implications(
    table: Table, components: list[list[int]], implied: dict[int, int]
) -> dict[int, list[int]]:
    """For every row of every class, the classes that are made below it in every plan with it.

    Those are what its needs imply once its own class is no way to make them. In large components,
    where finding that for every class takes long, what they imply anyway: some of these.
    """
    everything = mask_of(table.rows)
    made: dict[int, list[int]] = {}
    for part in components:
        rows = sum(len(table.rows[c]) for c in part)
        exact = len(part) > 1 and len(part) * rows <= _EFFORT
        for c in part:
            without = implied
            if exact:
                without = {**implied, **dict.fromkeys(part, everything)}
                _meet(table, [k for k in part if k != c], without, everything)
            made[c] = [joined(r.need, without) for r in table.rows[c]]
    return made


def _drop_impossible(table: Table) -> None:
    """Drop rows that need what cannot be made, and classes that cannot be needed."""
    waiting = {(c, i): r.need.bit_count() for c, rs in table.rows.items() for i, r in enumerate(rs)}
    users: dict[int, list[tuple[int, int]]] = {}
    for c, i in waiting:
        for k in bits(table.rows[c][i].need):
            users.setdefault(k, []).append((c, i))
    made: set[int] = set()
    ready = [c for (c, _), n in waiting.items() if n == 0]
    while ready:
        c = ready.pop()
        if c in made:
            continue
        made.add(c)
        for user in users.get(c, ()):
            waiting[user] -= 1
            if not waiting[user]:
                ready.append(user[0])
    for c in bits(table.goal):
        if c not in made:
            raise ExtractError(f"class {table.names[c]} has no finite, acyclic way to be made")
    can = mask_of(made)
    rows = {c: [r for r in rs if not r.need & ~can] for c, rs in table.rows.items() if c in made}
    needed, stack = table.goal, bits(table.goal)
    while stack:
        new = union(r.need for r in rows[stack.pop()]) & ~needed
        needed |= new
        stack.extend(bits(new))
    table.rows = {c: rs for c, rs in rows.items() if needed >> c & 1}


def _drop_circular(table: Table, made: dict[int, list[int]]) -> None:
    """Drop rows that need what cannot be made without their own class."""
    for c, rows in table.rows.items():
        keep = [i for i, below in enumerate(made[c]) if not below >> c & 1]
        table.rows[c] = [rows[i] for i in keep]
        made[c] = [made[c][i] for i in keep]


def _force(table: Table, components: list[list[int]], implied: dict[int, int]) -> None:
    """Put all that the goal implies into the goal, and drop the needs of it.

    A need inside a strong component stays: it still orders the two classes.
    """
    table.goal = union(implied[c] for c in bits(table.goal))
    for part in components:
        free = table.goal & ~mask_of(part)
        for c in part:
            table.rows[c] = [Row(r.node, r.cost, r.need & ~free) for r in table.rows[c]]


def _drop_dear(table: Table, made: dict[int, list[int]], limit: float) -> None:
    """Drop rows whose plans cost more than the limit, at the least price of all they imply."""
    forced = table.goal
    least = {c: min((r.cost for r in rows), default=0.0) for c, rows in table.rows.items()}
    base = table.fixed + math.fsum(least[c] for c in bits(forced))
    slack = limit + 1e-9 * abs(limit) - base
    for c, rows in table.rows.items():
        own = 0.0 if forced >> c & 1 else least[c]
        keep = []
        for i, below in enumerate(made[c]):
            more = math.fsum(least[k] for k in bits(below & ~forced))
            if own + (rows[i].cost - least[c]) + more <= slack:
                keep.append(i)
        table.rows[c] = [rows[i] for i in keep]
        made[c] = [made[c][i] for i in keep]


def _drop_dominated(table: Table, made: dict[int, list[int]]) -> None:
    """Drop rows that a row of the same class can replace in every plan at no greater cost.

    It can if the plan makes its needs anyway, below the class, or if they are leaves, whose cost
    then counts.
    """
    leaf = {c: rs[0].cost for c, rs in table.rows.items() if len(rs) == 1 and not rs[0].need}
    leaves = mask_of(leaf)
    for c, rows in table.rows.items():
        kept: list[Row] = []
        both = zip(rows, made[c], strict=True)
        for r, below in sorted(both, key=lambda b: (b[0].cost, b[0].need.bit_count(), b[0].node)):
            for other in kept:
                missing = other.need & ~below
                if missing & ~leaves:
                    continue
                if not missing or other.cost + sum(leaf[k] for k in bits(missing)) <= r.cost:
                    break
            else:
                kept.append(r)
        table.rows[c] = sorted(kept, key=lambda r: r.node)


def _inline(table: Table) -> None:
    """Let every need of a class with one row need that row's needs, so that the class is a leaf.

    A leaf that costs nothing is no need.
    """
    single = {c: rs[0] for c, rs in table.rows.items() if len(rs) == 1}
    whole: dict[int, int] = {}
    for (c,) in (p for p in strong_components(_single_needs(single)) if len(p) == 1):
        row = single[c]
        inner = union(whole.get(k, 1 << k) for k in bits(row.need))
        whole[c] = inner | (1 << c if row.cost else 0)
    for c, rows in table.rows.items():
        table.rows[c] = [
            Row(r.node, r.cost, union(whole.get(k, 1 << k) for k in bits(r.need))) for r in rows
        ]
    goal = table.goal
    table.goal = union(whole.get(c, 1 << c) for c in bits(goal))
    for c in whole:
        if single[c].cost:
            table.rows[c] = [Row(single[c].node, single[c].cost, 0)]
        else:
            table.picks[table.names[c]] = single[c].node
            del table.rows[c]


def _single_needs(single: dict[int, Row]) -> dict[int, int]:
    among = mask_of(single)
    return {c: r.need & among for c, r in single.items()}


def _settle(table: Table) -> None:
    """Decide leaves that every plan pays; fold those that the same rows need into one, or into
    the row if there is but one."""
    leaves = {c: rs[0] for c, rs in table.rows.items() if len(rs) == 1 and not rs[0].need}
    among = mask_of(leaves)
    users: dict[int, list[tuple[int, int]]] = {c: [] for c in leaves}
    for c, rows in table.rows.items():
        for i, r in enumerate(rows):
            for k in bits(r.need & among):
                users[k].append((c, i))
    paid = [c for c in leaves if table.goal >> c & 1]
    together: dict[tuple[tuple[int, int], ...], list[int]] = {}
    for c in leaves:
        if not table.goal >> c & 1:
            together.setdefault(tuple(users[c]), []).append(c)
    table.fixed += math.fsum(leaves[c].cost for c in paid)
    for key, group in together.items():
        cost = math.fsum(leaves[c].cost for c in group)
        if len(key) == 1:
            c, i = key[0]
            r = table.rows[c][i]
            table.rows[c][i] = Row(r.node, r.cost + cost, r.need)
        else:
            first = group.pop(0)
            table.rows[first] = [Row(leaves[first].node, cost, 0)]
    settled = [*paid, *(c for group in together.values() for c in group)]
    for c in settled:
        table.picks[table.names[c]] = leaves[c].node
        del table.rows[c]
    gone = mask_of(settled)
    table.goal &= ~gone
    for c, rows in table.rows.items():
        table.rows[c] = [Row(r.node, r.cost, r.need & ~gone) for r in rows]
