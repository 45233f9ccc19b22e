"""Table entries of the quantized dialect: matmuls, convolutions, pooling and concatenation."""

from __future__ import annotations

from tvm_disc.relay.ops.references import References

from .row import INJECTIVE, OUT_ELEMWISE, REQUIRED, OpRow, op
from .window_attrs import conv_attrs, pool_attrs

ref = References("qnn")

_DENSE = "data weight input_zero_point kernel_zero_point input_scale kernel_scale"

ROWS: tuple[OpRow, ...] = (
    op(
        "qnn.avg_pool2d",
        "data input_scale input_zero_point output_scale output_zero_point",
        OUT_ELEMWISE,
        ref.avg_pool2d,
        pool_attrs(2, average=True),
    ),
    op(
        "qnn.batch_matmul",
        "x y x_zero_point y_zero_point x_scale y_scale",
        OUT_ELEMWISE,
        ref.batch_matmul,
        {"out_dtype": "", "transpose_a": False, "transpose_b": False},
    ),
    op(
        "qnn.concatenate",
        "*data *input_scales *input_zero_points output_scale output_zero_point",
        INJECTIVE,
        ref.concatenate,
        {"axis": 0},
    ),
    op(
        "qnn.contrib_dense_pack",
        _DENSE,
        OUT_ELEMWISE,
        ref.dense,
        {"units": REQUIRED, "out_dtype": "", "weight_layout": "NC"},
    ),
    op("qnn.conv2d", _DENSE, OUT_ELEMWISE, ref.conv2d, conv_attrs(2)),
    op(
        "qnn.conv2d_transpose",
        _DENSE,
        OUT_ELEMWISE,
        ref.conv2d_transpose,
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
    ),
    op("qnn.dense", _DENSE, OUT_ELEMWISE, ref.dense, {"units": REQUIRED, "out_dtype": ""}),
)
