"""Table entries of the quantized dialect: requantization, sums and functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tvm_disc.relay.ops.references import References

from .row import BROADCAST, ELEMWISE, OPAQUE, REQUIRED, OpRow, op

if TYPE_CHECKING:
    from tvm_disc.relay.ops.references import Reference


ref = References("qnn")

_PARAMS = "output_scale output_zero_point"
_UNARY_ARGS = f"x scale zero_point {_PARAMS}"
_SCALED_ARGS = f"data input_scale input_zero_point {_PARAMS}"
_BINARY_ARGS = f"lhs rhs lhs_scale lhs_zero_point rhs_scale rhs_zero_point {_PARAMS}"


def _binary(name: str, reference: Reference) -> OpRow:
    return op(name, _BINARY_ARGS, BROADCAST, reference, {"lhs_axis": -1, "rhs_axis": -1})


def _lookup(name: str, function: object) -> OpRow:
    return op(f"qnn.{name}", _UNARY_ARGS, ELEMWISE, ref.lookup.of(function))


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
    op(
        "qnn.dequantize",
        "data input_scale input_zero_point",
        ELEMWISE,
        ref.dequantize,
        {"axis": -1, "out_dtype": REQUIRED},
    ),
    op("qnn.leaky_relu", _SCALED_ARGS, ELEMWISE, ref.leaky_relu, {"alpha": 0.25}),
    op(
        "qnn.quantize",
        "data output_scale output_zero_point",
        ELEMWISE,
        ref.quantize,
        {"axis": -1, "out_dtype": REQUIRED},
    ),
    op(
        "qnn.requantize",
        _SCALED_ARGS,
        ELEMWISE,
        ref.requantize,
        {"axis": -1, "rounding": "None", "compute_dtype": "None", "out_dtype": ""},
    ),
    op(
        "qnn.simulated_dequantize",
        "data in_dtype input_scale input_zero_point",
        ELEMWISE,
        ref.simulated_dequantize,
        {"axis": -1, "out_dtype": ""},
    ),
    op(
        "qnn.simulated_quantize",
        "data out_dtype output_scale output_zero_point",
        ELEMWISE,
        ref.simulated_quantize,
        {"axis": -1},
    ),
    op(
        "qnn.softmax",
        "data scale zero_point output_scale output_zero_point",
        OPAQUE,
        ref.softmax,
        {"axis": -1},
    ),
    op(
        "fixed_point_multiply",
        "data",
        ELEMWISE,
        ref.fixed_point_multiply,
        {"multiplier": REQUIRED, "shift": REQUIRED},
    ),
    op(
        "fixed_point_multiply_per_axis",
        "data fp_multiplier left_shift right_shift",
        BROADCAST,
        ref.fixed_point_multiply_per_axis,
        {"is_lshift_required": False, "is_rshift_required": False, "axes": REQUIRED},
    ),
    op(
        "relay.op.annotation.simulated_quantize",
        "data dom_scale clip_min clip_max",
        ELEMWISE,
        ref.annotated,
        {"kind": REQUIRED, "sign": True, "rounding": "round"},
    ),
)
