"""Rows of operators on regions, anchors and windows."""

from __future__ import annotations

from tvm_disc.relay.ops.references import References
from tvm_disc.relay.ops.row import REQUIRED, OpRow, Pattern, Sample

ref = References("region")

ROWS: tuple[OpRow, ...] = (
    OpRow(
        "vision.roi_align",
        ("data", "rois"),
        {
            "pooled_size": REQUIRED,
            "spatial_scale": REQUIRED,
            "sample_ratio": -1,
            "layout": "NCHW",
            "mode": "avg",
        },
        Pattern.OPAQUE,
        True,
        reference=ref.roi_align,
        samples=(
            Sample(
                (("b", 2, "h", 6, "float32"), ("n", 5, "float32")),
                ("n", 2, 3, 2),
                {"pooled_size": (3, 2), "spatial_scale": 0.5},
                sizes=((1, 4, 2), (3, 9, 5)),
                ranges={1: (0, 1)},
            ),
            Sample(
                (("b", "h", 6, 3, "float32"), ("n", 5, "float32")),
                ("n", 2, 2, 3),
                {
                    "pooled_size": (2, 2),
                    "spatial_scale": 1.0,
                    "sample_ratio": 2,
                    "layout": "NHWC",
                    "mode": "max",
                },
                sizes=((1, 4, 2), (3, 9, 5)),
                ranges={1: (0, 1)},
            ),
        ),
    ),
    OpRow(
        "vision.roi_pool",
        ("data", "rois"),
        {"pooled_size": REQUIRED, "spatial_scale": REQUIRED, "layout": "NCHW"},
        Pattern.OPAQUE,
        False,
        reference=ref.roi_pool,
        samples=(
            Sample(
                (("b", 2, "h", 6, "float32"), ("n", 5, "float32")),
                ("n", 2, 3, 2),
                {"pooled_size": (3, 2), "spatial_scale": 0.7},
                sizes=((1, 4, 2), (3, 9, 5)),
                ranges={1: (0, 1)},
            ),
        ),
    ),
    OpRow(
        "nn.correlation",
        ("data1", "data2"),
        {
            "kernel_size": 1,
            "max_displacement": 1,
            "stride1": 1,
            "stride2": 1,
            "padding": (0, 0),
            "is_multiply": True,
            "layout": "NCHW",
        },
        Pattern.OUT_ELEMWISE,
        False,
        reference=ref.correlation,
        samples=(
            Sample(
                (("b", "c", 6, 7, "float32"), ("b", "c", 6, 7, "float32")),
                ("b", 9, 4, 5),
                {
                    "kernel_size": 1,
                    "max_displacement": 2,
                    "stride1": 1,
                    "stride2": 2,
                    "padding": (1, 1),
                },
            ),
            Sample(
                (("b", 3, 8, "w", "float32"), ("b", 3, 8, "w", "float32")),
                ("b", 9, 2, "(w-4+1)//2"),
                {
                    "kernel_size": 3,
                    "max_displacement": 1,
                    "stride1": 2,
                    "stride2": 1,
                    "padding": (0, 0),
                    "is_multiply": False,
                },
                sizes=((1, 6), (2, 9)),
            ),
        ),
    ),
    OpRow(
        "image.dilation2d",
        ("data", "weight"),
        {
            "strides": (1, 1),
            "padding": (0, 0),
            "dilations": (1, 1),
            "data_layout": "NCHW",
            "kernel_layout": "IHW",
            "out_dtype": "",
        },
        Pattern.OPAQUE,
        False,
        reference=ref.dilation2d,
        samples=(
            Sample(
                (("b", 3, 8, "w", "float32"), (3, 3, 2, "float32")),
                ("b", 3, 4, "w-1"),
                {"strides": (2, 1), "padding": (1, 0)},
                sizes=((1, 6), (2, 9)),
            ),
            Sample(
                (("b", 8, 9, "c", "float32"), (2, 2, "c", "float32")),
                ("b", 6, 8, "c"),
                {"dilations": (2, 1), "data_layout": "NHWC", "kernel_layout": "HWI"},
            ),
        ),
    ),
    OpRow(
        "vision.yolo_reorg",
        ("data",),
        {"stride": 1},
        Pattern.OPAQUE,
        False,
        reference=ref.yolo_reorg,
        samples=(
            Sample(
                (("n", 4, 4, "w", "float32"),),
                ("n", 16, 2, "w//2"),
                {"stride": 2},
                sizes=((1, 2), (2, 6), (1, 10)),
            ),
        ),
    ),
    OpRow(
        "vision.multibox_prior",
        ("data",),
        {
            "sizes": (1.0,),
            "ratios": (1.0,),
            "steps": (-1.0, -1.0),
            "offsets": (0.5, 0.5),
            "clip": False,
        },
        Pattern.OPAQUE,
        False,
        reference=ref.multibox_prior,
        samples=(
            Sample(
                (("b", 2, "h", "w", "float32"),),
                (1, "h*w*4", 4),
                {"sizes": (0.7, 0.3), "ratios": (1.0, 2.0, 0.5)},
            ),
            Sample(
                (("b", 2, "h", "w", "float32"),), (1, "h*w", 4), {"steps": (0.3, 0.2), "clip": True}
            ),
        ),
    ),
    OpRow(
        "vision.multibox_transform_loc",
        ("cls_prob", "loc_pred", "anchor"),
        {
            "clip": True,
            "threshold": 0.01,
            "variances": (0.1, 0.1, 0.2, 0.2),
            "keep_background": False,
        },
        Pattern.OPAQUE,
        False,
        reference=ref.multibox_transform_loc,
        samples=(
            Sample(
                (("b", 4, "n", "float32"), ("b", "n*4", "float32"), (1, "n", 4, "float32")),
                (("b", "n", 6), ("b",)),
                {"threshold": 0.6},
                ranges={0: (0, 1), 2: (0, 1)},
            ),
            Sample(
                (("b", 4, "n", "float32"), ("b", "n*4", "float32"), (1, "n", 4, "float32")),
                (("b", "n", 6), ("b",)),
                {"clip": False, "keep_background": True},
                ranges={0: (0, 1), 2: (0, 1)},
            ),
        ),
    ),
    OpRow(
        "vision.proposal",
        ("cls_prob", "bbox_pred", "im_info"),
        {
            "scales": (4.0, 8.0, 16.0, 32.0),
            "ratios": (0.5, 1.0, 2.0),
            "feature_stride": 16,
            "threshold": 0.7,
            "rpn_pre_nms_top_n": 6000,
            "rpn_post_nms_top_n": 300,
            "rpn_min_size": 16,
            "iou_loss": False,
        },
        Pattern.OPAQUE,
        False,
        reference=ref.proposal,
        samples=(
            Sample(
                (
                    ("b", 8, "h", "w", "float32"),
                    ("b", 16, "h", "w", "float32"),
                    ("b", 3, "float32"),
                ),
                ("b*7", 5),
                {
                    "scales": (1.0, 2.0),
                    "ratios": (0.5, 1.0),
                    "feature_stride": 8,
                    "rpn_pre_nms_top_n": 20,
                    "rpn_post_nms_top_n": 7,
                    "rpn_min_size": 4,
                    "threshold": 0.6,
                },
                sizes=((1, 2, 3), (2, 4, 5)),
                ranges={0: (0, 1), 1: (-0.3, 0.3), 2: (20, 40)},
            ),
        ),
    ),
)
