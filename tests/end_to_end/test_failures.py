"""Whatever fails, the user's function runs and one warning says which stage failed, or, under
``strict``, an error does. Nothing is half-applied."""

import sys
import warnings

import pytest
import torch
from end_to_end.checks import compiled, tensors
from torch import nn

import superopt
from superopt.errors import OptionError, SuperoptError
from superopt.ops.op import get

X = torch.linspace(-2, 2, 24).reshape(4, 6)
LENIENT = {"strict": False}


class Panic(BaseException):
    """As egglog's: no Exception."""


def module():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))


# Where each stage is made to fail: module, name of what it calls.
STAGES = {
    "lift": ("superopt.lift.fx", "type_of"),
    "blocks": ("superopt.blocks.split", "_regions"),
    "saturate": ("superopt.saturate.saturate", "Engine"),
    "extract": ("superopt.extract.search", "greedy"),
    "schedule": ("superopt.schedule.steps", "value_strides"),
    "cost": ("superopt.cost.plan", "work_of"),
    "lower": ("superopt.lower.wrapper", "memory"),
    "run": ("superopt.run.program", "load_module"),
}


def plant(monkeypatch, stage, error):
    def fail(*args, **kwargs):
        raise error("planted")

    __import__(STAGES[stage][0])
    monkeypatch.setattr(sys.modules[STAGES[stage][0]], STAGES[stage][1], fail)


