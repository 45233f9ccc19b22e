"""Rows of the quantized dialect: requantization, sums and functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from tvm_disc.relay.ops.references import References

from .qnn import INT8, PARAMS, UINT8, params
from .row import REQUIRED, OpRow, Pattern, Sample

ref = References("qnn")

_SIZES = ((1, 3), (5, 2), (7, 64))
_BINARY_ARGS = (
    "lhs",
    "rhs",
    "lhs_scale",
    "lhs_zero_point",
    "rhs_scale",
    "rhs_zero_point",
    "output_scale",
    "output_zero_point",
)
_UNARY_ARGS = ("x", "scale", "zero_point", "output_scale", "output_zero_point")
_SCALED_ARGS = ("data", "input_scale", "input_zero_point", "output_scale", "output_zero_point")


def _binary(name: str, reference: Any) -> OpRow:
    return OpRow(
        name,
        _BINARY_ARGS,
        {"lhs_axis": -1, "rhs_axis": -1},
        Pattern.BROADCAST,
        False,
        reference=reference,
        samples=(
            Sample(
                (("n", "m", "int8"), ("n", "m", "int8"), *PARAMS[:2], *PARAMS),
                ("n", "m"),
                sizes=_SIZES,
                ranges={0: INT8, 1: INT8},
                values=params(2, 0.5, 3, 0.2, -7, 0.3, 4),
            ),
            Sample(
                (("n", "m", "uint8"), ("m", "uint8"), *PARAMS[:2], *PARAMS),
                ("n", "m"),
                sizes=_SIZES,
                ranges={0: UINT8, 1: UINT8},
                values=params(2, 0.5, 128, 0.5, 128, 0.5, 128),
            ),
        ),
    )


def _lookup(name: str, function: Any, scale: float = 0.05) -> OpRow:
    return OpRow(
        f"qnn.{name}",
        _UNARY_ARGS,
        {},
        Pattern.ELEMWISE,
        False,
        reference=ref.lookup.of(function),
        samples=(
            Sample(
                (("n", "m", "int8"), *PARAMS),
                ("n", "m"),
                sizes=_SIZES,
                ranges={0: INT8},
                values=params(1, scale, -3, 0.01, 5),
            ),
            Sample(
                (("n", "m", "uint8"), *PARAMS),
                ("n", "m"),
                sizes=_SIZES,
                ranges={0: UINT8},
                values=params(1, scale, 100, 0.02, 0),
            ),
        ),
    )


def _requantized(dtype: str, out_dtype: str, out: float, **attrs: str) -> Sample:
    return Sample(
        (("n", "m", dtype), *PARAMS),
        ("n", "m"),
        {"out_dtype": out_dtype, **attrs},
        sizes=_SIZES,
        ranges={0: (-30000, 30000) if dtype == "int32" else INT8},
        values=params(1, 0.37, 3, out, -5),
    )


_PER_AXIS = Sample(
    (("n", 3, "m", "int32"), (3, "float32"), (3, "int32"), ("float32",), ("int32",)),
    ("n", 3, "m"),
    {"axis": 1, "out_dtype": "uint8", "rounding": "TONEAREST"},
    sizes=_SIZES,
    ranges={0: (-30000, 30000)},
    values=params(1, (0.01, 0.002, 7.5), (0, 3, -4), 0.25, 100),
)

ROWS: tuple[OpRow, ...] = (
    _binary("qnn.add", ref.add),
    _binary("qnn.subtract", ref.subtract),
    _binary("qnn.mul", ref.mul),
    _lookup("abs", np.abs),
    _lookup("erf", ref.erf),
    _lookup("exp", np.exp),
    _lookup("hardswish", ref.hardswish),
    _lookup("log", np.log),
    _lookup("rsqrt", lambda x: 1 / np.sqrt(x)),
    _lookup("sigmoid", lambda x: 1 / (1 + np.exp(-x))),
    _lookup("sqrt", np.sqrt),
    _lookup("tanh", np.tanh),
    OpRow(
        "qnn.dequantize",
        ("data", "input_scale", "input_zero_point"),
        {"axis": -1, "out_dtype": REQUIRED},
        Pattern.ELEMWISE,
        False,
        reference=ref.dequantize,
        samples=(
            Sample(
                (("n", "m", "int8"), *PARAMS[:2]),
                ("n", "m"),
                {"out_dtype": "float32"},
                sizes=_SIZES,
                ranges={0: INT8},
                values=params(1, 0.3, 7),
            ),
            Sample(
                (("n", 3, "m", "int32"), (3, "float32"), ("int32",)),
                ("n", 3, "m"),
                {"axis": 1, "out_dtype": "float32"},
                sizes=_SIZES,
                ranges={0: (-30000, 30000), 1: (0.1, 2.0)},
            ),
        ),
    ),
    OpRow(
        "qnn.leaky_relu",
        _SCALED_ARGS,
        {"alpha": 0.25},
        Pattern.ELEMWISE,
        False,
        reference=ref.leaky_relu,
        samples=(
            Sample(
                (("n", "m", "int8"), *PARAMS),
                ("n", "m"),
                {"alpha": 0.3},
                sizes=_SIZES,
                ranges={0: INT8},
                values=params(1, 0.3, 7, 0.2, -4),
            ),
        ),
    ),
    OpRow(
        "qnn.quantize",
        ("data", "output_scale", "output_zero_point"),
        {"axis": -1, "out_dtype": REQUIRED},
        Pattern.ELEMWISE,
        False,
        reference=ref.quantize,
        samples=(
            Sample(
                (("n", "m", "float32"), *PARAMS[:2]),
                ("n", "m"),
                {"out_dtype": "uint8"},
                sizes=_SIZES,
                ranges={0: (-20.0, 20.0)},
                values=params(1, 0.125, 7),
            ),
            Sample(
                (("n", 3, "m", "float32"), (3, "float32"), (3, "int32")),
                ("n", 3, "m"),
                {"axis": 1, "out_dtype": "int8"},
                sizes=_SIZES,
                ranges={0: (-20.0, 20.0)},
                values=params(1, (0.1, 0.25, 0.3), (0, 5, -7)),
            ),
        ),
    ),
    OpRow(
        "qnn.requantize",
        _SCALED_ARGS,
        {"axis": -1, "rounding": "None", "compute_dtype": "None", "out_dtype": ""},
        Pattern.ELEMWISE,
        False,
        reference=ref.requantize,
        samples=(
            _requantized("int32", "int8", 97.3),
            _requantized("int32", "int8", 97.3, rounding="TONEAREST"),
            _requantized("int32", "uint8", 64 * 0.37, rounding="UPWARD", compute_dtype="float32"),
            _requantized("int8", "int32", 0.01, rounding="TONEAREST", compute_dtype="float64"),
            _requantized("int8", "int32", 0.01),
            _PER_AXIS,
        ),
    ),
    OpRow(
        "qnn.simulated_dequantize",
        ("data", "in_dtype", "input_scale", "input_zero_point"),
        {"axis": -1, "out_dtype": ""},
        Pattern.ELEMWISE,
        False,
        reference=ref.simulated_dequantize,
        samples=(
            Sample(
                (("n", "m", "float32"), ("int32",), (1, "float32"), (1, "int32")),
                ("n", "m"),
                sizes=_SIZES,
                ranges={0: (-20.0, 20.0), 1: (0, 4)},
                values=params(2, (0.3,), (7,)),
            ),
        ),
    ),
    OpRow(
        "qnn.simulated_quantize",
        ("data", "out_dtype", "output_scale", "output_zero_point"),
        {"axis": -1},
        Pattern.ELEMWISE,
        False,
        reference=ref.simulated_quantize,
        samples=(
            Sample(
                (("n", "m", "float32"), ("int32",), (1, "float32"), (1, "int32")),
                ("n", "m"),
                sizes=_SIZES,
                ranges={0: (-20.0, 20.0), 1: (0, 4)},
                values=params(2, (0.125,), (7,)),
            ),
            Sample(
                (("n", 3, "float32"), ("int32",), (3, "float32"), (1, "int32")),
                ("n", 3),
                sizes=((1,), (5,), (33,)),
                ranges={0: (-20.0, 20.0), 2: (0.1, 0.3)},
                values=params(1, 2),
            ),
        ),
    ),
    OpRow(
        "qnn.softmax",
        ("data", "scale", "zero_point", "output_scale", "output_zero_point"),
        {"axis": -1},
        Pattern.OPAQUE,
        False,
        reference=ref.softmax,
        samples=(
            Sample(
                (("n", "m", "int8"), *PARAMS),
                ("n", "m"),
                sizes=_SIZES,
                ranges={0: INT8},
                values=params(1, 0.05, 3, 1 / 256, -128),
            ),
        ),
    ),
    OpRow(
        "fixed_point_multiply",
        ("data",),
        {"multiplier": REQUIRED, "shift": REQUIRED},
        Pattern.ELEMWISE,
        False,
        reference=ref.fixed_point_multiply,
        samples=tuple(
            Sample(
                (("n", "m", "int32"),),
                ("n", "m"),
                {"multiplier": multiplier, "shift": shift},
                sizes=_SIZES,
                ranges={0: (-30000, 30000)},
            )
            for multiplier, shift in ((1395864371, -7), (1073741824, -2), (-1518500250, 3))
        ),
    ),
    OpRow(
        "fixed_point_multiply_per_axis",
        ("data", "fp_multiplier", "left_shift", "right_shift"),
        {"is_lshift_required": False, "is_rshift_required": False, "axes": REQUIRED},
        Pattern.BROADCAST,
        False,
        reference=ref.fixed_point_multiply_per_axis,
        samples=(
            Sample(
                (("n", 3, "m", "int32"), (3, "int32"), (3, "int32"), (3, "int32")),
                ("n", 3, "m"),
                {"is_lshift_required": True, "axes": (1,)},
                sizes=_SIZES,
                ranges={0: (-30000, 30000)},
                values=params(1, (1395864371, 1073741824, 2147483647), (0, 0, 5), (9, 1, 0)),
            ),
            Sample(
                (("n", "m", "int32"), ("m", "int32"), ("m", "int32"), ("m", "int32")),
                ("n", "m"),
                {"axes": (1,)},
                sizes=_SIZES,
                ranges={0: (-30000, 30000), 1: (2**30, 2**31), 2: (0, 1), 3: (0, 9)},
            ),
        ),
    ),
    OpRow(
        "relay.op.annotation.simulated_quantize",
        ("data", "dom_scale", "clip_min", "clip_max"),
        {"kind": REQUIRED, "sign": True, "rounding": "round"},
        Pattern.ELEMWISE,
        False,
        reference=ref.annotated,
        samples=(
            Sample(
                (("n", "m", "float32"), ("float32",), ("float32",), ("float32",)),
                ("n", "m"),
                {"kind": 1},
                sizes=_SIZES,
                ranges={0: (-20.0, 20.0)},
                values=params(1, 0.125, -127.0, 127.0),
            ),
        ),
    ),
)
