"""What a function may be asked beside values: whose memory, which strides, what is overwritten."""

import pytest
import torch
import torch.nn.functional as F
from end_to_end.checks import compiled, same_as_eager

import superopt

GENERATOR = torch.Generator().manual_seed(2)


def rows(*shape, dtype=torch.float32):
    return torch.randn(shape, generator=GENERATOR).to(dtype)


X, Y = rows(4, 6), rows(4, 6)


def clone_then_write(x):
    y = x.clone()
    x.add_(1)
    return y


def product_by_one_then_write(x):
    y = x * 1.0
    x.add_(1)
    return y, y[1:].clone()


def view_then_write(x):
    y = x[1:].clone()
    x.mul_(2)
    return y, x.sum()


def write_and_return(x):
    x.add_(1)
    x.mul_(2)
    return x


def write_through_views(x):
    x.add_(1)
    y = x.view(-1)
    y.mul_(2)
    return x.t(), y


def write_parts(x):
    x[0].zero_()
    x[:, 1] = 5
    return x.sum()


def exchange(x, y):
    a = x.clone()
    x.copy_(y)
    y.copy_(a)
    return a[1:]


def rotate_buffers(x, y):
    old = x.clone()
    x.copy_(x * 2)
    y.copy_(old)


def write_both(x, y):
    y.add_(x)
    x.add_(y)
    return x + y


def scatter(x, y):
    x.scatter_(1, torch.zeros(4, 2, dtype=torch.long), 1.0)
    return torch.relu_(y) + x


WRITES = [
    clone_then_write, product_by_one_then_write, view_then_write, write_and_return,
    write_through_views, write_parts, exchange, rotate_buffers, write_both, scatter,
]  # fmt: skip


@pytest.mark.parametrize("fn", WRITES, ids=lambda f: f.__name__)
def test_writes_to_inputs(fn):
    inputs = (X, Y)[: fn.__code__.co_argcount]
    same_as_eager(fn, *inputs, calls=2)


@pytest.mark.usefixtures("inductor")
@pytest.mark.parametrize("fn", [clone_then_write, exchange], ids=lambda f: f.__name__)
@pytest.mark.slow
def test_inductor_keeps_what_is_overwritten(fn):
    same_as_eager(fn, *(X, Y)[: fn.__code__.co_argcount], calls=2)


@pytest.mark.parametrize("fn", [write_and_return, write_through_views], ids=lambda f: f.__name__)
def test_writes_to_inputs_of_a_training_graph(fn):
    w = rows(6).requires_grad_()

    def trained(x, w):
        y = x * w
        return fn(y), (y * w).sum()

    _, _, mine, theirs = same_as_eager(trained, X, w)
    torch.autograd.backward([compiled(trained)(*mine)[1]])
    torch.autograd.backward([trained(*theirs)[1]])
    torch.testing.assert_close(mine[1].grad, theirs[1].grad)


def buffer_of_a_kept_view(x):
    y = x * 2
    return y[::2].clone(), y, y.view(torch.int32).clone()


OUTPUTS = {
    "the input": lambda x: x,
    "views of the input": lambda x: (x.view(-1), x.t(), x[1:3], x[::2]),
    "a clone": lambda x: (x.clone(), x.clone(), x.contiguous()),
    "clones of views": lambda x: (x[::2].clone(), x.view(torch.int32).clone(), x.t().clone()),
    "one value twice": lambda x: (x + 1, x + 1),
    "one tensor twice": lambda x: (lambda y: (y, y))(x + 1),
    "a value and its views": lambda x: (lambda y: (y, y.view(-1), y[0], y.t()))(x * 2),
    "a value and copies of it": buffer_of_a_kept_view,
    "transposed": lambda x: (x.t() + 1, (x * 2).t(), (x @ x.t()).t()),
    "expanded": lambda x: (torch.ones(1).expand(3), (x + 1)[:1].expand(4, 6)),
    "no-ops": lambda x: (x * 1, x + 0 * x, x.to(x.dtype), x.neg().neg(), x.reshape(4, 6)),
    "channels last": lambda x: x.view(1, 2, 2, 6).to(memory_format=torch.channels_last) * 2,
    "strided": lambda x: ((x + 1).as_strided((2, 3), (1, 2)), x.as_strided((2, 3), (1, 2)).clone()),
    "unfolded": lambda x: (x.unfold(1, 3, 2), x.unfold(1, 3, 1) * 2, x.diagonal().clone()),
    "constants": lambda x: (torch.tensor([1.0, 2.0]), torch.zeros(2, 3), x + torch.tensor(2.5)),
    "none and numbers": lambda x: (None, 3, x + 1, "s", 2.5, True, (x.shape, [x * 2])),
}


