"""Import rules: selection of detected boxes.

A suppression kernel computes which boxes are kept. The rest is sorting, compaction and gathers,
which fuse with adjacent operators.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from tvm.relax import op as R

from tvm_disc.errors import TypeMismatch, Unsupported, counted
from tvm_disc.relay.importer.context import Emitter, i64, product
from tvm_disc.relay.importer.lowering.order import order, picked
from tvm_disc.relay.importer.lowering.slice import sliced
from tvm_disc.relay.importer.lowering.tensor import Args, Attrs, Rule, cast, iota, number
from tvm_disc.relay.importer.lowering.transform import permute
from tvm_disc.relay.importer.tensor import Tensor
from tvm_disc.relay.kernel_ops import kernel_call
from tvm_disc.relay.ops.algebra import maximum, minimum, where

LARGEST = np.iinfo(np.int64).max


def has_columns(ctx: Emitter, x: Tensor, first: int, count: int) -> None:
    """Require ``count`` values of each box, from column ``first``."""
    size = ctx.literal(x.dims[-1])
    if first < 0 or (size is not None and first + count > size):
        last = first + count - 1
        columns = f"column {first}" if count == 1 else f"columns {first} to {last}"
        text = f"expected boxes with {columns}, found boxes of {counted(size or 0, 'value')}"
        if first < 0:
            text = f"expected a column of at least 0, found {first}"
        raise TypeMismatch(ctx.where(text))
    what = ctx.where(f"boxes must have {first + count} values")
    ctx.solver.require_le(i64(first + count), x.dims[-1], what)


def column(ctx: Emitter, x: Tensor, k: int) -> Tensor:
    """Return element ``k`` of the last axis."""
    has_columns(ctx, x, k, 1)
    part = sliced(ctx, x, {x.rank - 1: (i64(k), i64(1), 1)})
    return ctx.reshape(part, x.dims[:-1])


def total(ctx: Emitter, flags: Tensor, dtype: str) -> Tensor:
    """Return the number of true flags along the last axis."""
    call = R.sum(ctx.expr(cast(ctx, flags, dtype)), [flags.rank - 1])
    return ctx.emit(call, flags.dims[:-1], dtype)


def compaction(ctx: Emitter, keep: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Compact the elements of ``[b, n]`` that ``keep`` marks, in their order.

    Returns:
        (places, filled, count). ``places[b, n]`` is the source position of result element n;
        ``filled[b, n]`` is False after the last kept element. ``count[b]`` is the number of kept
        elements.
    """
    batch, size = keep.dims
    dims = [batch, size + 1]
    found = ctx.emit(kernel_call("disc.compact", [ctx.expr(keep)], dims, "int64"), dims, "int64")
    places = sliced(ctx, found, {1: (i64(0), size, 1)})
    count = sliced(ctx, found, {1: (size, i64(1), 1)})
    line = ctx.reshape(iota(ctx, size), [i64(1), size])
    return places, line < count, ctx.reshape(count, [batch])


def batch_rows(ctx: Emitter, x: Tensor, places: Tensor) -> Tensor:
    """Return the rows of ``x[b, n, ...]`` at the indices ``places[b, m]``."""
    coords = ctx.reshape(places, [*places.dims, i64(1)])
    dims = [*places.dims, *x.dims[2:]]
    return ctx.emit(R.gather_nd(ctx.expr(x), ctx.expr(coords), 1), dims, x.dtype)


def rows_of(ctx: Emitter, flags: Tensor) -> Tensor:
    """Return ``[b, n]`` reshaped to ``[b, n, 1]``."""
    return ctx.reshape(flags, [*flags.dims, i64(1)])


def _boxes_of(ctx: Emitter, data: Tensor, what: str = "boxes") -> None:
    if data.rank != 3:
        raise TypeMismatch(ctx.where(f"expected {what} of rank 3, found rank {data.rank}"))
    if data.dtype != "float32":
        raise Unsupported(
            ctx.where(f"expected {what} of float32, found {data.dtype}; cast them to float32")
        )


def _get_valid_counts(ctx: Emitter, args: Args, attrs: Attrs) -> tuple[Tensor, ...]:
    data, threshold = args
    _boxes_of(ctx, data)
    score = column(ctx, data, int(attrs["score_index"]))
    if attrs["score_threshold"] is not None:
        threshold = ctx.scalar(float(attrs["score_threshold"]), data.dtype)
    keep = score > cast(ctx, threshold, data.dtype)
    kind = int(attrs["id_index"])
    if kind >= 0:
        keep = keep & (column(ctx, data, kind) >= 0)
    places, full, count = compaction(ctx, keep)
    boxes = where(rows_of(ctx, full), batch_rows(ctx, data, places), -1)
    found = where(full, cast(ctx, places, "int32"), -1)
    return cast(ctx, count, "int32"), boxes, found


