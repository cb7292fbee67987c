"""Products to generate kernels for, as small as still shows ragged edges, strides and groups."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import sympy
import torch

from superopt.ir.dims import Dim
from superopt.ir.expr import Apply, Expr, Hole
from superopt.ir.graph import Graph
from superopt.ir.plan import Site, Step
from superopt.ir.types import TensorType
from superopt.ops import (
    cast,
    exp,
    gelu_tanh,
    gemm,
    input_,
    mean,
    mul,
    pack,
    relu,
    rms,
    rsqrt,
    scalar,
    sigmoid,
    silu,
    softmax,
    standardise,
    tanh,
    where,
)

F32, F16, BF16, F64 = torch.float32, torch.float16, torch.bfloat16, torch.float64

# A body is made from its holes: accumulators (or x) and extras.
Body = Callable[[list[Hole], list[Hole]], Expr]


@dataclass(frozen=True)
class Case:
    """A product on random operands.

    ``lead`` are the leading axes of x, ``widths`` those of the weights; ``groups`` pairs the
    weights of a group with its epilogue; ``extras`` are shapes (of booleans where so asked), or
    numbers. ``layout`` makes strided operands:
    "x" (a slice of a wider x), "batch" (leading axes that do not collapse), "w" (transposed
    weights), "residual" (a transposed extra), "swap" (weights in falling order of address).
    """

    name: str
    lead: tuple[int, ...]
    K: int
    widths: tuple[int, ...]
    groups: tuple[tuple[tuple[int, ...], Body], ...]
    dtype: torch.dtype = F32
    extras: tuple[tuple[int, ...] | float, ...] = ()
    prologue: Body | None = None
    layout: str = ""
    arch: int = 80
    symbolic: bool = False
    booleans: bool = False
    families: tuple[str, ...] = ("gemv", "skinny", "tiled")


@dataclass
class Built:
    """A case's site, and the tensor that is the value of each node."""

    site: Site
    tensors: dict[int, torch.Tensor]
    sizes: dict[sympy.Symbol, int] = field(default_factory=dict)


def build(case: Case) -> Built:
    """The plan step and the operands of a case."""
    torch.manual_seed(len(case.name) + case.K)
    graph = Graph()
    rows = sympy.Symbol("rows", integer=True, positive=True)
    lead: tuple[Dim, ...] = (rows, *case.lead[1:]) if case.symbolic else case.lead
    sizes = {rows: case.lead[0]} if case.symbolic else {}
    graph.hints = sizes
    tensors: dict[int, torch.Tensor] = {}

    def enter(value: torch.Tensor, shape: tuple[Dim, ...]) -> int:
        type_ = TensorType(shape, value.dtype)
        index = graph.add(input_, (), (len(tensors), type_, "input"))
        tensors[index] = value
        return index

    x = enter(_operand(case, (*case.lead, case.K), "x"), (*lead, case.K))
    weights = [_weight(case, n) for n in case.widths]
    if case.layout == "swap":
        weights.sort(key=lambda w: -w.data_ptr())
    ws = [enter(w, tuple(w.shape)) for w in weights]
    es = [
        graph.add(scalar, (), (s, case.dtype))
        if isinstance(s, float)
        else enter(_operand(case, s, "residual"), _symbolic(s, case, lead))
        for s in case.extras
    ]
    index = graph.insert(_product(case, graph, (x, ws, es), lead))
    graph.outputs = [index]
    strides = {i: tuple(t.stride()) for i, t in tensors.items()}
    if case.symbolic:
        strides = {i: s for i, s in strides.items() if i in ws}
    step = Step("gemm", (index,), tuple(tensors), (index,))
    return Built(Site(graph, step, strides, case.arch, 4), tensors, sizes)


def _product(
    case: Case, graph: Graph, values: tuple[int, list[int], list[int]], lead: tuple[Dim, ...]
) -> Expr:
    """The gemm of these nodes: x, the weights, the extras."""
    x, ws, es = values
    holes = [Hole("in", i, graph.nodes[e].type) for i, e in enumerate(es)]
    body = None
    if case.prologue:
        body = case.prologue([Hole("x", 0, graph.nodes[x].type)], holes)
    groups = tuple((ids, make(_accumulators(case, lead, ids), holes)) for ids, make in case.groups)
    weights, extras = (pack(*map(graph.ref, v)) for v in (ws, es))
    return gemm(graph.ref(x), weights, extras, body, groups)


