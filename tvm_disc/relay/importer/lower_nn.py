"""Import rules: contractions, convolutions, pooling, normalisation and activations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tvm import tirx
from tvm.relax import op as R

from tvm_disc.errors import Unsupported
from tvm_disc.relay.importer.context import Emitter, i64
from tvm_disc.relay.importer.lower_tensor import Args, Attrs, Rule, filled, unary
from tvm_disc.relay.importer.lower_transform import permute
from tvm_disc.relay.importer.tensor import Tensor


def matmul(ctx: Emitter, a: Tensor, b: Tensor, dtype: str) -> Tensor:
    """``a @ b`` with the contraction dims required equal."""
    ctx.same_dtype([a, b])
    ctx.require_eq(a.dims[-1], b.dims[-2], "the contraction dims must agree")
    batch = ctx.broadcast_dims([a.dims[:-2], b.dims[:-2]]) if max(a.rank, b.rank) > 2 else []
    a = ctx.broadcast(a, [*batch, *a.dims[-2:]]) if a.rank > 2 else a
    b = ctx.broadcast(b, [*batch, *b.dims[-2:]]) if b.rank > 2 else b
    call = R.matmul(ctx.expr(a), ctx.expr(b), dtype if dtype != a.dtype else None)
    return ctx.emit(call, [*batch, a.dims[-2], b.dims[-1]], dtype)


def _last_two(ctx: Emitter, x: Tensor, swap: bool) -> Tensor:
    if not swap:
        return x
    return permute(ctx, x, [*range(x.rank - 2), x.rank - 1, x.rank - 2])


def _out_dtype(attrs: Attrs, x: Tensor) -> str:
    return attrs["out_dtype"] or x.dtype


def _dense(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    x, w = args
    return matmul(ctx, x, _last_two(ctx, w, True), _out_dtype(attrs, x))


def _matmul(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    a = _last_two(ctx, args[0], bool(attrs["transpose_a"]))
    b = _last_two(ctx, args[1], bool(attrs["transpose_b"]))
    return matmul(ctx, a, b, _out_dtype(attrs, a))


def _bias_add(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    x, bias = args
    axis = ctx.axis(attrs["axis"], x.rank)
    ctx.require_eq(x.dims[axis], bias.dims[0], f"the bias must fit axis {axis}")
    if axis != x.rank - 1:
        bias = along(ctx, bias, axis, x.rank)
    return ctx.emit(R.add(ctx.expr(x), ctx.expr(bias)), x.dims, x.dtype)


def along(ctx: Emitter, vector: Tensor, axis: int, rank: int) -> Tensor:
    """A vector laid along ``axis`` of a tensor of rank ``rank``."""
    dims = [vector.dims[0] if a == axis else i64(1) for a in range(rank)]
    if vector.constant is not None:
        return ctx.constant(vector.constant.reshape([int(d.value) for d in dims]))
    return ctx.reshape(vector, dims)


# -- convolution and pooling -------------------------------------------------------------------


def _pair(value: Any, rank: int) -> list[int]:
    items = [value] if isinstance(value, int) else [int(v) for v in value]
    return items * rank if len(items) == 1 else items


def padding(value: Any, rank: int) -> list[int]:
    """(before..., after...) from Relay's one, ``rank`` or ``2 * rank`` numbers."""
    items = _pair(value, rank)
    return items * 2 if len(items) == rank else items


def window_extent(dim: Any, kernel: Any, stride: int, pads: int, dilation: int) -> Any:
    """``(dim + pads - dilation * (kernel - 1) - 1) // stride + 1``."""
    reach = i64(dilation) * (kernel - 1) + 1
    return tirx.floordiv(dim + pads - reach, i64(stride)) + 1


