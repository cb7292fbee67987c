"""``superopt demo``: a sentence encoder and a Llama block, compiled and compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

JOBS = ("encoder", "llama")


def run(console: Console, jobs: tuple[str, ...] = JOBS) -> bool:
    """Run the jobs in turn; False where one could not run or superopt's plan failed."""
    from superopt.demo import encoder, llama

    found = {"encoder": encoder.run, "llama": llama.run}
    return all([found[job](console) for job in jobs])