@pytest.mark.parametrize("name", OUTPUTS)
def test_outputs_are_as_eager_gives_them(name):
    same_as_eager(OUTPUTS[name], X, calls=2)


@pytest.mark.parametrize(
    "name", ["the input", "a value and its views", "transposed", "one value twice"]
)
def test_outputs_of_training_graphs_are_as_eager_gives_them(name):
    _, _, mine, theirs = same_as_eager(OUTPUTS[name], X.clone().requires_grad_())
    for fn, (x,) in ((compiled(OUTPUTS[name]), mine), (OUTPUTS[name], theirs)):
        outs = fn(x)
        sum(o.square().sum() for o in (outs if isinstance(outs, tuple) else [outs])).backward()
    torch.testing.assert_close(mine[0].grad, theirs[0].grad)


INPUTS = {
    "transposed": rows(6, 4).t(),
    "strided": rows(8, 9)[::2, 1:7],
    "expanded": rows(4, 1).expand(4, 6),
    "no rows": rows(0, 6),
    "no columns": rows(4, 0),
    "one element": rows(1, 1),
    "half": rows(4, 6, dtype=torch.bfloat16),
    "double": rows(4, 6, dtype=torch.float64),
}


def of_everything(x):
    reduced = (
        x.sum(0),
        x.sum(),
        x.mean(1),
        x.softmax(-1),
        x.softmax(0),
        F.layer_norm(x, x.shape[1:]),
    )
    return (
        x * 2, x.clone(), x + x.t().t(), x.contiguous(), F.relu(x).t(), *reduced,
        F.linear(x, torch.ones(3, x.shape[1], dtype=x.dtype)), torch.cat((x, x), 1)[:, 1:],
    )  # fmt: skip


@pytest.mark.parametrize("name", INPUTS)
def test_inputs_of_any_layout_and_size(name):
    tolerance = 2e-2 if name == "half" else 1e-5
    same_as_eager(of_everything, INPUTS[name], tolerance=tolerance)


def test_numbers_without_axes():
    same_as_eager(
        lambda x: ((x * 2).sum(), x.softmax(0), x.mean(), x + 1, x.view(1), x.expand(3), x.amax()),
        rows(),
    )


def integers(x):
    return (
        x + 1, x // 2, x % 3, x / 2, x > 2, x & 3, x << 1, -x, x * 2.5, x.sum(), x.float().mean(),
        x * x + x, torch.where(x > 1, x, 0), x.clamp(1, 3), x.amax(0),
    )  # fmt: skip


def booleans(x):
    return (
        x & ~x,
        x | True,
        x.sum(),
        x.any(),
        x * x,
        x + x,
        x ^ x,
        x.float() * 2,
        torch.where(x, 1, 2),
    )


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int8, torch.uint8])
def test_whole_numbers(dtype):
    same_as_eager(integers, torch.arange(100, 112).view(3, 4).to(dtype))


def test_truth_values():
    same_as_eager(booleans, X > 0)


def test_numbers_that_equality_does_not_tell_apart():
    def fn(x):
        signs = torch.copysign(x, -0.0) + 2 * torch.copysign(x, 0.0)
        return signs, (x * 0 + -0.0).sign(), torch.where(x > 0, -0.0, float("nan"))

    (got, *_), *_ = same_as_eager(fn, X)
    assert torch.equal(got.sign(), torch.ones_like(X))


