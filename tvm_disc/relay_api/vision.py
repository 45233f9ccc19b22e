"""``relay.vision.*``: operators; several results are returned as one TupleWrapper."""

from __future__ import annotations

from typing import Any

from tvm_disc.errors import refusing
from tvm_disc.relay.builder import call, const
from tvm_disc.relay.expr import Call, ExprLike, TupleWrapper
from tvm_disc.relay_api import op

__path__: list[str] = []  # for imports of relay.op.vision.nms, which tvm_disc.paths resolves


def __getattr__(name: str) -> Any:
    return op.member("vision", name)


def _expr(value: Any, dtype: str) -> ExprLike:
    return value if op.is_expr(value) else const(value, dtype)


@refusing
def get_valid_counts(
    data: ExprLike, score_threshold: object, id_index: int = 0, score_index: int = 1
) -> TupleWrapper:
    """Return (counts, boxes with the valid ones first, positions)."""
    args = (data, _expr(score_threshold, "float32"))
    attrs = {"score_threshold": None, "id_index": id_index, "score_index": score_index}
    return TupleWrapper(call("vision.get_valid_counts", args, **attrs), 3)


@refusing
def non_max_suppression(
    data: ExprLike,
    valid_count: ExprLike,
    indices: ExprLike,
    max_output_size: object = -1,
    iou_threshold: object = 0.5,
    force_suppress: bool = False,
    top_k: int = -1,
    coord_start: int = 2,
    score_index: int = 1,
    id_index: int = 0,
    return_indices: bool = True,
    invalid_to_bottom: bool = False,
) -> Call | TupleWrapper:
    """Return (kept positions, their number), or the boxes if ``return_indices`` is False."""
    limits = (_expr(max_output_size, "int32"), _expr(iou_threshold, "float32"))
    out = call(
        "vision.non_max_suppression",
        (data, valid_count, indices, *limits),
        force_suppress=force_suppress,
        top_k=top_k,
        coord_start=coord_start,
        score_index=score_index,
        id_index=id_index,
        return_indices=return_indices,
        invalid_to_bottom=invalid_to_bottom,
    )
    return TupleWrapper(out, 2) if return_indices else out


@refusing
def all_class_non_max_suppression(
    boxes: ExprLike,
    scores: ExprLike,
    max_output_boxes_per_class: object = -1,
    iou_threshold: object = -1.0,
    score_threshold: object = -1.0,
    output_format: str = "onnx",
) -> TupleWrapper:
    """Return (positions, number) for ``onnx``; (positions, scores, number) for ``tensorflow``."""
    limits = (
        _expr(max_output_boxes_per_class, "int32"),
        _expr(iou_threshold, "float32"),
        _expr(score_threshold, "float32"),
    )
    args = (boxes, scores, *limits)
    out = call("vision.all_class_non_max_suppression", args, output_format=output_format)
    return TupleWrapper(out, 2 if output_format == "onnx" else 3)
