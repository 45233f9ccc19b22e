"""Table entries of operators on regions, anchors and windows."""

from __future__ import annotations

from tvm_disc.relay.ops.references import References
from tvm_disc.relay.ops.row import OPAQUE, OUT_ELEMWISE, REQUIRED, OpRow, op

ref = References("region")

ROWS: tuple[OpRow, ...] = (
    op(
        "vision.roi_align",
        "data rois",
        OPAQUE,
        ref.roi_align,
        {
            "pooled_size": REQUIRED,
            "spatial_scale": REQUIRED,
            "sample_ratio": -1,
            "layout": "NCHW",
            "mode": "avg",
        },
    ),
    op(
        "vision.roi_pool",
        "data rois",
        OPAQUE,
        ref.roi_pool,
        {"pooled_size": REQUIRED, "spatial_scale": REQUIRED, "layout": "NCHW"},
    ),
    op(
        "nn.correlation",
        "data1 data2",
        OUT_ELEMWISE,
        ref.correlation,
        {
            "kernel_size": 1,
            "max_displacement": 1,
            "stride1": 1,
            "stride2": 1,
            "padding": (0, 0),
            "is_multiply": True,
            "layout": "NCHW",
        },
    ),
    op(
        "image.dilation2d",
        "data weight",
        OPAQUE,
        ref.dilation2d,
        {
            "strides": (1, 1),
            "padding": (0, 0),
            "dilations": (1, 1),
            "data_layout": "NCHW",
            "kernel_layout": "IHW",
            "out_dtype": "",
        },
    ),
    op("vision.yolo_reorg", "data", OPAQUE, ref.yolo_reorg, {"stride": 1}),
    op(
        "vision.multibox_prior",
        "data",
        OPAQUE,
        ref.multibox_prior,
        {
            "sizes": (1.0,),
            "ratios": (1.0,),
            "steps": (-1.0, -1.0),
            "offsets": (0.5, 0.5),
            "clip": False,
        },
    ),
    op(
        "vision.multibox_transform_loc",
        "cls_prob loc_pred anchor",
        OPAQUE,
        ref.multibox_transform_loc,
        {
            "clip": True,
            "threshold": 0.01,
            "variances": (0.1, 0.1, 0.2, 0.2),
            "keep_background": False,
        },
    ),
    op(
        "vision.proposal",
        "cls_prob bbox_pred im_info",
        OPAQUE,
        ref.proposal,
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
    ),
)
