"""The core operators, to which every imported module is lowered before fusion.

Front ends produce Relax; :mod:`tvm_disc.relay_passes.decompose` rewrites composite operators
(softmax, layer_norm, batch_norm, ...) into these. A table entry contains the operator's class,
which passes query, and the attributes that affect its result. Passes never compare names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from tvm_disc.relay.kernel_ops import (
    DEQUANTIZE,
    EXTENDING,
    FUNCTIONS,
    KERNELS,
    PACK,
    REINTERPRET,
    ROUND_ROWS,
    UNPACK,
)

# A storage format only: operators compute in float32.
BFLOAT16 = "bfloat16"


class OpClass(Enum):
    """How an operator maps output indices to input indices, which determines fusion."""

    ELEMWISE = "elementwise, with NumPy broadcasting of literal ones"
    INJECTIVE = "each output element reads at most a few computed positions"
    VIEW = "the same elements in the same order under another shape"
    REDUCE = "an associative reduction over some axes"
    DOT = "a contraction: matmul"
    CONV = "a convolution or a pooling window"
    OPAQUE = "a separate kernel"


@dataclass(frozen=True)
class CoreOp:
    """One operator: Relax name, class, attributes that affect the result, cost per element in
    operations.

    Attributes:
        weighted: whether the operator is a convolution, which has weights, unlike pooling.
        shifts: 1 for addition of the second operand, -1 for subtraction, else 0.
        scales: whether the operator multiplies its operands.
        expands: whether the operator dequantizes a weight matrix; a GEMM does this while packing.
        extends: whether the result is the first operand, updated in place.
        rounds: whether the operator rounds rows to int8; a GEMM does this while it copies rows.
    """

    name: str
    cls: OpClass
    attrs: tuple[str, ...] = ()
    cost: int = 1
    weighted: bool = False
    shifts: int = 0
    scales: bool = False
    expands: bool = False
    rounds: bool = False
    extends: bool = False


_E, _I, _V, _R = OpClass.ELEMWISE, OpClass.INJECTIVE, OpClass.VIEW, OpClass.REDUCE
_CHEAP = [
    "maximum",
    "minimum",
    "negative",
    "abs",
    "floor",
    "ceil",
    "round",
    "trunc",
    "sign",
    "equal",
    "not_equal",
    "less",
    "less_equal",
    "greater",
    "greater_equal",
    "logical_and",
    "logical_or",
    "logical_xor",
    "logical_not",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "bitwise_not",
    "left_shift",
    "right_shift",
    "where",
    "isnan",
    "isinf",
    "isfinite",
]
_DIVIDE = [
    "divide",
    "floor_divide",
    "mod",
    "floor_mod",
    "trunc_divide",
    "trunc_mod",
    "sqrt",
    "rsqrt",
]
_TRANSCENDENTAL = [
    "exp",
    "log",
    "sigmoid",
    "tanh",
    "erf",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "asinh",
    "acosh",
    "atanh",
    "power",
]
_POOL = ("pool_size", "strides", "padding", "dilation", "ceil_mode", "layout", "count_include_pad")
_CONV = ("strides", "padding", "dilation", "groups", "data_layout", "kernel_layout", "out_dtype")
_AXES = ("axis", "keepdims")

ROWS: tuple[CoreOp, ...] = (
    CoreOp("relax.add", _E, shifts=1),
    CoreOp("relax.subtract", _E, shifts=-1),
    CoreOp("relax.multiply", _E, scales=True),
    *(CoreOp(f"relax.{n}", _E) for n in _CHEAP),
    *(CoreOp(f"relax.{n}", _E, cost=4) for n in _DIVIDE),
    *(CoreOp(f"relax.{n}", _E, cost=16) for n in _TRANSCENDENTAL),
    *(CoreOp(f"disc.{n}", _E, cost=16) for n in FUNCTIONS),
    CoreOp("relax.clip", _E, cost=2),
    CoreOp("relax.nn.relu", _E),
    CoreOp("relax.astype", _E, ("dtype",)),
    CoreOp(REINTERPRET, _E),
    CoreOp(DEQUANTIZE, _I, ("group", "bits"), cost=4, expands=True),
    CoreOp(UNPACK, _I, cost=0),
    CoreOp(PACK, _I),
    CoreOp("relax.reshape", _V),
    CoreOp("relax.expand_dims", _V, ("axis",)),
    CoreOp("relax.squeeze", _V, ("axis",)),
    CoreOp("relax.flatten", _V),
    CoreOp("relax.permute_dims", _I, ("axes",)),
    CoreOp("relax.broadcast_to", _I),
    CoreOp("relax.concat", _I, ("axis",), cost=2),
    CoreOp("relax.strided_slice", _I, ("assume_inbound",)),
    CoreOp("relax.take", _I, ("axis", "mode"), cost=3),
    CoreOp("relax.gather_elements", _I, ("axis",), cost=3),
    CoreOp("relax.gather_nd", _I, ("batch_dims",), cost=3),
    CoreOp("relax.arange", _I, ("dtype",)),
    CoreOp("relax.full", _I, ("dtype",)),
    CoreOp("relax.zeros", _I, ("dtype",)),
    CoreOp("relax.ones", _I, ("dtype",)),
    CoreOp("relax.shape_to_tensor", _I),
    CoreOp("relax.nn.pad", _I, ("pad_width", "pad_value", "pad_mode"), cost=2),
    CoreOp("relax.flip", _I, ("axis",)),
    CoreOp("relax.tile", _I, ("repeats",), cost=4),
    CoreOp("relax.repeat", _I, ("repeats", "axis"), cost=4),
    CoreOp("relax.one_hot", _I, ("depth", "axis"), cost=2),
    CoreOp("relax.tril", _I),
    CoreOp("relax.triu", _I),
    CoreOp("relax.sum", _R, _AXES),
    CoreOp("relax.mean", _R, _AXES),
    CoreOp("relax.max", _R, _AXES),
    CoreOp("relax.min", _R, _AXES),
    CoreOp("relax.prod", _R, _AXES),
    CoreOp("relax.argmax", _R, _AXES),
    CoreOp("relax.argmin", _R, _AXES),
    CoreOp("relax.matmul", OpClass.DOT, ("out_dtype",)),
    CoreOp("relax.nn.conv1d", OpClass.CONV, _CONV, weighted=True),
    CoreOp("relax.nn.conv2d", OpClass.CONV, _CONV, weighted=True),
    CoreOp("relax.nn.conv3d", OpClass.CONV, _CONV, weighted=True),
    CoreOp("relax.nn.max_pool1d", OpClass.CONV, _POOL),
    CoreOp("relax.nn.max_pool2d", OpClass.CONV, _POOL),
    CoreOp("relax.nn.max_pool3d", OpClass.CONV, _POOL),
    CoreOp("relax.nn.avg_pool1d", OpClass.CONV, _POOL),
    CoreOp("relax.nn.avg_pool2d", OpClass.CONV, _POOL),
    CoreOp("relax.nn.avg_pool3d", OpClass.CONV, _POOL),
    CoreOp("relax.scatter_elements", OpClass.OPAQUE, ("axis", "reduction")),
    CoreOp("relax.nonzero", OpClass.OPAQUE),
    CoreOp("relax.scatter_nd", OpClass.OPAQUE, ("reduction",)),
    CoreOp("relax.cumsum", OpClass.OPAQUE, ("axis", "dtype", "exclusive")),
    CoreOp("relax.cumprod", OpClass.OPAQUE, ("axis", "dtype", "exclusive")),
    CoreOp("relax.argsort", OpClass.OPAQUE, ("axis", "descending", "dtype")),
    CoreOp("relax.topk", OpClass.OPAQUE, ("k", "axis", "ret_type", "largest", "dtype")),
    CoreOp("relax.bucketize", OpClass.OPAQUE, ("right",)),
    *(
        CoreOp(name, OpClass.OPAQUE, attrs, rounds=name == ROUND_ROWS, extends=name in EXTENDING)
        for name, attrs in KERNELS.items()
    ),
)

CORE: Mapping[str, CoreOp] = {row.name: row for row in ROWS}
