"""Models on the CPU are as accurate as eager, in inference and training, also with new weights."""

import copy
import threading

import pytest
import torch
import torch.nn.functional as F
from end_to_end.checks import compiled, no_worse_than_eager, reference, same_as_eager, tensors
from end_to_end.zoo import NAMES, Cache, GatedMLP, LlamaLayer, zoo
from torch import nn

import superopt

F32 = torch.float32
X = torch.randn(4, 6, generator=torch.Generator().manual_seed(1))


def small():
    return nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 3))


def own_plans():
    assert superopt.records()
    return all(r.chosen.startswith("superopt") for r in superopt.records())


# -- the zoo ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_inference_is_as_accurate_as_eager(name):
    model, inputs = zoo("cpu", F32)[name]
    with torch.no_grad():
        ours = tensors(compiled(model)(*inputs))
        no_worse_than_eager(ours, tensors(model(*inputs)), reference(model, inputs))
    assert own_plans()


@pytest.mark.parametrize("name", ["gated_mlp_17", "llama_layer", "gpt_layer"])
def test_bfloat16_is_as_accurate_as_eager(name):
    model, inputs = zoo("cpu", torch.bfloat16)[name]
    with torch.no_grad():
        ours = tensors(compiled(model)(*inputs))
        no_worse_than_eager(ours, tensors(model(*inputs)), reference(model, inputs))


def gradients(fn, model, inputs):
    model.zero_grad()
    inputs = [x.detach().requires_grad_(x.is_floating_point()) for x in inputs]
    outs = [t for t in tensors(fn(*inputs)) if t.requires_grad]
    sum(t.square().sum() for t in outs).backward()
    inner = [p.grad for p in model.parameters() if p.grad is not None]
    return [g.clone() for g in [*inner, *(x.grad for x in inputs if x.grad is not None)]]


@pytest.mark.parametrize(
    "name", ["gated_mlp_17", "llama_layer", "gpt_layer", "lora_rows", "embedder", "mixture"]
)
def test_gradients_are_as_accurate_as_eager(name):
    model, inputs = zoo("cpu", F32)[name]
    eager = gradients(model, model, inputs)
    ours = gradients(compiled(model), model, inputs)
    wide = [x.double() if x.is_floating_point() else x for x in inputs]
    no_worse_than_eager(ours, eager, gradients(model.double(), model, wide), factor=1.25)
    assert {r.role for r in superopt.records()} == {"forward", "backward"} and own_plans()


def test_an_unmodelled_model_trains():
    """Convolutions, batch norm in training mode, pooling: opaque operators and buffers."""
    ours = zoo("cpu", F32)["conv_net"][0].train()
    eager = copy.deepcopy(ours)
    run = compiled(ours)
    for _ in range(3):
        x = torch.randn(4, 3, 12, 12)
        run(x).sum().backward()
        eager(x).sum().backward()
    for a, b in zip(ours.state_dict().values(), eager.state_dict().values(), strict=True):
        torch.testing.assert_close(a, b)
    for a, b in zip(ours.parameters(), eager.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-3, atol=1e-4)


# -- weights ---------------------------------------------------------------------------------------


def overwrite(model):
    for p in model.parameters():
        p.data.copy_(torch.randn_like(p))


def load(model):
    model.load_state_dict({k: torch.randn_like(v) for k, v in model.state_dict().items()})


def assign(model):
    fresh = {k: torch.randn_like(v) for k, v in model.state_dict().items()}
    model.load_state_dict(fresh, assign=True)


def steps(optimizer):
    def take(model):
        run, opt = compiled(model), optimizer(model.parameters())
        for _ in range(2):
            opt.zero_grad()
            run(X).square().sum().backward()
            opt.step()

    return take


