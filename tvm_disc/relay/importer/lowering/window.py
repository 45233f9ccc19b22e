"""Import rules: convolution, pooling and padding."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from tvm import tirx
from tvm.relax import op as R

from tvm_disc.errors import TypeMismatch, Unsupported
from tvm_disc.relay.importer.context import Emitter, i64, product
from tvm_disc.relay.importer.lowering.index import rows
from tvm_disc.relay.importer.lowering.nn import require_factors
from tvm_disc.relay.importer.lowering.run_time import borders
from tvm_disc.relay.importer.lowering.slice import sliced
from tvm_disc.relay.importer.lowering.tensor import (
    Args,
    Attrs,
    Rule,
    averaged,
    cast,
    filled,
    iota,
    is_float,
    number,
    on_floats,
    on_numbers,
)
from tvm_disc.relay.importer.lowering.transform import (
    channels_first,
    spatial_axes,
    without_blocks,
)
from tvm_disc.relay.importer.tensor import Tensor
from tvm_disc.relay.importer.values import is_number, value_of
from tvm_disc.relay.ops.algebra import where
from tvm_disc.typing import Expr

SPATIAL = {1: "W", 2: "HW", 3: "DHW"}


def per_axis(value: tuple[int, ...], rank: int) -> list[int]:
    """Return one number per spatial axis."""
    items = [value] if isinstance(value, int) else [int(v) for v in value]
    return items * rank if len(items) == 1 else items


def steps(ctx: Emitter, attrs: Attrs, name: str, rank: int) -> list[int]:
    """Return strides, dilation or window sizes: one number of at least 1 per spatial axis.

    Raises:
        TypeMismatch: the wrong number of values, or a value below 1.
    """
    items = per_axis(attrs[name], rank)
    if len(items) != rank or any(v < 1 for v in items):
        number = "1 number" if rank == 1 else f"1 or {rank} numbers"
        message = f"{name}: expected {number} of at least 1, found {attrs[name]}"
        raise TypeMismatch(ctx.where(message))
    return items


def padding(ctx: Emitter, value: tuple[int, ...], rank: int) -> list[int]:
    """Return (before..., after...) from Relay's 1, ``rank`` or ``2 * rank`` numbers.

    Raises:
        TypeMismatch: the number of values is not 1, ``rank`` or ``2 * rank``.
    """
    items = per_axis(value, rank)
    if len(items) not in (rank, 2 * rank):
        counts = "1 or 2" if rank == 1 else f"1, {rank} or {2 * rank}"
        message = f"padding: expected {counts} numbers, found {value}"
        raise TypeMismatch(ctx.where(message))
    return items * 2 if len(items) == rank else items


def window_extent(dim: Any, kernel: Expr, stride: int, pads: int, dilation: int) -> Expr:
    """Return ``(dim + pads - dilation * (kernel - 1) - 1) // stride + 1``."""
    reach = i64(dilation) * (kernel - 1) + 1
    return tirx.floordiv(dim + pads - reach, i64(stride)) + 1


def _windows(ctx: Emitter, dim: object, kernel: Expr, stride: int, pads: int, dilation: int) -> Any:
    """Return :func:`window_extent`, required to be non-negative."""
    extent = ctx.solver.simplify(window_extent(dim, kernel, stride, pads, dilation))
    least = ctx.solver.simplify(i64(dilation) * (kernel - 1) + 1 - pads - stride)
    ctx.solver.require_le(
        least, dim, ctx.where("the window must not be larger than the padded input")
    )
    return extent


# -- convolution -------------------------------------------------------------------------------


