"""Import rules: resizing of images, one axis at a time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tvm.relax import op as R

from tvm_disc.errors import TypeMismatch, Unsupported
from tvm_disc.relay.importer.context import Emitter, i64, product
from tvm_disc.relay.importer.lowering.index import rows
from tvm_disc.relay.importer.lowering.slice import sliced
from tvm_disc.relay.importer.lowering.tensor import (
    Args,
    Attrs,
    Rule,
    cast,
    iota,
    is_float,
    number,
)
from tvm_disc.relay.importer.lowering.transform import axes_of, spatial_axes
from tvm_disc.relay.importer.tensor import Tensor
from tvm_disc.relay.ops.algebra import maximum, where
from tvm_disc.typing import Size

F32 = "float32"


@dataclass(frozen=True)
class Sampling:
    """Interpolation of a resized image: method, coordinate mode and rounding."""

    method: str
    mode: str
    rounding: str = ""
    alpha: float = -0.5
    exclude: bool = False


def _resize(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    """Return the resized image; size and region are literals, or operands after the data."""
    x: Tensor = args[0]
    layout = attrs["layout"]
    sizes = ctx.size_arg(args[1], "the size") if len(args) > 1 else attrs["size"]
    dtype = attrs["out_dtype"] or x.dtype
    if attrs["method"] != "nearest_neighbor" and not is_float(x.dtype):
        x = cast(ctx, x, F32)
    axes = spatial_axes(ctx, layout, "".join(a for a in "DHW" if a in layout))
    how = Sampling(
        attrs["method"],
        attrs["coordinate_transformation_mode"],
        attrs["rounding_method"],
        float(attrs["cubic_alpha"]),
        bool(attrs["cubic_exclude"]),
    )
    crop = how.mode == "tf_crop_and_resize"
    region = _region(ctx, args[2:], attrs, len(axes)) if crop else []
    outside = ctx.scalar(float(attrs["extrapolation_value"]), F32)
    for k, (axis, size) in enumerate(zip(axes, sizes, strict=True)):
        if crop:
            ends = (region[k], region[k + len(axes)])
            x = _cropped_axis(ctx, x, axis, ctx.dim(size), how, ends, outside)
        else:
            x = resize_axis(ctx, x, axis, ctx.dim(size), how)
    return cast(ctx, x, dtype)


def _region(ctx: Emitter, args: Args, attrs: Attrs, rank: int) -> list[Tensor]:
    """Return the begin and end of the region on each axis, as fractions of the image."""
    if not args:
        roi = attrs["roi"] or ()
        if len(roi) != 2 * rank:
            message = f"roi: expected {2 * rank} numbers, found {len(roi)}"
            raise TypeMismatch(ctx.where(message))
        return [ctx.scalar(float(v), F32) for v in roi]
    ctx.require_eq(product(args[0].dims), i64(2 * rank), "roi must have two numbers per axis")
    line = cast(ctx, ctx.reshape(args[0], [i64(2 * rank)]), F32)
    ends = [sliced(ctx, line, {0: (i64(k), i64(1), 1)}) for k in range(2 * rank)]
    return [ctx.reshape(e, []) for e in ends]


def _cropped_axis(
    ctx: Emitter,
    x: Tensor,
    axis: int,
    size: Size,
    how: Sampling,
    ends: tuple[Tensor, Tensor],
    outside: Tensor,
) -> Tensor:
    """Return one axis cropped and resized, with ``outside`` for positions beyond the image."""
    place = cast(ctx, iota(ctx, ctx.solver.simplify(size)), F32)
    last = number(ctx, ctx.solver.simplify(x.dims[axis] - 1), F32)
    begin, end = (e * last for e in ends)
    gaps = number(ctx, ctx.solver.simplify(size - 1), F32)
    one, half = ctx.scalar(1, F32), ctx.scalar(0.5, F32)
    step = (end - begin) / maximum(gaps, one)
    along = place * step + begin
    middle = (begin + end) * half
    several = gaps >= one
    at = where(several, along, middle)
    found = _sampled(ctx, x, axis, size, at, how)
    before = at < 0
    behind = at > last
    beyond = before | behind
    mask = ctx.reshape(beyond, [size if a == axis else i64(1) for a in range(x.rank)])
    return where(mask, cast(ctx, outside, x.dtype), found)


def _upsampling(names: Sequence[str]) -> Rule:
    """Return a rule for upsampling by factors from attributes or from operands after the data."""

    def rule(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
        x: Tensor = args[0]
        layout = attrs["layout"]
        spatial_axes(ctx, layout, "DHW"[-len(names) :])
        method = str(attrs["method"])
        method = method[2:] if method.startswith("bi") else method.removeprefix("tri")
        mode = attrs.get("coordinate_transformation_mode") or (
            "align_corners" if attrs["align_corners"] else "asymmetric"
        )
        given = args[1:] or [float(attrs[name]) for name in names]
        for name, scale in zip(names, given, strict=True):
            axis = axes_of(layout).index(name[-1].upper())
            if isinstance(scale, Tensor) and scale.constant is not None:
                scale = float(scale.constant.reshape(()).item())
            if not isinstance(scale, Tensor) and not 0 < scale < math.inf:
                raise TypeMismatch(
                    ctx.where(f"{name}: expected a finite factor above 0, found {scale}")
                )
            size = _scaled(ctx, x.dims[axis], scale)
            whole = not isinstance(scale, Tensor) and scale == int(scale)
            if method == "nearest_neighbor" and mode == "asymmetric" and whole:
                dims = [size if a == axis else d for a, d in enumerate(x.dims)]
                x = ctx.emit(R.repeat(ctx.expr(x), int(scale), axis), dims, x.dtype)
            else:
                x = resize_axis(ctx, x, axis, size, Sampling(method, str(mode)))
        return x

    return rule


def _scaled(ctx: Emitter, dim: Size, scale: Any) -> Any:
    """Return the rounded product of a dim and a factor."""
    if not isinstance(scale, Tensor):
        if scale == int(scale):
            return ctx.solver.simplify(dim * int(scale))
        literal = ctx.literal(dim)
        if literal is not None:
            return i64(round(literal * scale))
        scale = ctx.scalar(scale, "float64")
    ctx.require_eq(product(scale.dims), i64(1), "each scale must be a single number")
    factor = cast(ctx, ctx.reshape(scale, []), "float64")
    exact = number(ctx, dim, "float64") * factor
    size = ctx.apply("round", exact)  # halves are rounded to even
    (found,) = ctx.size_arg(cast(ctx, size, "int64"), "the scaled size")
    return found


def resize_axis(ctx: Emitter, x: Tensor, axis: int, size: Size, how: Sampling) -> Tensor:
    """Return ``x`` sampled at ``size`` positions along ``axis``."""
    at = _coordinates(ctx, x.dims[axis], size, how.mode)
    return _sampled(ctx, x, axis, size, at, how)


def _sampled(ctx: Emitter, x: Tensor, axis: int, size: Size, at: Tensor, how: Sampling) -> Tensor:
    if not is_float(x.dtype) and how.method != "nearest_neighbor":
        raise Unsupported(
            ctx.where(
                f"method: expected nearest_neighbor for an image of {x.dtype}, "
                f"found {how.method} interpolation; cast the image to floats"
            )
        )
    if how.method == "nearest_neighbor":
        default = "round" if how.mode == "align_corners" else "floor"
        return rows(ctx, x, _nearest(ctx, at, how.rounding or default), axis)
    if how.method not in ("linear", "cubic"):
        raise Unsupported(
            ctx.where(f"method: expected nearest_neighbor, linear or cubic, found {how.method}")
        )
    below = ctx.apply("floor", at)
    part = cast(ctx, at - below, x.dtype)
    first = cast(ctx, below, "int64")
    if how.method == "linear":
        rest = 1 - part
        taps = [(0, rest), (1, part)]
    else:
        taps = _cubic(ctx, part, how.alpha)
    along = [size if a == axis else i64(1) for a in range(x.rank)]
    total, weights = None, None
    for offset, weight in taps:
        place = first + offset
        if how.method == "cubic" and how.exclude:
            weight = _inside(ctx, place, x.dims[axis], weight)
            weights = weight if weights is None else weights + weight
        part = rows(ctx, x, place, axis) * ctx.reshape(weight, along)
        total = part if total is None else total + part
    assert total is not None
    if weights is None:
        return total
    return total / ctx.reshape(weights, along)


def _cubic(ctx: Emitter, part: Tensor, alpha: float) -> list[tuple[int, Tensor]]:
    """Return Keys' cubic weights as (offset, weight), for the fraction ``part`` after element 0."""
    powers = [ctx.scalar(1, part.dtype), part]
    for _ in range(2):
        powers.append(powers[-1] * part)
    table = (
        (0.0, alpha, -2 * alpha, alpha),
        (1.0, 0.0, -(alpha + 3), alpha + 2),
        (0.0, -alpha, 2 * alpha + 3, -(alpha + 2)),
        (0.0, 0.0, alpha, -alpha),
    )
    taps = []
    for offset, factors in enumerate(table):
        weight = ctx.scalar(factors[0], part.dtype)
        for factor, power in zip(factors[1:], powers[1:], strict=True):
            scaled = power * factor
            weight = weight + scaled
        taps.append((offset - 1, weight))
    return taps


