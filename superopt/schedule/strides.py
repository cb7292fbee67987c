"""Where elements lie: strides of views by arithmetic, and of everything else by convention.

What a kernel or a library product writes is contiguous. Sizes may be symbolic; what cannot be
proven then counts as false, so that a view is only called one when it is one in every run.
"""

from __future__ import annotations

from collections.abc import Sequence

from superopt.ir.dims import Dim, same, simplify
from superopt.ir.graph import Graph, Node
from superopt.ir.plan import Strides
from superopt.ir.types import TensorType, tensor

Shape = Sequence[Dim]


def contiguous(shape: Shape) -> Strides:
    """Strides of a row-major tensor."""
    out: list[Dim] = []
    step: Dim = 1
    for dim in reversed(shape):
        out.append(step)
        step = simplify(step * (1 if same(dim, 0) else dim))
    return tuple(reversed(out))


def permute(strides: Strides, axes: Sequence[int]) -> Strides:
    """Strides after the axes are put in another order."""
    return tuple(strides[a] for a in axes)


def expand(shape: Shape, strides: Strides, new: Shape) -> Strides:
    """Strides after broadcasting: an axis that stretches does not move."""
    lead = len(new) - len(shape)
    kept = zip(shape, strides, new[lead:], strict=True)
    return (0,) * lead + tuple(s if same(d, n) else 0 for d, s, n in kept)


def reshape(shape: Shape, strides: Strides, new: Shape) -> Strides | None:
    """Strides after a reshape, by torch's rule for views; None where it takes a copy.

    Old axes that lie end to end form a chunk; each chunk must be cut up by new axes exactly.
    """
    if any(same(d, 0) for d in shape):
        return contiguous(new)
    if not shape:
        return (1,) * len(new)
    out: list[Dim] = []
    todo = list(new)
    base, chunk = strides[-1], simplify(shape[-1])
    for axis in reversed(range(len(shape))):
        if axis and (same(shape[axis - 1], 1) or same(strides[axis - 1], simplify(chunk * base))):
            chunk = simplify(chunk * shape[axis - 1])
            continue
        part: Dim = 1
        while todo and (not same(part, chunk) or same(todo[-1], 1)):
            out.append(simplify(part * base))
            part = simplify(part * todo.pop())
        if not same(part, chunk):
            return None
        if axis:
            base, chunk = strides[axis - 1], simplify(shape[axis - 1])
    return None if todo else tuple(reversed(out))


def value_strides(graph: Graph) -> tuple[dict[int, Strides], set[int]]:
    """Strides of every live tensor, and the reshapes among them that take a copy."""
    table: dict[int, Strides] = {}
    copies: set[int] = set()
    for i in graph.live():
        node = graph.nodes[i]
        if not isinstance(node.type, TensorType):
            continue
        strides = _strides(graph, node, table)
        if strides is None:
            copies.add(i)
            strides = contiguous(node.type.shape)
        table[i] = strides
    return table, copies


def _strides(graph: Graph, node: Node, table: dict[int, Strides]) -> Strides | None:
    name, attrs, shape = node.op.name, node.attrs, tensor(node.type).shape
    if name == "input":
        return graph.input_strides.get(attrs[0], contiguous(shape))
    if name == "opaque":
        return _opaque(node, 0)
    if name == "getitem" and graph.nodes[node.args[0]].op.name == "opaque":
        return _opaque(graph.nodes[node.args[0]], attrs[0], shape)
    if name == "expand" and graph.nodes[node.args[0]].op.name == "scalar":
        return contiguous(shape)  # a number has no memory to look at: this is a fill
    if name in ("permute", "slice", "expand", "reshape"):
        old, before = table[node.args[0]], tensor(graph.nodes[node.args[0]].type).shape
        match name:
            case "permute":
                return permute(old, attrs[0])
            case "slice":
                return old
            case "expand":
                return expand(before, old, shape)
            case "reshape":
                return reshape(before, old, shape)
    return contiguous(shape)


def _opaque(node: Node, item: int, shape: Shape | None = None) -> Strides:
    """Strides of one of an opaque operator's results."""
    known = node.attrs[0].out_strides
    found = known[item] if item < len(known) else None
    return found if found is not None else contiguous(shape or tensor(node.type).shape)
