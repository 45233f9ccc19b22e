"""Converters of image resizing, sampling and detection."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from typing import Any

import numpy as np

from tvm_disc.errors import TypeMismatch, Unsupported, counted
from tvm_disc.frontends.calc import Calc, Dim, Expr, const, op, parts
from tvm_disc.frontends.onnx.node import OnnxNode
from tvm_disc.frontends.onnx.operators.convolution import kernel_of
from tvm_disc.frontends.onnx.table import Row

F64 = "float64"


@dataclass(frozen=True)
class Axis:
    """Parameters for resizing one axis.

    Attributes:
        size: the length of the axis in the input.
        out: the length of the axis in the output.
        scale: output length per input length, a number or a float64 tensor of rank 0.
        region: the first and last coordinate that are read, as fractions of the input length.
        exact: whether ``scale`` is ``out / size``; it is not if ``out`` is rounded.
    """

    axis: int
    size: Dim
    out: Dim
    scale: Any
    region: tuple[Any, Any] = (0.0, 1.0)
    exact: bool = False


@dataclass(frozen=True)
class How:
    """Parameters that all resized axes share."""

    method: str
    mode: str
    nearest: str
    cubic: float
    exclude: bool
    antialias: bool
    fill: float


def _how(n: OnnxNode) -> How:
    return How(
        str(n.attr("mode", "nearest")),
        str(n.attr("coordinate_transformation_mode", "half_pixel")),
        str(n.attr("nearest_mode", "round_prefer_floor")),
        float(n.attr("cubic_coeff_a", -0.75)),
        bool(n.attr("exclude_outside", 0)),
        bool(n.attr("antialias", 0)),
        float(n.attr("extrapolation_value", 0.0)),
    )


def _upsample(n: OnnxNode) -> Expr:
    """Convert Upsample, and Resize of opset 10, which have scales for all axes."""
    rank, method = n.rank(n[0]), str(n.attr("mode", "nearest"))
    if n.op == "Upsample" and method == "bilinear":
        method = "linear"
    scales = n.attr("scales")
    factors = _factors(n, n[1], rank, "scales") if scales is None else [float(s) for s in scales]
    how = How(method, "asymmetric", "floor", -0.75, False, False, 0.0)
    return _by_scales(n, list(range(rank)), factors, [(0.0, 1.0)] * rank, how)


def _resize(n: OnnxNode) -> Expr:
    x, how, axes = n[0], _how(n), n.axes_of(n[0])
    region: list[tuple[Any, Any]] = [(0.0, 1.0)] * len(axes)
    if how.mode == "tf_crop_and_resize":
        both = _factors(n, n[1], 2 * len(axes), "roi")
        region = list(zip(both[: len(axes)], both[len(axes) :], strict=True))
    sizes = _given(n, 3)
    if sizes is None:
        return _by_scales(n, axes, _factors(n, n[2], len(axes), "scales"), region, how)
    outs = n.sizes_in(n.of_length(sizes, len(axes), "the sizes"), "the sizes")
    policy = str(n.attr("keep_aspect_ratio_policy", "stretch"))
    if policy != "stretch":
        return _keeping_ratio(n, axes, outs, policy, region, how)
    plan = []
    for a, out, part in zip(axes, outs, region, strict=True):
        size = n.size(x, a)
        plan.append(Axis(a, size, out, _ratio(n, out, size), part, exact=True))
    return resized(n, x, plan, how)


def _given(n: OnnxNode, k: int) -> Any:
    """Return input ``k``, or None if it is omitted or an empty tensor."""
    found = n.get(k)
    return None if found is None or n.literals(found) == [0] else found


def _factors(n: OnnxNode, vector: Expr, count: int, what: str) -> list[object]:
    """Return the elements of a vector as numbers, or as float64 expressions if it is unknown."""
    known = n.known(vector)
    if known is not None:
        if known.size != count:
            raise TypeMismatch(f"{what}: expected {counted(count, 'number')}, found {known.size}")
        return [float(v) for v in known.reshape(-1)]
    wide = n.cast(n.reshape(vector, [count]), F64)
    return [n.item(wide, k) for k in range(count)]


def _ratio(n: Calc, out: Dim, size: Dim) -> object:
    if isinstance(out, int) and isinstance(size, int):
        return out / size if size else 1.0
    return n.scalar(out, F64) / n.scalar(size, F64)


def scaled_size(n: Calc, size: Dim, scale: Any) -> Dim:
    """Return ``floor(size * scale)``.

    If the scale is a fraction of small integers, the result is a formula of dims.
    """
    if isinstance(scale, float):
        if isinstance(size, int):
            return math.floor(size * scale)
        near = Fraction(scale).limit_denominator(4096)
        if np.float32(near.numerator / near.denominator) == np.float32(scale):
            times = n.dim("multiply", size, near.numerator)
            return n.dim("floor_divide", times, near.denominator)
        scale = const(scale, F64)
    whole = n.floor(n.scalar(size, F64) * scale)
    return n.length(whole)


def _by_scales(
    n: OnnxNode,
    axes: Sequence[int],
    factors: Sequence[object],
    region: Sequence[tuple[float, float]],
    how: How,
) -> Expr:
    plan = []
    for a, scale, part in zip(axes, factors, region, strict=True):
        size = n.size(n[0], a)
        plan.append(Axis(a, size, scaled_size(n, size, scale), scale, part))
    return resized(n, n[0], plan, how)


def _keeping_ratio(
    n: OnnxNode,
    axes: Sequence[int],
    outs: Sequence[Dim],
    policy: str,
    region: Sequence[tuple[float, float]],
    how: How,
) -> Expr:
    """Resize with one scale for all axes: the smallest or the largest ratio of the lengths."""
    if policy not in ("not_larger", "not_smaller"):
        raise Unsupported(
            "keep_aspect_ratio_policy: expected stretch, not_larger or not_smaller, found "
            f"{policy!r}"
        )
    sizes = [n.size(n[0], a) for a in axes]
    pick = n.minimum if policy == "not_larger" else n.maximum
    ratios = [_as(n, _ratio(n, o, d)) for o, d in zip(outs, sizes, strict=True)]
    scale = reduce(pick, ratios)
    plan = []
    for a, size, part in zip(axes, sizes, region, strict=True):
        length = n.length(n.floor(n.scalar(size, F64) * scale + 0.5))
        plan.append(Axis(a, size, length, scale, part))
    return resized(n, n[0], plan, how)


def _as(n: Calc, value: object) -> Expr:
    """Return a number or an expression as float64."""
    return n.cast(value, F64) if isinstance(value, Expr) else const(value, F64)


# -- axis by axis ----------------------------------------------------------------------------


def resized(n: Calc, x: Expr, plan: Sequence[Axis], how: How) -> Expr:
    """Return ``x`` resized along the axes of ``plan``, one axis after another."""
    if how.method not in ("nearest", "linear", "cubic"):
        raise Unsupported(f"mode: expected nearest, linear or cubic, found {how.method!r}")
    active = [p for p in plan if not _is_same(p, how)]
    if _is_standard(n, x, active, how):
        return _standard(n, x, active, how)
    dtype = n.dtype(x)
    wide = dtype
    if how.method != "nearest" and not dtype.startswith("float"):
        x, wide = n.cast(x, "float32"), "float32"
    outside: list[tuple[int, Expr]] = []
    for p in active:
        where = _coordinates(n, p, how.mode)
        if how.mode == "tf_crop_and_resize":
            last = n.scalar(p.size, F64) - 1.0
            beyond = (where < 0.0) | (where > last)
            outside.append((p.axis, beyond))
        x = _sampled(n, x, p, where, how)
    for axis, beyond in outside:
        x = n.where(n.along(beyond, axis, n.rank(x)), n.like(how.fill, x), x)
    return x if wide == dtype else n.cast(n.round_even(x), dtype)


def _is_same(p: Axis, how: How) -> bool:
    """Return whether resizing leaves an axis unchanged."""
    return isinstance(p.scale, float) and p.scale == 1.0 and how.mode != "tf_crop_and_resize"


_METHODS = {"nearest": "nearest_neighbor", "linear": "linear"}


def _is_standard(n: Calc, x: Expr, plan: Sequence[Axis], how: How) -> bool:
    """Return whether Relay's resize operator computes the same result."""
    rank = n.rank(x)
    spatial = [p.axis for p in plan]
    modes = ("half_pixel", "align_corners", "asymmetric")
    if how.method not in _METHODS or how.mode not in modes or how.exclude or how.antialias:
        return False
    if not 3 <= rank <= 5 or any(a < 2 for a in spatial) or n.dtype(x) != "float32":
        return False
    # Only the two-dimensional operator has a form for sizes that are unknown at compile time.
    fixed = all(isinstance(d, int) for d in _outs(n, x, plan))
    return bool(plan) and all(map(_is_exact, plan)) and (rank == 4 or fixed)


