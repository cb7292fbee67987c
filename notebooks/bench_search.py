"""Seconds and memory of the search, on whole Llama-2-7b layers; torch's own tracing not counted.

    python notebooks/bench_search.py --layers 1 32 --out notebooks/results/search.md

Models are traced without their weights, so this needs neither a GPU nor much memory.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import resource
import statistics
import time

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional as F

from superopt.cost import load_card
from superopt.lift import lift
from superopt.options import Options
from superopt.pipeline import search
from superopt.shelf import load_rules
from superopt.trace import trace


class Norm(torch.nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(dim))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = x.float()
        h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-5)
        return self.weight * h.to(x.dtype)


class Layer(torch.nn.Module):
    """One layer of Llama-2-7b: attention with rotary positions, then the gated MLP."""

    def __init__(self, dim: int = 4096, inner: int = 11008, heads: int = 32) -> None:
        super().__init__()
        self.heads = heads
        self.n1, self.n2 = Norm(dim), Norm(dim)
        self.q, self.k, self.v, self.o = (torch.nn.Linear(dim, dim, False) for _ in range(4))
        self.gate, self.up = (torch.nn.Linear(dim, inner, False) for _ in range(2))
        self.down = torch.nn.Linear(inner, dim, False)

    def rotate(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        half = x.shape[-1] // 2
        return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        b, t, d = x.shape
        n = self.n1(x)
        q, k, v = (
            w(n).view(b, t, self.heads, -1).transpose(1, 2) for w in (self.q, self.k, self.v)
        )
        q, k = self.rotate(q, cos, sin), self.rotate(k, cos, sin)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        n = self.n2(x)
        return x + self.down(F.silu(self.gate(n)) * self.up(n))


class Stack(torch.nn.Module):
    def __init__(self, layers: int) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(Layer() for _ in range(layers))

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x, cos, sin)
        return x


def measure(layers: int, card: str, repeats: int) -> dict[str, float]:
    rules = load_rules()
    with FakeTensorMode(), torch.no_grad():
        torch.set_default_dtype(torch.bfloat16)
        model = Stack(layers)
        torch.set_default_dtype(torch.float32)
        x = torch.empty(1, 128, 4096, dtype=torch.bfloat16)
        angles = torch.empty(128, 128, dtype=torch.bfloat16)
        traced = trace(model, x, angles, angles)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    runs: list[dict[str, float]] = []
    for _ in range(repeats):
        start = time.perf_counter()
        lifted = lift(traced.graph, traced.params)
        seconds = time.perf_counter() - start
        found = search(lifted.graph, load_card(card), rules, Options())
        runs.append({"lift": seconds, **found.seconds})
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = {k: statistics.median(r[k] for r in runs) for k in runs[0]}
    result["memory MB"] = (after - before) / 1024
    result["nodes"] = len(lifted.graph.live())
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, nargs="+", default=[1, 4, 32])
    parser.add_argument("--card", default="h200")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out")
    args = parser.parse_args()
    lines = [
        "# Seconds of the search, Llama-2-7b layers",
        "",
        f"{os.cpu_count()} cores, torch {torch.__version__}, Python {platform.python_version()}, "
        f"{datetime.date.today()}; priced for {args.card}; median of {args.repeats}.",
        "",
        "| layers | nodes | lift | saturate | extract | split + schedule + price | "
        "MB above tracing's peak |",
        "|---|---|---|---|---|---|---|",
    ]
    for layers in args.layers:
        r = measure(layers, args.card, args.repeats)
        rest = r["split"] + r["schedule"] + r["price"]
        lines.append(
            f"| {layers} | {r['nodes']:.0f} | {r['lift']:.2f} | {r['saturate']:.2f} | "
            f"{r['extract']:.2f} | {rest:.2f} | {r['memory MB']:.0f} |"
        )
        print(lines[-1], flush=True)
    if args.out:
        with open(args.out, "w") as f:
            f.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
