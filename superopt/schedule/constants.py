"""Which steps of a plan depend on parameters alone."""

from __future__ import annotations

from dataclasses import replace

from superopt.ir.plan import Plan


def mark_constant(plan: Plan) -> Plan:
    """The plan with every step that reads nothing but parameters placed "once".

    Only for users who froze their weights: such a step runs in the first call and never again.
    """
    nodes = plan.graph.nodes
    known = {
        i
        for i in plan.graph.live()
        if nodes[i].op.name == "scalar"
        or (nodes[i].op.name == "input" and nodes[i].attrs[2] == "param")
    }
    steps = []
    for step in plan.steps:
        if not step.effects and step.inputs and set(step.inputs) <= known:
            step = replace(step, placement="once")
            known.update(step.outputs)
        steps.append(step)
    plan.steps = steps
    return plan