def _inside(ctx: Emitter, place: Tensor, size: object, weight: Tensor) -> Tensor:
    """Return the weight of an element inside the image, and 0 for one outside."""
    above = place >= 0
    below = place < number(ctx, size, "int64")
    there = above & below
    return where(there, weight, 0)


def _coordinates(ctx: Emitter, length: object, size: object, mode: str) -> Tensor:
    """Return the position in the operand for each element of the result."""
    place = cast(ctx, iota(ctx, ctx.solver.simplify(size)), F32)
    source, target = number(ctx, length, F32), number(ctx, size, F32)
    one, half = ctx.scalar(1, F32), ctx.scalar(0.5, F32)
    if mode == "align_corners":
        gaps = maximum(target - one, one)
        scale = (source - one) / gaps
        return place * scale
    # The division comes last, so that positions halfway between two elements are exact.
    if mode == "asymmetric":
        return place * source / target
    if mode in ("half_pixel", "pytorch_half_pixel", "tf_half_pixel_for_nn"):
        scaled = (place + half) * source
        middle = scaled / target
        if mode == "tf_half_pixel_for_nn":
            return middle
        middle = middle - half
        if mode == "half_pixel":
            return middle
        several = target > one
        return where(several, middle, 0)
    raise Unsupported(
        ctx.where(
            "coordinate_transformation_mode: expected align_corners, asymmetric, half_pixel, "
            f"pytorch_half_pixel or tf_half_pixel_for_nn, found {mode}"
        )
    )