def _outs(n: Calc, x: Expr, plan: Sequence[Axis]) -> list[Dim]:
    """Return the spatial sizes of the result."""
    outs = {p.axis: p.out for p in plan}
    return [outs[a] if a in outs else n.size(x, a) for a in range(2, n.rank(x))]


def _is_exact(p: Axis) -> bool:
    """Return whether the scale is known to be output length / input length."""
    if p.exact or isinstance(p.scale, Expr):
        return p.exact
    if p.scale == int(p.scale):
        return True
    return isinstance(p.size, int) and isinstance(p.out, int) and p.size * p.scale == p.out


def _standard(n: Calc, x: Expr, plan: Sequence[Axis], how: How) -> Expr:
    rank, sizes = n.rank(x), _outs(n, x, plan)
    attrs = {
        "method": _METHODS[how.method],
        "coordinate_transformation_mode": how.mode,
        "rounding_method": how.nearest if how.method == "nearest" else "",
        "layout": {3: "NCW", 4: "NCHW", 5: "NCDHW"}[rank],
        "cubic_alpha": how.cubic,
        "roi": (0.0,) * 2 * (rank - 2),
    }
    if all(isinstance(s, int) for s in sizes):
        return op(f"image.resize{rank - 2}d", x, size=tuple(sizes), **attrs)
    attrs.pop("roi")
    roi = const([0.0] * 4, "float32")
    return op("dyn.image.resize2d", x, n.vector(sizes), roi, size=None, roi=None, **attrs)


