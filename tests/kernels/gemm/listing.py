"""The cases whose kernels are run, interpreted and on a card; and those for a card only."""

from __future__ import annotations

from kernels.gemm.cases import (
    BF16,
    F16,
    F32,
    F64,
    Case,
    activated,
    bias,
    geglu,
    halved,
    llama,
    masked,
    norm,
    plain,
    scores,
    shifted,
    spelled,
    swiglu,
    three,
)

ONE = (((0,), plain),)
GATED = (((0, 1), swiglu),)
QKV = (((0,), plain), ((1,), plain), ((2,), plain))

_SHAPES = [
    Case(f"swiglu_{name}_{m}x{k}x{n}", (m,), k, (n, n), GATED, dtype)
    for name, dtype in (("f32", F32), ("f16", F16), ("bf16", BF16))
    for m, k, n in ((1, 130, 100), (3, 72, 33), (16, 72, 33), (17, 130, 100), (70, 72, 100))
]
_DESCRIBED = [
    Case(f"tma_{name}_{m}", (m,), k, (n, n), GATED, dtype, arch=90, layout=layout)
    for name, dtype, m, k, n, layout in (
        ("bf16", BF16, 16, 72, 33, ""),
        ("bf16_swap", BF16, 17, 136, 104, "swap"),
        ("f16", F16, 70, 128, 104, "swap"),
        ("f32", F32, 70, 72, 100, ""),
        ("w", F16, 70, 72, 104, "w"),
    )
]
_EXTRAS = ((40,), (5, 1), (5, 40))
_EPILOGUES = [
    Case("bias", (5,), 64, (40,), (((0,), bias),), F16, ((40,),)),
    Case("activated", (5,), 64, (40,), (((0,), activated),), BF16, _EXTRAS),
    Case("activated_4", (4,), 64, (40,), (((0,), activated),), BF16, ((40,), (4, 1), (4, 40))),
    Case("activated_20", (20,), 64, (40,), (((0,), activated),), F32, ((40,), (20, 1), (20, 40))),
    Case("residual_strided", (20,), 64, (40,), (((0,), activated),), F32,
         ((40,), (20, 1), (20, 40)), layout="residual"),
    Case("batched", (2, 9), 64, (40,), (((0,), activated),), F32, ((1,), (2, 1, 1), (9, 40))),
    Case("batched_3", (3, 1), 64, (40,), (((0,), activated),), F32, ((), (3, 1, 1), (1, 40))),
    Case("masked", (20,), 64, (40,), (((0,), masked),), F16, ((20, 1),), booleans=True),
    Case("masked_1", (1,), 64, (40,), (((0,), masked),), F32, ((40,),), booleans=True),
    Case("number", (20,), 64, (40,), (((0,), bias),), F16, (2.5,)),
    Case("wide_out", (3,), 64, (40,), (((0,), halved),), F16),
    Case("geglu", (20,), 64, (40, 40), (((0, 1), geglu),), F16),
    Case("three", (20,), 64, (40, 40, 40), (((0, 1, 2), three),), F32),
    Case("three_2", (2,), 64, (40, 40, 40), (((0, 1, 2), three),), F32),
    Case("three_tma", (20,), 64, (40, 40, 40), (((0, 1, 2), three),), F32, arch=90),
]  # fmt: skip
_GROUPS = [
    Case("qkv_1", (1,), 64, (96, 32, 40), QKV, BF16),
    Case("qkv_20", (20,), 64, (96, 32, 40), QKV, F16),
    Case("qkv_tma", (300,), 64, (96, 32, 40), QKV, F16, arch=90, families=("tiled",)),
    Case("qkv_tma_9", (9,), 64, (96, 32, 40), QKV, F16, arch=90),
    Case("mixed", (3,), 64, (96, 96, 33), (((0, 1), swiglu), ((2,), bias)), F32, ((33,),)),
    Case("mixed_tma", (70,), 64, (96, 96, 40), (((0, 1), swiglu), ((2,), bias)), F16, ((40,),),
         arch=90),
]  # fmt: skip
_PROLOGUES = [
    Case("llama_1", (1,), 130, (40, 40), GATED, BF16, ((130,),), llama),
    Case("llama_3", (1, 3), 256, (40, 40), GATED, F16, ((256,),), llama),
    Case("llama_16", (16,), 72, (40, 40), GATED, BF16, ((72,),), llama),
    Case("llama_tma", (9,), 512, (40, 40), GATED, F16, ((512,),), llama, arch=90),
    Case("norm", (4,), 72, (40,), (((0,), bias),), F32, ((40,), (72,)), norm),
    Case("norm_9", (9,), 130, (40,), (((0,), bias),), F32, ((40,), (130,)), norm),
    Case("scores", (3,), 72, (40,), ONE, F32, (), scores),
    Case("spelled", (7,), 72, (40,), ONE, F32, (), spelled),
    Case("shifted", (70,), 72, (40,), ONE, F16, (), shifted),
    Case("shifted_3", (3,), 72, (40,), ONE, F32, (), shifted),
]
_LAYOUTS = [
    Case("x_strided_2", (2,), 72, (40,), ONE, F32, layout="x"),
    Case("x_strided", (20,), 72, (40,), ONE, F16, layout="x"),
    Case("x_strided_tma", (20,), 72, (40,), ONE, F16, layout="x", arch=90),
    Case("x_batch", (4, 5), 72, (40,), ONE, F32, layout="batch"),
    Case("x_batch_2", (2, 2), 72, (40,), ONE, F32, layout="batch"),
    Case("x_batch_tma", (4, 5), 72, (40,), ONE, F16, layout="batch", arch=90),
    Case("w_transposed_1", (1,), 72, (40, 40), GATED, BF16, layout="w"),
    Case("w_transposed", (20,), 130, (33, 33), GATED, F32, layout="w"),
    Case("vector", (), 72, (40,), ONE, F32),
    Case("size_1", (1,), 1, (1,), ONE, F32),
    Case("size_1_rows", (20,), 1, (1, 1), GATED, F32),
    Case("one_out", (20,), 64, (1,), ONE, F16),
    Case("doubles", (2,), 72, (40, 40), GATED, F64, families=("gemv",)),
    Case("symbolic_6", (6,), 72, (40, 40), GATED, F32, symbolic=True),
    Case("symbolic", (70,), 72, (40,), (((0,), bias),), F16, ((70, 40),), symbolic=True),
    Case("symbolic_tma", (9, 3), 72, (40,), (((0,), bias),), F16, ((9, 1, 40),), symbolic=True,
         arch=90),
]  # fmt: skip

