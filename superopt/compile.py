"""From Dynamo's graph to a callable: AOTAutograd, the search, executable plans, the choice.

Each graph that AOTAutograd hands over becomes a ``Compiled``: a callable with several plans behind
one pointer. On a GPU the plans and Inductor's compile of the same graph are timed, and the fastest
is kept.
"""

from __future__ import annotations

import copy
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from superopt import session
from superopt.cost import Card, detect_card, load_card
from superopt.ir.lifted import Lifted
from superopt.ir.plan import Plan
from superopt.lift import lift
from superopt.lower import generate, lower
from superopt.options import Options
from superopt.pipeline import search
from superopt.rule import Rule
from superopt.shelf import load_rules

log = logging.getLogger("superopt")
Boxed = Callable[[list[Any]], Sequence[Any]]


class Compiled:
    """A compiled graph: it reads its plan through ``current``, which may be replaced at any time.

    All ``plans`` take the same arguments and return the same outputs. When a plan fails in its
    first run, the fallback takes its place (or the error is raised, under ``strict``).
    """

    def __init__(self, plans: list[Boxed], fallback: Boxed, strict: bool, record: Any) -> None:
        self.plans = plans
        self.current = plans[0]
        self.fallback = fallback
        self.strict = strict
        self.record = record
        self._proven: set[int] = set()

    def __call__(self, args: list[Any]) -> Sequence[Any]:
        run = self.current
        if id(run) in self._proven:
            return run(args)
        return self._first(run, args)

    def boxed(self) -> Boxed:
        """This callable as the plain function that AOTAutograd expects."""

        def run(args: list[Any]) -> Sequence[Any]:
            return self(args)

        run._boxed_call = True  # type: ignore[attr-defined]
        return run

    def _first(self, run: Boxed, args: list[Any]) -> Sequence[Any]:
        from superopt.backend import as_error, warn_fallback

        kept = list(args)
        try:
            out = run(args)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as e:
            if self.strict:
                raise as_error(e) from e
            warn_fallback(e)
            self.current = self.fallback
            self.record.chosen = "eager"
            self.record.notes.append(f"{type(e).__name__}: {e}")
            return self.fallback(kept)
        self._proven.add(id(run))
        return out

    def select(self, rank: int) -> None:
        """Make the plan of that rank the current one."""
        self.current = self.plans[min(rank, len(self.plans) - 1)]
        self.record.chosen = f"superopt #{min(rank, len(self.plans) - 1)}"


class _Session:
    """All graphs of one call of the backend, and what they were compiled with."""

    def __init__(self, settings: Options, inputs: Sequence[Any]) -> None:
        self.settings = settings
        self.rules: tuple[Rule, ...] = load_rules(settings.rules, settings.disable)
        self.device = _device_of(inputs)
        self.card: Card = load_card(settings.card or _own_card(self.device))
        self.compiled: list[Compiled] = []

    def compiler(self, role: str) -> Callable[..., Boxed]:
        def compile_(gm: torch.fx.GraphModule, example: Sequence[Any]) -> Boxed:
            compiled = compile_aten_graph(gm, example, role, self)
            self.compiled.append(compiled)
            return compiled.boxed()

        return compile_


def compile_dynamo_graph(
    gm: torch.fx.GraphModule, inputs: list[Any], settings: Options
) -> Callable[..., Any]:
    """A callable for Dynamo's graph, from the fastest plan known."""
    from torch._dynamo.backends.common import aot_autograd

    ours = _Session(settings, inputs)
    rival = copy.deepcopy(gm) if _can_measure(settings, inputs, ours.device) else None
    compiled = aot_autograd(
        fw_compiler=ours.compiler("forward"),
        bw_compiler=ours.compiler("backward"),
        inference_compiler=ours.compiler("inference"),
        partition_fn=partition,
        keep_inference_input_mutations=True,
    )(gm, inputs)
    if rival is None:
        return compiled
    from superopt.choose import choose

    return choose(compiled, rival, inputs, ours.compiled, settings)