def _coordinates(n: Calc, p: Axis, mode: str) -> Expr:
    """Return the input coordinate of each output element along one axis."""
    place = n.cast(n.arange(p.out), F64)
    scale, size = _as(n, p.scale), n.scalar(p.size, F64)
    out = size * scale  # output length before rounding
    middle = (place + 0.5) / scale - 0.5
    if mode == "half_pixel":
        return middle
    if mode == "asymmetric":
        return place / scale
    if mode == "pytorch_half_pixel":
        return n.where(n.equal(n.scalar(p.out, F64), 1.0), n.like(0.0, middle), middle)
    if mode == "half_pixel_symmetric":
        whole = n.scalar(p.out, F64) / out
        shift = size / 2.0 * (1.0 - whole)
        return middle + shift
    span, gaps = size - 1.0, out - 1.0
    one = n.equal(gaps, 0.0)
    gaps = n.where(one, n.like(1.0, gaps), gaps)
    if mode == "align_corners":
        return n.where(one, n.like(0.0, place), place * span / gaps)
    if mode == "tf_crop_and_resize":
        first, last = (_as(n, r) for r in p.region)
        part = last - first
        along = place * part * span / gaps
        alone = part * span / 2.0
        return n.where(one, alone, along) + first * span
    raise Unsupported(
        "coordinate_transformation_mode: expected half_pixel, asymmetric, pytorch_half_pixel, "
        f"half_pixel_symmetric, align_corners or tf_crop_and_resize, found {mode!r}"
    )


