"""On a card: superopt's own plans, with generated kernels, against float64."""

import pytest
import torch
from end_to_end.checks import no_worse_than_eager, reference, tensors
from end_to_end.zoo import NAMES, GatedMLP, zoo

import superopt

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA card"),
]
OWN = {"strict": True, "measure": False}
DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def compiled(model, options=OWN, **settings):
    torch._dynamo.reset()
    return torch.compile(model, backend="superopt", options=options, **settings)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_inference_is_as_accurate_as_eager(name, dtype):
    model, inputs = zoo("cuda", dtype)[name]
    with torch.no_grad():
        ours = tensors(compiled(model)(*inputs))
        no_worse_than_eager(ours, tensors(model(*inputs)), reference(model, inputs))
    assert all(r.chosen.startswith("superopt") for r in superopt.records())
    assert any(r.kernels for r in superopt.records()), "no kernel was generated"


@pytest.mark.parametrize("name", ["gated_mlp_17", "llama_layer", "gpt_layer", "lora_rows"])
def test_gradients_are_as_accurate_as_eager(name):
    def gradients(fn, model, inputs):
        model.zero_grad()
        sum(t.square().sum() for t in tensors(fn(*inputs))).backward()
        return [p.grad.clone() for p in model.parameters()]

    model, inputs = zoo("cuda", torch.float32)[name]
    eager = gradients(model, model, inputs)
    ours = gradients(compiled(model), model, inputs)
    exact = gradients(model.double(), model, [x.double() for x in inputs])
    no_worse_than_eager(ours, eager, exact, factor=1.5)


def test_weights_are_read_where_they_lie():
    model, inputs = zoo("cuda", torch.float16)["gated_mlp_1"]
    fn = compiled(model)
    with torch.no_grad():
        fn(*inputs)
        for p in model.parameters():
            p.data.copy_(torch.randn_like(p) * 0.1)
        no_worse_than_eager(
            tensors(fn(*inputs)), tensors(model(*inputs)), reference(model, inputs)
        )


@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
def test_cuda_graphs_replay_new_inputs(mode):
    model, (x,) = zoo("cuda", torch.float16)["gated_mlp_17"]
    fn = compiled(model, {**OWN, "mode": mode})
    with torch.no_grad():
        for _ in range(4):
            x = torch.randn_like(x)
            no_worse_than_eager([fn(x).clone()], [model(x)], reference(model, (x,)))


def test_dynamic_rows():
    model = GatedMLP(128, 256).cuda().half().eval()
    fn = compiled(model, dynamic=True)
    with torch.no_grad():
        for rows in (5, 64, 3, 300):
            x = torch.randn(rows, 128, device="cuda", dtype=torch.float16)
            no_worse_than_eager([fn(x)], [model(x)], reference(model, (x,)))


def test_measuring_keeps_the_fastest_and_says_so():
    model, inputs = zoo("cuda", torch.float16)["gated_mlp_300"]
    with torch.no_grad():
        fn = compiled(model, options={"strict": True})
        ours = tensors(fn(*inputs))
        no_worse_than_eager(ours, tensors(model(*inputs)), reference(model, inputs))
    (record,) = superopt.records()
    best = min(record.measured, key=record.measured.get)
    assert record.chosen == best and "inductor" in record.measured
