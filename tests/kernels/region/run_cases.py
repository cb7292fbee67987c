"""Runs every case under Triton's interpreter (or on a GPU) and prints what is wrong, as JSON.

A script, since the interpreter must be chosen before Triton is imported: see test_region_values.
"""

from __future__ import annotations

import json
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[2]))

from kernels.region.region_cases import CASES
from schedule.programs import execute

from superopt.ir.dims import hint
from superopt.ir.graph import Graph
from superopt.ir.plan import Kernel, Plan, Site, Step
from superopt.kernels import emit
from superopt.kernels.assemble import load
from superopt.schedule import schedule

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SPECIAL = [float("nan"), float("inf"), float("-inf"), 0.0, -0.0, 1e-4, 300.0, -300.0]
# Relative and absolute error allowed for a result of the type.
ALLOWED = {
    torch.float16: (2e-3, 2e-3),
    torch.bfloat16: (1.6e-2, 1e-2),
    torch.float32: (2e-5, 2e-5),
    torch.float64: (1e-11, 1e-12),
}


def tensor(graph: Graph, node: Any, special: bool) -> torch.Tensor:
    shape = [hint(d, graph.hints) for d in node.type.shape]
    index, dtype = node.attrs[0], node.type.dtype
    count = max(1, torch.Size(shape).numel())
    values = torch.randn(count, dtype=torch.float64)
    if dtype.is_floating_point and special:
        for k, value in enumerate(SPECIAL[: count // 2]):
            values[(k * (5 + 2 * index)) % count] = value
    if dtype == torch.bool:
        values = (values > -0.5).double()
        values[: shape[-1] if shape else 0] = 0  # a row of softmax that is masked wholly
    elif not dtype.is_floating_point:
        values = (values * 20).round()
    x = values[: torch.Size(shape).numel()].reshape(shape).to(dtype)
    strides = graph.input_strides.get(index)
    if strides is not None:
        x = torch.empty_strided(shape, strides, dtype=dtype).copy_(x)
    return x.to(DEVICE)


def reference(graph: Graph, inputs: list[torch.Tensor]) -> list[Any]:
    """As run_graph, with every floating-point value in float64; casts round."""
    values: dict[int, Any] = {}
    for i in graph.live():
        node = graph.nodes[i]
        args = [values[a] for a in node.args]
        if node.op.name == "input":
            x = inputs[node.attrs[0]]
            values[i] = x.double() if x.is_floating_point() else x
        elif node.op.name == "scalar":
            values[i] = node.attrs[0]
        elif node.op.name == "expand" and not isinstance(args[0], torch.Tensor):
            values[i] = torch.full(node.attrs[0], args[0], dtype=torch.float64, device=DEVICE)
        else:
            values[i] = node.op.torch(*args, *node.attrs)
            if values[i].is_floating_point():
                values[i] = values[i].double()
    return [values[i] for i in graph.outputs]


def launcher(plan: Plan, folder: Path, which: int) -> Any:
    graph = plan.graph

    def run(step: Step, values: dict[int, Any]) -> dict[int, Any]:
        kernel: Kernel = emit(Site(graph, step, plan.strides, 80, 108))
        results = {}
        for i in kernel.outputs:
            shape = [hint(d, graph.hints) for d in graph.nodes[i].type.shape]
            results[i] = torch.empty(shape, dtype=graph.nodes[i].type.dtype, device=DEVICE)
        sizes = [hint(d, graph.hints) for d in kernel.sizes]
        reads = [values[i] for i in kernel.inputs]
        config = kernel.configs[min(which, len(kernel.configs) - 1)]
        load(kernel, folder).launch(*reads, *results.values(), *sizes, config)
        return results

    return run


def wrong(got: torch.Tensor, want: Any, dtype: torch.dtype) -> str:
    if got.dtype != dtype:
        return f"dtype {got.dtype}, not {dtype}"
    if not dtype.is_floating_point:
        return "" if torch.equal(got, want.to(dtype)) else "differs"
    want = want.to(dtype)  # overflow in a half is no error
    rel, absolute = ALLOWED[dtype]
    try:
        torch.testing.assert_close(got, want, rtol=rel, atol=absolute, equal_nan=True)
    except AssertionError as error:
        return str(error)
    return ""


def run_case(name: str, folder: Path) -> str:
    """What is wrong with one case; empty when nothing is."""
    torch.manual_seed(0)
    graph, count = CASES[name]()
    plan = schedule(graph)
    if (found := sum(s.family == "region" for s in plan.steps)) != count:
        return f"{found} regions, not {count}"
    nodes = [graph.nodes[i] for i in graph.live() if graph.nodes[i].op.name == "input"]
    special = name.startswith(("unary", "binary", "folds", "broadcasts"))
    made = {n.attrs[0]: tensor(graph, n, special) for n in nodes}
    inputs = [made[k] for k in sorted(made)]
    wanted = reference(graph, inputs)
    for which in (0, 2):
        results = execute(plan, inputs, launcher(plan, folder, which))
        for i, got, want in zip(graph.outputs, results, wanted, strict=True):
            node = graph.nodes[i]
            if message := wrong(got, want, node.type.dtype):
                return f"config {which}, output {node.op.name}: {message}"
    return ""


def main() -> None:
    report = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in sys.argv[1:] or CASES:
            try:
                report[name] = run_case(name, Path(folder))
            except Exception:
                report[name] = traceback.format_exc()
    print(json.dumps(report))


if __name__ == "__main__":
    main()
