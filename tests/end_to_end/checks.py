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
