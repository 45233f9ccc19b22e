"""Rows of the quantized dialect: products, windows and concatenation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tvm_disc.relay.ops.references import References

from .row import REQUIRED, OpRow, Pattern, Sample
from .window_attrs import conv_attrs, pool_attrs

ref = References("qnn")

# Sample inputs for the scales and zero points of an operand and of a result.
PARAMS: tuple[Any, ...] = (("float32",), ("int32",), ("float32",), ("int32",))
INT8 = (-128, 128)
UINT8 = (0, 256)

_DENSE = ("data", "weight", "input_zero_point", "kernel_zero_point", "input_scale", "kernel_scale")
_FACTORS: tuple[Any, ...] = (("int32",), ("int32",), ("float32",), ("float32",))


def params(first: int, *values: Any) -> Mapping[int, Any]:
    """Return literal arguments from position ``first`` on."""
    return {first + k: v for k, v in enumerate(values)}


def _weights(*shape: int) -> Any:
    """Return nested tuples of pseudo-random int8 weights."""
    count = 1
    for n in shape:
        count *= n
    flat: list[Any] = [(37 * k + 11) % 255 - 127 for k in range(count)]
    for n in reversed(shape[1:]):
        flat = [tuple(flat[k : k + n]) for k in range(0, len(flat), n)]
    return tuple(flat)


ROWS: tuple[OpRow, ...] = (
    OpRow(
        "qnn.avg_pool2d",
        ("data", "input_scale", "input_zero_point", "output_scale", "output_zero_point"),
        pool_attrs(2, average=True),
        Pattern.OUT_ELEMWISE,
        False,
        reference=ref.avg_pool2d,
        samples=(
            Sample(
                (("n", "h", "w", 3, "int8"), *PARAMS),
                ("n", "(h-2)//2+1", "(w-2)//2+1", 3),
                {"pool_size": (2, 2), "strides": (2, 2), "layout": "NHWC"},
                sizes=((1, 2, 3), (2, 7, 8)),
                ranges={0: INT8},
                values=params(1, 0.5, -3, 0.5, -3),
            ),
            Sample(
                (("n", 2, "h", "w", "uint8"), *PARAMS),
                ("n", 2, "h", "w"),
                {"pool_size": (3, 3), "padding": (1, 1, 1, 1)},
                sizes=((1, 1, 3), (2, 7, 8)),
                ranges={0: UINT8},
                values=params(1, 0.5, 7, 0.3, 9),
            ),
        ),
    ),
    OpRow(
        "qnn.batch_matmul",
        ("x", "y", "x_zero_point", "y_zero_point", "x_scale", "y_scale"),
        {"out_dtype": "", "transpose_a": False, "transpose_b": False},
        Pattern.OUT_ELEMWISE,
        False,
        reference=ref.batch_matmul,
        samples=(
            Sample(
                (("b", "n", 5, "int8"), ("b", "m", 5, "int8"), *_FACTORS),
                ("b", "n", "m"),
                {"transpose_b": True},
                ranges={0: INT8, 1: INT8},
                values=params(2, 3, -5, 0.5, 0.25),
            ),
            Sample(
                (("b", "n", "k", "uint8"), ("b", "k", 7, "int8"), *_FACTORS),
                ("b", "n", 7),
                ranges={0: UINT8, 1: INT8},
                values=params(2, 0, 0, 0.5, 0.25),
            ),
        ),
    ),
    OpRow(
        "qnn.concatenate",
        ("*data", "*input_scales", "*input_zero_points", "output_scale", "output_zero_point"),
        {"axis": 0},
        Pattern.INJECTIVE,
        False,
        reference=ref.concatenate,
        samples=(
            Sample(
                (
                    (("n", 3, "int8"), ("n", 2, "int8")),
                    (("float32",), ("float32",)),
                    (("int32",), ("int32",)),
                    ("float32",),
                    ("int32",),
                ),
                ("n", 5),
                {"axis": 1},
                sizes=((1,), (5,), (33,)),
                values=params(1, (0.5, 0.2), (3, -2), 0.5, 3),
            ),
        ),
    ),
    OpRow(
        "qnn.contrib_dense_pack",
        _DENSE,
        {"units": REQUIRED, "out_dtype": "", "weight_layout": "NC"},
        Pattern.OUT_ELEMWISE,
        False,
        reference=ref.dense,
        samples=(
            Sample(
                (("n", 8, "uint8"), (6, 8, "int8"), *_FACTORS),
                ("n", 6),
                {"units": 6},
                sizes=((1,), (5,), (33,)),
                ranges={0: UINT8, 1: INT8},
                values=params(2, 3, 0, 0.5, 0.25),
            ),
        ),
    ),
    OpRow(
        "qnn.conv2d",
        _DENSE,
        conv_attrs(2),
        Pattern.OUT_ELEMWISE,
        False,
        reference=ref.conv2d,
        samples=(
            Sample(
                (("n", 3, "h", "w", "int8"), (4, 3, 3, 3, "int8"), *_FACTORS),
                ("n", 4, "h", "w"),
                {"padding": (1, 1, 1, 1)},
                sizes=((1, 3, 4), (2, 8, 5)),
                ranges={0: INT8},
                values={1: _weights(4, 3, 3, 3), **params(2, 5, 0, 0.5, 0.25)},
            ),
            Sample(
                (("n", "h", "w", 4, "uint8"), (3, 3, 4, 1, "uint8"), *_FACTORS),
                ("n", "(h+1)//2", "(w+1)//2", 4),
                {
                    "strides": (2, 2),
                    "padding": (1, 1, 1, 1),
                    "groups": 4,
                    "data_layout": "NHWC",
                    "kernel_layout": "HWOI",
                },
                sizes=((1, 3, 4), (2, 8, 5)),
                ranges={0: UINT8, 1: UINT8},
                values=params(2, 128, 77, 0.5, 0.25),
            ),
            Sample(
                (("n", "h", "w", 4, "uint8"), (1, 1, 4, 5, "int8"), *_FACTORS),
                ("n", "h", "w", 5),
                {"data_layout": "NHWC", "kernel_layout": "HWIO"},
                sizes=((1, 3, 4), (2, 8, 5)),
                ranges={0: UINT8},
                values={1: _weights(1, 1, 4, 5), **params(2, 9, 1, 0.5, 0.25)},
            ),
        ),
    ),
    OpRow(
        "qnn.conv2d_transpose",
        _DENSE,
        {
            "channels": None,
            "kernel_size": None,
            "strides": (1, 1),
            "output_padding": (0, 0),
            "padding": (0, 0),
            "dilation": (1, 1),
            "groups": 1,
            "data_layout": "NCHW",
            "kernel_layout": "IOHW",
            "out_layout": "",
            "out_dtype": "",
        },
        Pattern.OUT_ELEMWISE,
        False,
        reference=ref.conv2d_transpose,
        samples=(
            Sample(
                (("n", 3, "h", "w", "int8"), (3, 2, 3, 3, "int8"), *_FACTORS),
                ("n", 2, "h*2", "w*2"),
                {"strides": (2, 2), "padding": (1, 1, 1, 1), "output_padding": (1, 1)},
                sizes=((1, 3, 4), (2, 8, 5)),
                ranges={0: INT8},
                values={1: _weights(3, 2, 3, 3), **params(2, 5, 2, 0.5, 0.25)},
            ),
        ),
    ),
    OpRow(
        "qnn.dense",
        _DENSE,
        {"units": REQUIRED, "out_dtype": ""},
        Pattern.OUT_ELEMWISE,
        False,
        reference=ref.dense,
        samples=(
            Sample(
                (("n", 8, "int8"), (5, 8, "int8"), *_FACTORS),
                ("n", 5),
                {"units": 5},
                sizes=((1,), (5,), (33,)),
                ranges={0: INT8},
                values={1: _weights(5, 8), **params(2, 3, 0, 0.5, 0.25)},
            ),
            Sample(
                (("n", 8, "uint8"), (5, 8, "int8"), *_FACTORS),
                ("n", 5),
                {"units": 5},
                sizes=((1,), (5,), (33,)),
                ranges={0: UINT8},
                values={1: _weights(5, 8), **params(2, 200, -100, 0.5, 0.25)},
            ),
            Sample(
                (("n", "k", "uint8"), ("m", "k", "uint8"), *_FACTORS),
                ("n", "m"),
                {"units": None},
                ranges={0: UINT8, 1: UINT8},
                values=params(2, 3, 250, 0.5, 0.25),
            ),
        ),
    ),
)
