"""Table entries of operators that select detected boxes."""

from __future__ import annotations

from tvm_disc.relay.ops.references import References
from tvm_disc.relay.ops.row import OPAQUE, REQUIRED, OpRow, op

ref = References("detection")

ROWS: tuple[OpRow, ...] = (
    op(
        "vision.get_valid_counts",
        "data score_threshold",
        OPAQUE,
        ref.get_valid_counts,
        {"score_threshold": REQUIRED, "id_index": 0, "score_index": 1},
    ),
    op(
        "vision.non_max_suppression",
        "data valid_count indices max_output_size iou_threshold",
        OPAQUE,
        ref.non_max_suppression,
        {
            "force_suppress": False,
            "top_k": -1,
            "coord_start": 2,
            "score_index": 1,
            "id_index": 0,
            "return_indices": True,
            "invalid_to_bottom": False,
        },
    ),
    op(
        "vision.all_class_non_max_suppression",
        "boxes scores max_output_boxes_per_class iou_threshold score_threshold",
        OPAQUE,
        ref.all_class_non_max_suppression,
        {"output_format": "onnx"},
    ),
    op(
        "vision.regular_non_max_suppression",
        "boxes scores",
        OPAQUE,
        ref.regular_non_max_suppression,
        {
            "max_detections_per_class": REQUIRED,
            "max_detections": REQUIRED,
            "num_classes": REQUIRED,
            "iou_threshold": REQUIRED,
            "score_threshold": REQUIRED,
        },
    ),
)
