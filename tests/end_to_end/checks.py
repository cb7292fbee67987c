"""How results are compared: with float64, and never much further from it than eager is."""

from __future__ import annotations

import copy

import torch

ULPS = {torch.float32: 2**-23, torch.float16: 2**-10, torch.bfloat16: 2**-7, torch.float64: 2**-52}


def tensors(value):
    if isinstance(value, torch.Tensor):
        return [value]
    return [t for v in value for t in tensors(v)]


def reference(model, inputs):
    """The module's outputs in float64."""
    wide = copy.deepcopy(model).double()
    return tensors(wide(*(x.double() if x.is_floating_point() else x for x in inputs)))


def error(out, ref):
    """Norm of the difference relative to the norm of the reference."""
    norm = ref.double().norm().item()
    return (out.double() - ref.double()).norm().item() / (norm or 1.0)


def no_worse_than_eager(ours, eager, exact, factor=1.25):
    """Every output: at most ``factor`` times eager's error, or one ulp of its type."""
    assert len(ours) == len(eager) == len(exact)
    for i, (o, e, x) in enumerate(zip(ours, eager, exact, strict=True)):
        assert o.dtype == e.dtype and o.shape == e.shape and o.stride() == e.stride(), i
        if not o.is_floating_point():
            assert torch.equal(o, e)
            continue
        assert torch.isfinite(o).all() == torch.isfinite(e).all()
        limit = max(factor * error(e, x), ULPS[o.dtype])
        assert error(o, x) <= limit, f"output {i}: {error(o, x):.2e} against {limit:.2e}"


def compiled(fn, options=None, **settings):
    """``fn`` through superopt; any error of ours is raised."""
    options = {"strict": True, "measure": False, **(options or {})}
    return torch.compile(fn, backend="superopt", options=options, **settings)


def twin(x):
    """The same tensor in memory of its own; anything else as it is."""
    if not isinstance(x, torch.Tensor):
        return copy.deepcopy(x)
    y = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=x.device)
    y = y.copy_(x.detach()) if 0 not in x.stride() else x.detach()
    return y.requires_grad_(x.requires_grad)


def leaves(value):
    """Everything in nested tuples and lists."""
    if isinstance(value, list | tuple):
        return [v for part in value for v in leaves(part)]
    return [value]


def shared(values):
    """Pairs of tensors, by their place, that lie in one memory."""
    at = {i: v.untyped_storage().data_ptr() for i, v in enumerate(values) if _holds(v)}
    return {(i, j) for i in at for j in at if i < j and at[i] == at[j]}


def _holds(v):
    return isinstance(v, torch.Tensor) and v.numel() > 0


def same_as_eager(fn, *inputs, calls=1, seed=7, tolerance=1e-5, **settings):
    """Outputs, what became of the inputs, dtypes, strides and shared memory are eager's."""
    theirs, mine = [twin(x) for x in inputs], [twin(x) for x in inputs]
    run = compiled(fn, **settings)
    for _ in range(calls):
        torch.manual_seed(seed)
        want = leaves(fn(*theirs))
        torch.manual_seed(seed)
        got = leaves(run(*mine))
        alike(got, want, tolerance)
        alike(leaves(mine), leaves(theirs), tolerance)
        assert shared([*leaves(mine), *got]) == shared([*leaves(theirs), *want])
    return got, want, mine, theirs


def alike(got, want, tolerance):
    assert len(got) == len(want)
    for i, (g, w) in enumerate(zip(got, want, strict=True)):
        if not isinstance(w, torch.Tensor):
            assert type(g) is type(w) and g == w, i
            continue
        assert (g.dtype, g.shape, g.stride()) == (w.dtype, w.shape, w.stride()), i
        torch.testing.assert_close(g, w, rtol=tolerance, atol=tolerance, equal_nan=True)