def _symbolic(shape: tuple[int, ...], case: Case, lead: tuple[Dim, ...]) -> tuple[Dim, ...]:
    full = case.symbolic and len(shape) == len(lead) + 1 and shape[0] == case.lead[0]
    return (lead[0], *shape[1:]) if full else shape


def _accumulators(case: Case, lead: tuple[Dim, ...], ids: tuple[int, ...]) -> list[Hole]:
    return [Hole("acc", i, TensorType((*lead, case.widths[i]), case.dtype)) for i in ids]


def _operand(case: Case, shape: tuple[int, ...], role: str) -> torch.Tensor:
    strided = case.layout == role and len(shape) > 1
    if role == "residual" and case.booleans:
        return torch.randn(shape) > 0
    if strided and role == "residual":
        return torch.randn(*reversed(shape)).to(case.dtype).permute(*reversed(range(len(shape))))
    if strided:
        return torch.randn(*shape[:-1], 2 * shape[-1]).to(case.dtype)[..., ::2]
    if role == "x" and case.layout == "batch":
        return torch.randn(shape[0], shape[1] + 3, *shape[2:]).to(case.dtype)[:, : shape[1]]
    return torch.randn(shape).to(case.dtype)


def _weight(case: Case, n: int) -> torch.Tensor:
    if case.layout == "w":
        return (torch.randn(case.K, n) * case.K**-0.5).to(case.dtype).T
    return (torch.randn(n, case.K) * case.K**-0.5).to(case.dtype)


def exact(expr: Expr) -> Expr:
    """A body without the roundings that its casts ask for."""
    if not isinstance(expr, Apply):
        return expr
    if expr.op is cast:
        return exact(expr.args[0])
    return Apply(expr.op, tuple(map(exact, expr.args)), expr.attrs)


# Bodies ----------------------------------------------------------------------------------------


def plain(a: list[Hole], e: list[Hole]) -> Expr:
    return a[0]


def bias(a: list[Hole], e: list[Hole]) -> Expr:
    return a[0] + e[0]


def activated(a: list[Hole], e: list[Hole]) -> Expr:
    """relu(acc + bias) * row scale + residual"""
    return relu(a[0] + e[0]) * e[1] + e[2]


def swiglu(a: list[Hole], e: list[Hole]) -> Expr:
    return silu(a[0]) * a[1]


def geglu(a: list[Hole], e: list[Hole]) -> Expr:
    return gelu_tanh(a[0]) * a[1]


def three(a: list[Hole], e: list[Hole]) -> Expr:
    return tanh(a[0]) * a[1] + sigmoid(a[2])


def masked(a: list[Hole], e: list[Hole]) -> Expr:
    """acc where the mask is set, minus infinity elsewhere"""
    return exp(where(e[0], a[0], scalar(float("-inf"), a[0].dtype)))


def halved(a: list[Hole], e: list[Hole]) -> Expr:
    return cast(a[0], F32) * scalar(0.5, F32)


def llama(x: list[Hole], e: list[Hole]) -> Expr:
    """RMSNorm as in Llama, the gain being the last extra."""
    h = x[0]
    return mul(cast(rms(cast(h, F32), 1e-5), h.dtype), e[-1])


def norm(x: list[Hole], e: list[Hole]) -> Expr:
    return standardise(x[0], 1e-5) * e[-1]


def scores(x: list[Hole], e: list[Hole]) -> Expr:
    return softmax(x[0])


def spelled(x: list[Hole], e: list[Hole]) -> Expr:
    """A norm that was written out."""
    h = x[0]
    return h * rsqrt(mean(h * h, (h.ndim - 1,)) + scalar(1e-5, h.dtype))


def shifted(x: list[Hole], e: list[Hole]) -> Expr:
    """A prologue that turns zeros into something else."""
    return sigmoid(x[0]) + scalar(1.0, x[0].dtype)