def suppress(
    ctx: Emitter,
    rule: str,
    boxes: Tensor,
    lists: Sequence[Tensor],
    limits: Sequence[Tensor],
    classes: Tensor | None = None,
    any_class: bool = False,
) -> Tensor:
    """Return flags of the boxes that are kept, in the given order.

    Args:
        lists: (scores, order, number of valid boxes), each per batch entry and class.
        limits: (maximal number of boxes, overlap threshold).
    """
    scores, places, valid = lists
    for one, other in zip(scores.dims, places.dims, strict=True):
        ctx.require_eq(one, other, "scores and order must have the same shape")
    ctx.require_eq(
        boxes.dims[0], places.dims[0], "the batch sizes of boxes and scores must be equal"
    )
    ctx.require_eq(boxes.dims[1], places.dims[2], "there must be one score for each box")
    ctx.require_eq(boxes.dims[2], i64(4), "a box must have four numbers")
    limit, threshold = (ctx.reshape(x, []) for x in limits)
    operands = [boxes, scores, places, valid, cast(ctx, limit, "int64")]
    operands += [cast(ctx, threshold, boxes.dtype), *([classes] if classes else [])]
    exprs = [ctx.expr(x) for x in operands]
    call = kernel_call("disc.suppress", exprs, places.dims, "bool", rule=rule, any_class=any_class)
    return ctx.emit(call, places.dims, "bool")


def _non_max_suppression(ctx: Emitter, args: Args, attrs: Attrs) -> object:
    data, valid, indices, limit, threshold = args
    _boxes_of(ctx, data)
    batch, size = data.dims[:2]
    ctx.require_eq(valid.dims[0], batch, "there must be one count for each batch entry")
    for a in range(2):
        ctx.require_eq(indices.dims[a], data.dims[a], "there must be one index for each box")
    score = column(ctx, data, int(attrs["score_index"]))
    line = ctx.reshape(iota(ctx, size), [i64(1), size])
    most = minimum(cast(ctx, valid, "int64"), number(ctx, size, "int64"))
    inside = line < ctx.reshape(most, [batch, i64(1)])
    by_score = order(ctx, where(inside, score, -np.inf), 1, False)
    if int(attrs["top_k"]) > 0:
        most = minimum(most, int(attrs["top_k"]))
    kind, start = int(attrs["id_index"]), int(attrs["coord_start"])
    has_columns(ctx, data, start, 4)
    corners = sliced(ctx, data, {2: (i64(start), i64(4), 1)})
    lists = [ctx.reshape(x, [batch, i64(1), size]) for x in (score, by_score)]
    lists.append(ctx.reshape(maximum(most, 0), [batch, i64(1)]))
    classes = column(ctx, data, kind) if kind >= 0 else None
    force = bool(attrs["force_suppress"])
    kept = suppress(ctx, "relay", corners, lists, (limit, threshold), classes, force)
    kept = ctx.reshape(kept, [batch, size])
    # Without a positive threshold nothing is suppressed or reordered.
    active = ctx.reshape(threshold, []) > 0
    kept = where(active, kept, inside)
    places = where(active, by_score, line)
    if attrs["return_indices"]:
        return _kept_indices(ctx, kept, places, indices)
    out = where(rows_of(ctx, kept), batch_rows(ctx, data, places), -1)
    if not attrs["invalid_to_bottom"]:
        return out
    moved, full, _ = compaction(ctx, column(ctx, out, 0) >= 0)
    return where(rows_of(ctx, full), batch_rows(ctx, out, moved), -1)


