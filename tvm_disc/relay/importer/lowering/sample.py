"""Import rules: images sampled at computed positions.

Positions are tensors of shape ``[n, rank, m]``. One kernel finds the pixels around each position
and sums them for every channel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tvm import tirx
from tvm.relax import op as R

from tvm_disc.errors import TypeMismatch, Unsupported
from tvm_disc.relay.importer.context import Emitter, i64, product
from tvm_disc.relay.importer.lowering.layout import along_axis
from tvm_disc.relay.importer.lowering.nn import matmul
from tvm_disc.relay.importer.lowering.slice import sliced
from tvm_disc.relay.importer.lowering.tensor import Args, Attrs, Rule, cast, iota, number
from tvm_disc.relay.importer.lowering.transform import channels_first, permute
from tvm_disc.relay.importer.lowering.window import padding, steps
from tvm_disc.relay.importer.tensor import Tensor
from tvm_disc.relay.kernel_ops import kernel_call
from tvm_disc.relay.ops.algebra import where
from tvm_disc.typing import Expr

F32, I64 = "float32", "int64"


def _floats(ctx: Emitter, *args: Tensor) -> None:
    for x in args:
        if x.dtype != F32:
            raise Unsupported(ctx.where(f"expected float32, found {x.dtype}; cast it to float32"))


def sampled(
    ctx: Emitter,
    x: Tensor,
    places: Sequence[Tensor],
    how: tuple[str, str, bool],
    entries: Tensor | None = None,
) -> Tensor:
    """Return ``x[b, c, ...]`` at positions ``[n, m]`` for each axis.

    Args:
        how: (interpolation method, border mode, align corners).
        entries: the batch entry of each ``n``; by default the same number.
    """
    count, many = places[0].dims
    line = [ctx.expr(ctx.reshape(p, [count, i64(1), many])) for p in places]
    joined = ctx.emit(R.concat(line, 1), [count, i64(len(places)), many], F32)
    operands = [x, joined, *([] if entries is None else [entries])]
    dims = [count, x.dims[1], many]
    attrs = dict(zip(("method", "border", "corners"), how, strict=True))
    call = kernel_call("disc.sample", [ctx.expr(t) for t in operands], dims, x.dtype, **attrs)
    return ctx.emit(call, dims, x.dtype)


# -- grids -------------------------------------------------------------------------------------


def _affine_grid(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    x: Tensor = args[0]
    _floats(ctx, x)
    height, width = (int(d) for d in attrs["target_shape"])
    if min(height, width) < 2:
        raise TypeMismatch(
            ctx.where(f"target_shape: expected at least (2, 2), found {(height, width)}")
        )
    ctx.require_eq(x.dims[1], i64(2), "an affine matrix must have 2 rows")
    ctx.require_eq(x.dims[2], i64(3), "an affine matrix must have 3 columns")
    lines = []
    for axis, size in ((3, width), (2, height)):
        step = cast(ctx, iota(ctx, i64(size)), F32) * ((2.0 - 1e-7) / (size - 1))
        lines.append(along_axis(ctx, step - 1.0, axis, 4))
    parts = [sliced(ctx, x, {2: (i64(k), i64(1), 1)}) for k in range(3)]
    a, b, c = (ctx.reshape(p, [x.dims[0], i64(2), i64(1), i64(1)]) for p in parts)
    moved = a * lines[0]
    return moved + b * lines[1] + c


def _grid_sample(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    x, grid = args
    _floats(ctx, x, grid)
    rank = x.rank - 2
    layout, mode = str(attrs["layout"]), str(attrs["padding_mode"])
    if layout != {2: "NCHW", 3: "NCDHW"}.get(rank) or grid.rank != x.rank:
        raise Unsupported(
            ctx.where(
                f"expected two operands of rank 4 in layout NCHW or of rank 5 in layout NCDHW, "
                f"found ranks {x.rank} and {grid.rank} in layout {layout}"
            )
        )
    if mode not in ("zeros", "border", "reflection"):
        raise TypeMismatch(
            ctx.where(f"padding_mode: expected zeros, border or reflection, found {mode!r}")
        )
    method = str(attrs["method"])
    methods = ("bilinear", "nearest", *(["bicubic"] if rank == 2 else []))
    if method not in methods:
        raise Unsupported(ctx.where(f"method: expected {' or '.join(methods)}, found {method!r}"))
    ctx.require_eq(grid.dims[0], x.dims[0], "the batch sizes of both operands must be equal")
    ctx.require_eq(grid.dims[1], i64(rank), "the grid must have a coordinate for each axis")
    count = product(grid.dims[2:])
    corners = bool(attrs["align_corners"])
    places = []
    for k, dim in enumerate(x.dims[2:]):
        part = sliced(ctx, grid, {1: (i64(rank - 1 - k), i64(1), 1)})
        place = ctx.reshape(part, [x.dims[0], count])
        places.append(_unnormalized(ctx, place, number(ctx, dim, F32), corners))
    names = {"bilinear": "linear", "bicubic": "cubic"}
    how = (names.get(method, method), "edge" if mode == "border" else mode, corners)
    return ctx.reshape(sampled(ctx, x, places, how), [*x.dims[:2], *grid.dims[2:]])


def _unnormalized(ctx: Emitter, place: Tensor, size: Tensor, corners: bool) -> Tensor:
    """Return positions in elements for coordinates in ``[-1, 1]``."""
    place = place + 1
    if corners:
        span = size - 1
        return place * span / 2
    half = place * size / 2
    return half - 0.5


# -- crops -------------------------------------------------------------------------------------


def _crop_and_resize(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    data, boxes, picks = args
    _floats(ctx, boxes)
    method = str(attrs["method"]).lower()
    if method not in ("bilinear", "nearest_neighbor"):
        raise Unsupported(
            ctx.where(f"method: expected bilinear or nearest_neighbor, found {method!r}")
        )
    x, restore = channels_first(ctx, data, str(attrs["layout"]), "NCHW")
    x = cast(ctx, x, F32)
    height, width = (int(d) for d in attrs["crop_size"])
    ctx.require_eq(picks.dims[0], boxes.dims[0], "there must be a batch entry for each box")
    ctx.require_eq(boxes.dims[1], i64(4), "a box must have 4 numbers")
    count = boxes.dims[0]
    sizes = [number(ctx, d, F32) for d in x.dims[2:]]
    places = [
        _crop_places(ctx, boxes, k, size, n, (height, width))
        for k, (size, n) in enumerate(zip(sizes, (height, width), strict=True))
    ]
    near = method != "bilinear"
    read = [p + 0.5 for p in places] if near else places
    out = sampled(ctx, x, read, ("floor" if near else "linear", "edge", True), picks)
    fill = ctx.scalar(float(attrs["extrapolation_value"]), F32)
    for place, size in zip(places, sizes, strict=True):
        last = size - 1
        beyond = (place < 0) | (place > last)
        out = where(ctx.reshape(beyond, [count, i64(1), place.dims[1]]), fill, out)
    out = ctx.reshape(out, [count, x.dims[1], i64(height), i64(width)])
    return restore(cast(ctx, out, attrs["out_dtype"] or data.dtype))


def _crop_places(
    ctx: Emitter, boxes: Tensor, axis: int, size: Tensor, n: int, crop: tuple[int, int]
) -> Tensor:
    """Return the positions along one axis, ``[boxes, height * width]``."""
    count = boxes.dims[0]
    ends = [sliced(ctx, boxes, {1: (i64(k), i64(1), 1)}) for k in (axis, axis + 2)]
    first, last = (ctx.reshape(e, [count, i64(1), i64(1), i64(1)]) for e in ends)
    span = size - 1
    if n > 1:
        line = along_axis(ctx, cast(ctx, iota(ctx, i64(n)), F32), 2 + axis, 4)
        whole = span * (last - first)
        scale = whole / float(n - 1)
        place = first * span + scale * line
        # Rounding must not move the last position beyond the end of the box.
        end = last * span
        place = where(line < n - 1, place, end)
    else:
        middle = (first + last) * 0.5
        place = middle * span
    full = ctx.broadcast(place, [count, i64(1), *map(i64, crop)], full=True)
    return ctx.reshape(full, [count, i64(crop[0] * crop[1])])


# -- deformable convolution --------------------------------------------------------------------


def _deformable_conv(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    """Return the kernel times the input sampled at shifted positions, one column for each
    window.
    """
    _floats(ctx, *args)
    if int(attrs["groups"]) != 1:
        raise Unsupported(
            ctx.where(f"groups: expected 1, found {attrs['groups']}; split the input into groups")
        )
    layout = str(attrs["data_layout"])
    x, restore = channels_first(ctx, args[0], layout, "NCHW")
    offset, _ = channels_first(ctx, args[1], layout, "NCHW")
    names = str(attrs["kernel_layout"])
    if sorted(names) != sorted("OIHW"):
        raise Unsupported(ctx.where(f"kernel_layout: expected an order of OIHW, found {names}"))
    w = permute(ctx, args[2], [names.index(c) for c in "OIHW"])
    taps = w.dims[2:]
    parts = int(attrs["deformable_groups"])
    ctx.require_eq(
        w.dims[1], x.dims[1], "the input channels must equal those that the kernel reads"
    )
    ctx.require_eq(
        offset.dims[1],
        taps[0] * taps[1] * (2 * parts),
        "there must be two offsets for each kernel element",
    )
    ctx.solver.require_divides(
        i64(parts), x.dims[1], ctx.where("groups must divide the number of input channels")
    )
    ctx.require_eq(offset.dims[0], x.dims[0], "the batch sizes of both operands must be equal")
    columns = _deformed(ctx, x, offset, taps, attrs)
    kernel = ctx.reshape(w, [w.dims[0], product(w.dims[1:])])
    out = matmul(ctx, kernel, columns, attrs["out_dtype"] or x.dtype)
    return restore(ctx.reshape(out, [x.dims[0], w.dims[0], *offset.dims[2:]]))


def _deformed(
    ctx: Emitter, x: Tensor, offset: Tensor, taps: Sequence[Expr], attrs: Attrs
) -> Tensor:
    """Return the sampled windows, ``[n, channels * taps, windows]``."""
    parts = int(attrs["deformable_groups"])
    high, wide = offset.dims[2:]
    lead = [x.dims[0] * parts, *taps]
    moved = ctx.reshape(offset, [*lead, i64(2), high, wide])
    strides, gaps = (steps(ctx, attrs, n, 2) for n in ("strides", "dilation"))
    pads = padding(ctx, attrs["padding"], 2)
    sizes = [number(ctx, d, F32) for d in x.dims[2:]]
    places, inside = [], None
    for k in range(2):
        part = sliced(ctx, moved, {3: (i64(k), i64(1), 1)})
        part = ctx.reshape(part, [*lead, high, wide])
        window = cast(ctx, iota(ctx, offset.dims[2 + k]), F32)
        start = window * float(strides[k]) - float(pads[k])
        tap = cast(ctx, iota(ctx, taps[k]), F32) * float(gaps[k])
        base = along_axis(ctx, start, 3 + k, 5) + along_axis(ctx, tap, 1 + k, 5)
        place = part + base
        place = ctx.reshape(place, [lead[0], product([*lead[1:], high, wide])])
        here = (place >= 0) & (place < sizes[k])
        inside = here if inside is None else inside & here
        places.append(place)
    channels = tirx.floordiv(x.dims[1], i64(parts))
    images = ctx.reshape(x, [lead[0], ctx.solver.simplify(channels), *x.dims[2:]])
    found = sampled(ctx, images, places, ("linear", "edge", True))
    assert inside is not None
    here = ctx.reshape(inside, [inside.dims[0], i64(1), inside.dims[1]])
    shown = where(here, found, 0)
    return ctx.reshape(shown, [x.dims[0], product([x.dims[1], *lead[1:]]), high * wide])


LOWER: Mapping[str, Rule] = {
    "image.affine_grid": _affine_grid,
    "image.grid_sample": _grid_sample,
    "image.crop_and_resize": _crop_and_resize,
    "nn.deformable_conv2d": _deformable_conv,
}
