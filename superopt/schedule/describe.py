"""A plan as text, the same in every run: what reports show and golden files hold."""

from __future__ import annotations

from superopt.ir.graph import Graph
from superopt.ir.plan import Plan, Step
from superopt.schedule.strides import contiguous


def describe(plan: Plan) -> str:
    """One paragraph a step: its family and what it writes and reads, then its nodes.

    Strides are shown after a value that is not contiguous.
    """
    lines: list[str] = []
    for step in plan.steps:
        lines.append(_header(step))
        lines += [f"    {_node(plan, i)}" for i in step.nodes]
    lines.append("return " + _values(plan.graph.outputs))
    return "\n".join(lines) + "\n"


def _values(indices: tuple[int, ...] | list[int]) -> str:
    return ", ".join(f"%{i}" for i in indices)


def _header(step: Step) -> str:
    marks = " effects" if step.effects else ""
    marks += " once" if step.placement == "once" else ""
    reads = f" <- {_values(step.inputs)}" if step.inputs else ""
    return f"{step.family}{marks} {_values(step.outputs)}{reads}"


def _node(plan: Plan, index: int) -> str:
    graph, node = plan.graph, plan.graph.nodes[index]
    parts = [_argument(graph, a) for a in node.args]
    parts += [f"{k}={_attribute(v)}" for k, v in zip(node.op.attrs, node.attrs, strict=True)]
    strides = plan.strides.get(index)
    text = f"%{index} = {node.op.name}({', '.join(parts)}) : {node.type}"
    if strides is None or strides == contiguous(node.type.shape):  # type: ignore[union-attr]
        return text
    return f"{text} strides [{', '.join(map(str, strides))}]"


def _argument(graph: Graph, index: int) -> str:
    node = graph.nodes[index]
    return str(node.attrs[0]) if node.op.name == "scalar" else f"%{index}"


def _attribute(value: object) -> str:
    """Attributes that are expressions, or hold some, print them as such."""
    if isinstance(value, tuple):
        inner = ", ".join(map(_attribute, value))
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    return str(value).removeprefix("torch.")
