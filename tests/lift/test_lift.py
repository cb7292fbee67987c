"""Lifting: whatever torch computes keeps its value, its shapes and its order of effects."""

import pytest
import torch
import torch.nn.functional as F
from torch._dynamo.backends.common import aot_autograd

from superopt.lift import lift
from superopt.run.interpret import interpret, sizes_of


def lifted(fn, *args, **compile_options):
    """(what fn gave through the lifted graph, what eager gives, the Lifted)."""
    found = []

    def compiler(gm, example):
        found.append(lift(gm))

        def run(args):
            args = [*args, *found[-1].constants]
            sizes = sizes_of(found[-1].sizes, args)
            values = interpret(found[-1].graph, args, sizes, found[-1].device)
            outs = found[-1].outputs
            return [values[o.position] if o.position is not None else o.dim for o in outs]

        run._boxed_call = True
        return run

    def backend(gm, example):
        return aot_autograd(fw_compiler=compiler)(gm, example)

    torch._dynamo.reset()
    with torch.no_grad():
        options = {"dynamic": False, **compile_options}
        out = torch.compile(fn, backend=backend, fullgraph=True, **options)(*args)
        return out, fn(*args), found


def close(a, b):
    torch.testing.assert_close(a, b, equal_nan=True)


X = torch.linspace(-3, 3, 4 * 6).reshape(4, 6)
W = torch.randn(8, 6, generator=torch.Generator().manual_seed(0))
INTS = torch.arange(24).reshape(4, 6)

CASES = {
    "linear": lambda x: F.linear(x, W),
    "linear_bias": lambda x: F.linear(x, W, W[:, 0]),
    "bmm": lambda x: x.reshape(2, 2, 6) @ x.reshape(2, 6, 2),
    "promotes_int": lambda x: x + INTS,
    "promotes_half": lambda x: x.half() * x,
    "half_scalar": lambda x: x.half() * 1e-5 + 3,
    "zero_dim": lambda x: x * torch.tensor(2.5),
    "int_division": lambda x: INTS / 4,
    "alpha": lambda x: torch.add(x, x, alpha=3) - torch.sub(x, 1, alpha=2),
    "rsub": lambda x: 1 - x,
    "powers": lambda x: x.abs().pow(2) + x.abs().pow(3) + x.abs().sqrt() + (x.abs() + 1).pow(-0.5),
    "odd_power": lambda x: x.abs().pow(1.7),
    "compare": lambda x: torch.where(x > 0, x, torch.zeros(())) + (x <= INTS),
    "masked": lambda x: x.masked_fill(x > 1, float("-inf")).softmax(-1),
    "softmax_dim": lambda x: x.softmax(0) + x.log_softmax(0),
    "layer_norm": lambda x: F.layer_norm(x, (6,), W[0], W[1], 1e-5),
    "layer_norm_half": lambda x: F.layer_norm(x.bfloat16(), (6,), W[0].bfloat16()),
    "rms_norm": lambda x: F.rms_norm(x, (6,), W[0], 1e-6),
    "gelu": lambda x: F.gelu(x) + F.gelu(x, approximate="tanh"),
    "activations": lambda x: F.silu(x) + F.relu(x) + x.tanh() + x.sigmoid() + x.erf(),
    "clamp": lambda x: x.clamp(-1, 1) + x.clamp(min=0) + x.clamp(max=0.5),
    "reductions": lambda x: x.sum() + x.mean(0, keepdim=True) + x.amax(1).sum() + x.amin(),
    "variance": lambda x: x.var(1) + x.std(1, unbiased=False) + x.var(),
    "int_sum": lambda x: INTS.sum(1),
    "shapes": lambda x: x.view(2, 12).t().unsqueeze(1).expand(12, 3, 2).reshape(-1),
    "slices": lambda x: x[1:, -3:] + x[:-1, :3] + x[0, 0],
    "steps": lambda x: x[::2] + x.flip(0)[:2],
    "splits": lambda x: sum(a.sum() * i for i, a in enumerate((*x.split(4, 1), *x.chunk(2), *x))),
    "cat": lambda x: torch.cat([x, x * 2, x[:, :1]], 1) + torch.stack([x, x]).sum(),
    "cat_mixed": lambda x: torch.cat([x.half(), x], 0),
    "full": lambda x: x + torch.full((6,), 2.0) + torch.ones_like(x) + torch.zeros(4, 1),
    "casts": lambda x: x.to(torch.float64).to(torch.int32).float() + x.bool(),
    "scalars": lambda x: torch.where(x > 0, -0.0, float("nan")),
    "sort": lambda x: x.sort(1)[0] + x.topk(2, 1)[0].sum(),
    "cumsum": lambda x: x.cumsum(1),
    "embedding": lambda x: F.embedding(INTS % 8, W),
    "conv": lambda x: F.conv1d(x[None], torch.ones(2, 4, 3)),
    "complex": lambda x: torch.fft.rfft(x).abs(),
    "attention": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None]),
    "signs_of_zero": lambda x: torch.copysign(x, -0.0) + 2 * torch.copysign(x, 0.0),
    "two_layouts": lambda x: torch.cdist(x.t(), x.t().contiguous()) + torch.cdist(x.t(), x.t()),
    "numbers_only": lambda x: torch.full((), 2.0) * torch.full((), 3.0) + torch.ones(()),
    "variance_of_a_number": lambda x: x.sum().var(correction=0) + x.sum().sum(0).softmax(0),
    "copied_over": lambda x: torch.zeros_like(x).copy_(x[0]) + x.clone().copy_(INTS),
    "several": lambda x: (x + 1, x * 2, x),
}


