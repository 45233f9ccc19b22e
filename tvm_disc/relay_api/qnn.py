"""``relay.qnn.op.*``: functions of the operator table, and some with other signatures."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

from tvm_disc.errors import refusing
from tvm_disc.relay.builder import call, const
from tvm_disc.relay.expr import Call, ExprLike
from tvm_disc.relay_api import op as operators
from tvm_disc.relay_api.registry import register_op_attr

__path__: list[str] = []  # for imports of relay.qnn.op, which tvm_disc.paths resolves

# Name of a simulated type -> the code that ``qnn.simulated_quantize`` receives at run time.
SQNN_DTYPE_TO_CODE = {"disable": 0, "int8": 1, "uint8": 2, "int32": 3}


def __getattr__(name: str) -> Any:
    if name == "get_pad_tuple2d":
        return operators.nn.get_pad_tuple2d
    if name in ("op", "qnn"):  # relay.qnn.op and relay.qnn.op.qnn are relay.qnn
        return sys.modules[__name__]
    if name == "transform":
        return import_module("tvm_disc.relay_api.qnn_transform")
    if name == "legalizations":
        return import_module("tvm_disc.relay_api.qnn_legalizations")
    return operators.member("qnn", name)


@refusing
def simulated_quantize(
    data: ExprLike,
    output_scale: ExprLike,
    output_zero_point: ExprLike,
    axis: int = -1,
    out_dtype: object = "int8",
) -> Call:
    """Return ``qnn.simulated_quantize``.

    Args:
        out_dtype: the name of a type, or an expression that computes its integer code.
    """
    params = [call("reshape", (p,), newshape=(-1,)) for p in (output_scale, output_zero_point)]
    return call("qnn.simulated_quantize", (data, _code(out_dtype), *params), axis=axis)


@refusing
def simulated_dequantize(
    data: ExprLike,
    input_scale: ExprLike,
    input_zero_point: ExprLike,
    axis: int = -1,
    in_dtype: object = "int8",
) -> Call:
    """Return ``qnn.simulated_dequantize``.

    Args:
        in_dtype: the name of a type, or an expression that computes its integer code.
    """
    params = [call("reshape", (p,), newshape=(-1,)) for p in (input_scale, input_zero_point)]
    return call("qnn.simulated_dequantize", (data, _code(in_dtype), *params), axis=axis)


@refusing
def register_qnn_legalize(
    op_name: str, legal_op: Callable[..., object] | None = None, level: int = 10
) -> object:
    """Set the function that ``relay.qnn.transform.Legalize`` applies to calls of an operator."""
    return register_op_attr(op_name, "FTVMQnnLegalize", legal_op, level)


def _code(dtype: object) -> Any:
    return const(SQNN_DTYPE_TO_CODE[dtype], "int32") if isinstance(dtype, str) else dtype
