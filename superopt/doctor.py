"""``superopt doctor``: what is installed, what works on this machine, and how to cure the rest."""

from __future__ import annotations

import importlib.metadata
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

PACKAGES = ("torch", "triton", "egglog", "highspy", "numpy", "networkx", "transformers")


@dataclass(frozen=True)
class Check:
    """What one check found.

    state  "ok"; "absent": this machine lacks it and superopt does without; "fails": it is broken
    cure   what to do about it; "" where nothing needs doing
    """

    name: str
    state: str
    detail: str
    cure: str = ""


def report(console: Console) -> bool:
    """Print versions and checks; True when nothing fails."""
    console.print(_versions())
    found: list[Check] = []
    for name, check in CHECKS.items():
        with console.status(f"checking {name} …"):
            found.append(_guarded(name, check))
    console.print(_table(found))
    for c in found:
        if c.cure:
            console.print(f"  {c.name}: {c.cure}", soft_wrap=True, markup=False)
    failing = [c.name for c in found if c.state == "fails"]
    console.print(f"not working: {', '.join(failing)}" if failing else "superopt works here")
    return not failing


def _guarded(name: str, check: Callable[[], Check]) -> Check:
    try:
        return check()
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as e:  # egglog's panics are no Exceptions
        reason = f"{type(e).__name__}: {e}".strip().split("\n")[0]
        return Check(name, "fails", reason, CURES.get(name, "reinstall superopt"))


def _versions() -> Table:
    table = Table(title="versions", title_justify="left")
    table.add_column("what")
    table.add_column("version")
    table.add_row("superopt", version("superopt"))
    table.add_row("python", f"{platform.python_version()} on {platform.system()}")
    for name in PACKAGES:
        table.add_row(name, version(name))
    return table


def version(package: str) -> str:
    """The installed version; "not installed" where there is none."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _table(found: list[Check]) -> Table:
    styles = {"ok": "green", "absent": "yellow", "fails": "bold red"}
    table = Table(title="what works", title_justify="left")
    table.add_column("check", no_wrap=True)
    table.add_column("state", no_wrap=True)
    table.add_column("detail", overflow="fold")
    for c in found:
        table.add_row(c.name, f"[{styles[c.state]}]{c.state}[/]", c.detail)
    return table


# -- the checks ------------------------------------------------------------------------------------


def _backend() -> Check:
    import torch._dynamo

    if "superopt" in torch._dynamo.list_backends(exclude_tags=()):
        return Check("torch backend", "ok", 'torch.compile knows backend="superopt"')
    return Check("torch backend", "fails", "torch.compile does not know it", CURES["torch backend"])


def _cost_model() -> Check:
    from superopt.cost import detect_card, load_card

    name = detect_card()
    card = load_card(name)
    return Check("cost model", "ok", f"{name}: {card.name}; its figures are {card.kind}")


def _rules() -> Check:
    from superopt.shelf import load_rules

    return Check("rules", "ok", f"{len(load_rules())} laws load")


def _egglog() -> Check:
    import egglog

    graph = egglog.EGraph()
    one, two = egglog.i64(1), egglog.i64(2)
    x = graph.let("x", one + two)
    graph.run(1)
    graph.check(x == egglog.i64(3))
    return Check("egglog", "ok", "a small saturation runs")


def _highs() -> Check:
    from superopt.extract.ilp import _silent

    model = _silent()
    x, y = model.addBinary(), model.addBinary()
    model.addConstr(x + y >= 1)
    model.minimize(2 * x + 3 * y)
    value = model.getInfo().objective_function_value
    if abs(value - 2) > 1e-6:
        return Check("HiGHS", "fails", f"a small program gave {value}, not 2", CURES["HiGHS"])
    return Check("HiGHS", "ok", "a small integer program is solved")


def _compiler() -> Check:
    from superopt.run.inductor import has_cpp_compiler

    if not has_cpp_compiler():
        return Check(
            "C++ compiler",
            "absent",
            "plans for the CPU run through torch, operator by operator",
            "install g++ or clang++ for Inductor's C++ kernels",
        )
    found = next(p for c in ("g++", "clang++", "c++") if (p := shutil.which(c)))
    return Check("C++ compiler", "ok", Path(found).name)


def _triton() -> Check:
    if version("triton") == "not installed":
        state = "fails" if sys.platform == "linux" else "absent"
        detail = "no kernels can be generated"
        cure = CURES["Triton"] if state == "fails" else ""
        return Check("Triton", state, detail, cure)
    import triton

    numpy = tuple(map(int, version("numpy").split(".")[:2]))
    if triton.__version__.startswith("3.6") and numpy >= (2, 4):
        cure = "pip install 'numpy<2.4' (only the interpreter, used in tests, is affected)"
        return Check("Triton", "ok", "imports; its interpreter fails with numpy 2.4", cure)
    return Check("Triton", "ok", "imports")


def _assembler() -> Check:
    if version("triton") == "not installed":
        return Check("assembler", "absent", "needs Triton")
    from superopt.ir.plan import Config, Kernel
    from superopt.kernels.assemble import assemble

    signature = (("x", "*fp16"), ("y", "*fp16"), ("n", "i32"))
    config = Config((("BLOCK", 128),), num_warps=4, num_stages=1)
    kernel = Kernel("doctor", "region", _KERNEL, (), (), (), (config,), signature)
    built = assemble(kernel, 75)
    return Check("assembler", "ok", f"a kernel for sm_75 takes {built.registers} registers, no GPU")


_KERNEL = """\
import triton
import triton.language as tl


