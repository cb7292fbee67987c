"""What a region asks of a card."""

from __future__ import annotations

import torch

from superopt.errors import LowerError
from superopt.ir.dims import Dim, hint, product, simplify
from superopt.ir.graph import Graph
from superopt.ir.plan import Step, Work
from superopt.ir.types import tensor
from superopt.kernels.region.configs import TILE
from superopt.kernels.region.space import source, space


def work(step: Step, graph: Graph) -> Work:
    """The work of a region step at the traced sizes.

    Each distinct operand is read once, a broadcast one at its own size; each output is written
    once; nothing else touches memory.
    """
    where = space(graph, step.nodes)
    if where is None:
        raise LowerError(f"no one kernel computes the nodes {step.nodes}")
    nodes = [graph.nodes[i] for i in step.nodes]
    flops: Dim = 0
    for n in nodes:
        flops += n.op.flops([graph.nodes[a].type for a in n.args], n.type, *n.attrs)
    origins = dict.fromkeys(source(graph, i) for i in step.inputs)
    double = any(tensor(n.type).dtype == torch.float64 for n in nodes)
    per_program = max(1, TILE // where.length) * where.length if where.columns else TILE
    elements = hint(product(where.shape), graph.hints)
    return Work(
        engine="simt",
        flops=float(hint(simplify(flops), graph.hints)),
        read=float(sum(graph.nodes[i].type.nbytes(graph.hints) for i in origins)),
        write=float(sum(graph.nodes[i].type.nbytes(graph.hints) for i in step.outputs)),
        tiles=-(-elements // per_program),
        dtype=torch.float64 if double else torch.float32,
    )
