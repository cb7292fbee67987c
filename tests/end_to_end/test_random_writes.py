"""Functions that write to inputs, to views and to copies, and draw random numbers in between."""

from __future__ import annotations

import os

import torch
from end_to_end.checks import same_as_eager
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

MORE = int(os.environ.get("HYPOTHESIS_EXAMPLES", "0"))

# No expanded views: AOTAutograd loses writes through them, for any backend.
VALUES = (
    "{}.clone()", "{} * 2", "{} + {}", "{} - {}", "{}[1:]", "{}[:, ::2]", "{}.t()", "{}.view(-1)",
    "{} * 1", "{}.contiguous()", "{}.sum(0)", "{}.softmax(-1)", "torch.rand_like({})",
    "{}.reshape(-1)[2:]", "torch.cat([{}])", "{} @ {}.t()", "{}.relu()",
    "{}.detach()",
    "torch.nn.functional.dropout({}, 0.5)", "{}.to(torch.float32)", "-(-{})", "torch.randn(3)",
)  # fmt: skip
WRITES = (
    "{}.add_(1)", "{}.mul_({})", "{}.copy_({})", "{}.zero_()", "{}[0] = 3.0", "{}.sub_({})",
    "{}.relu_()", "{}[:1].copy_({}[-1:])", "{}.index_fill_(0, torch.tensor(0), 2.0)",
)  # fmt: skip


@st.composite
def functions(draw: st.DrawFn) -> str:
    """Source of a function of two matrices whose every line runs."""
    shapes = {"a": (3, 4), "b": (3, 4)}
    values = {n: torch.ones(s) for n, s in shapes.items()}
    lines: list[str] = []
    for _ in range(draw(st.integers(1, 9))):
        write = draw(st.booleans())
        text = draw(st.sampled_from(WRITES if write else VALUES))
        while "{}" in text:
            text = text.replace("{}", draw(st.sampled_from(list(values))), 1)
        line = text if write else f"v{len(lines)} = {text}"
        try:
            exec(line, {"torch": torch}, values)
        except (RuntimeError, IndexError):
            continue
        lines.append(line)
    outputs = draw(st.lists(st.sampled_from(list(values)), max_size=4, unique=True))
    random = [t.split()[0] for t in lines if "rand" in t or "dropout" in t]  # AOT drops unused ones
    outputs = list(dict.fromkeys([*outputs, *random]))
    lines.append(f"return {', '.join(outputs)}{',' if outputs else ''}")
    return "def f(a, b):\n" + "\n".join(f"    {line}" for line in lines)


@settings(
    max_examples=MORE or 20,
    derandomize=not MORE,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
@given(functions())
def test_what_is_read_and_written_is_eagers(source: str):
    note(source)
    scope = {"torch": torch}
    exec(source, scope)
    torch._dynamo.reset()
    with torch.no_grad():
        same_as_eager(
            scope["f"], torch.randn(3, 4), torch.randn(3, 4), fullgraph=True, dynamic=False
        )