@triton.jit
def doctor(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)
"""


def _gpu() -> Check:
    import torch

    from superopt.compile import gpu_ready

    if gpu_ready():
        major, minor = torch.cuda.get_device_capability()
        detail = f"{torch.cuda.get_device_name()}, sm_{major}{minor}, CUDA {torch.version.cuda}"
        return Check("GPU", "ok", detail)
    if torch.cuda.is_available():
        return Check("GPU", "fails", "there is one, but Triton cannot drive it", CURES["Triton"])
    if shutil.which("nvidia-smi"):
        build = f"CUDA {torch.version.cuda}" if torch.version.cuda else "a CPU build"
        detail = f"the machine has an NVIDIA driver, but torch ({build}) sees no GPU"
        return Check("GPU", "fails", detail, CURES["GPU"])
    return Check("GPU", "absent", "plans run on the CPU; plans for any card can be made and read")


def _cache() -> Check:
    from superopt.run.program import cache_folder

    folder = cache_folder()
    with tempfile.TemporaryFile(dir=folder):
        return Check("cache folder", "ok", f"{folder} is writable")


def _whole() -> Check:
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    x, w = torch.randn(4, 32, device=device), torch.randn(16, 32, device=device)

    def model(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.silu(a @ b.T) * 2

    with torch.no_grad():
        compiled = torch.compile(
            model, backend="superopt", options={"strict": True, "measure": False}
        )
        out = compiled(x, w)
        error = float((out - model(x, w)).abs().max())
    if not error < 1e-3:
        return Check("a small model", "fails", f"differs from eager by {error:.1e}", CURES[""])
    return Check("a small model", "ok", f"compiles on {device}, {error:.1e} away from eager")


CHECKS: dict[str, Callable[[], Check]] = {
    "torch backend": _backend,
    "cost model": _cost_model,
    "rules": _rules,
    "egglog": _egglog,
    "HiGHS": _highs,
    "C++ compiler": _compiler,
    "Triton": _triton,
    "assembler": _assembler,
    "GPU": _gpu,
    "cache folder": _cache,
    "a small model": _whole,
}

CURES = {
    "": "report this with the output above",
    "torch backend": "install superopt, rather than running from its folder: pip install -e .",
    "egglog": "pip install egglog==13.2.0",
    "HiGHS": "pip install 'highspy>=1.10'",
    "Triton": "pip install the Triton that torch names: pip show torch, then pip install triton==…",
    "assembler": "reinstall Triton; its wheel carries the assembler",
    "GPU": "install a CUDA build of torch that the driver supports",
    "cache folder": "set SUPEROPT_CACHE_DIR to a folder that can be written",
    "a small model": 'see the error: torch.compile(..., options={"strict": True})',
}