@pytest.mark.parametrize("name", CASES)
def test_lifted_graph_computes_what_eager_does(name):
    got, want, _ = lifted(CASES[name], X)
    for a, b in zip(*((o,) if isinstance(o, torch.Tensor) else o for o in (got, want))):
        assert a.dtype == b.dtype and a.shape == b.shape
        close(a, b)


def test_the_common_operators_are_modelled():
    _, _, (found,) = lifted(
        lambda x: F.layer_norm(F.gelu(F.linear(x, W, W[:, 0])), (8,)).softmax(-1).sum(), X
    )
    assert found.opaque == []


def test_dynamic_sizes_stay_symbols():
    fn = CASES["layer_norm"]
    _, _, (found,) = lifted(lambda x: fn(x).reshape(-1), X, dynamic=True)
    dims = [d for n in found.graph.nodes for d in getattr(n.type, "shape", ())]
    symbols = {s for d in dims if not isinstance(d, int) for s in d.free_symbols}
    assert symbols and symbols <= set(found.sizes)
    assert all(found.graph.hints[s] > 0 for s in symbols)


def test_random_calls_stay_distinct_and_in_order():
    _, _, (found,) = lifted(
        lambda x: torch.rand_like(x) + torch.rand_like(x) * F.dropout(x, 0.5), X
    )
    uids = [n.attrs[0].uid for n in found.graph.nodes if n.op.name == "opaque"]
    assert len(uids) == len(set(uids)) == 3 and uids == sorted(uids)


def test_equal_pure_calls_are_one_node():
    _, _, (found,) = lifted(lambda x: x.sin() * x.sin() + x.cumsum(0) * x.cumsum(0), X)
    names = [n.op.name for n in found.graph.nodes]
    assert names.count("sin") == 1 and names.count("opaque") == 1


def test_outputs_know_whose_memory_they_are():
    _, _, (found,) = lifted(lambda x: (x + 1, x.clone()), X)
    assert [o.storage for o in found.outputs] == ["output:0", "output:1"]


def test_sizes_that_depend_on_data_are_an_error_that_names_them():
    from torch._dynamo import config

    from superopt.errors import LiftError

    captured = config.patch(capture_dynamic_output_shape_ops=True)
    with captured, pytest.raises(Exception, match="depend on data") as caught:
        lifted(lambda x: x[x > 0].view(-1, 1), X)
    assert isinstance(getattr(caught.value, "inner_exception", caught.value), LiftError)


def test_a_lifter_that_fails_makes_the_call_opaque(monkeypatch):
    from superopt.lift.aten import LIFTERS

    def broken(*args, **kwargs):
        raise ZeroDivisionError("planted")

    monkeypatch.setitem(LIFTERS, torch.ops.aten.clamp.default, broken)
    got, want, (found,) = lifted(lambda x: x.clamp(-1, 1) * 2, X)
    close(got, want)
    assert found.opaque == ["aten.clamp.default"]


def test_saved_tensors_have_the_strides_that_they_come_with():
    traced = torch.fx.symbolic_trace(lambda x: x)
    (x, *_) = traced.graph.nodes
    x.meta["val"] = torch.empty(2, 3, 4)
    found = lift(traced, example=[torch.empty(2, 4, 3).transpose(1, 2)])
    assert found.graph.input_strides == {0: (12, 1, 3)}
