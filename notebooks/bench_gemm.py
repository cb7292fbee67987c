"""Generated matrix products against the library's on this GPU, by shape: what a cost model is from.

    python notebooks/bench_gemm.py --out notebooks/results/gemm_h200.md

The library's column is ``torch.nn.functional.linear`` on each weight with the epilogue left out;
the generated column is the whole kernel, in its best configuration, with the model's prediction.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from tempfile import mkdtemp

import torch
import torch.nn.functional as F
from racing import captured, header

from superopt import ops
from superopt.cost import detect_card, load_card, seconds
from superopt.ir.expr import Expr, Hole
from superopt.ir.graph import Graph
from superopt.ir.plan import Site, Step
from superopt.ir.types import TensorType
from superopt.kernels import emit
from superopt.kernels.gemm import Problem
from superopt.kernels.gemm import work as work_of
from superopt.run.program import Launcher

BF16 = torch.bfloat16
# label: (rows, K, widths, epilogue)
SHAPES = [
    (m, k, widths, epilogue)
    for m in (1, 16, 128, 2048)
    for k, widths, epilogue in (
        (4096, (4096,), "none"),
        (4096, (4096,), "residual"),
        (4096, (4096, 1024, 1024), "none"),
        (4096, (14336, 14336), "swiglu"),
        (14336, (4096,), "residual"),
    )
]


def kernel_for(rows: int, k: int, widths: tuple[int, ...], epilogue: str, scaled: bool):  # type: ignore[no-untyped-def]
    """A graph of one product; ``scaled`` gives it a prologue that multiplies x by a vector."""
    g = Graph()

    def leaf(*shape: int) -> Expr:
        index = sum(n.op.name == "input" for n in g.nodes)
        return g.ref(g.add(ops.input_, (), (index, TensorType(shape, BF16), "input")))

    x, weights = leaf(rows, k), [leaf(n, k) for n in widths]
    accs = [Hole("acc", i, TensorType((rows, n), BF16)) for i, n in enumerate(widths)]
    extras = [leaf(rows, widths[0])] if epilogue == "residual" else []
    groups: tuple = tuple(((i,), a) for i, a in enumerate(accs))
    if epilogue == "residual":
        groups = (((0,), accs[0] + Hole("in", 0, TensorType((rows, widths[0]), BF16))),)
    if epilogue == "swiglu":
        groups = (((0, 1), ops.silu(accs[0]) * accs[1]),)
    prologue = None
    if scaled:
        extras.append(leaf(k))
        hole = Hole("in", len(extras) - 1, TensorType((k,), BF16))
        prologue = Hole("x", 0, TensorType((rows, k), BF16)) * hole
    node = g.insert(ops.gemm(x, ops.pack(*weights), ops.pack(*extras), prologue, groups))
    g.outputs = [node]
    return g, node


def run(rows: int, k: int, widths: tuple[int, ...], epilogue: str, scaled: bool = False) -> str:
    g, node = kernel_for(rows, k, widths, epilogue, scaled)
    card = load_card(detect_card())
    leaves = [i for i, n in enumerate(g.nodes) if n.op.name == "input"]
    strides = {i: (t.shape[-1], 1)[-t.ndim :] for i in leaves if (t := g.nodes[i].type)}
    step = Step("gemm", (node,), tuple(leaves), (node,))
    kernel = emit(Site(g, step, strides, card.arch, card.sms))
    tensors = [torch.randn(g.nodes[i].type.shape, device="cuda", dtype=BF16) for i in kernel.inputs]
    out = g.nodes[node].type
    outs = [torch.empty(t.shape, device="cuda", dtype=BF16) for t in getattr(out, "items", (out,))]
    launcher = Launcher(kernel, Path(mkdtemp()))
    launcher.tune([*tensors, *outs])
    ours = replayed(lambda: launcher(*tensors, *outs))
    x, weights = tensors[0], tensors[1 : 1 + len(widths)]
    theirs = replayed(lambda: [F.linear(x, w) for w in weights])
    problem = Problem.of([g.nodes[a].type for a in g.nodes[node].args], *g.nodes[node].attrs, {})
    work = work_of(problem, card.arch, card.sms)
    predicted = seconds(work, card) * 1e6 if work else float("nan")
    best = launcher.config
    note = ", ".join(f"{n}={v}" for n, v in best.constants)
    return (
        f"| {rows} | {k} | {'+'.join(map(str, widths))} | {epilogue}{' scaled' * scaled} | "
        f"{theirs:.1f} | {ours:.1f} | {predicted:.1f} | {kernel.name.split('_')[0]} "
        f"#{kernel.configs.index(best)}: {note}, {best.num_warps} warps, {best.num_stages} stages |"
    )


def replayed(fn: Callable[[], object]) -> float:
    """Median microseconds of a call inside a CUDA graph."""
    graph, times = captured(fn), []
    for _ in range(15):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) * 100)
    return sorted(times)[len(times) // 2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out")
    args = parser.parse_args()
    lines = header("Generated products and the library's")[:4]
    lines += [
        "| rows | K | N | epilogue | library us | generated us | predicted us | best |",
        "|---|---|---|---|---|---|---|---|",
    ]
    with torch.no_grad():
        for shape in SHAPES:
            lines.append(run(*shape))
            print(lines[-1], flush=True)
        lines.append(run(2048, 4096, (14336, 14336), "swiglu", scaled=True))
        print(lines[-1], flush=True)
    if args.out:
        with open(args.out, "w") as f:
            f.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
