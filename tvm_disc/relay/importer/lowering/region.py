"""Import rules: regions and anchors of detectors, and image windows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from tvm import tirx
from tvm.relax import op as R

from tvm_disc.errors import TypeMismatch, Unsupported
from tvm_disc.relay.importer.context import Emitter, i64, product
from tvm_disc.relay.importer.lowering.detect import (
    batch_rows,
    compaction,
    rows_of,
    suppress,
)
from tvm_disc.relay.importer.lowering.layout import along_axis, windows
from tvm_disc.relay.importer.lowering.order import order, picked
from tvm_disc.relay.importer.lowering.slice import sliced
from tvm_disc.relay.importer.lowering.sparse import stacked
from tvm_disc.relay.importer.lowering.tensor import Args, Attrs, Rule, cast, iota, number
from tvm_disc.relay.importer.lowering.transform import channels_first, permute
from tvm_disc.relay.importer.lowering.window import padded, padding, steps
from tvm_disc.relay.importer.tensor import Tensor
from tvm_disc.relay.kernel_ops import kernel_call
from tvm_disc.relay.ops.algebra import maximum, minimum, where

F32, I64 = "float32", "int64"


def _float32(ctx: Emitter, *args: Tensor) -> None:
    for x in args:
        if x.dtype != F32:
            raise Unsupported(ctx.where(f"expected float32, found {x.dtype}; cast it to float32"))


def _roi(pool: bool) -> Rule:
    def rule(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
        data, rois = args
        _float32(ctx, data, rois)
        x, restore = channels_first(ctx, data, str(attrs["layout"]), "NCHW")
        ctx.require_eq(rois.dims[1], i64(5), "a region must have 5 numbers")
        for a in (0, 2, 3):
            ctx.solver.require_le(i64(1), x.dims[a], ctx.where(f"axis {a} must not be empty"))
        pooled = steps(ctx, attrs, "pooled_size", 2)
        mode = "pool" if pool else {"0": "avg", "1": "max"}.get(str(attrs["mode"]), attrs["mode"])
        if mode not in ("pool", "avg", "max"):
            raise TypeMismatch(ctx.where(f"mode: expected avg or max, found {attrs['mode']!r}"))
        dims = [rois.dims[0], x.dims[1], *map(i64, pooled)]
        call = kernel_call(
            "disc.roi",
            [ctx.expr(x), ctx.expr(rois)],
            dims,
            x.dtype,
            mode=mode,
            pooled=tuple(pooled),
            scale=float(attrs["spatial_scale"]),
            ratio=int(attrs.get("sample_ratio", -1)),
        )
        return restore(ctx.emit(call, dims, x.dtype))

    return rule


def _correlation(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    one, other = args
    _float32(ctx, one, other)
    if attrs["layout"] != "NCHW":
        raise Unsupported(ctx.where(f"layout: expected NCHW, found {attrs['layout']}"))
    for a, (d, e) in enumerate(zip(one.dims, other.dims, strict=True)):
        ctx.require_eq(d, e, f"axis {a} of both operands must have the same size")
    size, most, stride, apart = (
        int(attrs[n]) for n in ("kernel_size", "max_displacement", "stride1", "stride2")
    )
    if size < 1 or size % 2 == 0:
        raise TypeMismatch(
            ctx.where(f"kernel_size: expected an odd number of at least 1, found {size}")
        )
    if most < 0:
        raise TypeMismatch(ctx.where(f"max_displacement: expected 0 or more, found {most}"))
    pads = padding(ctx, attrs["padding"], 2)
    pairs = [(0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])]
    one, other = (padded(ctx, x, pairs, ctx.scalar(0, x.dtype)) for x in (one, other))
    border = most + (size - 1) // 2
    spatial = []
    for d in one.dims[2:]:
        ctx.solver.require_le(
            i64(2 * border), d, ctx.where("the displacements must not be larger than the input")
        )
        spatial.append(tirx.floordiv(d - 2 * border + (stride - 1), i64(stride)))
    across = 2 * (most // apart) + 1
    dims = [one.dims[0], i64(across * across), *map(ctx.solver.simplify, spatial)]
    call = kernel_call(
        "disc.correlation",
        [ctx.expr(one), ctx.expr(other)],
        dims,
        one.dtype,
        size=size,
        most=most,
        stride=stride,
        apart=apart,
        product=bool(attrs["is_multiply"]),
    )
    return ctx.emit(call, dims, one.dtype)


def _dilation2d(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    """Return the maximum over each window of the sums of its elements and the weights."""
    layout = str(attrs["data_layout"])
    x, restore = channels_first(ctx, args[0], layout, "NCHW")
    names = str(attrs["kernel_layout"])
    if sorted(names) != sorted("IHW"):
        raise Unsupported(ctx.where(f"kernel_layout: expected an order of IHW, found {names}"))
    dtype = attrs["out_dtype"] or x.dtype
    w = cast(ctx, permute(ctx, args[1], [names.index(c) for c in "IHW"]), dtype)
    ctx.require_eq(
        x.dims[1], w.dims[0], "the input channels must equal those that the kernel reads"
    )
    strides, gaps = (steps(ctx, attrs, n, 2) for n in ("strides", "dilations"))
    pads = padding(ctx, attrs["padding"], 2)
    if any(pads):
        pairs = [(0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])]
        x = padded(ctx, x, pairs, ctx.scalar(0, x.dtype))
    taps = w.dims[1:]
    for k in range(2):
        ctx.solver.require_le(i64(1), taps[k], ctx.where("the kernel must not be empty"))
        x = windows(ctx, x, 2 + 2 * k, taps[k], strides[k], gaps[k])
    line = ctx.reshape(w, [w.dims[0], i64(1), taps[0], i64(1), taps[1]])
    total = cast(ctx, x, dtype) + line
    dims = [x.dims[0], x.dims[1], x.dims[2], x.dims[4]]
    return restore(ctx.emit(R.max(ctx.expr(total), [3, 5]), dims, dtype))


def _yolo_reorg(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    """Return Darknet's reorganization: the input viewed with fewer channels, its blocks moved
    to channels.
    """
    x: Tensor = args[0]
    s = int(attrs["stride"])
    batch, channels, high, wide = x.dims
    ctx.solver.require_divides(
        i64(s * s),
        channels,
        ctx.where(f"the number of channels must be a multiple of {s} * {s}"),
    )
    for d in (high, wide):
        ctx.solver.require_divides(
            i64(s), d, ctx.where(f"height and width must be multiples of {s}")
        )
    part = ctx.solver.simplify(tirx.floordiv(channels, i64(s * s)))
    split = ctx.reshape(x, [batch, part, high, i64(s), wide, i64(s)])
    moved = permute(ctx, split, [0, 3, 5, 1, 2, 4])
    small = [ctx.solver.simplify(tirx.floordiv(d, i64(s))) for d in (high, wide)]
    return ctx.reshape(moved, [batch, channels * (s * s), *small])


# -- anchors -----------------------------------------------------------------------------------


def _multibox_prior(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    """Return boxes of each size and ratio around the centre of each pixel."""
    high, wide = args[0].dims[2:]
    sizes, ratios = ([float(v) for v in attrs[n]] for n in ("sizes", "ratios"))
    shapes = [(s, 1.0) for s in sizes] + [(sizes[0], math.sqrt(r)) for r in ratios[1:]]
    count = i64(len(shapes))
    tall, broad = (number(ctx, d, F32) for d in (high, wide))
    centres = []
    for k, (dim, size) in enumerate(((high, tall), (wide, broad))):
        step = float(attrs["steps"][k])
        place = cast(ctx, iota(ctx, dim), F32) + float(attrs["offsets"][k])
        one = ctx.scalar(1.0, F32)
        scale = ctx.scalar(step, F32) if step > 0 else one / size
        centres.append(along_axis(ctx, place * scale, k, 3))
    half = [np.array([s * r / 2 for s, r in shapes]), np.array([s / r / 2 for s, r in shapes])]
    w, h = (ctx.constant(v.astype(F32).reshape(1, 1, -1)) for v in half)
    w = w * tall / broad
    y, x = centres
    edges = [x - w, y - h]
    edges += [x + w, y + h]
    dims = [high, wide, count]
    found = stacked(ctx, [ctx.broadcast(e, dims, full=True) for e in edges], 3)
    if attrs["clip"]:
        found = ctx.emit(R.clip(ctx.expr(found), 0.0, 1.0), found.dims, F32)
    return ctx.reshape(found, [i64(1), product(dims), i64(4)])


def _column(ctx: Emitter, x: Tensor, k: int) -> Tensor:
    part = sliced(ctx, x, {x.rank - 1: (i64(k), i64(1), 1)})
    return ctx.reshape(part, x.dims[:-1])


def _multibox_transform(ctx: Emitter, args: Args, attrs: Attrs) -> tuple[Tensor, Tensor]:
    """Return (boxes, number of boxes with a class).

    A box is (class, score, four corners). Boxes with a class come first; -1 fills the others.
    """
    scores, moves, anchors = args
    _float32(ctx, scores, moves, anchors)
    batch, classes, size = scores.dims
    ctx.require_eq(anchors.dims[1], size, "there must be an anchor for each box")
    background = bool(attrs["keep_background"])
    first = 0 if background else 1
    ctx.solver.require_le(i64(first + 1), classes, ctx.where("there must be at least one class"))
    shown = sliced(ctx, scores, {1: (i64(first), classes - first, 1)})
    best = ctx.emit(R.max(ctx.expr(shown), [1]), [batch, size], F32)
    kind = ctx.emit(R.argmax(ctx.expr(shown), 1), [batch, size], I64)
    kind = kind + first
    score = maximum(best, -1.0)
    likely = best > -1.0
    sure = score >= float(attrs["threshold"])
    kind = where(likely & sure, kind, 0)
    keep = kind > (-1 if background else 0)
    label = cast(ctx, kind if background else kind - 1, F32)
    parts = ctx.reshape(moves, [batch, size, i64(4)])
    corners = _moved_anchors(ctx, anchors, parts, attrs)
    boxes = stacked(ctx, [label, score, *corners], 2)
    places, full, count = compaction(ctx, keep)
    out = where(rows_of(ctx, full), batch_rows(ctx, boxes, places), -1)
    return out, cast(ctx, count, "int32")


def _moved_anchors(ctx: Emitter, anchors: Tensor, moves: Tensor, attrs: Attrs) -> list[Tensor]:
    """Return (left, top, right, bottom) of the anchors moved and scaled by ``moves``."""
    left, top, right, bottom = (_column(ctx, anchors, k) for k in range(4))
    variances = [float(v) for v in attrs["variances"]]
    found = []
    for k, (a, b) in enumerate(((left, right), (top, bottom))):
        span = b - a
        centre = (a + b) / 2.0
        shift = _column(ctx, moves, k) * variances[k]
        centre = shift * span + centre
        grown = _column(ctx, moves, 2 + k) * variances[2 + k]
        grown = ctx.emit(R.exp(ctx.expr(grown)), grown.dims, F32)
        half = grown * span / 2.0
        found.append((centre, half))
    edges = [c - h for c, h in found] + [c + h for c, h in found]
    if not attrs["clip"]:
        return edges
    return [ctx.emit(R.clip(ctx.expr(e), 0.0, 1.0), e.dims, F32) for e in edges]


# -- proposals ---------------------------------------------------------------------------------


def _anchor(ratio: float, scale: float, base: float) -> tuple[float, float, float, float]:
    centre = 0.5 * (base - 1.0)
    area = math.floor(base * base / ratio)
    width = math.floor(math.sqrt(area) + 0.5) * scale
    height = math.floor((width / scale * ratio) + 0.5) * scale
    x, y = 0.5 * (width - 1.0), 0.5 * (height - 1.0)
    return centre - x, centre - y, centre + x, centre + y


def _proposal(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    """Return the best boxes around anchors after suppression, repeated to the required number."""
    scores, moves = args[:2]
    _float32(ctx, *args)
    batch, _, high, wide = scores.dims
    shapes = [(r, s) for r in attrs["ratios"] for s in attrs["scales"]]
    count, many = len(shapes), int(attrs["rpn_post_nms_top_n"])
    ctx.require_eq(scores.dims[1], i64(2 * count), "there must be two scores for each anchor")
    ctx.require_eq(moves.dims[1], i64(4 * count), "there must be four numbers for each anchor")
    for a in (0, 2, 3):
        ctx.require_eq(
            moves.dims[a], scores.dims[a], f"axis {a} of scores and moves must have the same size"
        )
    ctx.require_eq(args[2].dims[0], batch, "there must be one size for each image")
    ctx.solver.require_le(i64(3), args[2].dims[1], ctx.where("a size must have three numbers"))
    for d in (high, wide):
        ctx.solver.require_le(i64(1), d, ctx.where("the image must not be empty"))
    size = product([high, wide, i64(count)])
    found = _proposed(ctx, args, shapes, attrs)
    boxes, score = sliced(ctx, found, {2: (i64(0), i64(4), 1)}), _column(ctx, found, 4)
    by_score = order(ctx, score, 1, False)
    most = number(ctx, size, I64)
    if int(attrs["rpn_pre_nms_top_n"]) > 0:
        most = minimum(most, int(attrs["rpn_pre_nms_top_n"]))
    valid = ctx.broadcast(ctx.reshape(most, [i64(1), i64(1)]), [batch, i64(1)], full=True)
    lists = [ctx.reshape(x, [batch, i64(1), size]) for x in (score, by_score)]
    limits = (ctx.scalar(2**62, I64), ctx.scalar(float(attrs["threshold"]), F32))
    kept = ctx.reshape(suppress(ctx, "pixels", boxes, [*lists, valid], limits), [batch, size])
    places, _, number_kept = compaction(ctx, kept)
    line = ctx.reshape(iota(ctx, i64(many)), [i64(1), i64(many)])
    again = line % rows_of(ctx, maximum(number_kept, 1))
    place = picked(ctx, by_score, picked(ctx, places, again, 1), 1)
    chosen = batch_rows(ctx, boxes, place)
    entry = ctx.reshape(cast(ctx, iota(ctx, batch), F32), [batch, i64(1), i64(1)])
    entry = ctx.broadcast(entry, [batch, i64(many), i64(1)], full=True)
    call = R.concat([ctx.expr(entry), ctx.expr(chosen)], 2)
    joined = ctx.emit(call, [batch, i64(many), i64(5)], F32)
    return ctx.reshape(joined, [batch * many, i64(5)])


def _proposed(ctx: Emitter, args: Args, shapes: Any, attrs: Attrs) -> Tensor:
    """Return corners and scores, ``[batch, pixels * anchors, 5]``."""
    batch, _, high, wide = args[0].dims
    stride = float(attrs["feature_stride"])
    if not stride > 0:
        raise TypeMismatch(ctx.where(f"feature_stride: expected more than 0, found {stride:g}"))
    anchors = np.array([_anchor(float(r), float(s), stride) for r, s in shapes], F32)
    dims = [batch, product([high, wide, i64(len(shapes))]), i64(5)]
    call = kernel_call(
        "disc.proposals",
        [ctx.expr(x) for x in (*args, ctx.constant(anchors))],
        dims,
        F32,
        stride=stride,
        least=float(attrs["rpn_min_size"]),
        plain=bool(attrs["iou_loss"]),
    )
    return ctx.emit(call, dims, F32)


LOWER: Mapping[str, Rule] = {
    "vision.roi_align": _roi(False),
    "vision.roi_pool": _roi(True),
    "nn.correlation": _correlation,
    "image.dilation2d": _dilation2d,
    "vision.yolo_reorg": _yolo_reorg,
    "vision.multibox_prior": _multibox_prior,
    "vision.multibox_transform_loc": _multibox_transform,
    "vision.proposal": _proposal,
}
