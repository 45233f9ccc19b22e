"""Import rules: matrix products, normalisation and activations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tvm import tirx
from tvm.relax import op as R

from tvm_disc.errors import TypeMismatch, Unsupported
from tvm_disc.relay.importer.context import Emitter, i64
from tvm_disc.relay.importer.lowering.tensor import (
    Args,
    Attrs,
    Rule,
    filled,
    on_floats,
    unary,
)
from tvm_disc.relay.importer.lowering.transform import permute
from tvm_disc.relay.importer.tensor import Tensor


def matmul(ctx: Emitter, a: Tensor, b: Tensor, dtype: str) -> Tensor:
    """Return ``a @ b`` for matrices or batches of them; the contraction dims must be equal.

    Raises:
        TypeMismatch: an operand has rank below 2.
    """
    for x in (a, b):
        if x.rank < 2:
            raise TypeMismatch(
                ctx.where(f"expected operands of rank 2 or more, found rank {x.rank}")
            )
    require_factors(ctx, a, b, dtype)
    return product_of(ctx, a, b, dtype)


def product_of(ctx: Emitter, a: Tensor, b: Tensor, dtype: str) -> Tensor:
    """Return ``a @ b`` as ``matmul`` does; an operand may also be a vector."""
    ctx.require_eq(a.dims[-1], b.dims[max(b.rank - 2, 0)], "the dims that are summed must be equal")
    batch = ctx.broadcast_dims([a.dims[:-2], b.dims[:-2]]) if max(a.rank, b.rank) > 2 else []
    a, b = (ctx.broadcast(x, [*batch, *x.dims[-2:]]) if x.rank > 2 else x for x in (a, b))
    given = dtype if not a.dtype == b.dtype == dtype else None
    call = R.matmul(ctx.expr(a), ctx.expr(b), given)
    return ctx.emit(call, [*batch, *a.dims[-2:-1], *b.dims[max(b.rank - 1, 1) :]], dtype)


def require_factors(ctx: Emitter, a: Tensor, b: Tensor, dtype: str) -> None:
    """Require that both operands have one dtype, unless both are integers and the sum is int32."""
    if dtype != "int32" or not all("int" in x.dtype for x in (a, b)):
        ctx.same_dtype([a, b])


def last_two(ctx: Emitter, x: Tensor, swap: bool) -> Tensor:
    """Return ``x`` with its last two axes swapped if ``swap``."""
    if not swap or x.rank < 2:
        return x
    return permute(ctx, x, [*range(x.rank - 2), x.rank - 1, x.rank - 2])


def _out_dtype(attrs: Attrs, x: Tensor) -> str:
    return attrs["out_dtype"] or x.dtype


def _dense(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    x, w = args
    return matmul(ctx, x, last_two(ctx, w, True), _out_dtype(attrs, x))


def _matmul(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    a = last_two(ctx, args[0], bool(attrs["transpose_a"]))
    b = last_two(ctx, args[1], bool(attrs["transpose_b"]))
    return matmul(ctx, a, b, _out_dtype(attrs, a))


def _bias_add(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    x, bias = args
    ctx.same_dtype(args)
    if bias.rank != 1:
        raise TypeMismatch(ctx.where(f"expected a bias of rank 1, found rank {bias.rank}"))
    axis = ctx.axis(attrs["axis"], x.rank)
    ctx.require_eq(
        x.dims[axis], bias.dims[0], f"the bias must have one entry per element of axis {axis}"
    )
    if axis != x.rank - 1:
        bias = along(ctx, bias, axis, x.rank)
    return ctx.emit(R.add(ctx.expr(x), ctx.expr(bias)), x.dims, x.dtype)


def along(ctx: Emitter, vector: Tensor, axis: int, rank: int) -> Tensor:
    """Return a vector reshaped to extend along ``axis`` of a tensor of rank ``rank``."""
    dims = [vector.dims[0] if a == axis else i64(1) for a in range(rank)]
    if vector.constant is not None:
        return ctx.constant(vector.constant.reshape([int(d.value) for d in dims]))
    return ctx.reshape(vector, dims)


# -- normalisation and activations -------------------------------------------------------------


def _over_axis(build: Callable[..., Any]) -> Rule:
    def rule(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
        x = args[0]
        return ctx.emit(build(ctx.expr(x), ctx.axis(attrs["axis"], x.rank)), x.dims, x.dtype)

    return rule


def _layer_norm(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    x, gamma, beta = args
    ctx.same_dtype(args)
    axis = ctx.axis(attrs["axis"], x.rank)
    for p in (gamma, beta):
        ctx.require_eq(
            x.dims[axis],
            p.dims[0],
            f"scale and shift must have one entry per element of axis {axis}",
        )
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
    """Return the inference form, a scale and shift per channel, with the statistics unchanged."""
    x, gamma, beta, mean, variance = args
    ctx.same_dtype(args)
    axis = ctx.axis(attrs["axis"], x.rank)
    for p in args[1:]:
        ctx.require_eq(
            x.dims[axis],
            p.dims[0],
            f"mean and variance must have one entry per element of axis {axis}",
        )
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
    inverse = ctx.emit(
        R.rsqrt(ctx.emit(R.add(variance.expr, eps.expr), kept, x.dtype).expr), kept, x.dtype
    )
    return ctx.emit(R.multiply(centred.expr, inverse.expr), x.dims, x.dtype)


def _affine(ctx: Emitter, y: Tensor, args: Args, axis: int, attrs: Attrs) -> Tensor:
    ctx.same_dtype([y, *args])
    for p in args:
        ctx.require_eq(
            y.dims[axis],
            p.dims[0],
            f"scale and shift must have one entry per element of axis {axis}",
        )
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
        raise Unsupported(ctx.where(f"expected axis 1, found axis {attrs['axis']}"))
    ctx.solver.require_divides(
        i64(groups), x.dims[1], ctx.where("groups must divide the number of channels")
    )
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
    ctx.same_dtype(args)
    x, slope = args
    axis = ctx.axis(attrs["axis"], x.rank)
    ctx.require_eq(
        x.dims[axis], slope.dims[0], f"there must be one slope per element of axis {axis}"
    )
    slope = along(ctx, slope, ctx.axis(attrs["axis"], x.rank), x.rank)
    zero = ctx.scalar(0, x.dtype)
    positive = ctx.emit(R.greater(ctx.expr(x), zero.expr), x.dims, "bool")
    scaled = ctx.emit(R.multiply(ctx.expr(x), ctx.expr(slope)), x.dims, x.dtype)
    return ctx.emit(R.where(positive.expr, ctx.expr(x), scaled.expr), x.dims, x.dtype)


def _dropout(ctx: Emitter, args: Args, attrs: Attrs) -> tuple[Tensor, Tensor]:
    """Return the inference form: the operand and a mask of ones."""
    x = args[0]
    return x, filled(ctx, x.dims, ctx.scalar(1, x.dtype), x.dtype)


LOWER: Mapping[str, Rule] = {
    "nn.dense": _dense,
    "nn.matmul": _matmul,
    "nn.batch_matmul": _matmul,
    "nn.bias_add": _bias_add,
    "nn.softmax": on_floats(_over_axis(R.nn.softmax)),
    "nn.fast_softmax": on_floats(_over_axis(R.nn.softmax)),
    "nn.log_softmax": on_floats(_over_axis(R.nn.log_softmax)),
    "nn.layer_norm": on_floats(_layer_norm),
    "nn.batch_norm": on_floats(_batch_norm),
    "nn.instance_norm": on_floats(_instance_norm),
    "nn.group_norm": on_floats(_group_norm),
    "nn.l2_normalize": on_floats(_l2_normalize),
    "nn.relu": unary(R.nn.relu),
    "nn.leaky_relu": _leaky_relu,
    "nn.prelu": _prelu,
    "nn.dropout": _dropout,
}
