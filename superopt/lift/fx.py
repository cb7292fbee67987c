"""An FX graph of ATen calls, as AOTAutograd makes it, becomes a graph of our own typed terms.

What has no model becomes an opaque operator that keeps its place; no graph is refused for what it
computes, unless it computes with sizes that depend on data. Nothing here branches on a symbolic
size.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from typing import Any

import sympy
import torch
from torch.fx.node import Node as FxNode

from superopt import ops
from superopt.errors import LiftError
from superopt.ir.dims import Dim, to_dim
from superopt.ir.expr import Expr, Ref
from superopt.ir.graph import Graph
from superopt.ir.lifted import Lifted, Output
from superopt.ir.types import TensorType, TupleType, Type
from superopt.lift import derivatives as _derivatives  # noqa: F401  (enters its lifters)
from superopt.lift.aten import LIFTERS
from superopt.lift.operands import Unmodelled, operand, promoted
from superopt.ops.op import Kind, Op
from superopt.ops.opaque import CALLABLES, Literal, Opaque, Slot

log = logging.getLogger("superopt")


def type_of(value: Any) -> Type | None:
    """The type of a traced value; None where it is not made of tensors."""
    if isinstance(value, torch.Tensor):
        return TensorType(tuple(map(to_dim, value.shape)), value.dtype)
    if isinstance(value, list | tuple):
        return TupleType(tuple(type_of(v) for v in value))  # type: ignore[misc]
    return None


def lift(
    gm: torch.fx.GraphModule, params: Sequence[int] = (), example: Sequence[Any] | None = None
) -> Lifted:
    """Lift ``gm``, whose nodes carry fake values in ``meta["val"]``.

    ``params`` are the positions of arguments whose storage stays from call to call. ``example``
    are arguments as they will come: a saved tensor may have other strides than it was traced with.
    """
    return _Lift(gm, frozenset(params), example).run()


_DIRECT: dict[Any, Op] = {target: op for op in ops.every() for target in op.aten}


class _Lift:
    def __init__(
        self, gm: torch.fx.GraphModule, params: frozenset[int], example: Sequence[Any] | None
    ) -> None:
        self.gm = gm
        self.params = params
        self.example = example
        self.graph = Graph()
        self.env: dict[FxNode, Any] = {}
        self.effects: list[int] = []
        self.constants: list[torch.Tensor] = []
        self.opaque: list[str] = []
        self.storages: dict[int, str] = {}
        self.sizes: dict[sympy.Symbol, tuple[int, int | None]] = {}
        self.uid = 0
        placeholders = [n for n in gm.graph.nodes if n.op == "placeholder"]
        self.arguments = len(placeholders)
        self.device = _device(gm)

    def run(self) -> Lifted:
        outputs: list[Output] = []
        position = 0
        for node in self.gm.graph.nodes:
            if node.op == "placeholder":
                self.placeholder(node, position)
                position += 1
            elif node.op == "get_attr":
                self.attribute(node)
            elif node.op == "output":
                outputs = self.outputs(node)
            elif node.op == "call_function":
                self.env[node] = self.call(node)
            else:
                raise LiftError(f"{node.format_node()}: calls of modules are not expected here")
        self.graph.visible = len(self.graph.outputs)
        self.graph.outputs += self.effects
        self.check_sizes(outputs)
        return Lifted(
            self.graph,
            outputs,
            self.sizes,
            self.constants,
            self.arguments,
            self.device,
            self.opaque,
        )

    # -- leaves --------------------------------------------------------------------------------

    def placeholder(self, node: FxNode, position: int) -> None:
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor):
            role = "param" if position in self.params else "input"
            as_passed = value if self.example is None else self.example[position]
            self.env[node] = self.input(position, as_passed, role)
            self.storages.setdefault(_storage(value), f"input:{position}")
            for axis, dim in enumerate(map(to_dim, value.shape)):
                self.bind(dim, (position, axis))
        elif isinstance(value, torch.SymInt | int):
            dim = to_dim(value)
            self.bind(dim, (position, None))
            self.env[node] = dim
        else:
            self.env[node] = Literal(value)

    def bind(self, dim: Dim, place: tuple[int, int | None]) -> None:
        if isinstance(dim, sympy.Symbol):
            old = self.sizes.get(dim)
            if old is None or (old[1] is not None and place[1] is None):
                self.sizes[dim] = place

    def input(self, index: int, value: torch.Tensor, role: str) -> Ref:
        type_ = type_of(value)
        self.hints(value)
        self.graph.input_strides[index] = tuple(map(to_dim, value.stride()))
        return self.graph.ref(self.graph.add(ops.input_, (), (index, type_, role)))

    def hints(self, value: torch.Tensor) -> None:
        for size in (*value.shape, *value.stride()):
            if isinstance(size, torch.SymInt) and isinstance(size.node.expr, sympy.Symbol):
                if size.node.hint is not None:
                    self.graph.hints = {**self.graph.hints, size.node.expr: int(size.node.hint)}

    def attribute(self, node: FxNode) -> None:
        value: Any = self.gm
        for part in str(node.target).split("."):
            value = getattr(value, part)
        if isinstance(value, torch.Tensor):
            self.constants.append(value)
            fake = node.meta.get("val", value)
            self.env[node] = self.input(self.arguments + len(self.constants) - 1, fake, "input")
        else:
            self.env[node] = Literal(value)

    # -- calls ---------------------------------------------------------------------------------

    def call(self, node: FxNode) -> Any:
        value = node.meta.get("val")
        if isinstance(value, torch.SymInt):
            return to_dim(value)
        if isinstance(value, torch.SymFloat | torch.SymBool):
            return value.node.expr
        if isinstance(value, bool | int | float):
            return value
        args, kwargs = self.resolve((node.args, node.kwargs))
        if getattr(node.target, "__name__", "") == "getitem":
            return self.getitem(node, *args)
        type_ = type_of(value)
        try:
            return self.modelled(node, type_, args, kwargs)
        except Exception as e:  # whatever has no model runs as torch defines it
            if not isinstance(e, Unmodelled | TypeError):
                log.info("%s is not modelled: %s: %s", node.target, type(e).__name__, e)
            return self.make_opaque(node, type_)

    def resolve(self, value: Any) -> Any:
        if isinstance(value, FxNode):
            return self.env[value]
        if isinstance(value, list | tuple):
            return [self.resolve(v) for v in value]
        if isinstance(value, dict):
            return {k: self.resolve(v) for k, v in value.items()}
        if isinstance(value, torch.SymFloat | torch.SymBool):
            return value.node.expr
        return to_dim(value) if isinstance(value, torch.SymInt) else value

    def getitem(self, node: FxNode, source: Any, index: int) -> Any:
        if isinstance(source, tuple | list):
            return source[index]
        items = source.type.items
        if index >= len(items) or isinstance(items[index], TupleType):
            return self.make_opaque(node, type_of(node.meta.get("val")))
        if items[index] is None:
            return None
        return self.graph.ref(self.graph.insert(ops.getitem(source, index)))

    def modelled(self, node: FxNode, type_: Any, args: list, kwargs: dict) -> Any:
        if type_ is None or not self.one_device(node) or _complex(node):
            raise Unmodelled("other devices or dtypes")
        if node.target == torch.ops.aten.native_layer_norm.default and _keeps_statistics(node):
            raise Unmodelled("with weights of another dtype, torch keeps fp32 and traces others")
        if node.target in LIFTERS:
            out = type_ if isinstance(type_, TensorType) else type_.items
            result = LIFTERS[node.target](out, *args, **kwargs)
        elif node.target in _DIRECT and not kwargs:
            result = self.direct(_DIRECT[node.target], type_, args)
        else:
            raise Unmodelled(f"no model of {node.target}")
        if isinstance(result, tuple):
            if any(e.type != t for e, t in zip(result, type_.items, strict=True)):
                raise Unmodelled("traced types differ")
            return tuple(self.graph.ref(self.graph.insert(e)) for e in result)
        if result.type != type_:
            raise Unmodelled("traced type differs")
        return self.graph.ref(self.graph.insert(result))

    def direct(self, op: Op, type_: TensorType, args: list) -> Expr:
        if op.kind is not Kind.POINTWISE:
            return op(*args)
        dtype = promoted(args) if type_.dtype == torch.bool else type_.dtype
        return op(*(operand(a, dtype) for a in args))

    def one_device(self, node: FxNode) -> bool:
        values = [n.meta.get("val") for n in (*node.all_input_nodes, node)]
        tensors = [v for v in values if isinstance(v, torch.Tensor)]
        return all(t.device == self.device and t.layout == torch.strided for t in tensors)

    def make_opaque(self, node: FxNode, type_: Any) -> Any:
        tensors: list[Ref] = []
        strides: list[tuple | None] = []

        def template(v: Any) -> Any:
            if isinstance(v, FxNode):
                value = self.env[v]
                if not isinstance(value, Ref):
                    return template(value)
                tensors.append(value)
                strides.append(_strides(v.meta.get("val")))
                return Slot(len(tensors) - 1)
            if isinstance(v, list | tuple):
                return tuple(map(template, v))
            if isinstance(v, torch.SymInt | torch.SymFloat | torch.SymBool):
                return template(self.resolve(v))
            if isinstance(v, float) and (v != v or (v == 0 and math.copysign(1, v) < 0)):
                return Literal(v, token=repr(v))  # equality does not tell -0.0 from 0.0
            return v if isinstance(v, _PLAIN) else Literal.of(v)

        impure = _impure(node)
        self.uid += 1
        spec = Opaque(
            _target(node.target),
            tuple(map(template, node.args)),
            tuple((k, template(v)) for k, v in node.kwargs.items()),
            type_ if type_ is not None else TupleType(()),
            tuple(strides),
            _out_strides(node.meta.get("val")),
            self.uid if impure else None,
        )
        self.opaque.append(spec.target)
        index = self.graph.add(ops.opaque, tuple(t.id for t in tensors), (spec,))
        if impure and (_mutates(node.target) or not node.users):
            self.effects.append(index)
        return self.graph.ref(index)

    def check_sizes(self, outputs: list[Output]) -> None:
        """Every size that the plan must compute with is found in its arguments."""
        found = _symbols(tuple((o.dim, o.strides) for o in outputs))
        for i in self.graph.live():
            found |= _symbols(self.graph.nodes[i].attrs)
        unknown = sorted(map(str, found - self.sizes.keys()))
        if unknown:
            raise LiftError(f"sizes that depend on data ({', '.join(unknown)}) are not supported")

    # -- outputs -------------------------------------------------------------------------------

    def outputs(self, node: FxNode) -> list[Output]:
        outs = []
        given = node.args[0]
        for i, arg in enumerate(given if isinstance(given, list | tuple) else [given]):
            value = self.resolve(arg)
            if isinstance(value, Ref):
                traced = arg.meta["val"]
                storage = self.storages.setdefault(_storage(traced), f"output:{i}")
                self.graph.outputs.append(value.id)
                outs.append(
                    Output(
                        len(self.graph.outputs) - 1,
                        strides=tuple(map(to_dim, traced.stride())),
                        storage=storage,
                    )
                )
            elif value is None or (isinstance(value, Literal) and value.value is None):
                outs.append(Output())
            else:
                outs.append(Output(dim=value))
        return outs


_PLAIN = (
    bool,
    int,
    float,
    str,
    type(None),
    sympy.Basic,
    torch.dtype,
    torch.device,
    torch.layout,
    torch.memory_format,
)


def _symbols(value: Any) -> set[Any]:
    """The symbols in a size, or in an operator's attributes."""
    if isinstance(value, sympy.Basic):
        return set(value.free_symbols)
    if isinstance(value, Opaque):
        return _symbols((value.args, value.kwargs, value.strides))
    return set().union(*map(_symbols, value), set()) if isinstance(value, tuple) else set()


