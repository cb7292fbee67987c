"""A model as the graph of ATen calls that the compiler is given, for looking at plans by hand.

No GPU and no memory is needed: a model built under ``FakeTensorMode`` is traced without its
weights, at any size, and a plan for any card can be searched for from there::

    with FakeTensorMode(), torch.no_grad():
        traced = trace(Model(), torch.empty(128, 4096, dtype=torch.float16))
    lifted = lift(traced.graph, traced.params)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from superopt.errors import LiftError


@dataclass(frozen=True)
class Traced:
    """An inference graph, functional, with fake values in ``meta["val"]``.

    ``params`` are the positions of parameters and buffers among its arguments.
    """

    graph: torch.fx.GraphModule
    params: tuple[int, ...]


def trace(model: Callable[..., Any], *inputs: Any) -> Traced:
    """The inference graph of ``model`` on ``inputs``, as Dynamo and AOTAutograd make it.

    The model is called once. Raises LiftError where Dynamo makes several graphs of it.
    """
    from torch._dynamo.backends.common import aot_autograd

    found: list[Traced] = []

    def keep(gm: torch.fx.GraphModule, example: Sequence[Any]) -> Callable[..., Any]:
        context = torch._guards.TracingContext.try_get()
        meta = context.fw_metadata if context is not None else None
        static = meta.static_input_indices if meta is not None else []
        found.append(Traced(gm, tuple(static)))
        return gm.forward

    backend = aot_autograd(
        fw_compiler=keep, inference_compiler=keep, keep_inference_input_mutations=True
    )
    # Past this limit Dynamo would run the model without compiling it.
    unlimited = torch._dynamo.config.patch(recompile_limit=2**31, accumulated_recompile_limit=2**31)
    with torch.no_grad(), unlimited:
        torch.compile(model, backend=backend, dynamic=False)(*inputs)
    if len(found) != 1:
        raise LiftError(f"Dynamo made {len(found)} graphs of the model, not one")
    return found[0]
