"""Import rules: resizing of images, one axis after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tvm.relax import op as R

from tvm_disc.errors import Unsupported
from tvm_disc.relay.importer.context import Emitter, i64
from tvm_disc.relay.importer.lowering.index import rows
from tvm_disc.relay.importer.lowering.tensor import (
    Args,
    Attrs,
    Rule,
    apply,
    cast,
    iota,
    is_float,
    number,
)
from tvm_disc.relay.importer.tensor import Tensor

F32 = "float32"


def _resize(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    x: Tensor = args[0]
    layout = attrs["layout"]
    if not set(layout) <= set("NCDHW"):
        raise Unsupported(ctx.where(f"data layout {layout}"))
    sizes = attrs["size"]
    if len(args) > 1:
        sizes = ctx.size_arg(args[1], "the size")
    if attrs["out_dtype"] not in ("", x.dtype):
        raise Unsupported(ctx.where(f"out_dtype {attrs['out_dtype']}"))
    axes = [a for a, c in enumerate(layout) if c not in "NC"]
    how = (attrs["method"], attrs["coordinate_transformation_mode"], attrs["rounding_method"])
    for axis, size in zip(axes, sizes, strict=True):
        x = resize_axis(ctx, x, axis, ctx.dim(size), how)
    return x


def _upsampling(names: Sequence[str]) -> Rule:
    def rule(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
        x: Tensor = args[0]
        layout = attrs["layout"]
        if not set(layout) <= set("NCDHW"):
            raise Unsupported(ctx.where(f"data layout {layout}"))
        method = str(attrs["method"])
        method = "linear" if method in ("bilinear", "trilinear") else method
        mode = attrs.get("coordinate_transformation_mode") or (
            "align_corners" if attrs["align_corners"] else "asymmetric"
        )
        for name in names:
            axis, scale = layout.index(name[-1].upper()), float(attrs[name])
            size = _scaled(ctx, x.dims[axis], scale)
            if method == "nearest_neighbor" and mode == "asymmetric" and scale == int(scale):
                dims = [size if a == axis else d for a, d in enumerate(x.dims)]
                x = ctx.emit(R.repeat(ctx.expr(x), int(scale), axis), dims, x.dtype)
            else:
                x = resize_axis(ctx, x, axis, size, (str(method), str(mode), ""))
        return x

    return rule


def _scaled(ctx: Emitter, dim: Any, scale: float) -> Any:
    if scale == int(scale):
        return ctx.solver.simplify(dim * int(scale))
    literal = ctx.literal(dim)
    if literal is None:
        raise Unsupported(ctx.where(f"scale {scale} of a dim known at run time"))
    return i64(round(literal * scale))


def resize_axis(ctx: Emitter, x: Tensor, axis: int, size: Any, how: Sequence[str]) -> Tensor:
    """``x`` sampled at ``size`` places along ``axis``; ``how`` is (method, coordinates,
    rounding)."""
    method, mode, rounding = how
    if not is_float(x.dtype) and method != "nearest_neighbor":
        raise Unsupported(ctx.where(f"{method} interpolation of {x.dtype}"))
    where = _coordinates(ctx, x.dims[axis], size, mode)
    if method == "nearest_neighbor":
        default = "round" if mode == "align_corners" else "floor"
        return rows(ctx, x, _nearest(ctx, where, rounding or default), axis)
    if method != "linear":
        raise Unsupported(ctx.where(f"method {method}"))
    below = apply(ctx, R.floor, where)
    along = [size if a == axis else i64(1) for a in range(x.rank)]
    part = ctx.reshape(cast(ctx, apply(ctx, R.subtract, where, below), x.dtype), along)
    first = cast(ctx, below, "int64")
    second = apply(ctx, R.add, first, ctx.scalar(1, "int64"))
    low, high = rows(ctx, x, first, axis), rows(ctx, x, second, axis)
    rest = apply(ctx, R.subtract, ctx.scalar(1, x.dtype), part)
    return apply(ctx, R.add, apply(ctx, R.multiply, low, rest), apply(ctx, R.multiply, high, part))


def _coordinates(ctx: Emitter, length: Any, size: Any, mode: str) -> Tensor:
    """Where in the operand each element of the result lies."""
    place = cast(ctx, iota(ctx, ctx.solver.simplify(size)), F32)
    source, target = number(ctx, length, F32), number(ctx, size, F32)
    one, half = ctx.scalar(1, F32), ctx.scalar(0.5, F32)
    if mode == "align_corners":
        gaps = apply(ctx, R.maximum, apply(ctx, R.subtract, target, one), one)
        scale = apply(ctx, R.divide, apply(ctx, R.subtract, source, one), gaps)
        return apply(ctx, R.multiply, place, scale)
    # The quotient comes last: places halfway between two elements are then exact.
    if mode == "asymmetric":
        return apply(ctx, R.divide, apply(ctx, R.multiply, place, source), target)
    if mode == "half_pixel":
        middle = apply(ctx, R.multiply, apply(ctx, R.add, place, half), source)
        return apply(ctx, R.subtract, apply(ctx, R.divide, middle, target), half)
    raise Unsupported(ctx.where(f"coordinate_transformation_mode {mode}"))


def _nearest(ctx: Emitter, where: Tensor, rounding: str) -> Tensor:
    half, little = ctx.scalar(0.5, F32), ctx.scalar(1e-5, F32)
    if rounding == "floor":
        whole = apply(ctx, R.floor, apply(ctx, R.add, where, little))
    elif rounding == "ceil":
        whole = apply(ctx, R.ceil, apply(ctx, R.subtract, where, little))
    elif rounding in ("round", "round_prefer_ceil"):
        # Places are not negative where it matters, so halves go up.
        whole = apply(ctx, R.floor, apply(ctx, R.add, where, half))
    elif rounding == "round_prefer_floor":
        whole = apply(ctx, R.ceil, apply(ctx, R.subtract, where, half))
    else:
        raise Unsupported(ctx.where(f"rounding_method {rounding}"))
    return cast(ctx, whole, "int64")


def _dyn_resize(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    return _resize(ctx, args[:2], attrs)


def _dyn_upsampling(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    scales = []
    for a in args[1:]:
        if a.constant is None:
            raise Unsupported(ctx.where("a scale computed at run time"))
        scales.append(float(a.constant.reshape(()).item()))
    names = ["scale_h", "scale_w"] if len(scales) == 2 else ["scale_d", "scale_h", "scale_w"]
    given = {**attrs, **dict(zip(names, scales, strict=True))}
    result: Tensor = _upsampling(names)(ctx, args[:1], given)
    return result


LOWER: Mapping[str, Rule] = {
    "nn.upsampling": _upsampling(["scale_h", "scale_w"]),
    "nn.upsampling3d": _upsampling(["scale_d", "scale_h", "scale_w"]),
    "dyn.nn.upsampling": _dyn_upsampling,
    "dyn.nn.upsampling3d": _dyn_upsampling,
    "image.resize1d": _resize,
    "image.resize2d": _resize,
    "image.resize3d": _resize,
    "dyn.image.resize2d": _dyn_resize,
}
