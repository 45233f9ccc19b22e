"""Import rules: slices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tvm import tirx
from tvm.relax import op as R

from tvm_disc.errors import TypeMismatch, Unsupported
from tvm_disc.relay.importer.context import Emitter, i64
from tvm_disc.relay.importer.lower_tensor import Args, Attrs, Rule
from tvm_disc.relay.importer.tensor import Tensor
from tvm_disc.relay.importer.values import is_number


def sliced(ctx: Emitter, x: Tensor, where: Mapping[int, tuple[Any, Any, int]]) -> Tensor:
    """A slice given per axis as (begin, length, stride), all inside the operand."""
    dims = list(x.dims)
    axes, begins, ends, strides = [], [], [], []
    for axis, (begin, length, stride) in where.items():
        length = ctx.solver.simplify(length)
        begin = ctx.solver.simplify(begin)
        if stride == 1 and ctx.literal(begin) == 0 and ctx.same(length, dims[axis]):
            continue
        dims[axis] = length
        axes.append(axis)
        begins.append(begin)
        ends.append(ctx.solver.simplify(begin + length * stride))
        strides.append(i64(stride))
    if not axes:
        return x
    call = R.strided_slice(ctx.expr(x), axes, begins, ends, strides, assume_inbound=True)
    return ctx.emit(call, dims, x.dtype)


def _strided_slice(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    x = args[0]
    if len(args) > 1:
        bounds = [ctx.shape_arg(a, "a slice bound") for a in args[1:4]]
        begin, end, strides = (*bounds, [])[:3]
    else:
        begin, end = list(attrs["begin"]), list(attrs["end"])
        strides = list(attrs["strides"] or [])
    axes = [ctx.axis(a, x.rank) for a in (attrs["axes"] or range(len(begin)))]
    strides = strides * len(axes) if len(strides) == 1 else strides
    strides = strides + [1] * (len(axes) - len(strides))
    where = {}
    for k, axis in enumerate(axes):
        size_mode = attrs["slice_mode"] == "size"
        if not size_mode and not is_number(strides[k]):
            raise Unsupported(ctx.where("a stride that is known only at run time"))
        step = 1 if size_mode else int(strides[k])
        stop: Any = None if k >= len(end) else end[k]
        start = 0 if begin[k] is None and step > 0 else begin[k]
        if size_mode:
            start, stop = _sized(ctx, x.dims[axis], start, stop)
        where[axis] = slice_extent(ctx, x.dims[axis], start, stop, step)
    return sliced(ctx, x, where)


def _sized(ctx: Emitter, dim: Any, begin: Any, size: Any) -> tuple[Any, Any]:
    """(begin, end) of a slice given by its length; a negative length means up to the border."""
    if not is_number(size) or not is_number(begin):
        first, length = ctx.dim(begin), ctx.dim(size)
        first = tirx.Select(first < 0, first + dim, first)
        return first, tirx.Select(length < 0, dim, first + tirx.max(length, i64(0)))
    if size < 0:
        return begin, None
    if begin >= 0 or begin + size < 0:
        return begin, begin + size
    # From -2 on, 2 elements end at the border, not at position 0.
    return begin, dim + int(begin) + int(size)


def slice_extent(ctx: Emitter, dim: Any, begin: Any, end: Any, step: int) -> tuple[Any, Any, int]:
    """(begin, length, stride) after NumPy's wrapping and clamping.

    Raises:
        TypeMismatch: the step is zero.
    """
    if step == 0:
        raise TypeMismatch(ctx.where("a slice step of 0"))
    low, high = (i64(0), dim) if step > 0 else (i64(-1), dim - 1)
    first = high if begin is None else _bound(ctx, begin, dim, low, high)
    last = high if end is None else _bound(ctx, end, dim, low, high)
    if end is None and step < 0:
        last = i64(-1)
    span = last - first if step > 0 else first - last
    k = abs(step)
    length = tirx.max(span, i64(0))
    if k > 1:
        length = tirx.floordiv(length + (k - 1), i64(k))
    return first, length, step


def _bound(ctx: Emitter, value: Any, dim: Any, low: Any, high: Any) -> Any:
    if is_number(value) and abs(int(value)) >= 2**31 - 1:
        return high if value > 0 else low
    position = ctx.dim(value)
    if is_number(value) and value < 0:
        position = dim + int(value)
    elif not is_number(value) and ctx.solver.known_le(i64(0), position) is not True:
        position = tirx.Select(position < 0, position + dim, position)
    return ctx.solver.simplify(tirx.min(tirx.max(position, low), high))


def _slice_like(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    x, like = args
    axes = attrs["axes"] or range(x.rank)
    where = {}
    for a in (ctx.axis(a, x.rank) for a in axes):
        ctx.solver.require_le(like.dims[a], x.dims[a], ctx.where(f"axis {a} is cut"))
        where[a] = (i64(0), like.dims[a], 1)
    return sliced(ctx, x, where)


LOWER: Mapping[str, Rule] = {
    "strided_slice": _strided_slice,
    "dyn.strided_slice": _strided_slice,
    "slice_like": _slice_like,
}
