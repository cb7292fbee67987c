"""From a region step to its kernel: addresses, masks and statements put into a template."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from string import Template

from superopt.errors import LowerError
from superopt.ir.dims import Dim, hint, is_static, product, same
from superopt.ir.graph import Graph
from superopt.ir.plan import Config, Kernel, Site, Strides
from superopt.ir.types import tensor
from superopt.kernels.region import configs, templates
from superopt.kernels.region.body import Body, Operand, Row
from superopt.kernels.region.index import Axes, Sizes, aligned, reach
from superopt.kernels.region.space import Space, space
from superopt.kernels.spelling import pointer_type, prelude

# Elements of a row, over all inputs, that may be loaded before the first is used: it hides
# latency, and costs registers.
_EARLY = 16384
_INT32 = 2**31


@dataclass
class _Draft:
    """What the two forms have in common while a kernel is written.

    ``names`` are the parameters of the inputs, ``strides`` those along the axes of the space.
    """

    site: Site
    where: Space
    sizes: Sizes
    names: Mapping[int, str]
    strides: Mapping[int, Strides]

    @property
    def graph(self) -> Graph:
        """The site's graph."""
        return self.site.graph

    def body(
        self, reads: dict[int, Operand], writes: dict[int, Operand], row: Row | None = None
    ) -> str:
        """The kernel's statements."""
        wide = [o for o in reads.values() if o.columns]
        early = row is None or len(wide) * row.block <= _EARLY
        lines = Body(self.graph, reads, writes, row).write(self.site.step.nodes, early)
        return templates.indent(lines)


def emit(site: Site) -> Kernel:
    """The kernel that computes a region step; LowerError where ``fits`` is false."""
    where = space(site.graph, site.step.nodes)
    if where is None:
        raise LowerError(f"no one kernel computes the nodes {site.step.nodes}")
    step, graph = site.step, site.graph
    names = {i: f"in{k}" for k, i in enumerate(step.inputs)}
    strides = {
        i: aligned(tensor(graph.nodes[i].type), site.strides[i], where.shape) for i in step.inputs
    }
    draft = _Draft(site, where, Sizes(), names, strides)
    form, holes, ways = _rows(draft) if where.columns else _flat(draft)
    return _kernel(draft, form, holes, ways)


def _flat(draft: _Draft) -> tuple[Template, dict[str, str], tuple[Config, ...]]:
    shape, sizes = draft.where.shape, draft.sizes
    count = product(shape)
    axes = Axes("index", shape, draft.strides, sizes)
    numel = sizes.text(count)
    reads = {
        i: Operand(name, offset, "live" if offset else "")
        for i, name in draft.names.items()
        for offset in (axes.offset(i),)
    }
    outputs = draft.site.step.outputs
    writes = {i: Operand(f"out{k}", "index", "live") for k, i in enumerate(outputs)}
    masks = [f"live = index < {numel}"]
    if is_static(count):
        masks = templates.FLAT_MASKS.substitute(numel=numel).splitlines()
    holes = {
        "summary": f"{_summary(draft)} over {_shape(shape)}, element by element",
        "numel": numel,
        "masks": templates.indent([*axes.lines, *masks]),
        "body": draft.body(reads, writes),
    }
    ways = configs.flat(hint(count, draft.graph.hints), draft.site.sms)
    return templates.FLAT, holes, ways


def _rows(draft: _Draft) -> tuple[Template, dict[str, str], tuple[Config, ...]]:
    where, sizes = draft.where, draft.sizes
    split = len(where.rows_shape)
    row_axes = Axes(
        "row", where.rows_shape, {i: s[:split] for i, s in draft.strides.items()}, sizes
    )
    col_axes = Axes(
        "col", where.columns_shape, {i: s[split:] for i, s in draft.strides.items()}, sizes
    )
    row = Row(where.length, configs.power_of_two(where.length))
    reads = {i: _read(name, i, row_axes, col_axes, row) for i, name in draft.names.items()}
    writes = {i: _write(draft, k, i, row) for k, i in enumerate(draft.site.step.outputs)}
    count = product(where.rows_shape)
    lines = [*row_axes.lines, *col_axes.lines]
    holes = {
        "summary": f"{_summary(draft)} over {_shape(where.shape)}, rows of {row.length}",
        "rows": sizes.text(count),
        "block": str(row.block),
        "masks": templates.indent([*lines, *_row_masks(sizes.text(count), is_static(count), row)]),
        "body": draft.body(reads, writes, row),
    }
    ways = configs.rows(hint(count, draft.graph.hints), row.block, draft.site.sms)
    return templates.ROWS, holes, ways


