"""The feed-forward half of a Llama-2-7b block: planned for a T4, assembled for it, and run here."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from rich.console import Console
from rich.syntax import Syntax
from rich.table import Table
from torch._subclasses.fake_tensor import FakeTensorMode

from superopt.cost import Card, load_card, price_plan
from superopt.demo import show, text
from superopt.demo.compare import compare, in_float64, progress
from superopt.ir.plan import Kernel, Plan
from superopt.kernels.assemble import Assembly, assemble
from superopt.lift import lift
from superopt.lower import generate
from superopt.options import Options, cache_dir
from superopt.pipeline import Search, search
from superopt.schedule import describe, schedule
from superopt.shelf import load_rules
from superopt.trace import trace

HIDDEN, INNER, EPS = 4096, 11008, 1e-5  # Llama-2-7b
SMALL = (1024, 2752)  # the same proportions, for a CPU
TOKENS = 128
CARD = "t4"


class Block(torch.nn.Module):
    """x + down(silu(gate(n)) * up(n)), where n = RMSNorm(x)."""

    def __init__(self, hidden: int, inner: int) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(hidden))
        self.gate = torch.nn.Linear(hidden, inner, bias=False)
        self.up = torch.nn.Linear(hidden, inner, bias=False)
        self.down = torch.nn.Linear(inner, hidden, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        normal = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + EPS)
        n = self.weight * normal.to(x.dtype)
        return x + self.down(F.silu(self.gate(n)) * self.up(n))


@dataclass
class Planned:
    """A search for a card, with the traced graph as a plan of its own to compare with."""

    card: Card
    found: Search
    before: Plan
    kernels: list[Kernel | None]

    @property
    def plan(self) -> Plan:
        return self.found.plans[0]


def run(console: Console) -> bool:
    """Show the T4's plans, their source and its assembly; then run the block on this machine."""
    console.rule("Llama-2-7b block: RMSNorm + SwiGLU", style="dim")
    sizes = f"{HIDDEN} and {INNER} wide, fp16"
    for rows, what in ((TOKENS, f"a prompt of {TOKENS} tokens"), (1, "one token")):
        console.print(f"\n[bold]For a T4, {what}[/] ({sizes})")
        with progress(console, "tracing without weights, searching, writing kernels"):
            planned = plan_for(CARD, rows)
        _show_plan(console, planned)
        _show_kernels(console, planned, listing=rows == 1)
    return _run_here(console)


def plan_for(card_name: str, rows: int) -> Planned:
    """The best plan of the block on a card, found from its shapes alone."""
    card = load_card(card_name)
    with FakeTensorMode(), torch.no_grad(), _default_dtype(torch.float16):
        traced = trace(Block(HIDDEN, INNER), torch.empty(rows, HIDDEN))
    graph = lift(traced.graph, traced.params).graph
    found = search(graph, card, load_rules(), Options(card=card_name))
    before = schedule(graph, generate=False)
    before.price = price_plan(before, card)
    return Planned(card, found, before, generate(found.plans[0], card.arch, card.sms))


@contextmanager
def _default_dtype(dtype: torch.dtype) -> Iterator[None]:
    old = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(old)


# -- the plan and its kernels ----------------------------------------------------------------------


def _show_plan(console: Console, planned: Planned) -> None:
    show.plan(console, planned.before, planned.plan)
    before, after = planned.before.price, planned.plan.price
    if before is not None and after is not None:
        console.print(
            f"  predicted for “{planned.card.name}”: {1e6 * after.seconds:.0f} us"
            f" (operator by operator: {1e6 * before.seconds:.0f} us)"
        )
    text_of_plan = describe(planned.plan).rstrip()
    console.print(Syntax(text_of_plan, "text", background_color="default", word_wrap=True))


def _show_kernels(console: Console, planned: Planned, *, listing: bool) -> None:
    kernels = [k for k in planned.kernels if k is not None]
    arch = planned.card.arch
    with progress(console, f"assembling {len(kernels)} kernels for sm_{arch}, without a GPU"):
        built = {k.name: assemble(k, arch) for k in kernels}
    console.print(_assembly_table(kernels, built, arch))
    if listing and kernels:
        longest = max(kernels, key=lambda k: len(k.source))
        console.print(f"  the source of {longest.name}:")
        console.print(Syntax(longest.source, "python", background_color="default", word_wrap=True))
    folder = _write(kernels)
    console.print(f"  sources: {folder}")


def _assembly_table(kernels: Sequence[Kernel], built: dict[str, Assembly], arch: int) -> Table:
    table = Table(title=f"assembled for sm_{arch}", title_justify="left", title_style="bold")
    table.add_column("kernel", no_wrap=True)
    for head in ("registers", "stack B", "shared B", "tensor cores", "code B"):
        table.add_column(head, justify="right")
    for k in kernels:
        a = built[k.name]
        figures = (a.registers, a.stack, a.shared, "yes" if a.has_mma else "no", len(a.cubin))
        table.add_row(k.name, *map(str, figures))
    return table


def _write(kernels: Sequence[Kernel]) -> str:
    folder = cache_dir() / "demo" / CARD
    folder.mkdir(parents=True, exist_ok=True)
    for k in kernels:
        (folder / f"{k.name}.py").write_text(k.source)
    home = str(Path.home())
    return str(folder).replace(home, "~", 1) if str(folder).startswith(home) else str(folder)


# -- on this machine -------------------------------------------------------------------------------


def _run_here(console: Console) -> bool:
    gpu = torch.cuda.is_available()
    hidden, inner = (HIDDEN, INNER) if gpu else SMALL
    device, dtype = ("cuda", torch.float16) if gpu else ("cpu", torch.float32)
    note = "" if gpu else f"; smaller than the config's {HIDDEN} and {INNER}, since this is a CPU"
    console.print(
        f"\n[bold]On this machine[/] ({hidden} and {inner} wide{note}; {dtype}, {TOKENS} tokens)"
    )
    torch.manual_seed(0)
    model = Block(hidden, inner).to(device, dtype)
    x = embed(TOKENS, hidden).to(device, dtype)
    found, records = compare(console, model, [x])
    show.comparison(console, found, in_float64(model, [x]), records)
    show.predicted(console, records, found)
    return show.ran(records)


def embed(count: int, hidden: int) -> torch.Tensor:
    """The first tokens of the bundled sentences through a random embedding table.

    The tokens are the encoder's where its package is installed, hashed words otherwise.
    """
    if text.missing():
        words = " ".join(text.sentences()).split()
        digests = (hashlib.sha256(w.encode()).digest() for w in words)
        ids = [int.from_bytes(d[:2], "little") % 30_000 for d in digests]
    else:
        ids = text.load_tokenizer()(" ".join(text.sentences()), truncation=False)["input_ids"]
    table = torch.randn(max(ids) + 1, hidden, generator=torch.Generator().manual_seed(0))
    return table[torch.tensor(ids[:count])]