def _nearest(ctx: Emitter, at: Tensor, rounding: str) -> Tensor:
    half, little = ctx.scalar(0.5, F32), ctx.scalar(1e-5, F32)
    if rounding == "floor":
        whole = ctx.apply("floor", at + little)
    elif rounding == "ceil":
        whole = ctx.apply("ceil", at - little)
    elif rounding in ("round", "round_prefer_ceil"):
        # Halves of non-negative positions are rounded up. Rounding of negative positions has no
        # effect: they are clamped to 0.
        whole = ctx.apply("floor", at + half)
    elif rounding == "round_prefer_floor":
        whole = ctx.apply("ceil", at - half)
    else:
        raise Unsupported(
            ctx.where(
                "rounding_method: expected floor, round, round_prefer_ceil or round_prefer_floor, "
                f"found {rounding}"
            )
        )
    return cast(ctx, whole, "int64")


LOWER: Mapping[str, Rule] = {
    "nn.upsampling": _upsampling(["scale_h", "scale_w"]),
    "nn.upsampling3d": _upsampling(["scale_d", "scale_h", "scale_w"]),
    "dyn.nn.upsampling": _upsampling(["scale_h", "scale_w"]),
    "dyn.nn.upsampling3d": _upsampling(["scale_d", "scale_h", "scale_w"]),
    "image.resize1d": _resize,
    "image.resize2d": _resize,
    "image.resize3d": _resize,
    "dyn.image.resize2d": _resize,
}
