"""Import rules: slices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tvm import tirx
from tvm.relax import op as R

from tvm_disc.errors import TypeMismatch, Unsupported, counted
from tvm_disc.relay.importer.context import Emitter, i64
from tvm_disc.relay.importer.lowering.tensor import Args, Attrs, Rule, integer_vector, number
from tvm_disc.relay.importer.tensor import Tensor
from tvm_disc.relay.importer.values import is_number, slice_lists, value_of
from tvm_disc.relay.kernel_ops import write_slice_call
from tvm_disc.relay.ops.algebra import maximum, minimum, where
from tvm_disc.typing import Expr, Size

BEYOND = 1 << 60  # larger than any dim
I64 = "int64"


def sliced(ctx: Emitter, x: Tensor, extents: Mapping[int, tuple[Size, Size, int]]) -> Tensor:
    """Return a slice given as (begin, length, stride) by axis, all within the operand.

    If begin and length are literals and the axis is not, a guard requires enough elements.
    """
    dims = list(x.dims)
    axes, begins, ends, strides = [], [], [], []
    for axis, (begin, length, stride) in extents.items():
        length = ctx.solver.simplify(length)
        begin = ctx.solver.simplify(begin)
        if stride == 1 and ctx.literal(begin) == 0 and ctx.same(length, dims[axis]):
            continue
        _require_elements(ctx, dims[axis], (begin, length, stride), axis)
        dims[axis] = length
        axes.append(axis)
        begins.append(begin)
        ends.append(ctx.solver.simplify(begin + length * stride))
        strides.append(i64(stride))
    if not axes:
        return x
    call = R.strided_slice(ctx.expr(x), axes, begins, ends, strides, assume_inbound=True)
    return ctx.emit(call, dims, x.dtype)


def _require_elements(ctx: Emitter, dim: Size, extent: tuple[Expr, Expr, int], axis: int) -> None:
    begin, length = (ctx.literal(e) for e in extent[:2])
    if begin is None or not length:
        return
    most = max(begin, begin + (length - 1) * extent[2]) + 1
    reason = ctx.where(f"axis {axis} must have {most} elements or more")
    ctx.solver.require_le(i64(most), dim, reason)


def strided_slice(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    """Return a slice by literals, shape values, or bounds read from data; strides must be known."""
    x = args[0]
    if len(args) > 1 and any(value_of(a) is None for a in args[1:3]):
        return sliced(ctx, x, _read_extents(ctx, x, args[1:4], attrs))
    if len(args) > 1:
        begin, end, strides = (*(ctx.shape_arg(a, "a slice bound") for a in args[1:4]), [])[:3]
    else:
        begin, end = list(attrs["begin"]), list(attrs["end"])
        strides = list(attrs["strides"] or [])
    sized = attrs["slice_mode"] == "size"
    extents: dict[int, tuple[Any, Any, int]] = {}
    for given, first, last, step in slice_lists(ctx, begin, end, strides, attrs["axes"]):
        axis = ctx.axis(given, x.rank)
        if axis in extents:
            raise TypeMismatch(ctx.where(f"axes: expected different axes, found axis {axis} twice"))
        if sized:
            extents[axis] = _sized_extent(ctx, x.dims[axis], first, last)
        elif is_number(step):
            extents[axis] = slice_extent(ctx, x.dims[axis], first, last, int(step))
        else:
            raise Unsupported(ctx.where("strides: expected numbers that are known at compile time"))
    return sliced(ctx, x, extents)


def _read_extents(
    ctx: Emitter, x: Tensor, args: Args, attrs: Attrs
) -> dict[int, tuple[Size, Size, int]]:
    """Return (begin, length, stride) by axis for bounds that are read from data.

    Emitted operators wrap and clamp the bounds. The results are then read as symbols: a position
    within the axis, and a length that fits after it. Later formulas therefore stay short.
    """
    begin, end = (integer_vector(ctx, a, "a slice bound") for a in args[:2])
    strides = ctx.shape_arg(args[2], "the strides", limited=False) if len(args) > 2 else [1]
    count = max(ctx.static(t.dims[0], "the number of slice bounds") for t in (begin, end))
    given = attrs["axes"]
    axes = [ctx.axis(a, x.rank) for a in (range(count) if given is None else given)]
    strides = list(strides) * len(axes) if len(strides) == 1 else list(strides)
    if len(set(axes)) < len(axes) or not len(axes) == count == len(strides):
        given = f"{counted(count, 'bound')} and {counted(len(strides), 'stride')}"
        raise TypeMismatch(
            ctx.where(
                f"expected one bound and stride for each of different axes {axes}, found {given}"
            )
        )
    if not all(is_number(s) for s in strides):
        raise Unsupported(ctx.where("strides: expected numbers that are known at compile time"))
    pairs = []
    for k, axis in enumerate(axes):
        one, other = (
            ctx.reshape(sliced(ctx, t, {0: (i64(k), i64(1), 1)}), []) for t in (begin, end)
        )
        sized = attrs["slice_mode"] == "size"
        step = 1 if sized else int(strides[k])
        pairs.append(
            _extent_in_memory(ctx, number(ctx, x.dims[axis], I64), (one, other), step, sized)
        )
    flat = [ctx.reshape(t, [i64(1)]) for pair in pairs for t in pair]
    joined = ctx.emit(R.concat([ctx.expr(t) for t in flat], 0), [i64(len(flat))], I64)
    found = ctx.size_arg(joined, "a slice bound")
    extents = {}
    for k, axis in enumerate(axes):
        first, length = found[2 * k], found[2 * k + 1]
        step = 1 if attrs["slice_mode"] == "size" else int(strides[k])
        if step == 1:
            ctx.solver.assume(first + length <= x.dims[axis], "a slice must be within its operand")
        extents[axis] = (first, length, step)
    return extents


def _extent_in_memory(
    ctx: Emitter, size: Tensor, bounds: tuple[Tensor, Tensor], step: int, sized: bool
) -> tuple[Tensor, Tensor]:
    """Return (begin, length) along an axis of ``size`` elements; the begin of an empty slice is
    0.
    """
    if step == 0:
        raise TypeMismatch(ctx.where("strides: expected numbers other than 0, found 0"))
    zero, one = ctx.scalar(0, I64), ctx.scalar(1, I64)
    far = [ctx.scalar(v, I64) for v in (-BEYOND, BEYOND)]
    near = [minimum(maximum(b, far[0]), far[1]) for b in bounds]

    def wrapped(x: Tensor) -> Tensor:
        below = x < zero
        return where(below, x + size, x)

    def inside(x: Tensor, low: Tensor, high: Tensor) -> Tensor:
        return minimum(maximum(x, low), high)

    begin, end = wrapped(near[0]), near[1]
    if step > 0:
        first = inside(begin, zero, size)
        if sized:
            rest = end < zero
            last = where(rest, size, begin + end)
        else:
            last = wrapped(end)
        last = inside(last, zero, size)
        span = last - first
    else:
        top = size - one
        first, last = (inside(x, ctx.scalar(-1, I64), top) for x in (begin, wrapped(end)))
        span = first - last
    stride = abs(step)
    span = maximum(span, zero) + (stride - 1)
    length = span // stride
    some = length > zero
    return where(some, first, zero), length


def slice_extent(
    ctx: Emitter, dim: Size, begin: Size, end: Size, step: int
) -> tuple[Expr, Expr, int]:
    """Return (begin, length, stride) after NumPy's wrapping and clamping.

    Raises:
        TypeMismatch: the step is zero.
    """
    if step == 0:
        raise TypeMismatch(ctx.where("strides: expected numbers other than 0, found 0"))
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


def _sized_extent(ctx: Emitter, dim: Size, begin: Size, size: Size) -> tuple[Expr, Expr, int]:
    """Return (begin, length, stride) of a slice given by its size; a negative size means the
    rest.
    """
    first = i64(0) if begin is None else _position(ctx, begin, dim)
    if size is None or (is_number(size) and size < 0):
        last = dim
    else:
        # Equivalent to first + size, which might overflow.
        last = first + tirx.min(ctx.dim(size), dim - first)
        if not is_number(size):
            last = tirx.Select(ctx.dim(size) < 0, dim, last)
    low, high = (_clamped(ctx, p, i64(0), dim) for p in (first, last))
    return low, tirx.max(high - low, i64(0)), 1


def _bound(ctx: Emitter, value: Size, dim: object, low: object, high: object) -> Any:
    if is_number(value) and abs(int(value)) >= 2**31 - 1:
        return high if value > 0 else low
    return _clamped(ctx, _position(ctx, value, dim), low, high)


def _position(ctx: Emitter, value: Size, dim: Any) -> Any:
    """Return a position; a negative one counts from the end and is wrapped once."""
    position = ctx.dim(value)
    if is_number(value):
        return dim + int(value) if value < 0 else position
    if ctx.solver.known_le(i64(0), position) is True:
        return position
    return tirx.Select(position < 0, position + dim, position)


def _clamped(ctx: Emitter, position: Expr | int, low: Any, high: Any) -> Any:
    return ctx.solver.simplify(tirx.min(tirx.max(position, low), high))


def _slice_like(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    x, like = args
    extents = {}
    for a in attrs["axes"] or range(min(x.rank, like.rank)):
        axis = ctx.axis(a, x.rank)
        if axis >= like.rank:
            raise TypeMismatch(
                ctx.where(
                    f"axes: expected axes of the second operand, which has rank {like.rank}; "
                    f"found {a}, which is axis {axis} of the first operand"
                )
            )
        ctx.solver.require_le(like.dims[axis], x.dims[axis], ctx.where(f"axis {axis} is sliced"))
        extents[axis] = (i64(0), like.dims[axis], 1)
    return sliced(ctx, x, extents)


def _write_slice(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    """Return the first operand, with a record of how it is made of the others."""
    selected: Tensor = args[0]
    if value_of(selected) is not None:
        return selected
    along = [ctx.axis(a, selected.rank) for a in attrs["axes"]]
    parts = [ctx.expr(t) for t in args]
    call = write_slice_call(parts, along, bool(attrs["wraps"]))
    return ctx.emit(call, selected.dims, selected.dtype)


LOWER: Mapping[str, Rule] = {
    "write_slice": _write_slice,
    "strided_slice": strided_slice,
    "slice_like": _slice_like,
}
