"""Where the host's time goes in one call of a compiled workload, by cProfile.

    python notebooks/profile_call.py "Llama-2-7b"
"""

from __future__ import annotations

import cProfile
import pstats
import sys
import time

import torch
from racing import OPTIONS
from workloads import WORKLOADS


def main() -> None:
    label = next(n for n in WORKLOADS if sys.argv[1] in n)
    with torch.no_grad():
        model, inputs = WORKLOADS[label]()
        for name, how in (
            ("inductor", {"backend": "inductor"}),
            ("superopt", {"backend": "superopt", "options": OPTIONS}),
        ):
            torch._dynamo.reset()
            fn = torch.compile(model, dynamic=False, **how)
            for _ in range(5):
                fn(*inputs)
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(50):
                fn(*inputs)
            host = (time.perf_counter() - start) / 50
            torch.cuda.synchronize()
            print(f"{label}, {name}: {host * 1e6:.0f} us of the host a call")
            profile = cProfile.Profile()
            profile.enable()
            for _ in range(50):
                fn(*inputs)
            profile.disable()
            torch.cuda.synchronize()
            pstats.Stats(profile).sort_stats("tottime").print_stats(25)


if __name__ == "__main__":
    main()