def partition(joint: torch.fx.GraphModule, inputs: Sequence[Any], **kwargs: Any) -> Any:
    """Split a joint graph into forward and backward: what is saved between them is ours to choose.

    It begins as torch's min-cut, which recomputes what is cheaper to recompute than to keep.
    """
    from torch._functorch.partitioners import min_cut_rematerialization_partition

    return min_cut_rematerialization_partition(joint, inputs, **kwargs)


def compile_aten_graph(
    gm: torch.fx.GraphModule, example: Sequence[Any], role: str, ours: _Session
) -> Compiled:
    """One graph of ATen calls, lifted, searched, and made executable."""
    start = time.perf_counter()
    lifted = lift(gm, _static_inputs(role, len(example)))
    seconds = time.perf_counter() - start
    found = search(lifted.graph, ours.card, ours.rules, ours.settings)
    found.seconds["lift"] = seconds
    record = session.Record(role, ours.card.name, found, lifted.opaque)
    fakes = [n.meta.get("val") for n in gm.graph.nodes if n.op == "placeholder"]
    with found.stage("lower"):
        plans = executables(found.plans, lifted, fakes, role, ours, record)
    session.add(record)
    log.info("%s graph: %s; stages %s", role, record.chosen, found.seconds)
    return Compiled(plans, eager(gm), ours.settings.strict, record)


def executables(
    plans: Sequence[Plan],
    lifted: Lifted,
    fakes: Sequence[Any],
    role: str,
    ours: _Session,
    record: session.Record,
) -> list[Boxed]:
    """Each plan as a callable: generated kernels on a GPU, Inductor or torch itself elsewhere."""
    if lifted.device.type == "cuda" and ours.card.arch > 0:
        count = len(plans) if ours.settings.measure else 1
        return [gpu_program(p, lifted, fakes, role, ours, record) for p in plans[:count]]
    from superopt.run.cpu import program

    plan = plans[0]
    listing = lower(plan, [None] * len(plan.steps), lifted, "A plan that torch runs.")
    constant = any(s.placement == "once" for s in plan.steps)
    return [program(listing, lifted, fakes, role, record, traceable=not constant)]


def gpu_program(
    plan: Plan,
    lifted: Lifted,
    fakes: Sequence[Any],
    role: str,
    ours: _Session,
    record: session.Record,
) -> Boxed:
    """A plan with kernels generated for the device that it will run on."""
    from superopt.run.gpu import program

    properties = torch.cuda.get_device_properties(lifted.device)
    kernels = generate(
        plan,
        properties.major * 10 + properties.minor,
        properties.multi_processor_count,
        precision=torch.get_float32_matmul_precision(),
        deterministic=torch.are_deterministic_algorithms_enabled(),
    )
    generated = sum(k is not None for k in kernels)
    title = f"{role} plan priced for {ours.card.name}: {generated} generated kernels."
    return program(lower(plan, kernels, lifted, title), lifted, fakes, role, ours.settings, record)


def eager(gm: torch.fx.GraphModule) -> Boxed:
    """The user's graph through ATen, for when a plan cannot run."""

    def run(args: list[Any]) -> Sequence[Any]:
        return torch.fx.Interpreter(gm).boxed_run(args)

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def _static_inputs(role: str, count: int) -> list[int]:
    """Positions of parameters and buffers; none is known in a backward graph."""
    context = torch._guards.TracingContext.try_get()
    if role == "backward" or context is None or context.fw_metadata is None:
        return []
    return [i for i in context.fw_metadata.static_input_indices if i < count]


def _device_of(inputs: Sequence[Any]) -> torch.device:
    for x in inputs:
        if isinstance(x, torch.Tensor) and x.device.type != "cpu":
            return x.device
    return torch.device("cpu")


def _own_card(device: torch.device) -> str:
    return detect_card() if device.type == "cuda" and gpu_ready() else "cpu"


def gpu_ready() -> bool:
    """True where generated kernels can run: a CUDA device and a Triton that drives it."""
    if not torch.cuda.is_available():
        return False
    from torch.utils._triton import has_triton

    return has_triton()


def _can_measure(settings: Options, inputs: Sequence[Any], device: torch.device) -> bool:
    from torch._subclasses.fake_tensor import FakeTensor

    real = not any(isinstance(x, FakeTensor) for x in inputs)
    return settings.measure and real and device.type == "cuda" and gpu_ready()
