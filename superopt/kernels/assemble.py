"""Assembles a generated kernel for a named architecture, with no GPU present.

What the assembler says (registers, stack, shared memory, whether tensor cores are used) is known
exactly this way, for every architecture, wherever superopt runs.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from superopt.errors import LowerError
from superopt.ir.plan import Config, Kernel

_MMA = re.compile(r"(?:wgmma\.mma_async|\bmma)\.sync\.aligned\.[\w.]+|tcgen05\.mma[\w.]*")
_USAGE = re.compile(r"REG:(\d+) STACK:(\d+) SHARED:(\d+) LOCAL:(\d+)")


@dataclass(frozen=True)
class Assembly:
    """A kernel's machine code for one architecture, and what it takes.

    registers  per thread; stack: bytes per thread, not zero when registers are spilled;
    shared     bytes per program; mma: the distinct matrix instructions
    """

    ptx: str
    cubin: bytes
    registers: int
    stack: int
    shared: int
    mma: tuple[str, ...]

    @property
    def has_mma(self) -> bool:
        """True when the kernel uses tensor cores."""
        return bool(self.mma)

    @property
    def has_tma(self) -> bool:
        """True when the kernel moves tiles by the tensor memory accelerator."""
        return "cp.async.bulk.tensor" in self.ptx


def load(kernel: Kernel, folder: Path) -> ModuleType:
    """Write the kernel's module into a folder and import it from there."""
    path = Path(folder) / f"{kernel.name}.py"
    path.write_text(kernel.source)
    spec = importlib.util.spec_from_file_location(kernel.name, path)
    if spec is None or spec.loader is None:
        raise LowerError(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def assemble(kernel: Kernel, arch: int, config: Config | None = None) -> Assembly:
    """Machine code of ``kernel`` for compute capability ``arch``, as an int (75, 80, 90).

    ``config`` defaults to the kernel's first. Pointers are taken to be 16-byte aligned. Raises
    LowerError with the compiler's message where the kernel does not compile.
    """
    if os.environ.get("TRITON_INTERPRET") == "1":
        raise LowerError("a process that interprets Triton cannot assemble")
    config = config or kernel.configs[0]
    try:
        with tempfile.TemporaryDirectory(prefix="superopt_") as folder:
            built = _compile(getattr(load(kernel, Path(folder)), kernel.name), kernel, arch, config)
            registers, stack = _usage(built.asm["cubin"], Path(folder))
    except LowerError:
        raise
    except Exception as error:  # Triton raises whatever its stages do
        raise LowerError(f"{kernel.name} does not compile for sm_{arch}: {error}") from error
    ptx = built.asm["ptx"]
    mma = tuple(sorted(set(_MMA.findall(ptx))))
    return Assembly(ptx, built.asm["cubin"], registers, stack, built.metadata.shared, mma)


def _compile(fn: Any, kernel: Kernel, arch: int, config: Config) -> Any:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    constants = dict(kernel.constants) | dict(config.constants)
    types = {name: _fill(type_, constants) for name, type_ in kernel.signature}
    names = list(fn.arg_names)
    missing = [n for n in names if n not in types and n not in constants]
    if missing:
        raise LowerError(f"{kernel.name}: neither type nor value is known for {missing}")
    signature = {n: types.get(n, "constexpr") for n in names}
    aligned = {
        (i,): [["tt.divisibility", 16]] for i, n in enumerate(names) if signature[n][0] == "*"
    }
    values = {(names.index(n),): v for n, v in constants.items() if n in names}
    options = {"num_warps": config.num_warps, "num_stages": config.num_stages}
    target = GPUTarget("cuda", arch, 32)
    return triton.compile(ASTSource(fn, signature, values, aligned), target, options)


def _fill(type_: str, constants: dict[str, Any]) -> str:
    """A parameter's type, with the block sizes that a descriptor's type mentions filled in.

    ``{BN}`` is the constant of that name, ``{BN/2}`` its half.
    """

    def size(m: re.Match) -> str:
        return str(constants[m[1]] // int(m[2] or 1))

    return re.sub(r"\{(\w+)(?:/(\d+))?\}", size, type_)


def _usage(cubin: bytes, folder: Path) -> tuple[int, int]:
    """Registers and bytes of stack per thread, as the wheel's own cuobjdump tells them."""
    import triton

    path = folder / "kernel.cubin"
    path.write_bytes(cubin)
    tool = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
    command = [str(tool), "--dump-resource-usage", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = _USAGE.search(done.stdout)
    if not found:
        raise LowerError(f"cuobjdump tells nothing: {done.stdout}{done.stderr}")
    return int(found[1]), int(found[2])
