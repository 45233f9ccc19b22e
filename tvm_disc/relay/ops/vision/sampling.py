"""Table entries of operators that sample images at computed positions."""

from __future__ import annotations

from tvm_disc.relay.ops.references import References
from tvm_disc.relay.ops.row import INJECTIVE, OUT_ELEMWISE, REQUIRED, OpRow, op

ref = References("sampling")

ROWS: tuple[OpRow, ...] = (
    op("image.affine_grid", "data", INJECTIVE, ref.affine_grid, {"target_shape": REQUIRED}),
    op(
        "image.grid_sample",
        "data grid",
        INJECTIVE,
        ref.grid_sample,
        {"method": "bilinear", "layout": "NCHW", "padding_mode": "zeros", "align_corners": True},
    ),
    op(
        "image.crop_and_resize",
        "data boxes box_indices",
        INJECTIVE,
        ref.crop_and_resize,
        {
            "crop_size": None,
            "layout": "NCHW",
            "method": "bilinear",
            "extrapolation_value": 0.0,
            "out_dtype": "",
        },
    ),
    op(
        "nn.deformable_conv2d",
        "data offset weight",
        OUT_ELEMWISE,
        ref.deformable_conv2d,
        {
            "strides": (1, 1),
            "padding": (0, 0),
            "dilation": (1, 1),
            "deformable_groups": 1,
            "groups": 1,
            "channels": None,
            "kernel_size": None,
            "data_layout": "NCHW",
            "kernel_layout": "OIHW",
            "out_layout": "",
            "out_dtype": "",
        },
    ),
)
