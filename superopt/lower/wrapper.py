"""A plan as a Python module: ``call(args)`` runs its operations in order.

The text is written to a real file for people to read and debuggers to step through. Torch's
operators and constants too long to print are bound to names that the listing carries beside the
text; the runtime adds its own (``empty``, ``full``, ``restride``, ``run_opaque``) and the kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy
import torch
from torch.utils._sympy.printers import PythonPrinter

from superopt.ir.dims import Dim
from superopt.ir.graph import Graph, Node
from superopt.ir.lifted import Lifted, Output
from superopt.ir.memory import Memory, memory
from superopt.ir.plan import Kernel, Listing, Plan, Step, Strides
from superopt.ir.types import TensorType, TupleType
from superopt.ops.op import Kind


def lower(plan: Plan, kernels: Sequence[Kernel | None], lifted: Lifted, title: str) -> Listing:
    """The module of ``plan``; ``kernels`` holds each step's generated kernel, or None."""
    return _Writer(plan, kernels, lifted).write(title)


class _Writer:
    def __init__(self, plan: Plan, kernels: Sequence[Kernel | None], lifted: Lifted) -> None:
        self.plan = plan
        self.graph: Graph = plan.graph
        self.kernels = kernels
        self.lifted = lifted
        self.names: dict[str, Any] = {"torch": torch, "DEVICE": lifted.device}
        self.names.update(max=torch.sym_max, min=torch.sym_min)  # as sizes are printed
        self.constants: dict[Any, str] = {}

    def write(self, title: str) -> Listing:
        once = [i for i, s in enumerate(self.plan.steps) if s.placement == "once"]
        rest = [i for i, s in enumerate(self.plan.steps) if s.placement != "once"]
        kept = self._kept(once, rest)
        lines = [f'"""{title}"""', ""]
        self.names["CONSTANTS"] = ()
        lines += [
            "def prepare(args):",
            *self._body(once, [], f"return ({_tuple(kept)})", clear=False),
            "",
        ]
        lines += ["def call(args):", *self._body(rest, kept, self._return(), clear=True)]
        used = {k.name: k for k in self.kernels if k is not None}
        return Listing("\n".join(lines) + "\n", self.names, used)

    def _kept(self, once: list[int], rest: list[int]) -> list[int]:
        """Values that the constant part hands to every call."""
        made = {n for i in once for n in (*self.plan.steps[i].outputs, *self.plan.steps[i].nodes)}
        read = {v for i in rest for v in self._reads(i)} | set(self.graph.outputs)
        return sorted(made & read)

    # -- a function's body ---------------------------------------------------------------------

    def _body(self, steps: list[int], given: list[int], ending: str, *, clear: bool) -> list[str]:
        out: list[str] = []
        inputs = self._inputs()
        for index, node in inputs:
            out.append(f"v{node} = args[{index}]")
        for symbol, (position, axis) in self.lifted.sizes.items():
            size = f"args[{position}]" + ("" if axis is None else f".shape[{axis}]")
            out.append(f"{symbol} = {size}")
        sizes = ", ".join(f"{self._constant(s)}: {s}" for s in self.lifted.sizes)
        out.append(f"sizes = {{{sizes}}}")
        if given:
            out.append(f"({_tuple(given)}) = CONSTANTS")
        if clear:
            out.append("args.clear()")
        last = {v: i for i in steps for v in self._reads(i)}
        keep = set(self.graph.outputs) | set(given)
        for i in steps:
            out += self._step(i)
            dead = [v for v in sorted(self._reads(i)) if last[v] == i and v not in keep]
            dead = [v for v in dead if self._named(v)]
            if dead:
                out.append("del " + ", ".join(f"v{v}" for v in dead))
        out.append(ending)
        return ["    " + line for text in out for line in text.split("\n")]

    def _inputs(self) -> list[tuple[int, int]]:
        live = self.graph.live()
        return [
            (self.graph.nodes[i].attrs[0], i)
            for i in live
            if self.graph.nodes[i].op.name == "input"
        ]

    def _named(self, v: int) -> bool:
        return self.graph.nodes[v].op.name not in ("scalar", "pack")

    def _reads(self, i: int) -> set[int]:
        kernel = self.kernels[i]
        step = self.plan.steps[i]
        reads = set(kernel.inputs) if kernel is not None else set(step.inputs)
        for n in step.nodes if kernel is None else ():
            reads |= set(self.graph.nodes[n].args) - set(step.nodes)
        return reads

    # -- one step ------------------------------------------------------------------------------

    def _step(self, i: int) -> list[str]:
        step, kernel = self.plan.steps[i], self.kernels[i]
        if kernel is not None:
            return self._launch(kernel)
        return [line for n in step.nodes for line in self._node(n, step)]

    def _launch(self, kernel: Kernel) -> list[str]:
        lines, targets = [], []
        for o in kernel.outputs:
            type_ = self.graph.nodes[o].type
            if isinstance(type_, TupleType):
                items = [self._empty(t) for t in type_.items if t is not None]
                lines.append(f"v{o} = ({', '.join(items)},)")
                targets.append(f"*v{o}")
            else:
                lines.append(f"v{o} = {self._empty(type_)}")
                targets.append(f"v{o}")
        operands = [f"v{v}" for v in kernel.inputs] + targets
        operands += [self._dim(d) for d in kernel.sizes]
        lines.append(f"{kernel.name}({', '.join(operands)})")
        return lines

    def _empty(self, t: TensorType) -> str:
        return f"empty({self._shape(t.shape)}, {self._shape(t.contiguous)}, {t.dtype})"

    def _node(self, n: int, step: Step) -> list[str]:
        node = self.graph.nodes[n]
        if node.op.name in ("input", "scalar", "pack"):
            return []
        operands = [self._value(a) for a in node.args]
        if node.op.name == "opaque":
            spec = self._constant(node.attrs[0])
            line = f"v{n} = run_opaque({spec}, [{', '.join(operands)}], sizes)"
            line += f"  # {node.attrs[0].target}"
        elif node.op.name == "expand" and self.graph.nodes[node.args[0]].op.name == "scalar":
            shape, dtype = self._shape(node.attrs[0]), node.type.dtype  # type: ignore[union-attr]
            line = f"v{n} = full({operands[0]}, {shape}, {dtype}, DEVICE)"
        else:
            fn = f"op_{node.op.name}"
            self.names[fn] = node.op.torch
            attrs = [self._attr(v) for v in node.attrs]
            line = f"{fn}({', '.join([*operands, *attrs])})"
            if isinstance(node.type, TensorType) and self._guesses(node):
                line = f"typed({line}, {node.type.dtype}, DEVICE)"
            line = f"v{n} = {line}"
        lines = [line]
        # The library's products are contiguous; any other operator may choose its strides.
        exact = node.op.kind is Kind.CONTRACT
        if step.family == "aten" and isinstance(node.type, TensorType) and not exact:
            strides = self._shape(self.plan.strides[n])
            lines.append(f"v{n} = restride(v{n}, {strides})")
        return lines

    def _guesses(self, node: Node) -> bool:
        """True where torch sees no tensor that tells the result's dtype."""
        told = node.args[1:] if node.op.name == "where" else node.args
        return all(self.graph.nodes[a].op.name == "scalar" for a in told)

    def _value(self, v: int) -> str:
        node = self.graph.nodes[v]
        if node.op.name == "scalar":
            return self._number(node.attrs[0])
        if node.op.name == "pack":
            return "(" + "".join(f"{self._value(a)}, " for a in node.args) + ")"
        return f"v{v}"

    def _number(self, value: Any) -> str:
        text = repr(value)
        digits = text.lstrip("-").replace(".", "")
        plain = digits.isalnum() and digits not in ("inf", "nan")
        return text if plain else self._constant(value)

    def _attr(self, value: Any) -> str:
        if isinstance(value, bool | int | float | str | None):
            return self._number(value)
        if isinstance(value, sympy.Expr):
            return self._dim(value)
        if isinstance(value, torch.dtype):
            return str(value)
        if isinstance(value, tuple) and all(isinstance(v, int | sympy.Expr) for v in value):
            return self._shape(value)
        return self._constant(value)

    def _constant(self, value: Any) -> str:
        key = (type(value), value)
        if key not in self.constants:
            self.constants[key] = f"c{len(self.constants)}"
            self.names[self.constants[key]] = value
        return self.constants[key]

    def _dim(self, d: Dim) -> str:
        return str(d) if isinstance(d, int) else _PRINTER.doprint(d)

    def _shape(self, dims: Sequence[Dim]) -> str:
        return "(" + "".join(f"{self._dim(d)}, " for d in dims).rstrip(" ") + ")"

    # -- results -------------------------------------------------------------------------------

    def _return(self) -> str:
        lies_in = memory(self.graph)
        once = (s for s in self.plan.steps if s.placement == "once")
        owner = {i: "constant" for s in once for i in s.outputs}
        for i in lies_in:
            if self.graph.nodes[i].op.name == "input":
                owner[i] = f"input:{self.graph.nodes[i].attrs[0]}"
        parts = [self._output(out, lies_in, owner) for out in self.lifted.outputs]
        return f"return ({', '.join(parts)}{',' if len(parts) == 1 else ''})"

    def _output(self, out: Output, lies_in: Memory, owner: dict[int, str]) -> str:
        """An output as the caller must see it: copied where eager has memory of its own."""
        if out.position is None:
            return "None" if out.dim is None else self._dim(out.dim)
        v = self.graph.outputs[out.position]
        text = self._value(v)
        if self.graph.nodes[v].op.name == "scalar":
            type_ = self.graph.nodes[v].type
            return f"full({text}, (), {type_.dtype}, DEVICE)"  # type: ignore[union-attr]
        owners = {owner.setdefault(root, out.storage) for root in lies_in[v]}
        copied = owners != {out.storage}
        if copied:
            text = f"{text}.clone()"
        if out.strides is None or (not copied and self._surely(v, out.strides)):
            return text
        return f"restride({text}, {self._shape(out.strides)})"

    def _surely(self, v: int, strides: Strides) -> bool:
        """True where the value has these strides in every call; torch may surprise otherwise."""
        root = self.graph.nodes[v]
        while root.op.kind is Kind.LAYOUT and len(root.args) == 1:
            root = self.graph.nodes[root.args[0]]
        return root.op.kind is not Kind.OPAQUE and tuple(self.plan.strides[v]) == tuple(strides)


_PRINTER = PythonPrinter()


def _tuple(values: list[int]) -> str:
    return "".join(f"v{v}, " for v in values).rstrip(" ")
