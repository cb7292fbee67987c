"""E-graphs as JSON: saved here, priced and extracted again anywhere, under any card.

Attributes keep their types through tags: ``{"dtype": "float32"}``, ``{"dim": "s0 + 1"}`` and so on.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import sympy
import torch

from superopt.errors import SuperoptError
from superopt.ir.egraph import EClass, EGraph, ENode
from superopt.ir.expr import Apply, Hole
from superopt.ir.types import TensorType, TupleType
from superopt.ops.op import get
from superopt.ops.opaque import Opaque, Slot

VERSION = 1
_TORCH = (torch.dtype, torch.device, torch.layout, torch.memory_format)


def save(egraph: EGraph, path: str | Path) -> None:
    """Write ``egraph``; a SuperoptError where it holds something that has no text (a submodule)."""
    Path(path).write_text(json.dumps(to_json(egraph)))


def load(path: str | Path) -> EGraph:
    """Read what ``save`` wrote."""
    return from_json(json.loads(Path(path).read_text()))


def to_json(egraph: EGraph) -> dict[str, Any]:
    """The e-graph as JSON values."""
    return {
        "version": VERSION,
        "roots": egraph.roots,
        "hints": [[encode(s), v] for s, v in egraph.hints.items()],
        "classes": [
            {
                "id": number,
                "type": encode(c.type),
                "nodes": [[n.op.name, list(n.args), encode(n.attrs), n.law] for n in c.nodes],
            }
            for number, c in egraph.classes.items()
        ],
    }


def from_json(data: dict[str, Any]) -> EGraph:
    """The e-graph that ``to_json`` described."""
    if data.get("version") != VERSION:
        raise SuperoptError(f"an e-graph of version {data.get('version')}; this reads {VERSION}")
    classes = {
        c["id"]: EClass(
            decode(c["type"]),
            [ENode(get(n[0]), tuple(n[1]), decode(n[2]), n[3]) for n in c["nodes"]],
        )
        for c in data["classes"]
    }
    return EGraph(classes, list(data["roots"]), {decode(s): v for s, v in data["hints"]})


def encode(value: Any) -> Any:
    """One attribute as JSON."""
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": repr(value)}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple):
        return {"tuple": [encode(v) for v in value]}
    if isinstance(value, sympy.Expr):
        return {"dim": sympy.srepr(value)}
    if isinstance(value, _TORCH):
        return {type(value).__name__: str(value).removeprefix("torch.")}
    if isinstance(value, TensorType):
        return {"tensor": [encode(value.shape), encode(value.dtype)]}
    if isinstance(value, TupleType):
        return {"types": encode(value.items)}
    if isinstance(value, Hole):
        return {"hole": [value.kind, value.index, encode(value.of)]}
    if isinstance(value, Apply):
        return {"apply": [value.op.name, encode(value.args), encode(value.attrs)]}
    if isinstance(value, Slot):
        return {"slot": value.index}
    if isinstance(value, Opaque):
        return {"opaque": encode(tuple(vars(value).values()))}
    raise SuperoptError(f"{value!r} cannot be saved: it exists in this process only")


def decode(value: Any) -> Any:
    """The attribute that ``encode`` made JSON of."""
    if not isinstance(value, dict):
        return value
    ((tag, inner),) = value.items()
    return _DECODERS[tag](inner)


def _symbols(text: str) -> Any:
    return sympy.sympify(text)


_DECODERS: dict[str, Any] = {
    "float": float,
    "tuple": lambda v: tuple(map(decode, v)),
    "dim": _symbols,
    "dtype": lambda v: getattr(torch, v),
    "layout": lambda v: getattr(torch, v),
    "memory_format": lambda v: getattr(torch, v),
    "device": torch.device,
    "tensor": lambda v: TensorType(decode(v[0]), decode(v[1])),
    "types": lambda v: TupleType(decode(v)),
    "hole": lambda v: Hole(v[0], v[1], decode(v[2])),
    "apply": lambda v: Apply(get(v[0]), decode(v[1]), decode(v[2])),
    "slot": Slot,
    "opaque": lambda v: Opaque(*decode(v)),
}