def _read(name: str, i: int, row_axes: Axes, col_axes: Axes, row: Row) -> Operand:
    along, across = row_axes.offset(i), col_axes.offset(i)
    further = col_axes.offset(i, f"((col + {row.length // 2}) % {row.length})")
    return Operand(
        name,
        offset=" + ".join(filter(None, (along, across))),
        mask=_mask(bool(along), bool(across)),
        rows=bool(along),
        columns=bool(across),
        turned=" + ".join(filter(None, (along, further))),
    )


def _write(draft: _Draft, k: int, i: int, row: Row) -> Operand:
    """Outputs are contiguous: one element per element, or one per row."""
    type_, where = tensor(draft.graph.nodes[i].type), draft.where
    last = type_.shape[max(0, type_.ndim - where.columns) :]
    whole = row.length == 1 or not all(same(d, 1) for d in last)
    offset = f"row * {row.length} + col" if whole else "row"
    return Operand(f"out{k}", offset, _mask(True, whole))


def _mask(rows: bool, columns: bool) -> str:
    if rows:
        return "live" if columns else "row_live"
    return "col_live" if columns else ""


def _row_masks(rows: str, static: bool, row: Row) -> list[str]:
    ragged = row.length != row.block
    text = templates.ROWS_MASKS.substitute(
        columns=f"col_live = col < {row.length}" if ragged else "col_live = None",
        full=f"{rows} % BLOCK_R == 0" if static else "BLOCK_R == 1",
        rows=rows,
        in_row="col_live",
        in_both="row_live & col_live" if ragged else "row_live",
    )
    return text.splitlines()


def _summary(draft: _Draft) -> str:
    graph, step = draft.graph, draft.site.step
    dtypes = [str(tensor(graph.nodes[i].type).dtype).removeprefix("torch.") for i in step.outputs]
    names = ", ".join(graph.nodes[i].op.name for i in step.nodes)
    return f"{names} -> {', '.join(dtypes)};"


def _shape(shape: tuple[Dim, ...]) -> str:
    return f"[{', '.join(map(str, shape))}]"


def _kernel(
    draft: _Draft, form: Template, holes: dict[str, str], ways: tuple[Config, ...]
) -> Kernel:
    """Fill the template; the kernel's name says what it does and holds a hash of its text."""
    graph, step, sizes = draft.graph, draft.site.step, draft.sizes
    bound = reach(draft.where.shape, draft.strides.values())
    wide = str(bound >= _INT32) if is_static(bound) else f"{sizes.text(bound)} >= {_INT32}"
    results = {i: f"out{k}" for k, i in enumerate(step.outputs)}
    tensors = {**draft.names, **results}
    parameters = ", ".join([*tensors.values(), *sizes.names])
    helpers = prelude(holes["body"])
    common = {
        "prelude": f"{helpers}\n\n" if helpers else "",
        "parameters": parameters,
        "arguments": parameters,
        "wide": wide,
    }
    pointers = [(p, pointer_type(tensor(graph.nodes[i].type).dtype)) for i, p in tensors.items()]
    signature = (*pointers, *((s, "i32") for s in sizes.names))
    anonymous = form.substitute(holes, **common, name="region")
    digest = hashlib.sha256(repr((anonymous, signature, ways)).encode()).hexdigest()[:12]
    words = [graph.nodes[i].op.name for i in step.nodes][:4]
    name = "_".join(["region", *words, digest])
    return Kernel(
        name=name,
        family="region",
        source=form.substitute(holes, **common, name=name),
        inputs=step.inputs,
        outputs=step.outputs,
        sizes=tuple(sizes.dims),
        configs=ways,
        signature=signature,
        constants=(("WIDE", wide == "True"),),
    )