_LARGE = [
    Case("large_1", (1,), 4096, (11008, 11008), GATED, BF16, ((4096,),), llama),
    Case("large_4", (4,), 4096, (11008, 11008), GATED, F16, ((4096,),), llama),
    Case("large_down", (1,), 11008, (4096,), (((0,), bias),), BF16, ((1, 4096),)),
    Case("large_qkv", (1,), 4096, (4096, 1024, 1024), QKV, BF16, ((4096,),), llama),
    *(Case(f"large_{m}_{arch}", (m,), 4096, (2752, 2752), GATED, BF16, arch=arch)
      for m in (16, 64, 300, 2048) for arch in (80, 90)),
    Case("large_llama_90", (16,), 4096, (2752, 2752), GATED, BF16, ((4096,),), llama, arch=90),
    Case("large_residual", (2048,), 1024, (4096,), (((0,), activated),), BF16,
         ((4096,), (2048, 1), (2048, 4096)), arch=90),
    Case("large_qkv_90", (2048,), 1024, (1024, 256, 256), QKV, BF16, arch=90),
    Case("large_f32", (512,), 1024, (1000,), (((0,), bias),), F32, ((1000,),)),
]  # fmt: skip

LARGE = {c.name: c for c in _LARGE}
CASES = {c.name: c for c in (
    *_SHAPES, *_DESCRIBED, *_EPILOGUES, *_GROUPS, *_PROLOGUES, *_LAYOUTS,
)}  # fmt: skip