def test_infinite_numbers():
    low = float("-inf")
    same_as_eager(lambda x: (x.masked_fill(x > 0, low), torch.where(x > 0, x, low).softmax(-1)), X)
    special = torch.tensor([[1.0, float("nan"), low, -low, 0.0, -0.0]])
    same_as_eager(lambda x: (x.relu(), x.amax(1), x.clamp(min=0), x == x, x * 2 + 1), special)


def test_numbers_as_arguments():
    run = compiled(lambda x, n, s: (x * n + n, x * s))
    for n, s in ((2, 0.5), (3, 0.5), (5, 1.5)):
        got = run(X, n, s)
        torch.testing.assert_close(got[0], X * n + n)
        torch.testing.assert_close(got[1], X * s)


def test_higher_order_operators_and_custom_ones():
    @torch.library.custom_op("superopt_test::add_one", mutates_args={"x"})
    def add_one(x: torch.Tensor) -> None:
        x.add_(1)

    def fn(x):
        y = torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))
        z = y * 3
        add_one(z)
        add_one(x)
        return y, z, x * 2

    same_as_eager(fn, X)


def test_tensor_subclasses():
    from torch.testing._internal.two_tensor import TwoTensor

    pair = TwoTensor(rows(3), rows(3))
    out = compiled(lambda t: t * 2 + 1)(pair)
    torch.testing.assert_close(out.a, pair.a * 2 + 1)
    torch.testing.assert_close(out.b, pair.b * 2 + 1)


# -- sizes that vary -------------------------------------------------------------------------------

DYNAMIC = {
    "linear": lambda x: F.linear(x, torch.ones(3, 6)).relu(),
    "sizes out": lambda x: (x.shape[0] * 2, x.reshape(-1), x.sum()),
    "halved": lambda x: (x[x.shape[0] // 2 :], x[-2:], x[:-1], x.view(-1, 2, 3).sum(1)),
    "as numbers": lambda x: x / (x.shape[0] / 2) + x.shape[0] ** 0.5,
    "made": lambda x: torch.arange(x.shape[0])[:, None] + torch.zeros(x.shape[0], 6) + x,
    "rows": lambda x: (x.softmax(0), F.layer_norm(x, (6,)), x.mean(0), x.var(0), x.amax(0)),
    "joined": lambda x: torch.cat((x, x * 2))[1:].t() @ torch.cat((x, x))[1:],
    "padded": lambda x: F.pad(x, (0, 0, 0, max(0, 8 - x.shape[0]))),
    "attention": lambda x: F.scaled_dot_product_attention(*[x.view(1, 1, -1, 6)] * 3),
    "repeated": lambda x: x[:, None].expand(-1, 3, -1).reshape(-1, 6),
}


@pytest.mark.parametrize("name", DYNAMIC)
def test_sizes_change_without_compiling_again(name):
    fn = DYNAMIC[name]
    run = compiled(fn, dynamic=True)
    for count in (4, 6, 10):
        x = rows(count, 6)
        got, want = run(x), fn(x)
        pairs = zip(got, want) if isinstance(want, tuple) else [(got, want)]
        for g, w in pairs:
            assert not isinstance(w, torch.Tensor) or g.stride() == w.stride()
            torch.testing.assert_close(g, w)
    assert len(superopt.records()) == 1


def test_a_size_that_was_marked_dynamic_varies_in_training():
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.GELU(), torch.nn.LayerNorm(8))
    run = compiled(model)
    for count in (4, 7, 12):
        x = rows(count, 6)
        torch._dynamo.mark_dynamic(x, 0)
        mine = torch.autograd.grad(run(x).square().sum(), list(model.parameters()))
        theirs = torch.autograd.grad(model(x).square().sum(), list(model.parameters()))
        for a, b in zip(mine, theirs, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)
    assert [r.role for r in superopt.records()].count("forward") == 1