def _sampled(n: Calc, x: Expr, p: Axis, where: Expr, how: How) -> Expr:
    if how.method == "nearest":
        return n.take(x, _inside(n, _nearest(n, where, how.nearest), p.size), p.axis)
    before = n.ceil(where) - 1.0
    rest = where - before  # in (0, 1]
    scale = n.minimum(_as(n, p.scale), 1.0) if how.antialias else const(1.0, F64)
    reach = 1.0 if how.method == "linear" else 2.0
    first = n.floor(-reach / scale) + 1.0
    known = n.known(first)
    count: Dim = n.length(2.0 - first * 2.0) if known is None else int(2 - 2 * float(known))
    taps = n.cast(n.arange(count), F64) + first
    apart = (taps - n.expand(rest, 1)) * scale  # [out, taps]
    weights = _linear(n, apart) if how.method == "linear" else _cubic(n, apart, how.cubic)
    place = n.cast(n.expand(before, 1), "int64") + n.cast(taps, "int64")
    if how.exclude:
        inside = (place >= 0) & (place < n.scalar(p.size))
        weights = n.where(inside, weights, 0.0)
    if how.exclude or how.antialias:
        weights = weights / n.reduce("sum", weights, [1], True)
    return _weighted(n, x, p, (_inside(n, place, p.size), n.cast(weights, n.dtype(x)), count))


def _weighted(n: Calc, x: Expr, p: Axis, taps: tuple[Expr, Expr, Dim]) -> Expr:
    """Return, for each output element of an axis, a weighted sum of input elements.

    ``taps`` are the positions of the input elements and their weights, both ``[out, count]``, and
    the count.
    """
    place, weights, count = taps
    rank = n.rank(x)
    if isinstance(count, int) and count <= 4:
        total: Expr | None = None
        for k in range(count):
            read = n.take(x, n.pick(place, 1, k), p.axis)
            part = read * n.along(n.pick(weights, 1, k), p.axis, rank)
            total = part if total is None else total + part
        assert total is not None
        return total
    read = n.take(x, place, p.axis)
    ones: list[Dim] = [1] * (rank + 1)
    ones[p.axis : p.axis + 2] = [p.out, count]
    return n.reduce("sum", read * n.reshape(weights, ones), [p.axis + 1])


def _inside(n: Calc, place: Expr, size: Dim) -> Expr:
    last = n.scalar(size) - 1
    return n.maximum(n.minimum(place, last), 0)


def _nearest(n: Calc, where: Expr, rounding: str) -> Expr:
    if rounding == "floor":
        whole = n.floor(where)
    elif rounding == "ceil":
        whole = n.ceil(where)
    elif rounding == "round_prefer_ceil":
        whole = n.floor(where + 0.5)
    elif rounding == "round_prefer_floor":
        whole = n.ceil(where - 0.5)
    else:
        raise Unsupported(
            "nearest_mode: expected floor, ceil, round_prefer_ceil or round_prefer_floor, found "
            f"{rounding!r}"
        )
    return n.cast(whole, "int64")


def _linear(n: Calc, apart: Expr) -> Expr:
    return n.maximum(1.0 - n.abs(apart), 0.0)


def _cubic(n: Calc, apart: Expr, a: float) -> Expr:
    x = n.abs(apart)
    near = (x * (a + 2) - (a + 3)) * x * x + 1.0
    far = ((x * a - (5 * a)) * x + (8 * a)) * x - (4 * a)
    return n.where(x <= 1.0, near, n.where(x < 2.0, far, 0.0))


# -- grids and boxes ---------------------------------------------------------------------------


