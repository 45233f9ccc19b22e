"""``relay.qnn.op.*``: from the table, and written out where Relay's Python function differs."""

from __future__ import annotations

import sys
from typing import Any

from . import op as operators
from .builder import call, const
from .expr import Call, ExprLike

# What a run-time number says of the type to simulate.
SQNN_DTYPE_TO_CODE = {"disable": 0, "int8": 1, "uint8": 2, "int32": 3}


def __getattr__(name: str) -> Any:
    if name == "op":  # relay.qnn.op is relay.qnn
        return sys.modules[__name__]
    return operators.member("qnn", name)


def simulated_quantize(
    data: ExprLike,
    output_scale: ExprLike,
    output_zero_point: ExprLike,
    axis: int = -1,
    out_dtype: Any = "int8",
) -> Call:
    """``qnn.simulated_quantize``; the type is a name or a computed number."""
    params = [call("reshape", (p,), newshape=(-1,)) for p in (output_scale, output_zero_point)]
    return call("qnn.simulated_quantize", (data, _code(out_dtype), *params), axis=axis)


def simulated_dequantize(
    data: ExprLike,
    input_scale: ExprLike,
    input_zero_point: ExprLike,
    axis: int = -1,
    in_dtype: Any = "int8",
) -> Call:
    """``qnn.simulated_dequantize``; the type is a name or a computed number."""
    params = [call("reshape", (p,), newshape=(-1,)) for p in (input_scale, input_zero_point)]
    return call("qnn.simulated_dequantize", (data, _code(in_dtype), *params), axis=axis)


def _code(dtype: Any) -> Any:
    return const(SQNN_DTYPE_TO_CODE[dtype], "int32") if isinstance(dtype, str) else dtype


def conv2d(
    data: ExprLike,
    kernel: ExprLike,
    input_zero_point: ExprLike,
    kernel_zero_point: ExprLike,
    input_scale: ExprLike,
    kernel_scale: ExprLike,
    kernel_size: Any,
    channels: Any,
    strides: Any = (1, 1),
    padding: Any = (0, 0),
    dilation: Any = (1, 1),
    groups: int = 1,
    data_layout: str = "NCHW",
    kernel_layout: str = "OIHW",
    out_layout: str = "",
    out_dtype: str = "int32",
) -> Call:
    """``qnn.conv2d``."""
    zeros, scales = (input_zero_point, kernel_zero_point), (input_scale, kernel_scale)
    return call(
        "qnn.conv2d",
        (data, kernel, *zeros, *scales),
        kernel_size=kernel_size,
        channels=channels,
        strides=strides,
        padding=padding,
        dilation=dilation,
        groups=groups,
        data_layout=data_layout,
        kernel_layout=kernel_layout,
        out_layout=out_layout,
        out_dtype=out_dtype,
    )


def leaky_relu(
    x: ExprLike,
    alpha: float,
    input_scale: ExprLike,
    input_zero_point: ExprLike,
    output_scale: ExprLike,
    output_zero_point: ExprLike,
) -> Call:
    """``qnn.leaky_relu``."""
    args = (x, input_scale, input_zero_point, output_scale, output_zero_point)
    return call("qnn.leaky_relu", args, alpha=alpha)


def avg_pool2d(
    data: ExprLike,
    input_scale: ExprLike,
    input_zero_point: ExprLike,
    output_scale: ExprLike,
    output_zero_point: ExprLike,
    pool_size: Any,
    strides: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    layout: str = "NHWC",
    out_layout: str = "",
) -> Call:
    """``qnn.avg_pool2d``."""
    return call(
        "qnn.avg_pool2d",
        (data, input_scale, input_zero_point, output_scale, output_zero_point),
        pool_size=pool_size,
        strides=strides,
        padding=padding,
        dilation=dilation,
        ceil_mode=ceil_mode,
        count_include_pad=count_include_pad,
        layout=layout,
        out_layout=out_layout,
    )
