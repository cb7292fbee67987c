"""From a graph to a plan: blocks of nodes become steps, each of a family of kernels."""

from __future__ import annotations

from superopt.ir.graph import Graph
from superopt.ir.plan import Plan, Step
from superopt.kernels.region.space import fits, inputs, outputs, readers, source
from superopt.ops.op import Kind
from superopt.schedule.effects import TRANSPARENT, has_effect, needs
from superopt.schedule.fuse import fuse, with_broadcasts
from superopt.schedule.partition import Partition
from superopt.schedule.strides import value_strides


def schedule(graph: Graph, *, generate: bool = True) -> Plan:
    """The plan that computes a graph's outputs.

    Steps come in an order in which every value exists before it is read and effects keep theirs.
    Families: "region" (one generated kernel for pointwise and row nodes), the name of a kernel
    operator ("gemm"), "aten" (torch runs the one node) and "view" (no work). With ``generate``
    False no kernel is generated. Every "aten" result is contiguous, whatever strides torch gives
    it, except an opaque operator's; a number among a step's arguments is not among its ``inputs``.
    """
    strides, copies = value_strides(graph)
    read = readers(graph)
    before = needs(graph)
    partition = Partition(before)
    fusible = {i for i in before if generate and fits(graph, [i], read)}
    fuse(graph, partition, fusible)
    writer = _Writer(graph, copies, generate, read)
    for block in partition.ordered():
        writer.block(block, fusible)
    for i in graph.outputs:
        writer.provide(i)
    return Plan(graph, writer.steps, strides)


class _Writer:
    """Writes steps; broadcasts and packs get one of their own when first something needs it."""

    def __init__(self, graph: Graph, copies: set[int], generate: bool, read: dict[int, list[int]]):
        self.graph, self.copies, self.generate, self.read = graph, copies, generate, read
        self.steps: list[Step] = []
        self.written: set[int] = set()

    def block(self, members: list[int], fusible: set[int]) -> None:
        """Append the step that computes a block."""
        if members[0] in fusible:
            self.region(with_broadcasts(self.graph, members))
        else:
            (i,) = members
            self.single(i, self.family(i))

    def region(self, nodes: list[int]) -> None:
        """Append one generated kernel for ``nodes``."""
        results = outputs(self.graph, nodes, self.read)
        self.append(Step("region", tuple(nodes), tuple(inputs(self.graph, nodes)), tuple(results)))

    def single(self, i: int, family: str) -> None:
        """Append a step of one node."""
        node = self.graph.nodes[i]
        values = [a for a in node.args if self.graph.nodes[a].op.name != "scalar"]
        if node.op.kind is Kind.KERNEL and family != "aten":
            values = [b for a in values for b in self.unpack(a)]
        reads = tuple(dict.fromkeys(values))
        self.append(Step(family, (i,), reads, (i,), effects=has_effect(node)))

    def unpack(self, value: int) -> list[int]:
        """The tensors of a pack, which a generated kernel reads one by one."""
        node = self.graph.nodes[value]
        if node.op.name != "pack":
            return [value]
        return [a for a in node.args if self.graph.nodes[a].op.name != "scalar"]

    def family(self, i: int) -> str:
        """Which kernels run a node that shares its step with no other."""
        op = self.graph.nodes[i].op
        if op.kind is Kind.KERNEL and self.generate:
            return op.name
        if op.kind is Kind.LAYOUT and op.name != "concat" and i not in self.copies:
            return "view"
        return "aten"

    def append(self, step: Step) -> None:
        """Append a step, after those of the transparent values that it reads."""
        for value in step.inputs:
            self.provide(value)
        self.steps.append(step)
        self.written.update(step.outputs)

    def provide(self, value: int) -> None:
        """Make sure that a transparent value exists; every other has its block."""
        node = self.graph.nodes[value]
        if node.op.name not in TRANSPARENT or value in self.written:
            return
        if self.graph.nodes[source(self.graph, value)].op.name != "scalar":
            self.single(value, "view")
        elif self.generate and fits(self.graph, [value], self.read):
            self.region([value])
        else:
            self.single(value, "aten")
