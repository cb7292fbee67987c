"""The Llama-2-7b block (RMSNorm + SwiGLU) on this GPU: superopt against Inductor.

    python notebooks/bench_block.py --rows 1 16 2048 --out notebooks/results/block_h200.md

Every contestant is called under one CUDA graph each, and the graphs are replayed in turn, so that
clocks and temperature meet all alike. The error is against float64, relative to its norm.
"""

from __future__ import annotations

import argparse

import torch
import torch.nn.functional as F
from racing import header, measure

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 16, 2048])
    parser.add_argument("--whole", action="store_true", help="with down projection and residual")
    parser.add_argument("--repeats", type=int, default=60)
    parser.add_argument("--out")
    args = parser.parse_args()
    torch.manual_seed(0)
    model = (WholeBlock if args.whole else Block)().cuda().bfloat16().eval()
    lines = header("RMSNorm + SwiGLU of a Llama-2-7b block" + " (whole)" * args.whole)
    with torch.no_grad():
        for rows in args.rows:
            x = torch.randn(rows, HIDDEN, device="cuda", dtype=torch.bfloat16)
            found = measure(f"{rows} rows", model, (x,), args.repeats)
            lines += found
            print("\n".join(found), flush=True)
    if args.out:
        with open(args.out, "w") as f:
            f.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
