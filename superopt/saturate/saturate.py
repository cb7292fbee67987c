"""Equality saturation: a graph and a set of laws in, an e-graph of equal programs out."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from superopt.errors import RuleError
from superopt.ir.egraph import EClass, EGraph, ENode
from superopt.ir.expr import Apply, Expr, Ref
from superopt.ir.graph import Graph
from superopt.ir.types import Type
from superopt.ops.op import Op
from superopt.rule import Rule
from superopt.saturate.engine import Engine
from superopt.saturate.policy import Limits, Policy, State, Step, Stop, phased


@dataclass
class Report:
    """How a saturation went: why it stopped, its steps, matches applied per rule, sizes."""

    stop: str = ""
    steps: list[Step] = field(default_factory=list)
    applied: Counter[str] = field(default_factory=Counter)
    nodes_before: int = 0
    nodes: int = 0
    classes: int = 0
    seconds: float = 0.0


@dataclass
class _Node:
    op: Op
    args: tuple[int, ...]
    attrs: tuple[Any, ...]
    type: Type
    law: str


def saturate(
    graph: Graph,
    rules: Sequence[Rule],
    *,
    limits: Limits | None = None,
    policy: Policy | None = None,
) -> tuple[EGraph, Report]:
    """All programs that the rules find equal to ``graph``, and how the search went.

    Deterministic for a given graph, rules and policy. Raises SaturateError when egglog fails, and
    RuleError when a rule is ill-typed or merges values of different types.
    """
    limits = limits or Limits()
    run = _Saturation(graph, rules, limits)
    return run.run(policy or phased(limits))


class _Saturation:
    def __init__(self, graph: Graph, rules: Sequence[Rule], limits: Limits) -> None:
        self.limits = limits
        self.graph = graph
        self.rules = {r.name: r for r in rules}
        self.by_group: dict[str, list[Rule]] = {}
        for r in rules:
            self.by_group.setdefault(r.group, []).append(r)
        self.engine = Engine(rules)
        self.nodes: list[_Node] = []
        self.canon: list[int] = []
        self.index: dict[tuple, int] = {}
        self.unions: list[tuple[int, int, str]] = []
        self.packs: dict[int, tuple[int, ...]] = {}
        self.seen: set[tuple] = set()
        self.report = Report()
        where: dict[int, int] = {}
        for i in graph.live():
            n = graph.nodes[i]
            where[i] = self.add(n.op, tuple(where[a] for a in n.args), n.attrs, n.type, n.law)
        self.roots = [where[i] for i in graph.outputs]
        self.report.nodes_before = len(self.nodes)

    def run(self, policy: Policy) -> tuple[EGraph, Report]:
        start = time.perf_counter()
        state = State(nodes=len(self.nodes), classes=len(self.nodes), log=self.report.steps)
        while not isinstance(action := policy(state), Stop):
            self.step(action.group, action.cap)
            state.nodes = len(self.nodes)
            state.classes = len(set(self.canon))
            state.seconds = time.perf_counter() - start
        self.refresh()
        self.report.stop = action.reason
        egraph = self.export()
        self.report.nodes, self.report.classes = egraph.node_count, len(egraph.classes)
        self.report.seconds = time.perf_counter() - start
        return egraph, self.report

    # -- one step ------------------------------------------------------------------------------

    def step(self, group: str, cap: int) -> None:
        begin = time.perf_counter()
        self.engine.search(group)
        matches = self.refresh(group)
        before, unions, found, applied = len(self.nodes), len(self.unions), 0, 0
        for rule in self.by_group.get(group, ()):
            fresh = self._fresh(rule, matches[rule.name])
            found += len(fresh)
            for match in fresh[:cap]:
                if len(self.nodes) >= self.limits.nodes:
                    break
                applied += self._apply(rule, match)
                self.seen.add((rule.name, match))
        created, merged = len(self.nodes) - before, len(self.unions) - unions
        seconds = time.perf_counter() - begin
        self.report.steps.append(Step(group, cap, found, applied, created, merged, seconds))

    def _fresh(self, rule: Rule, rows: list[tuple]) -> list[tuple]:
        """Matches not handled yet, in a fixed order; for a collecting rule, whole groups."""
        rows = list(dict.fromkeys(rows))
        if rule.collect is not None:
            rows = self._collect(rule, rows)
        return sorted((r for r in rows if (rule.name, r) not in self.seen), key=_order)

    def _collect(self, rule: Rule, rows: list[tuple]) -> list[tuple]:
        count = len(rule.patterns)
        at = count + rule.variables.index(rule.collect or "")
        groups: dict[tuple, list[tuple]] = {}
        for r in rows:
            if self.nodes[r[at]].law == rule.name:
                continue  # its own product: gathering it again would never end
            key = tuple(v for i, v in enumerate(r) if i >= count and i != at)
            groups.setdefault(key, []).append(r)
        out = []
        for members in groups.values():
            members = sorted(members, key=_order)
            first = members[0]
            roots = tuple(m[0] for m in members)
            values = tuple(m[at] for m in members)
            out.append(
                (roots, *(values if i == at else v for i, v in enumerate(first) if i >= count))
            )
        return out

    def _apply(self, rule: Rule, match: tuple) -> bool:
        count = len(rule.patterns)
        roots = match[0] if rule.collect is not None else match[:count]
        binding = dict(
            zip(rule.variables, match[count if rule.collect is None else 1 :], strict=True)
        )
        try:
            sides = rule.apply(self._typed(rule, binding))
        except RuleError:
            raise
        except Exception as e:
            raise RuleError(f"rule {rule.name} ({rule.where}): {type(e).__name__}: {e}") from e
        if sides is None:
            return False
        for root, right in zip(roots, sides[1], strict=True):
            value = self.insert(right, rule.name)
            if self.find(value) != self.find(root):
                self._same_type(rule.name, root, value)
                self.engine.union(root, value)
                self.unions.append((root, value, rule.name))
        self.report.applied[rule.name] += 1
        return True

    def _typed(self, rule: Rule, binding: dict[str, Any]) -> dict[str, Any]:
        tensors = {name[2:] for name, sort in self.engine.columns(rule.name) if sort == "T"}

        def ref(v: Any) -> Any:
            return tuple(map(self.ref, v)) if isinstance(v, tuple) else self.ref(v)

        return {k: ref(v) if k in tensors else v for k, v in binding.items()}

    def _same_type(self, law: str, left: int, right: int) -> None:
        a, b = self.nodes[left].type, self.nodes[right].type
        if a != b:
            raise RuleError(f"rule {law} equates {a} with {b}")

    # -- nodes ---------------------------------------------------------------------------------

    def ref(self, i: int) -> Ref:
        items = tuple(self.ref(self.find(a)) for a in self.packs.get(i, ()))
        return Ref(i, self.nodes[i].type, items)

    def find(self, i: int) -> int:
        return self.canon[i]

    def insert(self, e: Expr, law: str) -> int:
        if isinstance(e, Ref):
            return e.id
        assert isinstance(e, Apply), e
        args = tuple(self.insert(a, law) for a in e.args)
        return self.add(e.op, args, e.attrs, e.type, law)

    def add(self, op: Op, args: tuple[int, ...], attrs: tuple, type_: Type, law: str) -> int:
        args = tuple(self.find(a) for a in args)
        key = (op.name, args, attrs)
        if key not in self.index:
            i = len(self.nodes)
            self.nodes.append(_Node(op, args, attrs, type_, law))
            self.canon.append(i)
            self.index[key] = i
            if op.name == "pack":
                self.packs[i] = args
            self.engine.add(i, op.name, args, attrs)
        return self.index[key]

    def refresh(self, group: str | None = None) -> dict[str, list[tuple]]:
        """Take over egglog's classes, checking that only equal types became one; then matches."""
        self.canon, matches = self.engine.snapshot(len(self.nodes), group)
        canon, nodes = self.canon, self.nodes
        self.index, self.packs = {}, {}
        for i, n in enumerate(nodes):
            n.args = tuple([canon[a] for a in n.args])
            self.index.setdefault((n.op.name, n.args, n.attrs), i)
            if n.op.name == "pack":
                self.packs.setdefault(canon[i], n.args)
            if canon[i] != i and n.type != nodes[canon[i]].type:
                raise RuleError(
                    f"{n.type} and {nodes[canon[i]].type} became one value; the last laws applied: "
                    f"{', '.join(dict.fromkeys(law for *_, law in self.unions[-8:]))}"
                )
        return matches

    # -- result --------------------------------------------------------------------------------

    def export(self) -> EGraph:
        classes: dict[int, EClass] = {}
        known: set[tuple] = set()
        for i, n in enumerate(self.nodes):
            c = self.canon[i]
            key = (c, n.op.name, n.args, n.attrs)
            cls = classes.setdefault(c, EClass(self.nodes[c].type, []))
            if key not in known:
                known.add(key)
                cls.nodes.append(ENode(n.op, n.args, n.attrs, n.law))
        roots = [self.canon[r] for r in self.roots]
        return EGraph(classes, roots, self.graph.hints)


def _order(row: tuple) -> tuple:
    return tuple(v if isinstance(v, int) else -1 for v in row), str(row)