def _conv(build: Callable[..., Any], rank: int, layouts: tuple[str, str]) -> Rule:
    def rule(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
        x, w = args
        x, restore = _channels_first(ctx, x, attrs["data_layout"], layouts[0], rank)
        w = _kernel_first(ctx, w, attrs["kernel_layout"], layouts[1], rank)
        strides, dilation = _pair(attrs["strides"], rank), _pair(attrs["dilation"], rank)
        pads, groups = padding(attrs["padding"], rank), int(attrs["groups"])
        ctx.require_eq(x.dims[1], w.dims[1] * groups, "input channels must fit the kernel")
        spatial = [
            window_extent(x.dims[2 + d], w.dims[2 + d], strides[d], pads[d] + pads[d + rank], dilation[d])
            for d in range(rank)
        ]
        dtype = _out_dtype(attrs, x)
        call = build(
            ctx.expr(x),
            ctx.expr(w),
            strides=strides,
            padding=pads,
            dilation=dilation,
            groups=groups,
            data_layout=layouts[0],
            kernel_layout=layouts[1],
            out_dtype=dtype if dtype != x.dtype else None,
        )
        return restore(ctx.emit(call, [x.dims[0], w.dims[0], *spatial], dtype))

    return rule


def _channels_first(
    ctx: Emitter, x: Tensor, layout: str, wanted: str, rank: int
) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """``x`` in N, C, spatial order, and how to bring a result back."""
    if layout == wanted:
        return x, lambda y: y
    if layout == f"N{wanted[2:]}C":
        back = [0, *range(2, rank + 2), 1]
        moved = permute(ctx, x, [0, rank + 1, *range(1, rank + 1)])
        return moved, lambda y: permute(ctx, y, back)
    raise Unsupported(ctx.where(f"data layout {layout}"))


def _kernel_first(ctx: Emitter, w: Tensor, layout: str, wanted: str, rank: int) -> Tensor:
    if layout == wanted:
        return w
    if sorted(layout) == sorted(wanted):
        return permute(ctx, w, [layout.index(c) for c in wanted])
    raise Unsupported(ctx.where(f"kernel layout {layout}"))


def _pool(build: Callable[..., Any], rank: int, layout: str) -> Rule:
    def rule(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
        x, restore = _channels_first(ctx, args[0], attrs["layout"], layout, rank)
        size, strides = _pair(attrs["pool_size"], rank), _pair(attrs["strides"], rank)
        pads, dilation = padding(attrs["padding"], rank), _pair(attrs["dilation"], rank)
        ceil = bool(attrs["ceil_mode"])
        spatial = []
        for d in range(rank):
            total = pads[d] + pads[d + rank] + (strides[d] - 1 if ceil else 0)
            spatial.append(
                window_extent(x.dims[2 + d], i64(size[d]), strides[d], total, dilation[d])
            )
        extra = {"count_include_pad": bool(attrs["count_include_pad"])} if (
            "count_include_pad" in attrs
        ) else {}
        call = build(ctx.expr(x), size, strides, pads, dilation, ceil, layout=layout, **extra)
        return restore(ctx.emit(call, [*x.dims[:2], *spatial], x.dtype))

    return rule


def _global_pool(build: Callable[..., Any]) -> Rule:
    def rule(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
        x = args[0]
        spatial = [2, 3] if attrs["layout"] == "NCHW" else [1, 2]
        dims = [i64(1) if a in spatial else d for a, d in enumerate(x.dims)]
        return ctx.emit(build(ctx.expr(x), spatial, keepdims=True), dims, x.dtype)

    return rule


def _pad(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    x, fill = args[0], args[1] if len(args) > 1 else None
    if attrs["pad_mode"] != "constant":
        raise Unsupported(ctx.where(f"pad_mode {attrs['pad_mode']}"))
    value = 0.0
    if fill is not None:
        if fill.constant is None:
            raise Unsupported(ctx.where("a pad value computed at run time"))
        value = fill.constant.reshape(()).item()
    widths = [int(w) for pair in attrs["pad_width"] for w in pair]
    if any(w < 0 for w in widths):
        raise Unsupported(ctx.where("negative padding"))
    dims = [d + widths[2 * a] + widths[2 * a + 1] for a, d in enumerate(x.dims)]
    return ctx.emit(R.nn.pad(ctx.expr(x), widths, value), dims, x.dtype)


# -- normalisation and activations -------------------------------------------------------------


def _over_axis(build: Callable[..., Any]) -> Rule:
    def rule(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
        x = args[0]
        return ctx.emit(build(ctx.expr(x), ctx.axis(attrs["axis"], x.rank)), x.dims, x.dtype)

    return rule


def _layer_norm(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    x, gamma, beta = args
    axis = ctx.axis(attrs["axis"], x.rank)
    for p in (gamma, beta):
        ctx.require_eq(x.dims[axis], p.dims[0], f"scale and shift must fit axis {axis}")
    call = R.nn.layer_norm(
        ctx.expr(x),
        ctx.expr(gamma),
        ctx.expr(beta),
        axis,
        float(attrs["epsilon"]),
        bool(attrs["center"]),
        bool(attrs["scale"]),
    )
    return ctx.emit(call, x.dims, x.dtype)


def _batch_norm(ctx: Emitter, args: Args, attrs: Attrs) -> tuple[Tensor, ...]:
    """Inference: scale and shift per channel; the statistics are returned as they are."""
    x, gamma, beta, mean, variance = args
    axis = ctx.axis(attrs["axis"], x.rank)
    ctx.require_eq(x.dims[axis], mean.dims[0], f"statistics must fit axis {axis}")
    eps = ctx.scalar(float(attrs["epsilon"]), variance.dtype)
    shifted = ctx.emit(R.add(ctx.expr(variance), eps.expr), variance.dims, variance.dtype)
    scale = ctx.emit(R.rsqrt(shifted.expr), variance.dims, variance.dtype)
    if attrs["scale"]:
        scale = ctx.emit(R.multiply(scale.expr, ctx.expr(gamma)), scale.dims, scale.dtype)
    moved = ctx.emit(R.multiply(ctx.expr(mean), scale.expr), scale.dims, scale.dtype)
    shift = ctx.emit(R.negative(moved.expr), moved.dims, moved.dtype)
    if attrs["center"]:
        shift = ctx.emit(R.add(shift.expr, ctx.expr(beta)), shift.dims, shift.dtype)
    s, t = (along(ctx, v, axis, x.rank) for v in (scale, shift))
    scaled = ctx.emit(R.multiply(ctx.expr(x), ctx.expr(s)), x.dims, x.dtype)
    return ctx.emit(R.add(scaled.expr, ctx.expr(t)), x.dims, x.dtype), mean, variance


def _normalized(ctx: Emitter, x: Tensor, axes: Sequence[int], epsilon: float) -> Tensor:
    kept = [i64(1) if a in axes else d for a, d in enumerate(x.dims)]
    mean = ctx.emit(R.mean(ctx.expr(x), list(axes), keepdims=True), kept, x.dtype)
    centred = ctx.emit(R.subtract(ctx.expr(x), mean.expr), x.dims, x.dtype)
    square = ctx.emit(R.multiply(centred.expr, centred.expr), x.dims, x.dtype)
    variance = ctx.emit(R.mean(square.expr, list(axes), keepdims=True), kept, x.dtype)
    eps = ctx.scalar(epsilon, x.dtype)
    inverse = ctx.emit(R.rsqrt(ctx.emit(R.add(variance.expr, eps.expr), kept, x.dtype).expr), kept, x.dtype)
    return ctx.emit(R.multiply(centred.expr, inverse.expr), x.dims, x.dtype)


def _affine(ctx: Emitter, y: Tensor, args: Args, axis: int, attrs: Attrs) -> Tensor:
    gamma, beta = (along(ctx, p, axis, y.rank) for p in args)
    if attrs["scale"]:
        y = ctx.emit(R.multiply(ctx.expr(y), ctx.expr(gamma)), y.dims, y.dtype)
    if attrs["center"]:
        y = ctx.emit(R.add(ctx.expr(y), ctx.expr(beta)), y.dims, y.dtype)
    return y


def _instance_norm(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    x, axis = args[0], ctx.axis(attrs["axis"], args[0].rank)
    axes = [a for a in range(1, x.rank) if a != axis]
    y = _normalized(ctx, x, axes, float(attrs["epsilon"]))
    return _affine(ctx, y, args[1:], axis, attrs)


def _group_norm(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    x, axis, groups = args[0], ctx.axis(attrs["axis"], args[0].rank), int(attrs["num_groups"])
    if axis != 1:
        raise Unsupported(ctx.where(f"group norm over axis {axis}"))
    ctx.solver.require_divides(i64(groups), x.dims[1], ctx.where("groups must divide channels"))
    size = ctx.solver.simplify(tirx.floordiv(x.dims[1], i64(groups)))
    split = ctx.reshape(x, [x.dims[0], i64(groups), size, *x.dims[2:]])
    y = _normalized(ctx, split, list(range(2, split.rank)), float(attrs["epsilon"]))
    return _affine(ctx, ctx.reshape(y, x.dims), args[1:], axis, attrs)


def _l2_normalize(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    x = args[0]
    axes = [ctx.axis(a, x.rank) for a in attrs["axis"] or range(x.rank)]
    kept = [i64(1) if a in axes else d for a, d in enumerate(x.dims)]
    square = ctx.emit(R.multiply(ctx.expr(x), ctx.expr(x)), x.dims, x.dtype)
    total = ctx.emit(R.sum(square.expr, axes, keepdims=True), kept, x.dtype)
    eps = ctx.scalar(float(attrs["eps"]), x.dtype)
    floor = ctx.emit(R.maximum(total.expr, eps.expr), kept, x.dtype)
    norm = ctx.emit(R.sqrt(floor.expr), kept, x.dtype)
    return ctx.emit(R.divide(ctx.expr(x), norm.expr), x.dims, x.dtype)


def _leaky_relu(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    x = args[0]
    return ctx.emit(R.nn.leakyrelu(ctx.expr(x), float(attrs["alpha"])), x.dims, x.dtype)


def _prelu(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    x, slope = args
    slope = along(ctx, slope, ctx.axis(attrs["axis"], x.rank), x.rank)
    zero = ctx.scalar(0, x.dtype)
    positive = ctx.emit(R.greater(ctx.expr(x), zero.expr), x.dims, "bool")
    scaled = ctx.emit(R.multiply(ctx.expr(x), ctx.expr(slope)), x.dims, x.dtype)
    return ctx.emit(R.where(positive.expr, ctx.expr(x), scaled.expr), x.dims, x.dtype)


def _dropout(ctx: Emitter, args: Args, attrs: Attrs) -> tuple[Tensor, Tensor]:
    """Inference: the identity; the mask is all ones."""
    x = args[0]
    return x, filled(ctx, x.dims, ctx.scalar(1, x.dtype), x.dtype)




LOWER: Mapping[str, Rule] = {
    "nn.dense": _dense,
    "nn.matmul": _matmul,
    "nn.batch_matmul": _matmul,
    "nn.bias_add": _bias_add,
    "nn.conv1d": _conv(R.nn.conv1d, 1, ("NCW", "OIW")),
    "nn.conv2d": _conv(R.nn.conv2d, 2, ("NCHW", "OIHW")),
    "nn.max_pool1d": _pool(R.nn.max_pool1d, 1, "NCW"),
    "nn.max_pool2d": _pool(R.nn.max_pool2d, 2, "NCHW"),
    "nn.avg_pool1d": _pool(R.nn.avg_pool1d, 1, "NCW"),
    "nn.avg_pool2d": _pool(R.nn.avg_pool2d, 2, "NCHW"),
    "nn.global_avg_pool2d": _global_pool(R.mean),
    "nn.global_max_pool2d": _global_pool(R.max),
    "nn.pad": _pad,
    "nn.softmax": _over_axis(R.nn.softmax),
    "nn.fast_softmax": _over_axis(R.nn.softmax),
    "nn.log_softmax": _over_axis(R.nn.log_softmax),
    "nn.layer_norm": _layer_norm,
    "nn.batch_norm": _batch_norm,
    "nn.instance_norm": _instance_norm,
    "nn.group_norm": _group_norm,
    "nn.l2_normalize": _l2_normalize,
    "nn.relu": unary(R.nn.relu),
    "nn.leaky_relu": _leaky_relu,
    "nn.prelu": _prelu,
    "nn.dropout": _dropout,
}