def _grid_sample(n: OnnxNode) -> Expr:
    x, grid = n[0], n[1]
    rank = n.rank(x)
    mode = str(n.attr("mode", "linear"))
    names = {"bilinear": "bilinear", "linear": "bilinear", "bicubic": "bicubic", "cubic": "bicubic"}
    return op(
        "image.grid_sample",
        x,
        n.move(grid, -1, 1),
        method=names.get(mode, mode),
        layout={4: "NCHW", 5: "NCDHW"}.get(rank, "?"),
        padding_mode=str(n.attr("padding_mode", "zeros")),
        align_corners=bool(n.attr("align_corners", 0)),
    )


def _affine_grid(n: OnnxNode) -> Expr:
    """Convert AffineGrid: return the coordinates of all pixels, transformed by a matrix."""
    theta, corners = n[0], bool(n.attr("align_corners", 0))
    rank = _spatial_of(n, theta)
    sizes = n.sizes_in(n.of_length(n[1], rank + 2, "the size"), "the size")[2:]
    dtype = n.dtype(theta)
    grids = []
    for k in reversed(range(rank)):  # coordinates start with x, which is the last axis
        count = n.scalar(sizes[k], dtype)
        place = n.cast(n.arange(sizes[k]), dtype)
        if corners:
            gaps = n.maximum(count - 1.0, 1.0)
            line = place * 2.0 / gaps - 1.0
        else:
            line = (place * 2.0 + 1.0) / count - 1.0
        grids.append(n.broadcast(n.along(line, k, rank), sizes))
    grids.append(n.full(1, sizes, dtype))
    points = n.reshape(n.stack(grids, rank), [n.product(sizes), rank + 1])
    moved = n.matmul(n.expand(points, 0), n.swapped(theta))
    return n.reshape(moved, [n.size(theta, 0), *sizes, rank])


def _spatial_of(n: OnnxNode, theta: Expr) -> int:
    rows = n.literals(theta)[1]
    if rows is None:
        return n.count(n.entries(n[1], "the size"), "the size") - 2
    return rows


def _non_max_suppression(n: OnnxNode) -> Expr:
    boxes, scores = n[0], n[1]
    if n.attr("center_point_box", 0):
        x, y, w, h = n.split(boxes, [1, 1, 1, 1], 2)
        half = [v / 2.0 for v in (h, w)]
        low = [y - half[0], x - half[1]]
        boxes = n.concat([*low, y + half[0], x + half[1]], 2)
    most = n.get(2)
    most = n.scalar(0) if most is None else n.reshape(most, [])
    known = n.known(most)
    overlap, least = n.get(3), n.get(4)
    overlap = const(0.0, "float32") if overlap is None else n.reshape(overlap, [])
    # Relay drops a box if its overlap is >= the threshold, ONNX if it is >; so the threshold is
    # increased by the smallest step. In Relay a threshold of 0 would drop nothing.
    overlap = n.maximum(overlap * (1 + 2.0**-22), 1.2e-38)
    least = const(-3.4e38, "float32") if least is None else n.reshape(least, [])
    if known is not None and known <= 0:
        return n.full(0, [0, 3], "int64")
    made = op("vision.all_class_non_max_suppression", boxes, scores, most, overlap, least)
    found, count = parts(made, 2)
    end = n.reshape(n.cast(count, "int64"), [])
    if known is None:
        # A limit of 0 means no limit in Relay, but no boxes in ONNX.
        end = n.where(most > 0, end, 0)
    return n.cast(n.slice(found, 0, 0, end), "int64")


def _roi_align(n: OnnxNode) -> Expr:
    """Convert RoiAlign; since opset 16 the coordinates of a pixel are those of its center."""
    x, rois, picks = n[0], n[1], n[2]
    scale = float(n.attr("spatial_scale", 1.0))
    default = "half_pixel" if n.opset >= 16 else "output_half_pixel"
    mode = str(n.attr("coordinate_transformation_mode", default))
    if mode not in ("half_pixel", "output_half_pixel"):
        raise Unsupported(
            "coordinate_transformation_mode: expected half_pixel or output_half_pixel, found "
            f"{mode!r}"
        )
    if mode == "half_pixel":
        rois = rois - (0.5 / scale)
    entries = n.expand(n.cast(picks, n.dtype(rois)), 1)
    pooled = (int(n.attr("output_height", 1)), int(n.attr("output_width", 1)))
    return op(
        "vision.roi_align",
        x,
        n.concat([entries, rois], 1),
        pooled_size=pooled,
        spatial_scale=scale,
        sample_ratio=int(n.attr("sampling_ratio", 0)) or -1,
        layout="NCHW",
        mode=str(n.attr("mode", "avg")),
    )


