"""What a program computes, by torch: the reference that every stage is checked against."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from superopt.ir.expr import Apply, Expr


def evaluate(expr: Expr, env: Mapping[Expr, Any]) -> Any:
    """The value of ``expr``, its leaves taken from ``env``; shared parts are computed once."""
    memo: dict[Expr, Any] = dict(env)

    def go(e: Expr) -> Any:
        if e not in memo:
            if not isinstance(e, Apply):
                raise KeyError(f"no value for {e}")
            memo[e] = e.op.torch(*(go(a) for a in e.args), *e.attrs)
        return memo[e]

    return go(expr)


def run_graph(graph: Any, inputs: Sequence[Any]) -> list[Any]:
    """Outputs of a graph on real tensors, node by node. Its sizes must be integers."""
    values: dict[int, Any] = {}
    for i in graph.live():
        node = graph.nodes[i]
        if node.op.name == "input":
            values[i] = inputs[node.attrs[0]]
        else:
            values[i] = node.op.torch(*(values[a] for a in node.args), *node.attrs)
    return [values[i] for i in graph.outputs]
