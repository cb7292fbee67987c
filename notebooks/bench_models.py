"""Layers and small blocks on this GPU: superopt's own plan against eager and Inductor.

python notebooks/bench_models.py --out notebooks/results/models_h200.md
"""

from __future__ import annotations

import argparse
import traceback

import torch
from racing import CONTESTANTS, header, measure
from workloads import WORKLOADS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="workloads whose name contains this")
    parser.add_argument("--quick", action="store_true", help="without max-autotune")
    parser.add_argument("--repeats", type=int, default=40)
    parser.add_argument("--out")
    args = parser.parse_args()
    torch.manual_seed(0)
    names = [n for n in CONTESTANTS if not (args.quick and "autotune" in n)]
    lines = header("Layers and blocks")
    for label, make in WORKLOADS.items():
        if args.only and args.only not in label:
            continue
        try:
            with torch.no_grad():
                model, inputs = make()
                found = measure(label, model, inputs, args.repeats, names)
        except Exception:
            traceback.print_exc()
            found = [f"| {label} | failed |"]
        lines += found
        print("\n".join(found), flush=True)
    if args.out:
        with open(args.out, "w") as f:
            f.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
