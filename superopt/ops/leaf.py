"""Leaves: inputs, parameters and constants."""

from __future__ import annotations

from superopt.ir.types import TensorType
from superopt.ops.op import Kind, Op, define


def _no_meaning(*_: object) -> None:
    raise TypeError("an input has no meaning of its own; it is bound when the program is run")


# A parameter is an input whose storage stays where it is from call to call. It is not a constant:
# an optimizer may write to it between any two calls.
input_ = define(
    Op(
        "input",
        Kind.LEAF,
        lambda types, index, type_, role: type_,
        _no_meaning,
        attrs=("index", "type", "role"),
        arity=0,
    )
)

# A Python number among tensors. Its dtype is that of the tensor it meets; its value is never
# rounded to it, as in torch.
scalar = define(
    Op(
        "scalar",
        Kind.LEAF,
        lambda types, value, dtype: TensorType((), dtype),
        lambda value, dtype: value,
        attrs=("value", "dtype"),
        arity=0,
        triton="{value}",
    )
)
