"""The Llama-2-7b block (RMSNorm + SwiGLU) on this GPU: superopt against Inductor.

    python notebooks/bench_block.py --rows 1 16 2048 --out notebooks/results/block_h200.md

Every contestant is called under one CUDA graph each, and the graphs are replayed in turn, so that
clocks and temperature meet all alike. The error is against float64, relative to its norm.
"""

from __future__ import annotations

import argparse
import datetime
import platform
import statistics
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
import triton

import superopt

HIDDEN, INNER, EPS = 4096, 11008, 1e-5


class Block(torch.nn.Module):
    """RMSNorm, then SwiGLU's gate and up projections, as Llama writes them."""

    def __init__(self, hidden: int = HIDDEN, inner: int = INNER) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.rand(hidden) + 0.5)
        self.gate = torch.nn.Linear(hidden, inner, bias=False)
        self.up = torch.nn.Linear(hidden, inner, bias=False)
        self.down = torch.nn.Linear(inner, hidden, bias=False)

    def norm(self, x: torch.Tensor) -> torch.Tensor:
        h = x.to(torch.promote_types(x.dtype, torch.float32))
        h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + EPS)
        return self.weight * h.to(x.dtype)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n = self.norm(x)
        return F.silu(self.gate(n)) * self.up(n)


class WholeBlock(Block):
    """The same with the down projection and the residual."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(super().forward(x))


def captured(fn: Callable[[], object]) -> torch.cuda.CUDAGraph:
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            fn()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for _ in range(10):
                fn()
    torch.cuda.current_stream().wait_stream(stream)
    return graph


def race(graphs: dict[str, torch.cuda.CUDAGraph], repeats: int) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in graphs}
    for _ in range(repeats):
        for name, graph in graphs.items():
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            graph.replay()
            end.record()
            end.synchronize()
            times[name].append(start.elapsed_time(end) * 100)
    return times


def contestants(options: dict) -> dict[str, dict]:
    return {
        "eager": {},
        "inductor": {"backend": "inductor"},
        "inductor max-autotune": {"backend": "inductor", "mode": "max-autotune-no-cudagraphs"},
        "superopt": {"backend": "superopt", "options": options},
    }


def measure(model: torch.nn.Module, rows: int, options: dict, repeats: int) -> list[str]:
    x = torch.randn(rows, HIDDEN, device="cuda", dtype=torch.bfloat16)
    reference = twin(model)(x.double())
    graphs, notes = {}, {}
    for name, how in contestants(options).items():
        torch._dynamo.reset()
        fn = model if name == "eager" else torch.compile(model, dynamic=False, **how)
        begin = time.perf_counter()
        out = fn(x)
        torch.cuda.synchronize()
        seconds = time.perf_counter() - begin
        error = ((out.double() - reference).norm() / reference.norm()).item()
        notes[name] = [f"{error:.2e}", f"{seconds:.1f}"]
        if name == "superopt":
            (record,) = superopt.records()
            steps = [s.family for s in record.search.plans[0].steps]
            notes[name].append(
                f"{record.chosen}: {steps.count('gemm')} gemm, "
                f"{steps.count('region')} region, {steps.count('aten')} library"
            )
            print(name, record.chosen, record.measured, record.path, flush=True)
        graphs[name] = captured(lambda fn=fn: fn(x))
    times = race(graphs, repeats)
    lines = []
    for name, found in times.items():
        middle = statistics.median(found)
        low, high = statistics.quantiles(found, n=20)[0], statistics.quantiles(found, n=20)[-1]
        plan = notes[name][2] if len(notes[name]) > 2 else ""
        lines.append(
            f"| {rows} | {name} | {middle:.1f} | {low:.1f} to {high:.1f} | "
            f"{notes[name][0]} | {notes[name][1]} | {plan} |"
        )
    return lines


def twin(model: torch.nn.Module) -> torch.nn.Module:
    import copy

    return copy.deepcopy(model).double()


def header(title: str) -> list[str]:
    p = torch.cuda.get_device_properties(0)
    return [
        f"# {title}",
        "",
        f"{p.name}, torch {torch.__version__}, triton {triton.__version__}, "
        f"Python {platform.python_version()}, {datetime.date.today()}; bf16; CUDA-graph replays, "
        "contestants in turn; median, 5th and 95th percentile in microseconds a call.",
        "",
        "| rows | contestant | us | 5% to 95% | error vs float64 | first call s | plan |",
        "|---|---|---|---|---|---|---|",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 16, 2048])
    parser.add_argument("--whole", action="store_true", help="with down projection and residual")
    parser.add_argument("--repeats", type=int, default=60)
    parser.add_argument("--out")
    args = parser.parse_args()
    torch.manual_seed(0)
    model = (WholeBlock if args.whole else Block)().cuda().bfloat16().eval()
    options = {"strict": True, "rival": False}
    lines = header("RMSNorm + SwiGLU of a Llama-2-7b block" + " (whole)" * args.whole)
    with torch.no_grad():
        for rows in args.rows:
            lines += measure(model, rows, options, args.repeats)
            print("\n".join(lines[-4:]), flush=True)
    if args.out:
        with open(args.out, "w") as f:
            f.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
