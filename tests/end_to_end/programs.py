"""Random torch functions, as source text: what models are made of, in odd shapes and orders.

A program is written line by line while its values are computed, so that every line fits the shapes
at hand; hypothesis shrinks it, and a failure shows text that can be pasted and run.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from hypothesis import strategies as st
from torch.fx.experimental.proxy_tensor import make_fx

SCOPE = {"torch": torch, "F": F, "math": math}
LIMIT = 512  # elements of a value

UNARY = (
    "torch.tanh({})", "torch.sigmoid({})", "F.silu({})", "F.gelu({})", "torch.relu({})", "-{}",
    "F.gelu({}, approximate='tanh')", "torch.exp(torch.tanh({}))", "{}.abs()", "{}.cos()",
    "{} * torch.sigmoid({})", "0.5 * {} * (1 + torch.erf({} * 0.7071067811865476))", "{} ** 2",
    "torch.rsqrt({} * {} + 1)", "{} / (1 + torch.exp(-{}))", "{} * 1", "{} - 0.0", "-(-{})",
    "{} * torch.sigmoid(1.702 * {})", "torch.sqrt({}.abs() + 0.5)", "{}.clamp(-0.75, 1.5)",
)  # fmt: skip
NUMBERS = ("{} * 0.5", "{} / 3", "{} + 1", "2 - {}", "{} * -1", "{} * 2 * 0.25", "{} / 0.125")
BINARY = ("{} + {}", "{} - {}", "{} * {}", "torch.maximum({}, {})", "{} / ({}.abs() + 1)",
          "torch.minimum({}, {})", "F.silu({}) * {}", "{} + 2 * {}")  # fmt: skip
ROWS = (
    "{}.softmax(-1)", "F.layer_norm({}, {}.shape[-1:])", "F.rms_norm({}, {}.shape[-1:], eps=1e-5)",
    "{} * torch.rsqrt({}.pow(2).mean(-1, keepdim=True) + 1e-6)", "F.log_softmax({}, -1)",
    "({} - {}.mean(-1, keepdim=True)) * 0.5", "{}.softmax(0)", "torch.cat((-{}, {}), -1)",
    "({} - {}.mean(-1, True)) / torch.sqrt({}.var(-1, keepdim=True, unbiased=False) + 1e-5)",
    "{} / (({} * {}).sum(-1, keepdim=True) + 1).sqrt()",
    "torch.exp({0} - {0}.amax(-1, True)) / torch.exp({0} - {0}.amax(-1, True)).sum(-1, True)",
)  # fmt: skip
REDUCE = ("{}.sum({})", "{}.mean({})", "{}.amax({})", "{}.amin({})", "{}.sum({}, keepdim=True)",
          "{}.mean({}, keepdim=True)", "{}.amax({}, keepdim=True)")  # fmt: skip


@dataclass(repr=False)
class Program:
    """Source lines over inputs ``x0, x1, …``; ``values`` are those of all names, as drawn."""

    dtype: torch.dtype
    seed: int
    lines: list[str] = field(default_factory=list)
    inputs: list[torch.Tensor] = field(default_factory=list)
    values: dict[str, torch.Tensor] = field(default_factory=dict)
    outputs: list[str] = field(default_factory=list)

    @property
    def source(self) -> str:
        names = [f"x{i}" for i in range(len(self.inputs))]
        shapes = ", ".join(f"{n}: {list(x.shape)}" for n, x in zip(names, self.inputs))
        body = [f"# {self.dtype} {shapes}", *self.lines, f"return {', '.join(self.outputs)},"]
        return f"def f({', '.join(names)}):\n" + "\n".join(f"    {line}" for line in body)

    def __repr__(self) -> str:
        return self.source

    def function(self) -> Callable[..., tuple[torch.Tensor, ...]]:
        scope = dict(SCOPE)
        exec(self.source, scope)
        return scope["f"]

    def trace(self) -> torch.fx.GraphModule:
        """The ATen graph, with fake values, that AOTAutograd would make."""
        gm = make_fx(self.function(), tracing_mode="fake")(*self.inputs)
        for node in gm.graph.nodes:
            if node.target is torch.ops.aten.squeeze_.dim:  # torch's own, in linear of one row
                node.target = torch.ops.aten.squeeze.dim
        return gm

    def input(self, *shape: int, integer: bool = False) -> str:
        generator = torch.Generator().manual_seed(self.seed + len(self.inputs))
        x = torch.randn(shape, generator=generator, dtype=torch.float64).to(self.dtype)
        x = torch.randint(-3, 4, shape, generator=generator) if integer else x
        self.inputs.append(x)
        name = f"x{len(self.inputs) - 1}"
        self.values[name] = x
        return name

    def write(self, text: str) -> str | None:
        """Add a line, if torch takes it and its value is of use."""
        try:
            value = eval(text, dict(SCOPE), self.values)
        except (RuntimeError, IndexError, TypeError, ValueError):
            return None
        if not isinstance(value, torch.Tensor) or value.numel() > LIMIT:
            return None
        if value.is_floating_point() and not bool((value.abs() < 1e4).all()):
            return None  # errors would grow beyond what can be compared
        name = f"t{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        self.values[name] = value
        return name


def stacked(p: Program, layers: int) -> Program:
    """The program as a layer, several times, with weights of its own each time.

    ``x0`` runs through the layers; each adds the mean of its last output to it.
    """
    out = Program(p.dtype, p.seed)
    h = out.input(*p.inputs[0].shape)
    for k in range(layers):
        names = {"x0": h}
        for i, x in enumerate(p.inputs[1:], 1):
            names[f"x{i}"] = out.input(*x.shape, integer=not x.is_floating_point())
        for line in [
            *p.lines,
            f"{p.outputs[-1]}_ = x0 + {p.outputs[-1]}.mean().to(x0.dtype) * 0.1",
        ]:
            name, text = line.split(" = ", 1)
            text = re.sub(r"\b[tx]\d+\b", lambda m: names[m.group()], text)
            names[name] = f"t{k}_{len(out.lines)}"
            out.lines.append(f"{names[name]} = {text}")
        h = names[f"{p.outputs[-1]}_"]
    out.outputs = [h, *(names[o] for o in p.outputs if o != "x0")]
    out.values.update(p.values)  # for the scale of what is compared
    return out


class _Writer:
    """Draws a program's lines."""

    def __init__(self, draw: st.DrawFn, program: Program) -> None:
        self.draw, self.p = draw, program

    def one(self, options: list | tuple) -> object:
        return self.draw(st.sampled_from(options))

    def value(self, least: int = 0, dtype: torch.dtype | None = None) -> str | None:
        """A floating-point value of at least that many axes, a late one more often."""
        dtype = dtype or self.p.dtype
        fit = [n for n, v in self.p.values.items() if v.dtype == dtype and v.ndim >= least]
        if not fit:
            return None
        return self.one([*fit, *fit[-3:], *fit[-3:]])

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self.p.values[name].shape)

    def weight(self, *shape: int) -> str:
        """An input of that shape; one that exists already in one case of four."""
        fit = [n for n, v in self.p.values.items() if n[0] == "x" and v.shape == shape]
        fit = [n for n in fit if self.p.values[n].dtype == self.p.dtype]
        return self.one(fit) if fit and self.one((0, 0, 0, 1)) else self.p.input(*shape)

    def step(self) -> None:
        kinds = (
            "unary", "binary", "number", "rows", "reduce", "linear", "linear", "gated", "qkv",
            "lora", "matmul", "layout", "layout", "slice", "cat", "scale", "where", "cast", "heads",
            "norm_linear", "split_linear", "sum_of_linears", "attention", "rotate", "integers",
        )  # fmt: skip
        getattr(self, self.one(kinds))()

    def unary(self) -> None:
        text, x = self.one(UNARY), self.value()
        self.p.write(text.replace("{}", x))

    def number(self) -> None:
        self.p.write(self.one(NUMBERS).replace("{}", self.value()))

    def binary(self) -> None:
        self.p.write(self.one(BINARY).format(self.value(), self.value()))

    def rows(self) -> None:
        text, x = self.one(ROWS), self.value(1)
        if x is not None:
            self.p.write(text.replace("{0}", x).replace("{}", x))

    def reduce(self) -> None:
        x = self.value(1)
        if x is None:
            return
        axes = self.draw(st.sets(st.integers(0, len(self.shape(x)) - 1), min_size=1))
        axes = self.one((sorted(axes), [len(self.shape(x)) - 1]))
        self.p.write(self.one(REDUCE).format(x, axes))

    def _linear(self, x: str, width: int | None = None) -> str | None:
        width = width or self.one((1, 2, 3, 4, 6, 8))
        w, bias = self.weight(width, self.shape(x)[-1]), self.one((False, False, True))
        text = self.one(("F.linear({}, {}{})", "F.linear({}, {}{})", "{} @ {}.T{}"))
        rest = ("" if not bias else ", {}" if text[0] == "F" else " + {}").format(
            self.weight(width) if bias else ""
        )
        return self.p.write(text.format(x, w, rest))

    def linear(self) -> None:
        if (x := self.value(1)) is not None:
            self._linear(x)

    def gated(self) -> None:
        x = self.value(2)
        if x is None:
            return
        width = self.one((2, 3, 8))
        a, b = self._linear(x, width), self._linear(x, width)
        if a and b:
            y = self.p.write(self.one(BINARY[-2:] + UNARY[:1]).replace("{}", a, 1).format(b))
            if y and self.one((True, False)):
                self._linear(y, self.shape(x)[-1])

    def qkv(self) -> None:
        x = self.value(2)
        for _ in range(self.one((2, 3, 4)) if x else 0):
            self._linear(x)

    def lora(self) -> None:
        x = self.value(1)
        if x is not None and (low := self._linear(x, self.one((1, 2)))) is not None:
            self._linear(low)

    def matmul(self) -> None:
        x, y = self.value(2), self.value(2)
        if x is not None:
            text = self.one(("{} @ {}", "{} @ {}.transpose(-1, -2)", "torch.bmm({}, {})"))
            self.p.write(text.format(x, y))

    def norm_linear(self) -> None:
        x = self.value(2)
        if x is None:
            return
        norm = self.one(ROWS[1:4]).replace("{}", x)
        y = self.p.write(f"{norm} * {self.weight(self.shape(x)[-1])}")
        for _ in range(self.one((1, 2, 3)) if y else 0):
            self._linear(y)

    def split_linear(self) -> None:
        x = self.value(1)
        y = self._linear(x, self.one((4, 6, 8))) if x is not None else None
        if y is not None:
            half = self.shape(y)[-1] // 2
            a, b = self.p.write(f"{y}[..., :{half}]"), self.p.write(f"{y}[..., {half}:]")
            self.p.write(self.one(BINARY).format(a, b))

    def sum_of_linears(self) -> None:
        x, width = self.value(1), self.one((3, 4))
        if x is not None:
            a, b = self._linear(x, width), self._linear(x, width)
            self.p.write(f"{a} {self.one('+-*')} {b}")

    def scale(self) -> None:
        """Columns, rows, weights and numbers around a product."""
        x = self.value(2)
        if x is None:
            return
        n, k = self.one((2, 3)), self.shape(x)[-1]
        w, g, r = self.weight(n, k), self.weight(k), f"{x}.mean(-1, keepdim=True)"
        forms = (
            f"F.linear({x} * {r}, {w})", f"F.linear({x} * {g}, {w})", f"F.linear({x}, {w} * {g})",
            f"F.linear({x} / ({r}.abs() + 1), {w})", f"F.linear({x} * 0.5, {w}) * 3",
            f"F.linear({x}, {w} * 2.0)", f"F.linear({x} + {g}, {w})", f"({x} * {r}) * {g}",
            f"F.linear({x}, {w}) + F.linear({g}.expand_as({x}), {w})",
            f"F.linear({x}, torch.cat(({w}, {w} * {g})))",
        )  # fmt: skip
        self.p.write(self.one(forms))

    def where(self) -> None:
        x, y, edge = self.value(), self.value(), self.one(("0.1", "-0.3", "0.7"))
        away = (self.p.values[x] - float(edge)).abs().min() if self.p.values[x].numel() else 1
        if away > 1e-3:  # else a rounding error would decide
            forms = ("torch.where({0} > {2}, {0}, {1})", "{1} * ({0} <= {2})",
                     "{0}.masked_fill({0} < {2}, float('-inf')).softmax(-1)",
                     "torch.where({0} >= {2}, 1.5, {1})")  # fmt: skip
            self.p.write(self.one(forms).format(x, y, edge))

    def layout(self) -> None:
        x = self.value()
        shape = list(self.shape(x))
        forms = [f"{x}.reshape(-1)", f"{x}.unsqueeze(0)", f"{x}.unsqueeze(-1)", f"{x}.squeeze()"]
        if len(shape) > 1:
            axes = self.draw(st.permutations(range(len(shape))))
            forms += [f"{x}.permute({list(axes)})", f"{x}.transpose(-1, -2)", f"{x}.flatten(0, 1)",
                      f"{x}.transpose(0, -1).reshape({shape})"]  # fmt: skip
        cuts = [(a, d) for a, n in enumerate(shape) for d in (2, 3) if n % d == 0 and n > d]
        for a, d in cuts[:2]:
            forms.append(f"{x}.reshape({[*shape[:a], d, shape[a] // d, *shape[a + 1 :]]})")
        if 1 in shape:
            forms.append(f"{x}.expand({[self.one((2, 3)) if n == 1 else n for n in shape]})")
        forms.append(f"{x}.expand(2, {', '.join(map(str, shape)) or 1})" if shape else f"{x} * 1")
        self.p.write(self.one(forms))

    def slice(self) -> None:
        x = self.value(1)
        if x is None:
            return
        axis = self.draw(st.integers(0, len(self.shape(x)) - 1))
        n = self.shape(x)[axis]
        start = self.draw(st.integers(0, n))
        end = self.draw(st.integers(start, n))
        forms = (f"{x}.narrow({axis}, {start}, {end - start})", f"{x}.select({axis}, 0)",
                 f"{x}[..., ::2]", f"{x}[..., -1:]", f"{x}.chunk(2, {axis})[0]",
                 f"{x}.split({max(n // 2, 1)}, {axis})[-1]")  # fmt: skip
        self.p.write(self.one(forms))

    def cat(self) -> None:
        x, y = self.value(1), self.value(1)
        if x is not None:
            axis = self.draw(st.integers(0, len(self.shape(x)) - 1))
            forms = (f"torch.cat(({x}, {y}), {axis})", f"torch.cat(({x}, {x} * 2), {axis})",
                     f"torch.stack(({x}, {y}), {axis})",
                     f"torch.cat({x}.split(1, {axis}), {axis})")  # fmt: skip
            self.p.write(self.one(forms))

    def rotate(self) -> None:
        x = self.value(1)
        if x is not None and (h := self.shape(x)[-1] // 2):
            y = self.p.write(f"torch.cat((-{x}[..., {h}:], {x}[..., :{h}]), -1)")
            c, s = self.weight(self.shape(x)[-1]), self.weight(self.shape(x)[-1])
            self.p.write(f"{x} * {c} + {y} * {s}")

    def heads(self) -> None:
        x = self.value(2)
        if x is not None and self.shape(x)[-1] % 2 == 0:
            y = self.p.write(f"{x}.unflatten(-1, (2, -1)).transpose(-3, -2)")
            if y and self.one((True, False)):
                self.p.write(f"{y}.transpose(-3, -2).flatten(-2)")

    def attention(self) -> None:
        x = self.value(2)
        if x is None:
            return
        width = self.one((2, 4))
        q, k, v = (self._linear(x, width) for _ in range(3))
        if q and k and v:
            forms = (f"F.scaled_dot_product_attention({q}, {k}, {v})",
                     f"(({q} @ {k}.transpose(-1, -2)) * 0.5).softmax(-1) @ {v}",
                     f"({q} / 2 @ {k}.transpose(-1, -2)).softmax(-1) @ {v}")  # fmt: skip
            self.p.write(self.one(forms))

    def cast(self) -> None:
        x, d = self.value(), self.p.dtype
        if d == torch.float64:  # nothing is lost there, so that results can be compared closely
            self.p.write(f"({x} > 0.25).to({d})")
        else:
            mid = self.one(("torch.float32", "torch.bfloat16", "torch.float64"))
            self.p.write(f"{x}.to({mid}).to({d})")
            self.p.write(f"({x}.to(torch.float32) * 0.5).to({d})")

    def integers(self) -> None:
        n = self.one((1, 3, 4))
        i, x = self.p.input(n, integer=True), self.value()
        forms = (f"{i} + 1", f"{i} * {x}", f"({i} > 0) & ({i} < 3)", f"{i}.sum()", f"{i} / 2",
                 f"{i}.to({self.p.dtype}) + {x}", f"torch.where({i} > 0, {x}, 0.5)",
                 f"{i}.bool().to({self.p.dtype})", f"-{i} * 2 - {i}")  # fmt: skip
        self.p.write(self.one(forms))


@st.composite
def programs(
    draw: st.DrawFn, dtypes: tuple[torch.dtype, ...] = (torch.float64,), most: int = 8
) -> Program:
    """Programs of up to ``most`` motifs, each a line or a few."""
    p = Program(draw(st.sampled_from(dtypes)), draw(st.integers(0, 3)) * 100)
    writer = _Writer(draw, p)
    shapes = [(4,), (3, 4), (1, 4), (2, 3, 4), (4, 1), (1, 1, 6), (2, 4, 8), (), (5, 2), (3, 3)]
    for _ in range(draw(st.integers(1, 3))):
        p.input(*draw(st.sampled_from(shapes)))
    for _ in range(draw(st.integers(1, most))):
        writer.step()
    made = [n for n in p.values if n[0] == "t"] or list(p.values)
    chosen = draw(st.lists(st.sampled_from(made), max_size=3, unique=True))
    p.outputs = list(dict.fromkeys([*chosen, made[-1]]))
    return p
