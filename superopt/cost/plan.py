"""The price of a whole plan: seconds, launches, bytes moved, and the most memory held at once."""

from __future__ import annotations

import math
from collections.abc import Iterator

from superopt.cost.card import Card
from superopt.cost.price import BURDEN, Burden, PlanPrice, objective, seconds
from superopt.cost.works import flops, gemm_step_work, operand_dtype
from superopt.errors import CostModelError
from superopt.ir.dims import hint, product, same
from superopt.ir.graph import Graph, Node
from superopt.ir.plan import Plan, Step, Work
from superopt.ir.types import TensorType, Type
from superopt.ops.op import Kind

NOTHING = Work(launches=0)


def price_plan(
    plan: Plan,
    card: Card,
    *,
    lam: float = 0.0,
    burden: Burden = BURDEN,
    precision: str = "highest",
    spilled: float = 0.0,
) -> PlanPrice:
    """Sums over the steps of one call; steps placed "once" cost nothing but the memory they keep.

    ``seconds`` is the latency, infinite when a kernel cannot run on the card; ``objective`` is
    latency + lam * C. A value that the step before has just written counts as cached when it fits
    in the L2 of a card whose ``l2_gbs`` is known. ``spilled`` is what its kernels spill, in bytes.
    """
    works = [
        NOTHING if s.placement == "once" else work_of(s, plan, card, precision) for s in plan.steps
    ]
    times = []
    previous: tuple[int, ...] = ()
    for step, work in zip(plan.steps, works, strict=True):
        hot = sum(_hot(i, plan, card) for i in step.inputs if i in previous)
        times.append(seconds(work, card, precision=precision, cached=hot))
        previous = step.outputs if work.launches else (*previous, *step.outputs)
    price = PlanPrice(
        seconds=math.fsum(times),
        per_step=tuple(times),
        launches=sum(w.launches for w in works),
        traffic=math.fsum(w.read + w.write for w in works),
        peak_bytes=peak_bytes(plan),
        copied=math.fsum(_copied(s, w, plan.graph) for s, w in zip(plan.steps, works, strict=True)),
        spilled=spilled,
    )
    total = objective(price, lam, burden)
    return PlanPrice(**{**vars(price), "objective": total})


def work_of(step: Step, plan: Plan, card: Card, precision: str = "highest") -> Work:
    """What one step asks of the card; infinite FLOPs where its kernel cannot run on it.

    Raises CostModelError for a family that it does not know.
    """
    if step.family == "view":
        return NOTHING
    if step.family == "aten":
        return _aten(step, plan)
    if step.family == "gemm":
        work = gemm_step_work(step, plan, card, precision)
        return Work(flops=math.inf) if work is None else work
    if step.family == "region":
        from superopt.kernels import region

        return region.work(step, plan.graph)
    raise CostModelError(f"no price for a step of family {step.family!r}")


def peak_bytes(plan: Plan) -> float:
    """The most bytes that the plan's own values hold at once.

    A value lives from the step that writes it to the last that reads it, directly or through a
    view; an output of the plan and what is computed once live on. Inputs and parameters belong to
    the caller and are not counted.
    """
    owners = _Owners(plan)
    last: dict[int, int] = {}
    for t, step in enumerate(plan.steps):
        for i in (*step.outputs, *step.inputs):
            last.update(dict.fromkeys(owners.of(i), t))
    for i in plan.graph.outputs:
        last.update(dict.fromkeys(owners.of(i), len(plan.steps)))
    change = [0] * (len(plan.steps) + 2)
    for i, birth in owners.birth.items():
        size = plan.graph.nodes[i].type.nbytes(plan.graph.hints)
        kept = plan.steps[birth].placement == "once"
        change[0 if kept else birth] += size
        change[len(plan.steps) + 1 if kept else last[i] + 1] -= size
    held = peak = 0
    for delta in change:
        held += delta
        peak = max(peak, held)
    return float(peak)


class _Owners:
    """Which buffers of the plan hold each value: itself, or what it is a view of."""

    def __init__(self, plan: Plan) -> None:
        self.graph = plan.graph
        self.birth: dict[int, int] = {}
        self.views: dict[int, Step] = {}
        for t, step in enumerate(plan.steps):
            for i in step.outputs:
                if step.family == "view":
                    self.views[i] = step
                else:
                    self.birth[i] = t

    def of(self, index: int) -> set[int]:
        found: set[int] = set()
        seen: set[int] = set()
        stack = [index]
        while stack:
            i = stack.pop()
            if i in seen:
                continue
            seen.add(i)
            if i in self.birth:
                found.add(i)
            elif i in self.views:
                stack.extend(self.views[i].inputs)
            elif self.graph.nodes[i].op.kind is Kind.LAYOUT:
                stack.extend(self.graph.nodes[i].args)
        return found


def _aten(step: Step, plan: Plan) -> Work:
    """One torch operator: the library's product, or a kernel that moves operands and results."""
    graph = plan.graph
    nodes = [graph.nodes[i] for i in step.nodes]
    products = [n for n in nodes if n.op.kind in (Kind.CONTRACT, Kind.KERNEL)]
    first = (products or nodes)[0]
    return Work(
        engine="library" if products else "simt",
        flops=sum(flops(n.op, _types(n, graph), n.type, n.attrs, graph.hints) for n in nodes),
        read=sum(distinct_bytes(i, plan) for i in dict.fromkeys(step.inputs)),
        write=sum(graph.nodes[i].type.nbytes(graph.hints) for i in step.outputs),
        dtype=operand_dtype(_types(first, graph)),
    )


def distinct_bytes(index: int, plan: Plan) -> int:
    """Bytes of a value, each element of memory once: an axis of stride 0 counts one element."""
    type_, strides = plan.graph.nodes[index].type, plan.strides.get(index)
    if not isinstance(type_, TensorType) or not strides:
        return type_.nbytes(plan.graph.hints)
    sizes = [d for d, s in zip(type_.shape, strides, strict=True) if not same(s, 0)]
    return hint(product(sizes), plan.graph.hints) * type_.dtype.itemsize


def _types(node: Node, graph: Graph) -> list[Type]:
    return [graph.nodes[a].type for a in node.args]


def _hot(index: int, plan: Plan, card: Card) -> int:
    size = plan.graph.nodes[index].type.nbytes(plan.graph.hints)
    return size if size <= card.l2_bytes else 0


def _copied(step: Step, work: Work, graph: Graph) -> float:
    """Bytes of a step that only moves elements."""
    kinds: Iterator[Kind] = (graph.nodes[i].op.kind for i in step.nodes)
    return work.read + work.write if all(k is Kind.LAYOUT for k in kinds) else 0.0
