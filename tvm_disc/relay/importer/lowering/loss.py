"""Import rules: losses, gradients, and a buffer of the latest elements."""

from __future__ import annotations

from collections.abc import Mapping

from tvm import tirx
from tvm.relax import op as R

from tvm_disc.errors import TypeMismatch, Unsupported
from tvm_disc.relay.importer.context import Emitter, i64, product
from tvm_disc.relay.importer.lowering.slice import sliced
from tvm_disc.relay.importer.lowering.tensor import (
    Args,
    Attrs,
    Rule,
    number,
    on_floats,
    on_numbers,
    reduction,
)
from tvm_disc.relay.importer.lowering.transform import channels_first, permute
from tvm_disc.relay.importer.lowering.window import (
    convolve,
    padding,
    per_axis,
    steps,
    window_extent,
)
from tvm_disc.relay.importer.tensor import Tensor
from tvm_disc.relay.kernel_ops import kernel_call
from tvm_disc.relay.ops.algebra import where


def _sum(ctx: Emitter, x: Tensor) -> Tensor:
    """Return the sum of all elements."""
    flat = ctx.reshape(x, [product(x.dims)])
    total: Tensor = reduction(R.sum)(
        ctx, [flat], {"axis": None, "keepdims": False, "exclude": False}
    )
    return total


def _negated_mean(ctx: Emitter, x: Tensor, count: Tensor) -> Tensor:
    return -(_sum(ctx, x) / count)