def _kept_indices(
    ctx: Emitter, kept: Tensor, places: Tensor, indices: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the given indices of the kept boxes, compacted, and their number."""
    names = picked(ctx, cast(ctx, indices, "int32"), places, 1)
    kept = kept & (names >= 0)
    moved, full, count = compaction(ctx, kept)
    found = where(full, picked(ctx, names, moved, 1), -1)
    return found, ctx.reshape(cast(ctx, count, "int32"), [kept.dims[0], i64(1)])


def _all_class(ctx: Emitter, args: Args, attrs: Attrs) -> tuple[Tensor, ...]:
    boxes, scores, limit, threshold, least = args
    _boxes_of(ctx, boxes)
    _boxes_of(ctx, scores, "scores")
    batch, classes, size = scores.dims
    by_score = order(ctx, scores, 2, False)
    sorted_ = picked(ctx, scores, by_score, 2)
    above = sorted_ > cast(ctx, ctx.reshape(least, []), scores.dtype)
    threshold = ctx.reshape(threshold, [])
    active = cast(ctx, threshold > 0, "int64")
    valid = total(ctx, above, "int64") * active
    most = cast(ctx, ctx.reshape(limit, []), "int64")
    most = where(most > 0, most, LARGEST)
    kept = suppress(ctx, "onnx", boxes, (scores, by_score, valid), (most, threshold))
    if attrs["output_format"] == "onnx":
        return _onnx_boxes(ctx, kept, by_score)
    if attrs["output_format"] != "tensorflow":
        raise TypeMismatch(
            ctx.where(
                f"output_format: expected 'onnx' or 'tensorflow', found {attrs['output_format']!r}"
            )
        )
    flat = [batch, product([classes, size])]
    places, full, count = compaction(ctx, ctx.reshape(kept, flat))
    class_of = places // number(ctx, size, "int64")
    box = picked(ctx, ctx.reshape(by_score, flat), places, 1)
    columns = [rows_of(ctx, where(full, x, 0)) for x in (class_of, box)]
    joined = R.concat([ctx.expr(c) for c in columns], 2)
    found = where(full, picked(ctx, ctx.reshape(sorted_, flat), places, 1), 0)
    return ctx.emit(joined, [*flat, i64(2)], "int64"), found, count


def _flat(ctx: Emitter, kept: Tensor) -> Tensor:
    return ctx.reshape(kept, [kept.dims[0], product(kept.dims[1:])])


def _onnx_boxes(ctx: Emitter, kept: Tensor, by_score: Tensor) -> tuple[Tensor, Tensor]:
    """Return (batch, class, box) of every kept box followed by zeros, and the number of kept
    boxes.
    """
    _, classes, size = kept.dims
    every = [i64(1), product(kept.dims)]
    flags = ctx.reshape(kept, every)
    places, full, found = compaction(ctx, flags)
    row = places // number(ctx, size, "int64")
    count = number(ctx, classes, "int64")
    batch, class_ = row // count, row % count
    box = picked(ctx, ctx.reshape(by_score, every), places, 1)
    columns = [ctx.reshape(where(full, x, 0), [every[1], i64(1)]) for x in (batch, class_, box)]
    joined = ctx.emit(R.concat([ctx.expr(c) for c in columns], 1), [every[1], i64(3)], "int64")
    return joined, found


def _regular(ctx: Emitter, args: Args, attrs: Attrs) -> tuple[Tensor, ...]:
    """Suppress boxes within each class, then select the best of all classes."""
    boxes, scores = args
    _boxes_of(ctx, boxes)
    _boxes_of(ctx, scores, "scores")
    batch, size, columns = scores.dims
    classes, most = i64(int(attrs["num_classes"])), i64(int(attrs["max_detections"]))
    ctx.solver.require_le(i64(1), size, ctx.where("there must be at least one box"))
    ctx.solver.require_le(classes, columns, ctx.where("there must be a score for each class"))
    by_column = permute(ctx, scores, [0, 2, 1])
    by_class = sliced(ctx, by_column, {1: (columns - classes, classes, 1)})
    least = float(attrs["score_threshold"])
    valid = by_class >= least
    by_score = order(ctx, where(valid, by_class, -np.inf), 2, False)
    limits = (
        ctx.scalar(int(attrs["max_detections_per_class"]), "int64"),
        ctx.scalar(float(attrs["iou_threshold"]), boxes.dtype),
    )
    lists = (by_class, by_score, total(ctx, valid, "int64"))
    kept = _flat(ctx, suppress(ctx, "tflite", boxes, lists, limits))
    flat = _flat(ctx, picked(ctx, by_class, by_score, 2))
    best = order(ctx, where(kept, flat, -np.inf), 1, False)
    line = iota(ctx, most)
    first = R.take(ctx.expr(best), ctx.expr(line), 1, "clip")
    places = ctx.emit(first, [batch, most], "int64")
    count = minimum(total(ctx, kept, "int64"), number(ctx, most, "int64"))
    full = ctx.reshape(line, [i64(1), most]) < rows_of(ctx, count)
    class_of = places // number(ctx, size, "int64")
    corners = batch_rows(ctx, boxes, picked(ctx, _flat(ctx, by_score), places, 1))
    return (
        where(rows_of(ctx, full), corners, 0),
        cast(ctx, where(full, class_of, 0), "float32"),
        where(full, picked(ctx, flat, places, 1), 0),
        cast(ctx, count, "int32"),
    )


LOWER: Mapping[str, Rule] = {
    "vision.get_valid_counts": _get_valid_counts,
    "vision.non_max_suppression": _non_max_suppression,
    "vision.all_class_non_max_suppression": _all_class,
    "vision.regular_non_max_suppression": _regular,
}
