"""NumPy semantics of operators on detected boxes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def get_valid_counts(
    data: Array, threshold: Array, *, score_threshold: float | None, id_index: int, score_index: int
) -> tuple[Array, Array, Array]:
    """Return (number of valid boxes, boxes with valid ones first, their positions), padded with
    -1.
    """
    threshold = threshold if score_threshold is None else np.float32(score_threshold)
    boxes, places = np.full_like(data, -1), np.full(data.shape[:2], -1, np.int32)
    counts = np.zeros(data.shape[0], np.int32)
    for b, rows in enumerate(data):
        valid = rows[:, score_index] > threshold
        if id_index >= 0:
            valid &= rows[:, id_index] >= 0
        found = np.flatnonzero(valid)
        counts[b], places[b, : found.size], boxes[b, : found.size] = found.size, found, rows[found]
    return counts, boxes, places


def _corners(box: Array) -> Array:
    return np.concatenate([np.minimum(box[:2], box[2:]), np.maximum(box[:2], box[2:])])


def overlap(a: Array, b: Array) -> Any:
    """Return the intersection over union of two boxes."""
    sides = np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2])
    common = np.prod(np.maximum(sides, 0))
    union = np.prod(a[2:] - a[:2]) + np.prod(b[2:] - b[:2]) - common
    return common / union if union > 0 else a.dtype.type(0)


def _keeps(
    rows: Array, limit: int, threshold: object, any_class: bool, columns: tuple[int, int, int]
) -> list[bool]:
    """Return for each of ``rows``, which are sorted by score, whether it is kept.

    Boxes without a positive score are not compared with others.
    """
    start, score_index, id_index = columns
    kept: list[int] = []
    stays, count = [], 0
    for j, row in enumerate(rows):
        keep = count != limit
        if keep and row[score_index] > 0:
            box = _corners(row[start : start + 4])
            for k in kept:
                other = rows[k]
                same = any_class or id_index < 0 or other[id_index] == row[id_index]
                inside = overlap(_corners(other[start : start + 4]), box) >= threshold
                keep = keep and not (same and inside)
            count += int(keep)
            if keep and (id_index < 0 or row[id_index] >= 0):
                kept.append(j)
        stays.append(keep)
    return stays


def non_max_suppression(
    data: Array,
    valid_count: Array,
    indices: Array,
    max_output_size: Array,
    iou_threshold: Array,
    *,
    force_suppress: bool,
    top_k: int,
    coord_start: int,
    score_index: int,
    id_index: int,
    return_indices: bool,
    invalid_to_bottom: bool,
) -> object:
    """Return the boxes that no kept box of higher score suppresses; -1 fills the others."""
    boxes, names = np.full_like(data, -1), np.full(data.shape[:2], -1, np.int32)
    for b, rows in enumerate(data):
        count = max(int(valid_count[b]), 0)
        if iou_threshold <= 0:
            boxes[b, :count], names[b, :count] = rows[:count], indices[b, :count]
            continue
        places = np.argsort(-rows[:count, score_index], kind="stable")
        places = places[:top_k] if top_k > 0 else places
        columns = (coord_start, score_index, id_index)
        stays = _keeps(rows[places], int(max_output_size), iou_threshold, force_suppress, columns)
        for j, (place, stay) in enumerate(zip(places, stays, strict=True)):
            if stay:
                boxes[b, j], names[b, j] = rows[place], indices[b, place]
    if return_indices:
        moved = [_first(row, row >= 0) for row in names]
        shape = (data.shape[0], 1)
        found = np.array(moved, np.int32).reshape(names.shape)
        return found, (names >= 0).sum(1).astype(np.int32).reshape(shape)
    if invalid_to_bottom:
        boxes = np.array([_first(rows, rows[:, 0] >= 0) for rows in boxes], data.dtype)
        return boxes.reshape(data.shape)
    return boxes


def _first(rows: Array, keep: Array) -> Array:
    """Return the kept rows, filled with -1 to the original number of rows."""
    out = np.full_like(rows, -1)
    out[: keep.sum()] = rows[keep]
    return out


def _class_keeps(boxes: Array, scores: Array, limit: int, threshold: object) -> list[int]:
    """Return the boxes of one class with a score above -1 that no better box suppresses, best
    first.
    """
    kept: list[int] = []
    for j in np.argsort(-scores, kind="stable"):
        if len(kept) == limit or scores[j] <= -1:
            break
        box = _corners(boxes[j])
        if scores[j] <= 0 or all(overlap(_corners(boxes[k]), box) < threshold for k in kept):
            kept.append(int(j))
    return kept


def all_class_non_max_suppression(
    boxes: Array,
    scores: Array,
    max_output_boxes_per_class: Array,
    iou_threshold: Array,
    score_threshold: Array,
    *,
    output_format: str,
) -> tuple[Array, ...]:
    """Suppress boxes in each class; the results are padded with zeros."""
    batch, classes, size = scores.shape
    found: list[tuple[int, int, int]] = []
    limit = int(max_output_boxes_per_class) if max_output_boxes_per_class > 0 else size
    for b, c in np.ndindex(batch, classes):
        line = np.where(scores[b, c] > score_threshold, scores[b, c], -np.inf)
        if iou_threshold > 0:
            found += [(b, c, j) for j in _class_keeps(boxes[b], line, limit, iou_threshold)]
    if output_format == "onnx":
        out = np.zeros((batch * classes * size, 3), np.int64)
        out[: len(found)] = np.array(found, np.int64).reshape(-1, 3)
        return out, np.array([len(found)], np.int64)
    places = np.zeros((batch, classes * size, 2), np.int64)
    best, counts = np.zeros((batch, classes * size), np.float32), np.zeros(batch, np.int64)
    for b, c, j in found:
        places[b, counts[b]], best[b, counts[b]] = (c, j), scores[b, c, j]
        counts[b] += 1
    return places, best, counts


def _tflite_overlap(a: Array, b: Array) -> Any:
    areas = [np.prod(x[2:] - x[:2]) for x in (a, b)]
    if min(areas) <= 0:
        return 0.0
    common = np.prod(np.maximum(np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2]), 0))
    return common / (areas[0] + areas[1] - common)


def regular_non_max_suppression(
    boxes: Array,
    scores: Array,
    *,
    max_detections_per_class: int,
    max_detections: int,
    num_classes: int,
    iou_threshold: float,
    score_threshold: float,
) -> tuple[Array, Array, Array, Array]:
    """Suppress boxes in each class, then select the best of all classes, padded with zeros."""
    batch, size, columns = scores.shape
    if size == 0:
        raise ValueError("no boxes")
    corners = np.zeros((batch, max_detections, 4), boxes.dtype)
    kinds = np.zeros((batch, max_detections), np.float32)
    best, counts = np.zeros_like(kinds), np.zeros(batch, np.int32)
    for b in range(batch):
        found: list[tuple[Any, int, int]] = []
        for c in range(num_classes):
            line = scores[b, :, c + columns - num_classes]
            kept: Sequence[int] = []
            for j in np.argsort(-line, kind="stable"):
                covered = any(
                    _tflite_overlap(boxes[b, k], boxes[b, j]) > iou_threshold for k in kept
                )
                if (
                    line[j] >= score_threshold
                    and len(kept) < max_detections_per_class
                    and not covered
                ):
                    kept = [*kept, int(j)]
            found += [(line[j], c, j) for j in kept]
        found.sort(key=lambda f: -f[0])
        for k, (score, c, j) in enumerate(found[:max_detections]):
            corners[b, k], kinds[b, k], best[b, k] = boxes[b, j], c, score
        counts[b] = min(len(found), max_detections)
    return corners, kinds, best, counts