def _device(gm: torch.fx.GraphModule) -> torch.device:
    """The device of most tensors; a GPU wins over the CPU."""
    devices = [v.device for n in gm.graph.nodes if isinstance(v := n.meta.get("val"), torch.Tensor)]
    for d in devices:
        if d.type != "cpu":
            return d
    return torch.device("cpu")


def _storage(value: torch.Tensor) -> int:
    return value.untyped_storage()._cdata


def _strides(value: Any) -> tuple | None:
    return tuple(map(to_dim, value.stride())) if isinstance(value, torch.Tensor) else None


def _out_strides(value: Any) -> tuple:
    values = value if isinstance(value, list | tuple) else [value]
    return tuple(_strides(v) for v in values)


def _keeps_statistics(node: FxNode) -> bool:
    """True where a norm's mean or deviation is wanted, and its operands differ in dtype."""
    dtypes = {v.dtype for n in node.all_input_nodes if (v := n.meta.get("val")) is not None}
    return len(dtypes) > 1 and any(u.args[1] != 0 for u in node.users)


def _complex(node: FxNode) -> bool:
    values = [n.meta.get("val") for n in (*node.all_input_nodes, node)]
    return any(isinstance(v, torch.Tensor) and v.is_complex() for v in values)


def _target(target: Any) -> str:
    if isinstance(target, torch._ops.OpOverload):
        return str(target)
    name = f"callable:{getattr(target, '__name__', target)}:{id(target)}"
    CALLABLES[name] = target
    return name


def _mutates(target: Any) -> bool:
    schema = getattr(target, "_schema", None)
    return schema is None or schema.is_mutable


def _impure(node: FxNode) -> bool:
    """Random, effectful, uninitialised, or unknown: never merged, copied or reordered."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return True
    seeded = torch.Tag.nondeterministic_seeded in target.tags
    return seeded or node.is_impure() or "empty" in target._schema.name
