"""Import rules: slices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tvm import tirx
from tvm.relax import op as R

from tvm_disc.errors import TypeMismatch, Unsupported
from tvm_disc.relay.importer.context import Emitter, i64
from tvm_disc.relay.importer.lowering.tensor import Args, Attrs, Rule, apply, cast
from tvm_disc.relay.importer.tensor import Tensor
from tvm_disc.relay.importer.values import is_number, slice_lists, value_of

BEYOND = 1 << 60  # more than any dim


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
        begin, end, strides = (*(_numbers(ctx, a) for a in args[1:4]), [])[:3]
    else:
        begin, end = list(attrs["begin"]), list(attrs["end"])
        strides = list(attrs["strides"] or [])
    sized = attrs["slice_mode"] == "size"
    where: dict[int, tuple[Any, Any, int]] = {}
    for given, first, last, step in slice_lists(ctx, begin, end, strides, attrs["axes"]):
        axis = ctx.axis(given, x.rank)
        if axis in where:
            raise TypeMismatch(ctx.where(f"axis {axis} is cut twice"))
        if sized:
            where[axis] = _sized_extent(ctx, x.dims[axis], first, last)
        elif is_number(step):
            where[axis] = slice_extent(ctx, x.dims[axis], first, last, int(step))
        else:
            raise Unsupported(ctx.where("a stride that is known only at run time"))
    return sliced(ctx, x, where)


def _numbers(ctx: Emitter, bounds: Tensor) -> list[Any]:
    """The elements of a tensor of bounds; those beyond any operand are brought nearer, so that
    no sum of them overflows."""
    if value_of(bounds) is not None or "int" not in bounds.dtype:
        return ctx.shape_arg(bounds, "a slice bound", limited=False)
    wide = cast(ctx, bounds, "int64")
    low, high = (ctx.scalar(v, "int64") for v in (-BEYOND, BEYOND))
    near = apply(ctx, R.minimum, apply(ctx, R.maximum, wide, low), high)
    return ctx.read_numbers(near, "a slice bound", limited=False)


def slice_extent(ctx: Emitter, dim: Any, begin: Any, end: Any, step: int) -> tuple[Any, Any, int]:
    """(begin, length, stride) after NumPy's wrapping and clamping.

    Raises:
        TypeMismatch: the step is zero.
    """
    if step == 0:
        raise TypeMismatch(ctx.where("a slice step of 0"))
    low, high = (i64(0), dim) if step > 0 else (i64(-1), dim - 1)
    first, last = (low, high) if step > 0 else (high, low)
    if begin is not None:
        first = _bound(ctx, begin, dim, low, high)
    if end is not None:
        last = _bound(ctx, end, dim, low, high)
    length = tirx.max(last - first if step > 0 else first - last, i64(0))
    k = abs(step)
    if k > 1:
        length = tirx.floordiv(length + (k - 1), i64(k))
    return first, length, step


def _sized_extent(ctx: Emitter, dim: Any, begin: Any, size: Any) -> tuple[Any, Any, int]:
    """(begin, length, stride) of a slice given by its length; a negative one means all the rest."""
    first = i64(0) if begin is None else _position(ctx, begin, dim)
    if size is None or (is_number(size) and size < 0):
        last = dim
    else:
        # As first + size, which might overflow.
        last = first + tirx.min(ctx.dim(size), dim - first)
        if not is_number(size):
            last = tirx.Select(ctx.dim(size) < 0, dim, last)
    low, high = (_clamped(ctx, p, i64(0), dim) for p in (first, last))
    return low, tirx.max(high - low, i64(0)), 1


def _bound(ctx: Emitter, value: Any, dim: Any, low: Any, high: Any) -> Any:
    if is_number(value) and abs(int(value)) >= 2**31 - 1:
        return high if value > 0 else low
    return _clamped(ctx, _position(ctx, value, dim), low, high)


def _position(ctx: Emitter, value: Any, dim: Any) -> Any:
    """A position that counts from the end where it is negative, wrapped once."""
    position = ctx.dim(value)
    if is_number(value):
        return dim + int(value) if value < 0 else position
    if ctx.solver.known_le(i64(0), position) is True:
        return position
    return tirx.Select(position < 0, position + dim, position)


def _clamped(ctx: Emitter, position: Any, low: Any, high: Any) -> Any:
    return ctx.solver.simplify(tirx.min(tirx.max(position, low), high))


def _slice_like(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    x, like = args
    where = {}
    for a in attrs["axes"] or range(min(x.rank, like.rank)):
        axis = ctx.axis(a, x.rank)
        if axis >= like.rank:
            raise TypeMismatch(ctx.where(f"axis {a} of a model of rank {like.rank}"))
        ctx.solver.require_le(like.dims[axis], x.dims[axis], ctx.where(f"axis {axis} is cut"))
        where[axis] = (i64(0), like.dims[axis], 1)
    return sliced(ctx, x, where)


LOWER: Mapping[str, Rule] = {
    "strided_slice": _strided_slice,
    "dyn.strided_slice": _strided_slice,
    "slice_like": _slice_like,
}
