"""Rows of operators that select detected boxes."""

from __future__ import annotations

from tvm_disc.relay.ops.references import References
from tvm_disc.relay.ops.row import REQUIRED, OpRow, Pattern, Sample

ref = References("detection")

_SIZES = ((1, 9, 2), (3, 16, 3), (2, 33, 2))

ROWS: tuple[OpRow, ...] = (
    OpRow(
        "vision.get_valid_counts",
        ("data", "score_threshold"),
        {"score_threshold": REQUIRED, "id_index": 0, "score_index": 1},
        Pattern.OPAQUE,
        True,
        reference=ref.get_valid_counts,
        samples=(
            Sample(
                (("b", "n", 6, "float32"), ("float32",)),
                (("b",), ("b", "n", 6), ("b", "n")),
                {"score_threshold": 0.0, "id_index": 0, "score_index": 1},
                values={1: 0.5},
            ),
            Sample(
                (("b", "n", 5, "float32"), ("float32",)),
                (("b",), ("b", "n", 5), ("b", "n")),
                {"score_threshold": None, "id_index": -1, "score_index": 0},
            ),
        ),
    ),
    OpRow(
        "vision.non_max_suppression",
        ("data", "valid_count", "indices", "max_output_size", "iou_threshold"),
        {
            "force_suppress": False,
            "top_k": -1,
            "coord_start": 2,
            "score_index": 1,
            "id_index": 0,
            "return_indices": True,
            "invalid_to_bottom": False,
        },
        Pattern.OPAQUE,
        True,
        reference=ref.non_max_suppression,
        samples=(
            Sample(
                (
                    ("b", "n", 6, "float32"),
                    ("b", "int32"),
                    ("b", "n", "int32"),
                    ("int32",),
                    ("float32",),
                ),
                (("b", "n"), ("b", 1)),
                {},
                sizes=_SIZES,
                values={3: -1, 4: 0.4},
            ),
            Sample(
                (
                    ("b", "n", 6, "float32"),
                    ("b", "int32"),
                    ("b", "n", "int32"),
                    ("int32",),
                    ("float32",),
                ),
                (("b", "n"), ("b", 1)),
                {"force_suppress": True, "top_k": 5},
                sizes=_SIZES,
                ranges={3: (0, 4), 4: (-0.2, 0.8)},
            ),
            Sample(
                (
                    ("b", "n", 5, "float32"),
                    ("b", "int32"),
                    ("b", "n", "int32"),
                    ("int32",),
                    ("float32",),
                ),
                ("b", "n", 5),
                {
                    "coord_start": 1,
                    "score_index": 0,
                    "id_index": -1,
                    "return_indices": False,
                    "invalid_to_bottom": True,
                },
                sizes=_SIZES,
                values={3: 3, 4: 0.2},
            ),
        ),
    ),
    OpRow(
        "vision.all_class_non_max_suppression",
        ("boxes", "scores", "max_output_boxes_per_class", "iou_threshold", "score_threshold"),
        {"output_format": "onnx"},
        Pattern.OPAQUE,
        True,
        reference=ref.all_class_non_max_suppression,
        samples=(
            Sample(
                (
                    ("b", "n", 4, "float32"),
                    ("b", "c", "n", "float32"),
                    ("int64",),
                    ("float32",),
                    ("float32",),
                ),
                (("b*c*n", 3), (1,)),
                {},
                sizes=_SIZES,
                values={2: 2, 3: 0.3, 4: 0.2},
            ),
            Sample(
                (
                    ("b", "n", 4, "float32"),
                    ("b", "c", "n", "float32"),
                    ("int64",),
                    ("float32",),
                    ("float32",),
                ),
                (("b", "c*n", 2), ("b", "c*n"), ("b",)),
                {"output_format": "tensorflow"},
                sizes=_SIZES,
                ranges={2: (0, 4), 3: (-0.2, 0.8), 4: (-1.5, 0.5)},
            ),
        ),
    ),
    OpRow(
        "vision.regular_non_max_suppression",
        ("boxes", "scores"),
        {
            "max_detections_per_class": REQUIRED,
            "max_detections": REQUIRED,
            "num_classes": REQUIRED,
            "iou_threshold": REQUIRED,
            "score_threshold": REQUIRED,
        },
        Pattern.OPAQUE,
        True,
        reference=ref.regular_non_max_suppression,
        samples=(
            Sample(
                (("b", "n", 4, "float32"), ("b", "n", 4, "float32")),
                (("b", 6, 4), ("b", 6), ("b", 6), ("b",)),
                {
                    "max_detections_per_class": 3,
                    "max_detections": 6,
                    "num_classes": 3,
                    "iou_threshold": 0.3,
                    "score_threshold": 0.1,
                },
                sizes=_SIZES,
            ),
        ),
    ),
)
