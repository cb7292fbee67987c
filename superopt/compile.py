"""From Dynamo's graph to a callable: AOTAutograd, the search, executable plans, the choice.

Each graph that AOTAutograd hands over becomes a ``Compiled``: a callable with several plans behind
one pointer. On a GPU the plans and Inductor's compile of the same graph are timed, and the fastest
is kept.
"""

from __future__ import annotations

import copy
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import torch

from superopt import session
from superopt.cost import Card, detect_card, load_card
from superopt.fallback import as_error, warn_fallback
from superopt.ir.lifted import Lifted
from superopt.ir.plan import Plan, Step
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
    first run, the fallback takes its place (or the error is raised, under ``strict``); an error
    that the fallback raises too is the user's own. ``written`` are the arguments that a run writes.
    """

    def __init__(
        self,
        plans: list[Boxed],
        fallback: Boxed,
        strict: bool,
        record: Any,
        written: Sequence[int] = (),
    ) -> None:
        self.plans = plans
        self.current = plans[0]
        self.fallback = fallback
        self.strict = strict
        self.record = record
        self.written = tuple(written)
        self._proven: set[int] = {id(fallback)}

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
        kept = list(args)
        before = _Before([kept[i] for i in self.written])
        try:
            out = run(args)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as e:
            error = e
        else:
            self._proven.add(id(run))
            return out
        before.restore(error)
        out = self.fallback(kept)
        if self.strict:
            raise as_error(error) from error
        warn_fallback(error, "PyTorch itself")
        self.current = self.fallback
        self.record.chosen = "eager"
        self.record.notes.append(f"{type(error).__name__}: {error}")
        return out

    def select(self, rank: int) -> None:
        """Make the plan of that rank the current one."""
        self.current = self.plans[min(rank, len(self.plans) - 1)]
        self.record.chosen = f"superopt #{min(rank, len(self.plans) - 1)}"


class _Before:
    """What a run may change beside its outputs: random state, and the arguments it writes to."""

    def __init__(self, written: Sequence[Any]) -> None:
        self.written = written
        self.versions = [_version(t) for t in written]
        self.cpu = torch.get_rng_state()
        device = next((t.device for t in written if t.is_cuda), None)
        known = device is not None or (torch.cuda.is_available() and torch.cuda.is_initialized())
        self.cuda = torch.cuda.get_rng_state(device or "cuda") if known else None

    def restore(self, error: BaseException) -> None:
        """Back to the state before the run; the error is raised where a write was already made."""
        if self.versions != [_version(t) for t in self.written]:
            raise as_error(error) from error
        torch.set_rng_state(self.cpu)
        if self.cuda is not None:
            torch.cuda.set_rng_state(self.cuda)


def _version(t: torch.Tensor) -> int:
    return 0 if t.is_inference() else t._version


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
            with _locked(self.device):
                compiled = compile_aten_graph(gm, example, role, self)
            _donate_nothing()
            self.compiled.append(compiled)
            return compiled.boxed()

        return self._lenient(compile_) if role == "backward" else compile_

    def _lenient(self, compile_: Callable[..., Boxed]) -> Callable[..., Boxed]:
        """For graphs that are compiled outside the backend's call, in the first backward pass."""

        def attempt(gm: torch.fx.GraphModule, example: Sequence[Any]) -> Boxed:
            try:
                return compile_(gm, example)
            except (KeyboardInterrupt, SystemExit):
                raise
            except BaseException as e:
                if self.settings.strict:
                    raise as_error(e) from e
                warn_fallback(e, "PyTorch itself")
                return eager(gm)

        return attempt


_LOCK = threading.RLock()


@contextmanager
def _locked(device: torch.device) -> Iterator[None]:
    """One graph is compiled at a time. Inductor, on the CPU, needs Dynamo's own lock as well.

    On a GPU autograd runs backward graphs in a thread of its own while the caller waits, perhaps
    with Dynamo's lock in its hands; there, Inductor is not used below this place.
    """
    from torch._dynamo.convert_frame import compile_lock

    with compile_lock if device.type == "cpu" else nullcontext(), _LOCK:
        yield


def compile_dynamo_graph(
    gm: torch.fx.GraphModule, inputs: list[Any], settings: Options
) -> Callable[..., Any]:
    """A callable for Dynamo's graph, from the fastest plan known."""
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch import config as functorch_config

    ours = _Session(settings, inputs)
    rival = copy.deepcopy(gm) if _can_measure(settings, inputs, ours.device) else None
    make = aot_autograd(
        fw_compiler=ours.compiler("forward"),
        bw_compiler=ours.compiler("backward"),
        inference_compiler=ours.compiler("inference"),
        partition_fn=partition,
        keep_inference_input_mutations=True,
    )
    try:
        with functorch_config.patch(donated_buffer=False):  # so that a graph may be retained
            compiled = make(gm, inputs)
    except BaseException:
        for c in ours.compiled:  # their plans will not run
            c.record.chosen = "inductor"
        raise
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
    lifted = lift(gm, _static_inputs(role, len(example)), example)
    seconds = time.perf_counter() - start
    found = search(lifted.graph, ours.card, ours.rules, ours.settings)
    found.seconds["lift"] = seconds
    record = session.Record(role, ours.card.name, found, lifted.opaque)
    with found.stage("lower"):
        plans = executables(found.plans, lifted, example, role, ours, record)
    session.add(record)
    log.info("%s graph: %s; stages %s", role, record.chosen, found.seconds)
    return Compiled(plans, eager(gm), ours.settings.strict, record, lifted.written())


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
    traceable = not any(s.placement == "once" or _rescues(s, plan) for s in plan.steps)
    return [program(listing, lifted, fakes, role, record, traceable=traceable)]


def _rescues(step: Step, plan: Plan) -> bool:
    """True for a copy of what a later step overwrites. Inductor takes such copies for no-ops."""
    specs = [plan.graph.nodes[i].attrs[0] for i in step.nodes if step.effects]
    return any(s.target == "aten.clone.default" for s in specs)


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


def _donate_nothing() -> None:
    """Tell AOTAutograd that no saved tensor is overwritten: backward may then run twice."""
    context = torch._guards.TracingContext.try_get()
    if context is not None and context.fw_metadata is not None:
        context.fw_metadata.bw_donated_idxs = []


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
