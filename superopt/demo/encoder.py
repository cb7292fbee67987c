"""The main job: a sentence encoder with its real weights on the bundled sentences."""

from __future__ import annotations

from typing import Any

import torch
from rich.console import Console

from superopt.cost import detect_card, load_card, price_plan
from superopt.demo import show, text
from superopt.demo.compare import compare, in_float64, progress
from superopt.ir.plan import Plan
from superopt.lift import lift
from superopt.schedule import schedule
from superopt.session import Record
from superopt.shelf import load_rules
from superopt.trace import trace


class Encoder(torch.nn.Module):
    """One unit vector a sentence: the mean over its tokens of the model's last hidden state."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        hidden = self.model(input_ids=ids, attention_mask=mask).last_hidden_state
        weight = mask.unsqueeze(-1).to(hidden.dtype)
        mean = (hidden * weight).sum(1) / weight.sum(1)
        return torch.nn.functional.normalize(mean, dim=-1)


def run(console: Console) -> bool:
    """Encode the sentences three ways, compare, and show what superopt did."""
    console.rule("sentence encoder: all-MiniLM-L6-v2", style="dim")
    if why := text.missing():
        console.print(f"  skipped: {why}", soft_wrap=True)
        return False
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with progress(console, "loading the model"):
        model = Encoder(load(device)).eval()
        lines = text.sentences()
        batch = text.load_tokenizer()(lines, padding=True, return_tensors="pt").to(device)
    inputs = [batch["input_ids"], batch["attention_mask"]]
    shape = "×".join(map(str, inputs[0].shape))
    console.print(f"  {len(lines)} sentences, {int(inputs[1].sum())} tokens, padded to {shape}")
    found, records = compare(console, model, inputs)
    show.comparison(console, found, in_float64(model, inputs), records)
    if len(records) != 1:
        console.print(f"  no plan to show: superopt compiled {len(records)} graphs, not one")
        return False
    _explain(console, model, inputs, records[0])
    show.predicted(console, records, found)
    _nearest(console, lines, found[2].output)
    return show.ran(records)


def load(device: str) -> Any:
    """The encoder's model on a device, in fp32 on a CPU and in fp16 on a GPU."""
    model = text.load_model().to(device)
    return model.half() if device == "cuda" else model


def _explain(
    console: Console, model: torch.nn.Module, inputs: list[torch.Tensor], record: Record
) -> None:
    with progress(console, "tracing the graph for the figures before"):
        before = _as_traced(model, inputs)
    chosen = record.search.plans[0]
    show.plan(console, before, chosen)
    show.rules(console, record.search, chosen, load_rules(), most=12)
    show.search(console, record.search)


def _as_traced(model: torch.nn.Module, inputs: list[torch.Tensor]) -> Plan:
    """The traced graph as a plan: each operator by itself, priced like superopt's plan."""
    traced = trace(model, *inputs)
    plan = schedule(lift(traced.graph, traced.params).graph, generate=False)
    plan.price = price_plan(plan, load_card(detect_card()))
    return plan


def _nearest(console: Console, lines: list[str], vectors: torch.Tensor) -> None:
    """The two sentences that superopt's embeddings find most alike."""
    likeness = vectors.float() @ vectors.float().T
    likeness.fill_diagonal_(-1)
    i, j = divmod(int(likeness.argmax()), len(lines))
    console.print(f"  most alike, with cosine {float(likeness[i, j]):.3f}:")
    console.print(f"    “{lines[i]}”\n    “{lines[j]}”", markup=False)