def warned(run, *args):
    """What ``run`` gives, and the text of the one warning that it makes."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        out = run(*args)
    texts = [str(w.message) for w in seen if issubclass(w.category, RuntimeWarning)]
    assert len(texts) == 1, texts
    return out, texts[0]


def silent(run, *args):
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        return run(*args)


@pytest.fixture(autouse=True)
def _no_inductor(request, monkeypatch):
    """Its place is taken by eager, which is quick, unless a test asks for it."""
    import superopt.backend

    if "inductor" in request.fixturenames:
        return

    def eager(gm, inputs, mode):
        return gm.forward

    monkeypatch.setattr(superopt.backend, "inductor", eager)


@pytest.mark.parametrize("error", [Panic, ValueError])
@pytest.mark.parametrize("stage", STAGES)
def test_a_failing_stage_is_named_and_the_function_runs(monkeypatch, stage, error):
    plant(monkeypatch, stage, error)
    model = module()
    run = compiled(model, LENIENT)
    with torch.no_grad():
        out, text = warned(run, X)
        torch.testing.assert_close(out, model(X))
        assert f"the {stage} stage failed ({error.__name__}: planted)" in text
        assert "runs through Inductor" in text and "strict" in text
        torch.testing.assert_close(silent(run, X + 1), model(X + 1))


@pytest.mark.parametrize("error", [Panic, ValueError])
@pytest.mark.parametrize("stage", STAGES)
def test_strict_raises_an_error_of_ours(monkeypatch, stage, error):
    plant(monkeypatch, stage, error)
    with torch.no_grad(), pytest.raises(SuperoptError, match="planted") as caught:
        compiled(module())(X)
    assert caught.value.stage == stage


@pytest.mark.parametrize("stage", ["lift", "saturate"])
def test_a_training_step_survives(monkeypatch, stage):
    plant(monkeypatch, stage, Panic)
    model = module()
    loss, _ = warned(lambda: compiled(model, LENIENT)(X).square().sum())
    mine = torch.autograd.grad(loss, list(model.parameters()))
    theirs = torch.autograd.grad(model(X).square().sum(), list(model.parameters()))
    for a, b in zip(mine, theirs, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("strict", [False, True])
def test_a_backward_graph_that_fails_alone(monkeypatch, strict, dynamic):
    """It is compiled long after the backend returned."""
    import superopt.compile

    lift = superopt.compile.lift

    def forward_only(gm, *rest):
        if any(n.name.startswith("tangents") for n in gm.graph.nodes):
            raise Panic("planted")
        return lift(gm, *rest)

    monkeypatch.setattr(superopt.compile, "lift", forward_only)
    model = module()

    def step():
        loss = compiled(model, {"strict": strict}, dynamic=dynamic)(X).square().sum()
        return torch.autograd.grad(loss, list(model.parameters()))

    if strict:
        with pytest.raises(SuperoptError, match="planted"):
            step()
        return
    mine, text = warned(step)
    theirs = torch.autograd.grad(model(X).square().sum(), list(model.parameters()))
    for a, b in zip(mine, theirs, strict=True):
        torch.testing.assert_close(a, b)
    assert "planted" in text


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["saturate", "run"])
def test_inductor_takes_over(monkeypatch, inductor, stage):
    plant(monkeypatch, stage, Panic)
    model = module()
    loss, text = warned(lambda: compiled(model, LENIENT)(X).square().sum())
    mine = torch.autograd.grad(loss, list(model.parameters()))
    theirs = torch.autograd.grad(model(X).square().sum(), list(model.parameters()))
    for a, b in zip(mine, theirs, strict=True):
        torch.testing.assert_close(a, b)
    assert "runs through Inductor" in text


# -- the first run ---------------------------------------------------------------------------------


def break_runs(monkeypatch, after=lambda: None):
    from superopt.run.program import Program

    def fail(self, args):
        self.module.call(list(args)) if after is None else after()
        raise Panic("planted")

    monkeypatch.setattr(Program, "__call__", fail)


def test_a_plan_that_fails_in_its_first_run_is_replaced(monkeypatch):
    break_runs(monkeypatch)
    model = module()
    run = compiled(model, LENIENT)
    with torch.no_grad():
        out, text = warned(run, X)
        torch.testing.assert_close(out, model(X))
        assert "the run stage failed (Panic: planted)" in text and "PyTorch itself" in text
        silent(run, X)
    (record,) = superopt.records()
    assert record.chosen == "eager" and "Panic: planted" in record.notes


def test_strict_raises_when_the_first_run_fails(monkeypatch):
    break_runs(monkeypatch)
    with torch.no_grad(), pytest.raises(SuperoptError, match="planted") as caught:
        compiled(module())(X)
    assert caught.value.stage == "run"


def test_random_state_is_as_before_the_failed_run(monkeypatch):
    break_runs(monkeypatch, after=lambda: torch.rand(3))
    torch.manual_seed(5)
    out, _ = warned(compiled(lambda x: x + torch.rand(6), LENIENT), X)
    torch.manual_seed(5)
    assert torch.equal(out, X + torch.rand(6))


def test_a_write_is_never_made_twice(monkeypatch):
    """What a failed run has overwritten cannot be brought back: then there is an error."""
    break_runs(monkeypatch, after=None)
    x = X.clone()
    with torch.no_grad(), pytest.raises(SuperoptError, match="planted"):
        compiled(lambda x: x.add_(1).sum(), LENIENT)(x)


def test_the_users_own_error_stays_the_users(monkeypatch):
    table = torch.randn(5, 3)
    run = compiled(lambda i: torch.nn.functional.embedding(i, table))
    with pytest.raises(IndexError):
        silent(run, torch.tensor([7]))
    good = torch.tensor([1, 4])
    assert torch.equal(silent(run, good), table[good])
    assert superopt.records()[-1].chosen.startswith("superopt")


def test_without_inductor_too_eager_runs(monkeypatch):
    import superopt.backend

    def broken(gm, inputs, mode):
        raise RuntimeError("no compiler")

    monkeypatch.setattr(superopt.backend, "inductor", broken)
    plant(monkeypatch, "saturate", Panic)
    model = module()
    out, text = warned(compiled(model, LENIENT), X)
    torch.testing.assert_close(out, model(X))
    assert "runs through PyTorch itself" in text


# -- planted faults --------------------------------------------------------------------------------

ILL_TYPED = '''
from superopt.ops import linear
from superopt.rule import rule


@rule()
def planted_rule(x, w):
    """x W^T = x, which it is not."""
    yield linear(x, w)
    yield x
'''
BROKEN = ILL_TYPED.replace("yield x\n", "yield linear(x, x.no_such_thing)\n")


@pytest.mark.parametrize("text", [ILL_TYPED, BROKEN], ids=["ill-typed", "broken"])
def test_a_wrong_rule_is_caught_and_named(tmp_path, text):
    file = tmp_path / "planted.py"
    file.write_text(text)
    model = module()
    with torch.no_grad():
        out, told = warned(compiled(model, {**LENIENT, "rules": [str(file)]}), X)
        torch.testing.assert_close(out, model(X))
        with pytest.raises(SuperoptError, match="planted_rule"):
            torch._dynamo.reset()
            compiled(model, {"rules": [str(file)]})(X)
    assert "planted_rule" in told


def test_a_malformed_rule_file_is_named(tmp_path):
    file = tmp_path / "planted.py"
    file.write_text(ILL_TYPED.replace('    """x W^T = x, which it is not."""\n', ""))
    with pytest.raises(SuperoptError, match="planted_rule .*no docstring"):
        compiled(module(), {"rules": [str(file)]})(X)


@pytest.mark.parametrize("name", ["relu", "permute", "matmul", "add"])
def test_a_wrong_shape_fact_is_caught(monkeypatch, name):
    """An operator that states another type than torch gives is not believed."""
    from superopt.ir.types import TensorType

    op = get(name)
    true = op.infer

    def lie(types, *attrs):
        t = true(types, *attrs)
        return TensorType((*t.shape[:-1], 77), t.dtype)

    model = module()
    object.__setattr__(op, "infer", lie)
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.testing.assert_close(compiled(model, LENIENT)(X), model(X))
    finally:
        object.__setattr__(op, "infer", true)


# -- options ---------------------------------------------------------------------------------------

BAD = [
    ({"stricct": True}, "unknown option 'stricct'.*did you mean 'strict'.*card, disable"),
    ({"k": 0}, "'k' is 0"), ({"k": 1.5}, "'k'"), ({"nodes": "many"}, "'nodes'"),
    ({"lambda": -1}, "'lambda' is -1"), ({"lambda": float("nan")}, "'lambda'"),
    ({"lambda": float("inf")}, "'lambda'"), ({"extract_limit": None}, "'extract_limit'"),
    ({"measure": 1}, "'measure' is 1; it must be True or False"),
    ({"mode": "fast"}, "one of default, reduce-overhead, max-autotune"),
    ({"card": "h2000"}, "no cost model 'h2000'; known: .*h200"),
    ({"card": "/nowhere.toml"}, "no cost model"), ({"rules": 3}, "'rules' is 3"),
    ({"rules": ["/nowhere.py"]}, "no rule file /nowhere.py"),
    ({"disable": ["commute_ad"]}, "no rule named 'commute_ad'.*commute_add"),
]  # fmt: skip


@pytest.mark.parametrize("options, text", BAD, ids=lambda v: str(v)[:40])
def test_a_wrong_setting_is_an_error_that_lists_what_fits(options, text):
    with pytest.raises(OptionError, match=text):
        torch.compile(module(), backend="superopt", options=options)(X)


def test_a_wrong_mode_is_an_error():
    with pytest.raises(OptionError, match="one of default"):
        torch.compile(module(), backend="superopt", mode="fastest")(X)


def test_disabled_means_inductor(monkeypatch):
    import superopt.backend

    asked = []
    monkeypatch.setattr(
        superopt.backend, "inductor", lambda gm, inputs, mode: (asked.append(mode), gm.forward)[1]
    )
    monkeypatch.setenv("SUPEROPT_DISABLE", "1")
    model = module()
    fn = torch.compile(model, backend="superopt", mode="max-autotune-no-cudagraphs")
    torch.testing.assert_close(silent(fn, X), model(X))
    assert asked == ["max-autotune-no-cudagraphs"] and not superopt.records()


# -- nothing half-applied --------------------------------------------------------------------------


def test_compiling_changes_nothing_else():
    from torch._functorch import config as functorch_config
    from torch._inductor import config as inductor_config

    def state():
        settings = (functorch_config.save_config(), inductor_config.save_config())
        flags = (torch.is_grad_enabled(), torch.get_default_dtype(), torch.get_num_threads())
        return settings, flags, torch.get_rng_state().tolist()

    model = module()
    weights = {k: v.clone() for k, v in model.state_dict().items()}
    options = {"strict": True, "lambda": 0.5}
    before, given = state(), dict(options)
    with torch.no_grad():
        torch.compile(model, backend="superopt", options=options)(X)
    assert state() == before and options == given
    assert all(torch.equal(v, weights[k]) for k, v in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())


def test_two_compiles_with_other_options_do_not_meet():
    model = module()
    ours = compiled(model)
    bare = compiled(model, {"disable": ["linear_from_transposed", "linear_from_matmul"]})
    with torch.no_grad():
        for run in (ours, bare, ours):
            torch.testing.assert_close(run(X), model(X))
    first, second = superopt.records()
    assert first.search.rules["linear_from_transposed"]
    assert not second.search.rules["linear_from_transposed"]


def test_reset_forgets_the_records():
    compiled(module())(X)
    assert superopt.records()
    torch._dynamo.reset()
    assert not superopt.records()


def test_errors_in_one_graph_leave_the_others_alone(monkeypatch):
    """One function, two graphs, of which the second fails."""
    import superopt.pipeline

    def fn(x):
        y = x * 2
        torch._dynamo.graph_break()
        return y.softmax(-1)

    saturate = superopt.pipeline.saturate

    def picky(graph, *rest, **limits):
        if any(n.op.name == "softmax" for n in graph.nodes):
            raise Panic("planted")
        return saturate(graph, *rest, **limits)

    monkeypatch.setattr(superopt.pipeline, "saturate", picky)
    out, _ = warned(compiled(fn, LENIENT), X)
    torch.testing.assert_close(tensors(out), tensors(fn(X)))
    assert len(superopt.records()) == 1
