"""Rows of operators that sample images at computed positions."""

from __future__ import annotations

from tvm_disc.relay.ops.references import References
from tvm_disc.relay.ops.row import REQUIRED, OpRow, Pattern, Sample

ref = References("sampling")

_IMAGES = ((1, 4, 5, 3), (3, 7, 6, 2), (2, 5, 9, 8))

ROWS: tuple[OpRow, ...] = (
    OpRow(
        "image.affine_grid",
        ("data",),
        {"target_shape": REQUIRED},
        Pattern.INJECTIVE,
        True,
        reference=ref.affine_grid,
        samples=(Sample((("b", 2, 3, "float32"),), ("b", 2, 4, 5), {"target_shape": (4, 5)}),),
    ),
    OpRow(
        "image.grid_sample",
        ("data", "grid"),
        {"method": "bilinear", "layout": "NCHW", "padding_mode": "zeros", "align_corners": True},
        Pattern.INJECTIVE,
        True,
        reference=ref.grid_sample,
        samples=(
            Sample(
                (("b", 2, "h", "w", "float32"), ("b", 2, "u", 3, "float32")),
                ("b", 2, "u", 3),
                {"method": "bilinear", "padding_mode": "zeros", "align_corners": True},
                sizes=_IMAGES,
                ranges={1: (-1.5, 1.5)},
            ),
            Sample(
                (("b", 2, "h", "w", "float32"), ("b", 2, "u", 3, "float32")),
                ("b", 2, "u", 3),
                {"method": "bilinear", "padding_mode": "reflection", "align_corners": False},
                sizes=_IMAGES,
                ranges={1: (-1.5, 1.5)},
            ),
            Sample(
                (("b", 2, "h", "w", "float32"), ("b", 2, "u", 3, "float32")),
                ("b", 2, "u", 3),
                {"method": "nearest", "padding_mode": "border", "align_corners": False},
                sizes=_IMAGES,
                ranges={1: (-1.5, 1.5)},
            ),
            Sample(
                (("b", 2, "h", "w", "float32"), ("b", 2, "u", 3, "float32")),
                ("b", 2, "u", 3),
                {"method": "bicubic", "padding_mode": "reflection", "align_corners": True},
                sizes=_IMAGES,
                ranges={1: (-3, 3)},
            ),
            Sample(
                (("b", 2, 3, 4, "w", "float32"), ("b", 3, 2, "u", 2, "float32")),
                ("b", 2, 2, "u", 2),
                {"layout": "NCDHW", "padding_mode": "border"},
                sizes=((1, 4, 2), (2, 5, 3)),
                ranges={1: (-1.5, 1.5)},
            ),
        ),
    ),
    OpRow(
        "image.crop_and_resize",
        ("data", "boxes", "box_indices"),
        {
            "crop_size": None,
            "layout": "NCHW",
            "method": "bilinear",
            "extrapolation_value": 0.0,
            "out_dtype": "",
        },
        Pattern.INJECTIVE,
        True,
        reference=ref.crop_and_resize,
        samples=(
            Sample(
                (("b", 2, "h", "w", "float32"), ("n", 4, "float32"), ("n", "int32")),
                ("n", 2, 3, 4),
                {"crop_size": (3, 4), "extrapolation_value": 0.5},
                sizes=_IMAGES,
                ranges={1: (-0.2, 1.2), 2: (0, 1)},
            ),
            Sample(
                (("b", "h", "w", 3, "float32"), ("n", 4, "float32"), ("n", "int32")),
                ("n", 1, 2, 3),
                {"crop_size": (1, 2), "layout": "NHWC", "method": "nearest_neighbor"},
                sizes=_IMAGES,
                ranges={1: (0, 1), 2: (0, 1)},
            ),
        ),
    ),
    OpRow(
        "nn.deformable_conv2d",
        ("data", "offset", "weight"),
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
        Pattern.OUT_ELEMWISE,
        False,
        reference=ref.deformable_conv2d,
        samples=(
            Sample(
                (
                    ("b", 4, 6, "w", "float32"),
                    ("b", 36, 6, "w", "float32"),
                    (5, 4, 3, 3, "float32"),
                ),
                ("b", 5, 6, "w"),
                {"padding": (1, 1), "deformable_groups": 2, "channels": 5, "kernel_size": (3, 3)},
                sizes=((1, 5), (2, 7)),
            ),
            Sample(
                (("b", "h", 8, 4, "float32"), ("b", "u", 4, 8, "float32"), (8, 4, 2, 2, "float32")),
                ("b", "u", 4, 8),
                {
                    "strides": (2, 2),
                    "dilation": (2, 1),
                    "channels": 8,
                    "kernel_size": (2, 2),
                    "data_layout": "NHWC",
                    "kernel_layout": "OIHW",
                },
                sizes=((1, 6, 3), (3, 7, 3)),
            ),
        ),
    ),
)