def _cross_entropy(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    """Return ``-sum(log(predictions) * targets) / batch``."""
    x, targets = args
    _same_shape(ctx, x, targets)
    logs = ctx.apply("log", x)
    return _negated_mean(ctx, logs * targets, number(ctx, x.dims[0], x.dtype))


def _cross_entropy_with_logits(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    """Return ``-sum(predictions * targets) / batch``, where the predictions are logarithms."""
    x, targets = args
    _same_shape(ctx, x, targets)
    return _negated_mean(ctx, x * targets, number(ctx, x.dims[0], x.dtype))


def _same_shape(ctx: Emitter, x: Tensor, y: Tensor) -> None:
    ctx.same_dtype([x, y])
    if x.rank != y.rank:
        raise TypeMismatch(
            ctx.where(f"expected operands of the same rank, found ranks {x.rank} and {y.rank}")
        )
    for a, (d, e) in enumerate(zip(x.dims, y.dims, strict=True)):
        ctx.require_eq(d, e, f"axis {a} of both operands must have the same size")


def _nll_loss(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    """Return the weighted negative prediction of each target class; 0 for the ignored class."""
    x, targets, weights = args
    kind = attrs["reduction"]
    if kind not in ("none", "sum", "mean"):
        raise TypeMismatch(ctx.where(f"reduction: expected none, sum or mean, found {kind!r}"))
    axis = 1 if x.rank > 1 else 0
    if targets.rank != x.rank - 1:
        text = f"expected targets of rank {x.rank - 1}, found rank {targets.rank}"
        if x.rank == 0:
            text = "expected predictions of rank 1 or more, found rank 0"
        raise TypeMismatch(ctx.where(text))
    if "int" not in targets.dtype:
        raise TypeMismatch(ctx.where(f"expected targets of integers, found {targets.dtype}"))
    if weights.dtype != x.dtype:
        raise TypeMismatch(ctx.where(f"expected weights of {x.dtype}, found {weights.dtype}"))
    ctx.require_eq(weights.dims[0], x.dims[axis], "there must be a weight for each class")
    others = [d for a, d in enumerate(x.dims) if a != axis]
    for a, (d, e) in enumerate(zip(targets.dims, others, strict=True)):
        ctx.require_eq(d, e, f"axis {a} of data and targets must have the same size")
    line = [*x.dims[:axis], i64(1), *x.dims[axis + 1 :]]
    picks = ctx.reshape(targets, line)
    call = R.gather_elements(ctx.expr(x), ctx.expr(picks), axis)
    found = ctx.reshape(ctx.emit(call, line, x.dtype), targets.dims)
    scale = ctx.emit(R.take(ctx.expr(weights), ctx.expr(targets), 0, "clip"), targets.dims, x.dtype)
    counted = targets.not_equal(int(attrs["ignore_index"]))
    zero = ctx.scalar(0, x.dtype)
    scale = where(counted, scale, zero)
    loss: Tensor = -where(counted, found * scale, zero)
    if kind == "none" or x.rank == 1:
        return loss / scale if kind == "mean" else loss
    total = _sum(ctx, loss)
    return total / _sum(ctx, scale) if kind == "mean" else total


# -- gradients ---------------------------------------------------------------------------------


def _pool_grad(average: bool) -> Rule:
    """Return a rule for a pooling gradient.

    A window passes its gradient to its first maximum, or evenly to all elements if ``average``.
    """

    def rule(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
        gradient, data = args
        layout = str(attrs["layout"])
        x, restore = channels_first(ctx, data, layout, "NCHW")
        given, _ = channels_first(ctx, gradient, layout, "NCHW")
        ctx.same_dtype([x, given])
        if any(d != 1 for d in per_axis(attrs["dilation"], 2)):
            raise Unsupported(ctx.where(f"dilation: expected 1, found {attrs['dilation']}"))
        size, strides = (steps(ctx, attrs, n, 2) for n in ("pool_size", "strides"))
        pads = padding(ctx, attrs["padding"], 2)
        for a, what in enumerate(("batch", "channels")):
            ctx.require_eq(
                given.dims[a], x.dims[a], f"the {what} of gradient and data must be equal"
            )
        for k in range(2):
            more = pads[k] + pads[2 + k] + (strides[k] - 1 if attrs["ceil_mode"] else 0)
            count = window_extent(x.dims[2 + k], i64(size[k]), strides[k], more, 1)
            ctx.require_eq(
                given.dims[2 + k],
                count,
                f"axis {2 + k} of the gradient must have the pooled size",
            )
        call = kernel_call(
            "disc.pool_grad",
            [ctx.expr(given), ctx.expr(x)],
            x.dims,
            x.dtype,
            average=average,
            count_pads=bool(attrs.get("count_include_pad", False)),
            pool_size=tuple(size),
            strides=tuple(strides),
            padding=tuple(pads),
        )
        return restore(ctx.emit(call, x.dims, x.dtype))

    return rule


def _conv2d_backward_weight(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    """Return the weight gradient: a convolution of the input by the output gradient, with batch
    and channels exchanged, and strides and dilation exchanged.
    """
    gradient, data = args
    layout, names = str(attrs["data_layout"]), str(attrs["out_layout"]) or "OIHW"
    # Relay stores the layout of the data in ``kernel_layout``. If the attribute has its default,
    # the data has the layout of the gradient.
    own = layout if attrs["kernel_layout"] == "OIHW" else str(attrs["kernel_layout"])
    x, _ = channels_first(ctx, data, own, "NCHW")
    given, _ = channels_first(ctx, gradient, layout, "NCHW")
    if sorted(names) != sorted("OIHW"):
        raise Unsupported(ctx.where(f"out_layout: expected an order of OIHW, found {names}"))
    if attrs["kernel_size"] is None:
        raise Unsupported(
            ctx.where("kernel_size: expected the kernel's height and width, found None")
        )
    ctx.require_eq(x.dims[0], given.dims[0], "the batch sizes of both operands must be equal")
    strides, dilation, taps = (
        steps(ctx, attrs, n, 2) for n in ("strides", "dilation", "kernel_size")
    )
    window = (dilation, padding(ctx, attrs["padding"], 2), strides)
    groups = int(attrs["groups"])
    ctx.solver.require_divides(
        i64(groups), x.dims[1], ctx.where("groups must divide the number of channels")
    )
    own = ctx.solver.simplify(tirx.floordiv(x.dims[1], i64(groups)))
    # Exchange batch and channels within each group: the batch of a group becomes one channel
    # group of the convolution.
    batch, *image = (x.dims[k] for k in (0, 2, 3))
    apart = permute(ctx, ctx.reshape(x, [batch, i64(groups), own, *image]), [2, 1, 0, 3, 4])
    images = ctx.reshape(apart, [own, batch * groups, *image])
    kernel = permute(ctx, given, [1, 0, 2, 3])
    found = convolve(ctx, R.nn.conv2d, images, kernel, {**attrs, "channels": None}, window)
    for k in range(2):  # drop rows and columns beyond the kernel
        ctx.solver.require_le(
            i64(taps[k]),
            found.dims[2 + k],
            ctx.where("the kernel must not be larger than the input"),
        )
    cut = sliced(ctx, found, {2 + k: (i64(0), i64(taps[k]), 1) for k in range(2)})
    order = ["IOHW".index(c) for c in names]
    return permute(ctx, cut, order)


def _fifo_buffer(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    """Return the buffer shifted by the size of the data, with the data at its end."""
    data, buffer = args
    if data.rank != buffer.rank:
        raise TypeMismatch(
            ctx.where(f"expected a buffer of rank {data.rank}, found rank {buffer.rank}")
        )
    ctx.same_dtype([data, buffer])
    axis = ctx.axis(int(attrs["axis"]), data.rank)
    for a in range(data.rank):
        if a != axis:
            ctx.require_eq(
                data.dims[a], buffer.dims[a], f"axis {a} of both operands must have the same size"
            )
    size = data.dims[axis]
    ctx.solver.require_le(
        size, buffer.dims[axis], ctx.where("the data must not be larger than the buffer")
    )
    rest = sliced(ctx, buffer, {axis: (size, buffer.dims[axis] - size, 1)})
    call = R.concat([ctx.expr(rest), ctx.expr(data)], axis)
    return ctx.emit(call, buffer.dims, data.dtype)


LOWER: Mapping[str, Rule] = {
    "nn.cross_entropy": on_floats(_cross_entropy),
    "nn.cross_entropy_with_logits": on_floats(_cross_entropy_with_logits),
    "nn.nll_loss": _nll_loss,
    "nn.max_pool2d_grad": on_numbers(_pool_grad(False)),
    "nn.avg_pool2d_grad": on_numbers(_pool_grad(True)),
    "nn.conv2d_backward_weight": _conv2d_backward_weight,
    "nn.fifo_buffer": _fifo_buffer,
}