def _max_roi_pool(n: OnnxNode) -> Expr:
    pooled = tuple(int(v) for v in n.required("pooled_shape"))
    scale = float(n.attr("spatial_scale", 1.0))
    return op("vision.roi_pool", n[0], n[1], pooled_size=pooled, spatial_scale=scale, layout="NCHW")


def _deform_conv(n: OnnxNode) -> Expr:
    """Convert DeformConv: sample the input at the shifted positions of each window into a matrix,
    then multiply it by the kernel.
    """
    x, weight, offset = n[0], n[1], n[2]
    if n.rank(x) != 4:
        raise Unsupported(f"expected an input of rank 4, found rank {n.rank(x)}")
    kernel = kernel_of(n, weight)
    strides, gaps = (n.ints(name, (1, 1)) for name in ("strides", "dilations"))
    pads = n.ints("pads", (0, 0, 0, 0))
    parts_, groups = int(n.attr("offset_group", 1)), int(n.attr("group", 1))
    batch, channels = n.sizes(x)[:2]
    outs, taps = n.sizes(offset)[2:], n.product(kernel)
    lead = n.dim("multiply", batch, parts_)
    moved = n.reshape(offset, [lead, taps, 2, *outs])
    tap = n.arange(taps)
    at = [tap // n.scalar(kernel[1]), tap % n.scalar(kernel[1])]
    grid = []
    for k in (1, 0):  # the grid has x before y
        window = n.arange(outs[k]) * strides[k] - pads[k]
        base = n.along(at[k] * gaps[k], 0, 3) + n.along(window, 1 + k, 3)
        place = n.pick(moved, 2, k) + n.cast(base, n.dtype(offset))
        size = n.scalar(n.size(x, 2 + k), n.dtype(offset))
        grid.append((place * 2.0 + 1.0) / size - 1.0)
    rows = n.dim("multiply", taps, outs[0])
    where = n.reshape(n.stack(grid, 1), [lead, 2, rows, outs[1]])
    part = n.dim("floor_divide", channels, parts_)
    images = n.reshape(x, [lead, part, *n.sizes(x)[2:]])
    read = op(
        "image.grid_sample",
        images,
        where,
        method="bilinear",
        layout="NCHW",
        padding_mode="zeros",
        align_corners=False,
    )
    pixels = n.product(outs)
    columns = n.reshape(read, [batch, parts_, part, taps, pixels])
    if n.get(4) is not None:
        columns = columns * n.reshape(n[4], [batch, parts_, 1, taps, pixels])
    inner = n.dim("multiply", n.dim("floor_divide", channels, groups), taps)
    out = n.size(weight, 0)
    each = n.dim("floor_divide", out, groups)
    left = n.reshape(weight, [1, groups, each, inner])
    made = n.matmul(left, n.reshape(columns, [batch, groups, inner, pixels]))
    return n.biased(n.reshape(made, [batch, out, *outs]), 3)


ROWS: tuple[Row, ...] = (
    Row("Upsample", _upsample, since=7),
    Row("Resize", _upsample, since=10),
    Row("Resize", _resize, since=11),
    Row("GridSample", _grid_sample),
    Row("AffineGrid", _affine_grid),
    Row("NonMaxSuppression", _non_max_suppression),
    Row("RoiAlign", _roi_align),
    Row("MaxRoiPool", _max_roi_pool),
    Row("DeformConv", _deform_conv, since=19),
)
