"""egglog as the e-graph engine: it matches patterns, closes congruences and canonicalises.

Only this file knows egglog. Its low-level bindings are used (the version is pinned), since text is
slow to parse at scale. Division of labour: egglog finds the matches of every left side and keeps
the equivalence; guards and right sides are Python, run once per match with full types. That is how
each e-node gets the law that made it, although egglog gives no proofs.

Node i is the value of ``(node i)``, which tells its class. Unions are facts that one rule turns
into unions, since egglog rebuilds the e-graph after every union that is a command of its own. And
no ``let`` is used: egglog 13.2 makes fresh names by adding digits to those of globals and confuses
them, so that ``(f $e8 $e81)`` may become ``(f $e81 $e81)``.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from typing import Any

os.environ.setdefault("RUST_BACKTRACE", "0")

from egglog import bindings as b

from superopt.errors import SaturateError
from superopt.ir.expr import Apply, Expr, Var
from superopt.rule import Rule

_SPAN = b.RustSpan("superopt", 0, 0)
_PRELUDE = """
(sort T)
(function node (i64) T :no-merge)
(relation same (T T))
(ruleset merge)
(rule ((same a b)) ((union a b)) :ruleset merge)
"""


class Interner:
    """Attribute values as integers: equal numbers mean equal values, and the other way round."""

    def __init__(self) -> None:
        self._number: dict[Any, int] = {}
        self.values: list[Any] = []

    def number(self, value: Any) -> int:
        key = (type(value).__name__, _exact(value))
        if key not in self._number:
            self._number[key] = len(self.values)
            self.values.append(value)
        return self._number[key]


def _exact(value: Any) -> Any:
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value.hex()  # tells -0.0 from 0.0
    return value


class Engine:
    """An egglog e-graph of numbered nodes, and the relation in which each rule's matches appear."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._egraph = b.EGraph()
        self._attrs = Interner()
        self._declared: set[str] = set()
        self._pending: list[Any] = []
        self._unions: list[Any] = []
        self._rules = {r.name: r for r in rules}
        self._columns = {r.name: _columns(r) for r in rules}
        self._declare_rules(rules)

    # -- building ------------------------------------------------------------------------------

    def add(self, index: int, op: str, args: Sequence[int], attrs: Sequence[Any]) -> None:
        """Make node ``index`` (queued until ``flush``)."""
        operands = [_node(a) for a in args]
        operands += [_number(self._attrs.number(v)) for v in attrs]
        term = b.Call(_SPAN, self._constructor(op, len(args), len(attrs)), operands)
        self._pending.append(_action(b.Set(_SPAN, "node", [_number(index)], term)))

    def union(self, left: int, right: int) -> None:
        """State that two nodes have one value (queued until ``flush``)."""
        fact = b.Call(_SPAN, "same", [_node(left), _node(right)])
        self._unions.append(_action(b.Expr_(_SPAN, fact)))

    def flush(self) -> None:
        """Hand all that is queued to egglog."""
        nodes, unions = self._pending, self._unions
        self._pending, self._unions = [], []
        if nodes:
            self._run(nodes)
        if unions:
            self._run([*unions, _step("merge")])

    # -- searching -----------------------------------------------------------------------------

    def search(self, group: str) -> None:
        """One iteration of the rules of a group; matches appear in the next ``snapshot``."""
        self.flush()
        self._run([_step(group)])

    def snapshot(
        self, count: int, group: str | None = None
    ) -> tuple[list[int], dict[str, list[tuple[Any, ...]]]]:
        """The class of each of the first ``count`` nodes (its smallest member), and the matches
        of a group's rules so far.

        A match is the tuple of its roots' and variables' values: class numbers for tensors, the
        attribute itself for attributes.
        """
        self.flush()
        functions = self._egraph.freeze().functions
        values = {self._egraph.value_to_i64(r.inputs[0]): r.output for r in functions["node"].rows}
        smallest: dict[Any, int] = {}
        canon = [smallest.setdefault(values[i], i) for i in range(count)]
        matches = {
            name: [self._row(row.inputs, columns, smallest) for row in functions[f"m_{name}"].rows]
            for name, columns in self._columns.items()
            if self._rules[name].group == group
        }
        return canon, matches

    def columns(self, rule: str) -> list[tuple[str, str]]:
        """(column, sort) of a rule's matches: its roots, then its variables."""
        return self._columns[rule]

    def _row(self, inputs: Sequence[Any], columns: Any, smallest: dict[Any, int]) -> tuple:
        return tuple(
            smallest[v] if sort == "T" else self._attrs.values[self._egraph.value_to_i64(v)]
            for v, (_, sort) in zip(inputs, columns, strict=True)
        )

    # -- declarations --------------------------------------------------------------------------

    def _constructor(self, op: str, arity: int, attrs: int) -> str:
        name = f"t_{op}_{arity}"
        if name not in self._declared:
            self._declared.add(name)
            sorts = " ".join(["T"] * arity + ["i64"] * attrs)
            self._run(self._parse(f"(constructor {name} ({sorts}) T)"))
        return name

    def _declare_rules(self, rules: Sequence[Rule]) -> None:
        # One text a rule: spans carry their whole text about, so that one long text is slow.
        groups = dict.fromkeys(["recognition", "algebra", "kernels", *(r.group for r in rules)])
        self._run(self._parse(_PRELUDE + "".join(f"(ruleset {group})" for group in groups)))
        for rule in rules:
            columns = self._columns[rule.name]
            sorts = " ".join(sort for _, sort in columns)
            names = " ".join(name for name, _ in columns)
            body = " ".join(f"(= r{i} {self._pattern(p)})" for i, p in enumerate(rule.patterns))
            self._run(
                self._parse(
                    f"(relation m_{rule.name} ({sorts}))"
                    f"(rule ({body}) ((m_{rule.name} {names})) "
                    f':ruleset {rule.group} :name "{rule.name}")'
                )
            )

    def _pattern(self, e: Expr) -> str:
        if isinstance(e, Var):
            return f"v_{e.name}"
        if not isinstance(e, Apply):
            raise SaturateError(f"{e} cannot stand in a pattern")
        parts = [self._pattern(a) for a in e.args]
        parts += [
            f"v_{v.name}" if isinstance(v, Var) else str(self._attrs.number(v)) for v in e.attrs
        ]
        name = self._constructor(e.op.name, len(e.args), len(e.attrs))
        return f"({' '.join([name, *parts])})"

    def _parse(self, text: str) -> list[Any]:
        return self._egraph.parse_program(text)

    def _run(self, commands: Iterable[Any]) -> None:
        try:
            self._egraph.run_program(*commands)
        except BaseException as e:  # a panic in egglog is no Exception
            if isinstance(e, KeyboardInterrupt | SystemExit):
                raise
            raise SaturateError(f"egglog: {type(e).__name__}: {e}") from e


def _columns(rule: Rule) -> list[tuple[str, str]]:
    """(egglog variable, sort) of each column of a rule's match relation: roots, then variables."""
    sorts: dict[str, str] = {}

    def visit(e: Any, sort: str) -> None:
        if isinstance(e, Var):
            sorts[e.name] = sort
        elif isinstance(e, Apply):
            for a in e.args:
                visit(a, "T")
            for v in e.attrs:
                visit(v, "i64")

    for p in rule.patterns:
        visit(p, "T")
    roots = [(f"r{i}", "T") for i in range(len(rule.patterns))]
    return roots + [(f"v_{v}", sorts[v]) for v in rule.variables]


def _number(i: int) -> Any:
    return b.Lit(_SPAN, b.Int(i))


def _node(i: int) -> Any:
    return b.Call(_SPAN, "node", [_number(i)])


def _action(action: Any) -> Any:
    return b.ActionCommand(action)


def _step(ruleset: str) -> Any:
    """One iteration of a ruleset."""
    return b.RunSchedule(b.Run(_SPAN, b.RunConfig(ruleset)))
