"""Anything the compiler does not model: torch runs it, in its place.

``target`` names the ATen overload; ``template`` is its arguments with ``Slot(i)`` where the i-th
tensor goes; ``strides`` are those that each tensor had in the user's graph, since the operator may
depend on them, and ``out_strides`` those of its results. A random or effectful operator carries a
number of its own in ``uid``, so that two of them are never equal.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import sympy
import torch

from superopt.ir.types import Type
from superopt.ops.op import Kind, Op, define


@dataclass(frozen=True)
class Slot:
    """The place of the index-th tensor operand in an opaque operator's arguments."""

    index: int


@dataclass(frozen=True)
class Literal:
    """An argument that is compared by identity, such as a submodule; ``token`` is its identity."""

    value: Any = field(compare=False, repr=False)
    token: int | str = 0

    @staticmethod
    def of(value: Any) -> Literal:
        return Literal(value, id(value)) if not isinstance(value, Literal) else value


# Targets that are no ATen overload (higher-order operators), by the name that lifting gave them.
CALLABLES: dict[str, Any] = {}


@dataclass(frozen=True)
class Opaque:
    """What distinguishes one opaque operator from another (its only attribute)."""

    target: str
    args: tuple[Any, ...]
    kwargs: tuple[tuple[str, Any], ...]
    type: Type
    strides: tuple[tuple[Any, ...] | None, ...] = ()
    out_strides: tuple[tuple[Any, ...] | None, ...] = ()
    uid: int | None = None

    def __str__(self) -> str:
        return self.target


def resolve(target: str) -> Any:
    """The callable behind ``namespace.name.overload``."""
    if target in CALLABLES:
        return CALLABLES[target]
    namespace, name, overload = target.split(".")
    return getattr(getattr(getattr(torch.ops, namespace), name), overload)


def written_slots(spec: Opaque) -> list[int]:
    """The operands that the operator writes to."""
    return [s for info, value in _annotated(spec) if info.is_write for s in _slots(value)]


def shared_slots(spec: Opaque) -> list[int]:
    """The operands whose memory a result may share: those of views and of in-place operators."""
    schema = getattr(resolve(spec.target), "_schema", None)
    if schema is None or all(r.alias_info is None for r in schema.returns):
        return []
    return [s for _, value in _annotated(spec) for s in _slots(value)]


def _annotated(spec: Opaque) -> Iterator[tuple[Any, Any]]:
    """(alias annotation, value) of each argument that is annotated."""
    schema = getattr(resolve(spec.target), "_schema", None)
    named = dict(spec.kwargs)
    for place, argument in enumerate(schema.arguments if schema is not None else ()):
        if argument.alias_info is not None:
            value = spec.args[place] if place < len(spec.args) else named.get(argument.name)
            yield argument.alias_info, value


def _slots(template: Any) -> Iterator[int]:
    if isinstance(template, Slot):
        yield template.index
    elif isinstance(template, tuple):
        for part in template:
            yield from _slots(part)


def fill(template: Any, tensors: tuple[Any, ...]) -> Any:
    """The template with every slot replaced by its tensor."""
    if isinstance(template, Slot):
        return tensors[template.index]
    if isinstance(template, Literal):
        return template.value
    if isinstance(template, tuple):
        return [fill(t, tensors) for t in template]
    return template


def substitute_sizes(spec: Opaque, realise: Any) -> Opaque:
    """The operator with symbolic sizes among its arguments replaced by ``realise(size)``."""

    def go(t: Any) -> Any:
        if isinstance(t, sympy.Basic):
            return realise(t)
        return tuple(map(go, t)) if isinstance(t, tuple) else t

    return replace(spec, args=go(spec.args), kwargs=go(spec.kwargs))


def call(*operands: Any) -> Any:
    """Run the operator on its tensors; the last operand is the ``Opaque``."""
    tensors, spec = operands[:-1], operands[-1]
    args = [fill(a, tensors) for a in spec.args]
    kwargs = {k: fill(v, tensors) for k, v in spec.kwargs}
    return resolve(spec.target)(*args, **kwargs)


opaque = define(
    Op("opaque", Kind.OPAQUE, lambda types, spec: spec.type, call, attrs=("spec",), arity=None)
)
