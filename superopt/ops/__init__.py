"""Every operator, one entry each: types, meaning in torch, FLOPs, Triton spelling."""

from superopt.ops.contract import linear, linear_bias, matmul
from superopt.ops.gemm import gemm
from superopt.ops.layout import concat, expand, getitem, pack, permute, reshape, slice_
from superopt.ops.leaf import input_, scalar
from superopt.ops.op import Kind, Op, define, every, get
from superopt.ops.opaque import opaque
from superopt.ops.pointwise import (
    COMMUTATIVE,
    abs_,
    add,
    cast,
    cos,
    div,
    eq,
    erf,
    exp,
    ge,
    gelu,
    gelu_tanh,
    gt,
    le,
    log,
    logical_and,
    logical_not,
    logical_or,
    lt,
    maximum,
    minimum,
    mul,
    ne,
    neg,
    reciprocal,
    relu,
    rsqrt,
    sigmoid,
    silu,
    sin,
    sqrt,
    sub,
    tanh,
    where,
)
from superopt.ops.reduce import (
    amax,
    amin,
    log_softmax,
    mean,
    rms,
    rotate_half,
    softmax,
    standardise,
    sum_,
)

__all__ = [n for n in dir() if not n.startswith("_")]