CHANGES = {
    "data.copy_": overwrite,
    "load_state_dict": load,
    "assign": assign,
    "sgd": steps(lambda ps: torch.optim.SGD(ps, lr=0.1)),
    "fused adamw": steps(lambda ps: torch.optim.AdamW(ps, lr=0.1, fused=True)),
    "double": lambda model: model.double(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_changed_weights_take_effect(change):
    model = small()
    run = compiled(model)
    with torch.no_grad():
        before = run(X)
    CHANGES[change](model)
    x = X.to(next(model.parameters()).dtype)
    with torch.no_grad():
        torch.testing.assert_close(run(x), model(x))
        assert change == "double" or not torch.allclose(run(x), before)


def test_frozen_weights_are_folded_once_and_stay(monkeypatch):
    from superopt.run.program import Program

    prepared = []
    call = Program.__call__
    monkeypatch.setattr(
        Program,
        "__call__",
        lambda self, args: (prepared.append(self._prepared), call(self, args))[1],
    )
    model = nn.Sequential(nn.LayerNorm(6), nn.Linear(6, 8, bias=False)).eval()
    run = compiled(model, {"freeze": True})
    with torch.no_grad():
        for _ in range(3):
            x = torch.randn(5, 6)
            torch.testing.assert_close(run(x), model(x), rtol=1e-4, atol=1e-5)
    assert prepared == [False, True, True]
    with torch.no_grad():
        run(x).fill_(0)  # an output is the caller's
        torch.testing.assert_close(run(x), model(x), rtol=1e-4, atol=1e-5)


def test_a_frozen_constant_that_is_an_output_is_the_callers():
    w = nn.Parameter(torch.randn(3, 3))
    run = compiled(lambda w, x: (w.t() @ w, x + w.t() @ w), {"freeze": True})
    with torch.no_grad():
        first, _ = run(w, X[:3, :3])
        first.fill_(0)
        torch.testing.assert_close(run(w, X[:3, :3])[0], w.t() @ w)


# -- training --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_graph_may_be_retained(dynamic):
    model = small()
    loss = compiled(model, dynamic=dynamic)(X).sum()
    loss.backward(retain_graph=True)
    once = [p.grad.clone() for p in model.parameters()]
    loss.backward()
    for p, g in zip(model.parameters(), once, strict=True):
        torch.testing.assert_close(p.grad, 2 * g)


def test_double_backward_is_loud():
    x = torch.randn(4, requires_grad=True)
    (g,) = torch.autograd.grad(compiled(lambda x: (x**3).sum())(x), x, create_graph=True)
    with pytest.raises(RuntimeError, match="double backward"):
        g.sum().backward()


def test_dropout_follows_the_seed_and_is_never_merged():
    x = torch.ones(40, 40)
    same_as_eager(lambda x: F.dropout(x, 0.5) * F.dropout(x, 0.5), x, calls=2)
    run = compiled(lambda x: (F.dropout(x, 0.5), F.dropout(x, 0.5)))
    a, b = run(x)
    assert not torch.equal(a, b) and not torch.equal(a, run(x)[0])


def test_random_operators_keep_their_order():
    same_as_eager(lambda x: torch.randn_like(x) - torch.rand_like(x) / (torch.rand_like(x) + 1), X)


def test_gradients_of_dropout_use_its_mask():
    x = torch.randn(30, 30, requires_grad=True)
    out = compiled(lambda x: F.dropout(x * 2, 0.5))(x)
    out.sum().backward()
    assert torch.equal(x.grad != 0, out != 0)


@pytest.mark.parametrize("drop", [0.0, 0.5])
def test_checkpointed_parts_are_recomputed(drop):
    from torch.utils.checkpoint import checkpoint

    def inner(x):
        return F.dropout(x.relu().softmax(-1), drop)

    x = X.clone().requires_grad_()
    _, _, mine, theirs = same_as_eager(lambda x: checkpoint(inner, x, use_reentrant=False), x)
    for run, (t,) in ((compiled(lambda x: checkpoint(inner, x, use_reentrant=False)), mine),
                      (inner, theirs)):  # fmt: skip
        torch.manual_seed(3)
        run(t).square().sum().backward()
    torch.testing.assert_close(mine[0].grad, theirs[0].grad)


# -- surroundings ----------------------------------------------------------------------------------


def test_no_grad_and_inference_mode_and_training_share_a_model():
    model = small()
    run = compiled(model)
    for context in (torch.no_grad, torch.inference_mode, torch.enable_grad):
        with context():
            torch.testing.assert_close(run(X), model(X))


def test_autocast_is_obeyed():
    model = small()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        got, want = compiled(model)(X), model(X)
    assert got.dtype == want.dtype == torch.bfloat16
    torch.testing.assert_close(got, want, rtol=3e-2, atol=3e-2)
    got.sum().backward()
    assert all(p.grad.dtype == F32 for p in model.parameters())


def test_a_caches_buffer_is_written_in_place():
    ours = Cache().eval()
    eager = copy.deepcopy(ours)
    run, place = compiled(ours), ours.keys.data_ptr()
    with torch.no_grad():
        for i in range(4):
            x, at = torch.randn(1, 32), torch.tensor([i])
            torch.testing.assert_close(run(x, at), eager(x, at))
            torch.testing.assert_close(ours.keys, eager.keys)
    assert ours.keys.data_ptr() == place and len(superopt.records()) == 1


def test_graph_breaks_make_several_graphs():
    def fn(x):
        y = (x * 2).softmax(-1)
        torch._dynamo.graph_break()
        return (y + 1).sum(0)

    same_as_eager(fn, X)
    assert len(superopt.records()) == 2


def test_a_copy_of_a_compiled_model_has_weights_of_its_own():
    run = compiled(small())
    with torch.no_grad():
        want = run(X)
        other = copy.deepcopy(run)
        overwrite(other)
        assert torch.equal(run(X), want) and not torch.allclose(other(X), want)


def test_threads_compile_at_once():
    models = [GatedMLP(32, 48).eval(), LlamaLayer(32, 2, 1, 48).eval(), small()]
    table = torch.ones(5, 16)
    inputs = [(torch.randn(3, 32),), (torch.randn(1, 5, 32), table, table), (X,)]
    found, failed = {}, []

    def work(i):
        try:
            run = compiled(models[i])
            found[i] = run(*inputs[i])
            found[i].sum().backward()
        except BaseException as e:
            failed.append(e)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(models))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed
    for i, model in enumerate(models):
        torch.testing.assert_close(found[i], model(*inputs[i]), rtol=1e-4, atol=1e-5)


# -- through Inductor ------------------------------------------------------------------------------


@pytest.mark.usefixtures("inductor")
@pytest.mark.slow
def test_inductor_compiles_the_rewritten_graph():
    model, inputs = zoo("cpu", F32)["gated_mlp_17"]
    with torch.no_grad():
        ours = tensors(compiled(model)(*inputs))
        no_worse_than_eager(ours, tensors(model(*inputs)), reference(model, inputs))
    assert [r.chosen for r in superopt.records()] == ["superopt #0 (through Inductor)"]


@pytest.mark.usefixtures("inductor")
@pytest.mark.slow
def test_inductor_trains_with_constants_convolutions_and_buffers():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.c, self.bn = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)

        def forward(self, x):
            return self.bn(self.c(x)).relu().transpose(1, 2) * torch.tensor([0.5, 2.0, 1, 3])

    ours = Net()
    eager = copy.deepcopy(ours)
    x = torch.randn(2, 3, 6, 6)
    got, want = compiled(ours)(x), eager(x)
    assert got.stride() == want.stride()
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)
    got.square().sum().backward()
    want.square().sum().backward()
    for a, b in zip(ours.parameters(), eager.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-3, atol=1e-3)
        assert a.grad.stride() == b.grad.stride()
    for a, b in zip(ours.buffers(), eager.buffers(), strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.usefixtures("inductor")
@pytest.mark.slow
def test_inductor_gets_sizes_that_vary_and_writes_to_inputs():
    def fn(cache, x):
        cache.mul_(0.5).add_(x.sum(0))
        return x / (x.shape[0] / 2) + cache, x.shape[0] * 2, F.dropout(x, 0.5)[:0]

    run = compiled(fn, dynamic=True)
    for rows in (4, 7, 12):
        x, mine = torch.randn(rows, 6), torch.ones(6)
        theirs = mine.clone()
        got, want = run(mine, x), fn(theirs, x)
        torch.testing.assert_close(got[0], want[0])
        assert got[1] == want[1]
        torch.testing.assert_close(mine, theirs)
    assert len(superopt.records()) == 1