def _conv(build: Callable[..., object], rank: int) -> Rule:
    def rule(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
        wanted, out = f"NC{SPATIAL[rank]}", attrs["out_layout"]
        x, restore = channels_first(ctx, args[0], attrs["data_layout"], wanted, out)
        w = kernel_first(ctx, args[1], attrs["kernel_layout"], f"OI{SPATIAL[rank]}")
        pads = padding(ctx, attrs["padding"], rank)
        strides, dilation = (steps(ctx, attrs, n, rank) for n in ("strides", "dilation"))
        return restore(convolve(ctx, build, x, w, attrs, (strides, pads, dilation)))

    return rule


def convolve(
    ctx: Emitter,
    build: Callable[..., Any],
    x: Tensor,
    w: Tensor,
    attrs: Attrs,
    window: tuple[list[int], list[int], list[int]],
) -> Tensor:
    """Return a convolution of channel-first operands; ``window`` is (strides, padding,
    dilation).
    """
    strides, pads, dilation = window
    rank, groups = x.rank - 2, int(attrs["groups"])
    dtype = attrs["out_dtype"] or x.dtype
    require_factors(ctx, x, w, dtype)
    w = _depthwise(ctx, x, w, groups, attrs.get("channels"))
    x = cropped(ctx, x, [(0, 0), (0, 0), *zip(pads[:rank], pads[rank:], strict=True)])
    pads = [max(p, 0) for p in pads]
    ctx.require_eq(
        x.dims[1], w.dims[1] * groups, "the input channels must equal those that the kernel reads"
    )
    ctx.solver.require_divides(
        i64(groups), w.dims[0], ctx.where("groups must divide the number of output channels")
    )
    spatial = [
        _windows(
            ctx, x.dims[2 + d], w.dims[2 + d], strides[d], pads[d] + pads[d + rank], dilation[d]
        )
        for d in range(rank)
    ]
    call = build(
        ctx.expr(x),
        ctx.expr(w),
        strides=strides,
        padding=pads,
        dilation=dilation,
        groups=groups,
        data_layout=f"NC{SPATIAL[rank]}",
        kernel_layout=f"OI{SPATIAL[rank]}",
        out_dtype=dtype if dtype != x.dtype else None,
    )
    return ctx.emit(call, [x.dims[0], w.dims[0], *spatial], dtype)


def _depthwise(ctx: Emitter, x: Tensor, w: Tensor, groups: int, channels: int | None) -> Tensor:
    """Return depthwise weights in the form of weights of a grouped convolution.

    Relay's ``[C, M, ...]``, with the channel multiplier in the second axis, becomes ``[C * M, 1,
    ...]``.
    """
    size = ctx.literal(w.dims[1])
    if groups == 1 or ctx.literal(w.dims[0]) != groups or size in (None, 1):
        return w
    given = ctx.literal(x.dims[1])
    per_channel = channels == groups * size if given is None else given == groups
    return ctx.reshape(w, [i64(groups * size), i64(1), *w.dims[2:]]) if per_channel else w


def relaid(ctx: Emitter, x: Tensor, layout: str, out: str, wanted: str) -> Tensor:
    """Return ``x`` converted from ``layout`` to ``out``; unchanged if ``out`` is empty."""
    if out in ("", layout):
        return x
    plain, restore = channels_first(ctx, x, layout, wanted, out)
    return restore(plain)


def kernel_first(ctx: Emitter, w: Tensor, layout: str, wanted: str) -> Tensor:
    """Return the weights in the layout ``wanted``."""
    return without_blocks(ctx, w, layout, wanted, "kernel")


def dilate(ctx: Emitter, x: Tensor, strides: Sequence[int], fill: Tensor) -> Tensor:
    """Return ``x`` with ``strides - 1`` copies of ``fill`` between adjacent elements."""
    for axis, stride in enumerate(strides):
        if stride != 1:
            size = x.dims[axis]
            rank = x.rank + 1
            apart = ctx.reshape(x, [*x.dims[: axis + 1], i64(1), *x.dims[axis + 1 :]])
            pairs = [(0, stride - 1 if a == axis + 1 else 0) for a in range(rank)]
            wide = padded(ctx, apart, pairs, fill)
            flat = ctx.reshape(wide, [*x.dims[:axis], size * stride, *x.dims[axis + 1 :]])
            length = tirx.max(size * stride - (stride - 1), i64(0))
            x = sliced(ctx, flat, {axis: (i64(0), length, 1)})
    return x


def _dilate(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    x = args[0]
    fill = ctx.scalar(float(attrs["dilation_value"]), x.dtype)
    return dilate(ctx, x, steps(ctx, attrs, "strides", x.rank), fill)


# -- pooling -----------------------------------------------------------------------------------


def _pool(build: Callable[..., Any], rank: int) -> Rule:
    def rule(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
        layout = f"NC{SPATIAL[rank]}"
        x, restore = channels_first(ctx, args[0], attrs["layout"], layout, attrs["out_layout"])
        names = ("pool_size", "strides", "dilation")
        size, strides, dilation = (steps(ctx, attrs, n, rank) for n in names)
        pads = padding(ctx, attrs["padding"], rank)
        ceil, average = bool(attrs["ceil_mode"]), "count_include_pad" in attrs
        dtype = x.dtype
        if average and not is_float(dtype) and dtype not in ("int32", "int64"):
            x = cast(ctx, x, "int32" if dtype in ("bool", "int8", "uint8", "int16") else "int64")
        elif dtype == "bool":
            x = cast(ctx, x, "int8")
        spatial = []
        for d in range(rank):
            total = pads[d] + pads[d + rank]
            total += strides[d] - 1 if ceil else 0
            kernel = i64(size[d])
            spatial.append(_windows(ctx, x.dims[2 + d], kernel, strides[d], total, dilation[d]))
        extra = {"count_include_pad": bool(attrs["count_include_pad"])} if average else {}
        call = build(ctx.expr(x), size, strides, pads, dilation, ceil, layout=layout, **extra)
        return restore(cast(ctx, ctx.emit(call, [*x.dims[:2], *spatial], x.dtype), dtype))

    return rule


def _largest(ctx: Emitter, x: Tensor, axes: Sequence[int]) -> Tensor:
    dims = [i64(1) if a in axes else d for a, d in enumerate(x.dims)]
    return ctx.emit(R.max(ctx.expr(x), axes, keepdims=True), dims, x.dtype)


def _global_pool(reduce: Callable[[Emitter, Tensor, Sequence[int]], Tensor]) -> Rule:
    def rule(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
        x, layout = args[0], attrs["layout"]
        pooled = reduce(ctx, x, spatial_axes(ctx, layout, "HW"))
        return relaid(ctx, pooled, layout, attrs["out_layout"], "NCHW")

    return rule


def _adaptive_pool(average: bool, rank: int) -> Rule:
    """Return a rule that pools with windows chosen for a given output size, one axis at a time."""

    def rule(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
        x: Tensor = args[0]
        layout = attrs["layout"]
        axes = spatial_axes(ctx, layout, SPATIAL[rank])
        if average and not is_float(x.dtype):
            raise Unsupported(ctx.where(f"expected floats, found {x.dtype}; cast the operand"))
        sizes = steps(ctx, attrs, "output_size", rank) if attrs["output_size"] else []
        for axis, size in zip(axes, sizes, strict=False):
            x = _adapt_axis(ctx, x, axis, size, average)
        return relaid(ctx, x, layout, attrs["out_layout"], f"NC{SPATIAL[rank]}")

    return rule


def _adapt_axis(ctx: Emitter, x: Tensor, axis: int, size: int, average: bool) -> Tensor:
    """Pool one axis; window ``i`` covers ``i * length // size`` to ``ceil((i + 1) * length /
    size)``.
    """
    length = x.dims[axis]
    if ctx.literal(length) == size:
        return x
    ctx.solver.require_le(i64(1), length, ctx.where(f"axis {axis} must not be empty"))
    full, parts = number(ctx, length, "int64"), ctx.scalar(size, "int64")
    i = iota(ctx, i64(size))
    begin = i * full // parts
    next_ = (i + 1) * full
    up = next_ + (size - 1)
    end = up // parts
    widest = ctx.solver.simplify(tirx.floordiv(length + (size - 1), i64(size)) + 1)
    column = [i64(size), i64(1)]
    places = ctx.reshape(begin, column) + iota(ctx, widest)
    inside = places < ctx.reshape(end, column)
    windows = rows(ctx, x, places, axis)
    ones = [i64(1)] * x.rank
    mask = ctx.reshape(inside, [*ones[:axis], i64(size), widest, *ones[axis + 1 :]])
    lowest = 0.0 if average else -np.inf if is_float(x.dtype) else np.iinfo(x.dtype).min
    shown = where(mask, windows, lowest)
    dims = [*x.dims[:axis], i64(size), *x.dims[axis + 1 :]]
    build = R.sum if average else R.max
    total = ctx.emit(build(ctx.expr(shown), [axis + 1]), dims, x.dtype)
    if not average:
        return total
    count = cast(ctx, end - begin, x.dtype)
    along = ctx.reshape(count, [*ones[:axis], i64(size), *ones[axis + 1 :]])
    return total / along


# -- padding -----------------------------------------------------------------------------------

_PAD_MODES = {"constant": "constant", "edge": "replicate", "reflect": "reflect"}


def _pad(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    x, fill = args[0], args[1] if len(args) > 1 else ctx.scalar(0, args[0].dtype)
    return _pad_with(ctx, x, [tuple(p) for p in attrs["pad_width"]], fill, attrs["pad_mode"])


def _dyn_pad(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    """Return a padding with run-time widths; as with literal widths, negative widths crop."""
    x, widths, fill = args
    mode = attrs["pad_mode"]
    items = ctx.shape_arg(widths, "the pad widths")
    pairs = [(items[2 * a], items[2 * a + 1]) for a in range(x.rank)]
    if all(is_number(w) for pair in pairs for w in pair):
        return _pad_with(ctx, x, [(int(a), int(b)) for a, b in pairs], fill, mode)
    if mode not in _PAD_MODES:
        raise Unsupported(ctx.where(f"pad_mode: expected constant, edge or reflect, found {mode}"))
    parts = [_added_and_cut(ctx, w, value_of(widths) is None) for w in items]
    x = _cut(ctx, x, [cut for _, cut in parts])
    added = [more for more, _ in parts]
    if mode != "constant":
        return borders(ctx, x, added, mode)
    return padded_by(ctx, x, [(added[2 * a], added[2 * a + 1]) for a in range(x.rank)], fill)


def _added_and_cut(ctx: Emitter, width: Any, read: bool) -> tuple[Expr, Expr]:
    """Return the numbers of elements that a pad width adds and removes; one of them is 0.

    Args:
        read: the width was read from data, as the difference of these two numbers.
    """
    if read:
        return width.a, width.b
    dim = ctx.dim(width)
    if ctx.solver.known_le(i64(0), dim):
        return dim, i64(0)
    if ctx.solver.known_le(dim, i64(0)):
        return i64(0), ctx.dim(i64(0) - dim)
    cut = ctx.dim(tirx.max(i64(0) - dim, i64(0)))
    # Written as dim + cut, so that the total size simplifies to the length plus the widths.
    return ctx.dim(dim + cut), cut


def _cut(ctx: Emitter, x: Tensor, cuts: Sequence[Expr]) -> Tensor:
    """Return ``x`` without the elements that negative widths remove; two ``cuts`` per axis."""
    extents = {}
    for axis, dim in enumerate(x.dims):
        first, last = cuts[2 * axis : 2 * axis + 2]
        if ctx.literal(first) == 0 and ctx.literal(last) == 0:
            continue
        names = [ctx.solver.name_of(e) for e in (ctx.dim(first + last), dim)]
        text = f"axis {axis} is shorter than the negative padding: it cuts {names[0]} of {names[1]}"
        ctx.solver.require(first + last <= dim, ctx.where(text), ctx.where(text))
        extents[axis] = (first, dim - first - last, 1)
    return sliced(ctx, x, extents)


def padded_by(ctx: Emitter, x: Tensor, pairs: Sequence[tuple[Expr, Expr]], fill: Tensor) -> Tensor:
    """Return ``x`` with borders of symbolic non-negative widths, by concatenation."""
    for axis, pair in enumerate(pairs):
        parts = [x]
        for after, width in enumerate(pair):
            dim = ctx.dim(width)
            if ctx.literal(dim) != 0:
                border = filled(ctx, [*x.dims[:axis], dim, *x.dims[axis + 1 :]], fill, x.dtype)
                parts.insert(len(parts) if after else 0, border)
        if len(parts) > 1:
            total = parts[0].dims[axis]
            for p in parts[1:]:
                total = total + p.dims[axis]
            call = R.concat([ctx.expr(p) for p in parts], axis)
            x = ctx.emit(call, [*x.dims[:axis], total, *x.dims[axis + 1 :]], x.dtype)
    return x


def _pad_with(ctx: Emitter, x: Tensor, pairs: Sequence[Any], fill: Tensor, mode: str) -> Tensor:
    if mode not in _PAD_MODES:
        raise Unsupported(ctx.where(f"pad_mode: expected constant, edge or reflect, found {mode}"))
    x = cropped(ctx, x, pairs)
    pairs = [tuple(max(int(w), 0) for w in pair) for pair in pairs]
    if mode == "constant":
        return padded(ctx, x, pairs, fill)
    return _mirrored(ctx, x, pairs, _PAD_MODES[mode])


def cropped(ctx: Emitter, x: Tensor, pairs: Sequence[tuple[int, int]]) -> Tensor:
    """Return ``x`` without the elements that negative widths remove."""
    extents = {}
    for axis, pair in enumerate(pairs):
        first, last = (max(-int(w), 0) for w in pair)
        if first or last:
            text = ctx.where(f"axis {axis} is shorter than the negative padding")
            ctx.solver.require_le(i64(first + last), x.dims[axis], text)
            extents[axis] = (i64(first), x.dims[axis] - (first + last), 1)
    return sliced(ctx, x, extents)


def _mirror_pad(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    mode = {"SYMMETRIC": "symmetric", "REFLECT": "reflect"}.get(attrs["mode"])
    if mode is None:
        raise Unsupported(ctx.where(f"mode: expected SYMMETRIC or REFLECT, found {attrs['mode']}"))
    pairs = [tuple(p) for p in attrs["pad_width"]]
    if any(len(p) != 2 or min(p) < 0 for p in pairs):
        raise TypeMismatch(
            ctx.where(f"pad_width: expected two widths of at least 0 for each axis, found {pairs}")
        )
    return _mirrored(ctx, args[0], pairs, mode)


def _mirrored(ctx: Emitter, x: Tensor, pairs: Sequence[tuple[int, int]], mode: str) -> Tensor:
    """Return ``x`` padded with its own elements; the padded axes must not be empty."""
    for a, pair in enumerate(pairs):
        if any(pair):
            ctx.solver.require_le(i64(1), x.dims[a], ctx.where(f"axis {a} must not be empty"))
    widths = [int(w) for pair in pairs for w in pair]
    dims = [d + sum(int(w) for w in pair) for d, pair in zip(x.dims, pairs, strict=True)]
    return ctx.emit(R.nn.pad(ctx.expr(x), widths, mode), dims, x.dtype)


def _may_pad(ctx: Emitter, literal: np.ndarray, pairs: Sequence[tuple[int, int]]) -> bool:
    wide = prod(n + int(a) + int(b) for n, (a, b) in zip(literal.shape, pairs, strict=True))
    allowed = ctx.literals.folding.allows(wide, literal.size)
    if allowed:
        ctx.literals.folding.spend(wide, literal.size)
    return allowed


def padded(ctx: Emitter, x: Tensor, pairs: Sequence[tuple[int, int]], fill: Tensor) -> Tensor:
    """Return ``x`` with borders of one value, which may be a run-time value.

    A literal is folded, unless the result is too large.
    """
    widths = [int(w) for pair in pairs for w in pair]
    if not any(widths):
        return x
    dims = [d + sum(int(w) for w in pair) for d, pair in zip(x.dims, pairs, strict=True)]
    if fill.constant is not None:
        value = fill.constant.reshape(()).item()
        if x.constant is not None and min(widths) >= 0 and _may_pad(ctx, x.constant, pairs):
            wide = np.pad(x.constant, list(pairs), constant_values=value)
            return ctx.constant(wide.astype(x.constant.dtype))
        return ctx.emit(R.nn.pad(ctx.expr(x), widths, "constant", value), dims, x.dtype)
    ctx.require_eq(product(fill.dims), i64(1), "the pad value must be one element")
    inner = filled(ctx, x.dims, ctx.scalar(1, "bool"), "bool")
    inside = ctx.emit(R.nn.pad(ctx.expr(inner), widths, "constant", 0.0), dims, "bool")
    bare = ctx.emit(R.nn.pad(ctx.expr(x), widths, "constant", 0.0), dims, x.dtype)
    return where(inside, bare, cast(ctx, ctx.reshape(fill, []), x.dtype))


MOST_NEIGHBOURS = 255  # limits the emitted code: each element of the window is one operator


def _lrn(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    """Return ``x / (bias + alpha / size * sum) ** beta``, the sum over squares in a window."""
    x: Tensor = args[0]
    size = int(attrs["size"])
    axis = ctx.axis(attrs["axis"], x.rank)
    if not 1 <= size <= MOST_NEIGHBOURS:
        what = f"size: expected 1 to {MOST_NEIGHBOURS} entries, found {size}"
        raise Unsupported(ctx.where(what))
    reach = size // 2
    widths = [w for a in range(x.rank) for w in ((reach, reach) if a == axis else (0, 0))]
    dims = [d + 2 * reach if a == axis else d for a, d in enumerate(x.dims)]
    square = x * x
    padded = ctx.emit(R.nn.pad(ctx.expr(square), widths), dims, x.dtype)
    total = sliced(ctx, padded, {axis: (i64(0), x.dims[axis], 1)})
    for k in range(1, 2 * reach + 1):
        total = total + sliced(ctx, padded, {axis: (i64(k), x.dims[axis], 1)})
    scaled = total * (float(attrs["alpha"]) / size)
    base = scaled + float(attrs["bias"])
    norm = base ** float(attrs["beta"])
    return x / norm


LOWER: Mapping[str, Rule] = {
    "nn.conv1d": _conv(R.nn.conv1d, 1),
    "nn.conv2d": _conv(R.nn.conv2d, 2),
    "nn.conv3d": _conv(R.nn.conv3d, 3),
    "nn.dilate": _dilate,
    "nn.lrn": on_floats(_lrn),
    "nn.max_pool1d": _pool(R.nn.max_pool1d, 1),
    "nn.max_pool2d": _pool(R.nn.max_pool2d, 2),
    "nn.max_pool3d": _pool(R.nn.max_pool3d, 3),
    "nn.avg_pool1d": on_numbers(_pool(R.nn.avg_pool1d, 1)),
    "nn.avg_pool2d": on_numbers(_pool(R.nn.avg_pool2d, 2)),
    "nn.avg_pool3d": on_numbers(_pool(R.nn.avg_pool3d, 3)),
    "nn.global_avg_pool2d": on_numbers(_global_pool(averaged)),
    "nn.global_max_pool2d": _global_pool(_largest),
    "nn.adaptive_avg_pool1d": on_numbers(_adaptive_pool(True, 1)),
    "nn.adaptive_avg_pool2d": on_numbers(_adaptive_pool(True, 2)),
    "nn.adaptive_avg_pool3d": on_numbers(_adaptive_pool(True, 3)),
    "nn.adaptive_max_pool1d": _adaptive_pool(False, 1),
    "nn.adaptive_max_pool2d": _adaptive_pool(False, 2),
    "nn.adaptive_max_pool3d": _adaptive_pool(False, 3),
    "nn.pad": _pad,
    "dyn.nn.pad": _dyn_pad,
    "nn.mirror_pad": _mirror_pad,
}
