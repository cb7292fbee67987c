"""The price of one e-node, in seconds: what extraction adds up.

A sum over nodes cannot know which nodes will share a kernel. So a pointwise node is priced as part
of a kernel that exists anyway, a node that starts a kernel pays for its launch, and a value between
two fused nodes counts half its bytes at each end. The price of a whole plan (``price_plan``) has no
such guesses; extraction offers it several programs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from superopt.cost.card import Card
from superopt.cost.price import BURDEN, Burden, body_seconds, seconds
from superopt.cost.works import gemm_work, operator_work
from superopt.ir.egraph import EGraph, ENode
from superopt.ir.plan import Work
from superopt.ops.op import Kind
from superopt.ops.opaque import Opaque

# Seconds that every operator costs beyond its price, so that of two programs of equal price the
# one with fewer operators wins. Far below anything that can be measured.
OPERATOR_S = 1e-9
VIEW_S = 1e-10


class NodePricer:
    """``pricer(egraph, class_id, enode)``: seconds of latency + lam * C (see ``Burden``).

    leaf                    0
    view, layout            0 but for a tie-break; whether a reshape must copy is not known yet
    concat                  a kernel that copies
    pointwise               half the bytes read and written, no launch; arithmetic overlaps
    row, reduce, opaque     a kernel that moves its operands and its result
    contract                the vendor's product
    gemm                    the generated product's ``work``; infinite where it cannot run

    With ``freeze`` what is computed from parameters and numbers alone is computed once, and costs
    nothing but the tie-break. C holds launches and copied bytes here; peak memory belongs to
    plans. Deterministic, and never negative.
    """

    def __init__(
        self,
        card: Card,
        *,
        freeze: bool = False,
        lam: float = 0.0,
        burden: Burden = BURDEN,
        precision: str = "highest",
    ) -> None:
        self.card = card
        self.freeze = freeze
        self.lam = lam
        self.burden = burden
        self.precision = precision
        self._known: tuple[EGraph | None, int, frozenset[int]] = (None, 0, frozenset())

    def __call__(self, egraph: EGraph, class_id: int, enode: ENode) -> float:
        kind = enode.op.kind
        if kind is Kind.LEAF:
            return 0.0
        if self.freeze and _pure(enode) and self._constants(egraph).issuperset(enode.args):
            return VIEW_S
        if kind is Kind.LAYOUT and enode.op.name != "concat":
            return VIEW_S
        work = self.work(egraph, class_id, enode)
        if work is None:
            return math.inf
        if kind is Kind.POINTWISE:
            return OPERATOR_S + body_seconds(work, self.card, precision=self.precision)
        copied = work.read + work.write if kind is Kind.LAYOUT else 0.0
        latency = seconds(work, self.card, precision=self.precision)
        return OPERATOR_S + latency + self.lam * self.burden.seconds(work.launches, copied)

    def work(self, egraph: EGraph, class_id: int, enode: ENode) -> Work | None:
        """What the node asks of the card; None where it cannot run."""
        types = [egraph.classes[a].type for a in enode.args]
        out, hints = egraph.classes[class_id].type, egraph.hints
        if enode.op.name == "gemm":
            return gemm_work(types, enode.attrs, hints, self.card, self.precision)
        share = 0.5 if enode.op.kind is Kind.POINTWISE else 1.0
        read = sum(egraph.classes[a].type.nbytes(hints) for a in dict.fromkeys(enode.args))
        write = out.nbytes(hints)
        return operator_work(enode.op, types, out, enode.attrs, hints, share * read, share * write)

    def _constants(self, egraph: EGraph) -> frozenset[int]:
        known, count, classes = self._known
        if known is not egraph or count != egraph.node_count:
            classes = constant_classes(egraph)
            self._known = (egraph, egraph.node_count, classes)
        return classes


def constant_classes(egraph: EGraph) -> frozenset[int]:
    """Classes with a node that only parameters and numbers feed: the least such set."""
    waiting: dict[int, list[list[int]]] = {}
    ready: list[int] = []
    for class_id, enode in _nodes(egraph):
        args = set(enode.args)
        if not _pure(enode) or (enode.op.name == "input" and not _is_parameter(enode)):
            continue
        entry = [len(args), class_id]
        for a in args:
            waiting.setdefault(a, []).append(entry)
        if not args:
            ready.append(class_id)
    found: set[int] = set()
    while ready:
        class_id = ready.pop()
        if class_id in found:
            continue
        found.add(class_id)
        for entry in waiting.get(class_id, ()):
            entry[0] -= 1
            if entry[0] == 0:
                ready.append(entry[1])
    return frozenset(found)


def _nodes(egraph: EGraph) -> Iterator[tuple[int, ENode]]:
    for class_id, eclass in egraph.classes.items():
        for enode in eclass.nodes:
            yield class_id, enode


def _is_parameter(enode: ENode) -> bool:
    return enode.attrs[enode.op.attrs.index("role")] == "param"


def _pure(enode: ENode) -> bool:
    """False for random and effectful operators, which run at every call."""
    numbered = any(isinstance(a, Opaque) and a.uid is not None for a in enode.attrs)
    return enode.op.pure and not numbered
