"""Import rules whose shape codes, axes, strides or factors are computed at run time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.relax import op as R

from tvm_disc.errors import TypeMismatch, counted
from tvm_disc.relay.importer.context import Emitter, i64, product
from tvm_disc.relay.importer.lowering.index import rows
from tvm_disc.relay.importer.lowering.numbers import (
    dims_of,
    flags,
    item,
    joined,
    literals,
    multiplied,
    total,
    under,
)
from tvm_disc.relay.importer.lowering.slice import BEYOND, strided_slice
from tvm_disc.relay.importer.lowering.tensor import (
    Args,
    Attrs,
    Rule,
    arange,
    cast,
    integer_vector,
    iota,
    number,
)
from tvm_disc.relay.importer.lowering.transform import LOWER as STATIC
from tvm_disc.relay.importer.lowering.transform import reshape_to
from tvm_disc.relay.importer.tensor import Tensor
from tvm_disc.relay.importer.values import is_number, value_of
from tvm_disc.relay.ops.algebra import clip, maximum, where

I64 = "int64"


def _as_dims(ctx: Emitter, x: Tensor, dims: Tensor, what: str) -> Tensor:
    """Return ``x`` reshaped to dims computed at run time, with a guard on the number of
    elements.
    """
    sizes = ctx.size_arg(dims, what)
    ctx.require_same_elements(x, sizes)
    return ctx.reshape(x, sizes)


def reshape(ctx: Emitter, x: Tensor, codes: Tensor, allow_zero: bool) -> Tensor:
    """Return ``x`` reshaped by run-time codes 0, -1 and -3; each code yields one dim."""
    given = integer_vector(ctx, codes, "the new shape")
    count = ctx.static(codes.dims[0] if codes.rank else i64(1), "the rank of the new shape")
    merged = flags(ctx, given.equal(-3))
    copied = given.equal(-3) if allow_zero else given.equal(0) | given.equal(-3)
    # Each -3 consumes two dims, which shifts the source axis of later codes by one.
    before = literals(ctx, [[int(b < a) for b in range(count)] for a in range(count)])
    source = total(ctx, before * under(ctx, merged, 1, count), 1)
    source = source + literals(ctx, list(range(count)))
    axes = under(ctx, literals(ctx, list(range(x.rank))), 1, x.rank)
    dims = under(ctx, dims_of(ctx, x.dims), 1, x.rank) if x.rank else None
    if dims is None:
        value = given
        rest = literals(ctx, [1])
    else:
        first = axes.equal(under(ctx, source, count, 1))
        second = axes.equal(under(ctx, source + 1, count, 1))
        second = second & under(ctx, merged, count, 1).equal(1)
        used = (first | second) & under(ctx, copied, count, 1)
        own = multiplied(ctx, where(used, dims, 1), 1)
        # A code that refers to a missing dim becomes -1, which the size guard refuses.
        beyond = copied & ((source + merged) >= x.rank)
        value = where(beyond, -1, where(copied, own, given))
        unused = total(ctx, flags(ctx, used), 0).equal(0)
        rest = where(unused, under(ctx, dims, x.rank), 1)
    inferred = given.equal(-1)
    others = where(copied | inferred, 1, given)
    guess = multiplied(ctx, rest) // maximum(multiplied(ctx, others), 1)
    return _as_dims(ctx, x, where(inferred, guess, value), "the new shape")


def expand_dims(ctx: Emitter, x: Tensor, axis: Tensor, count: int) -> Tensor:
    """Return ``x`` with ``count`` dims of 1 inserted before an axis read at run time."""
    total = x.rank + count
    place = integer_vector(ctx, axis, "the axis")
    place = where(place < 0, place + (x.rank + 1), place)
    spots = literals(ctx, list(range(total)))
    nothing = literals(ctx, [-1] * count)
    dims = dims_of(ctx, x.dims) if x.rank else None
    kept = joined(ctx, [dims, nothing]) if dims else nothing
    moved = joined(ctx, [nothing, dims]) if dims else nothing
    ones = where(spots < place + count, 1, moved)
    inside = (place >= 0) & (place < x.rank + 1)
    found = where(inside, where(spots < place, kept, ones), -1)
    what = f"axis must be between {-x.rank - 1} and {x.rank}, and the resulting sizes"
    return _as_dims(ctx, x, found, what)


def squeeze(ctx: Emitter, x: Tensor, axes: Tensor) -> Tensor:
    """Return ``x`` without the axes read at run time.

    The guard on the number of elements ensures that the removed dims are 1.
    """
    given = integer_vector(ctx, axes, "the axes")
    count = ctx.static(axes.dims[0] if axes.rank else i64(1), "the number of axes")
    if count > x.rank:
        raise TypeMismatch(ctx.where(f"expected at most {x.rank} axes to squeeze, found {count}"))
    if count == 0:
        return x
    given = where(given < 0, given + x.rank, given)
    spots = literals(ctx, list(range(x.rank)))
    equal = under(ctx, given, count, 1).equal(under(ctx, spots, 1, x.rank))
    hits = total(ctx, flags(ctx, equal), 0)
    kept = flags(ctx, hits.equal(0))
    before = literals(ctx, [[int(b < a) for b in range(x.rank)] for a in range(x.rank)])
    place = total(ctx, before * under(ctx, kept, 1, x.rank), 1)
    rank = x.rank - count
    # If an axis occurs twice or is out of range, more than ``rank`` dims remain; -1 is then
    # refused.
    fits = total(ctx, kept).equal(rank)
    if rank == 0:
        ctx.require_same_elements(x, [])
        return ctx.reshape(x, [])
    spot = under(ctx, literals(ctx, list(range(rank))), rank, 1)
    own = spot.equal(under(ctx, place, 1, x.rank)) & under(ctx, kept, 1, x.rank).equal(1)
    dims = total(ctx, where(own, under(ctx, dims_of(ctx, x.dims), 1, x.rank), 0), 1)
    what = f"the {count} axes must be different axes of rank {x.rank}, and the resulting sizes"
    return _as_dims(ctx, x, where(fits, dims, -1), what)


@dataclass(frozen=True)
class Extent:
    """A slice along one axis with run-time begin, length and step, clamped to the axis."""

    first: Tensor
    length: Any
    step: Tensor

    def places(self, ctx: Emitter) -> Tensor:
        """Return the positions of the slice's elements."""
        return iota(ctx, ctx.solver.simplify(self.length)) * self.step + self.first


def extents(
    ctx: Emitter, x: Tensor, bounds: Sequence[Tensor], axes: Any = None
) -> dict[int, Extent]:
    """Return, by axis, the extent of a slice whose begins, ends and strides are read at run time.

    Raises:
        TypeMismatch: the numbers of bounds differ, or an axis occurs twice.
    """
    count = ctx.static(product(bounds[0].dims), "the number of slice bounds")
    for b in bounds[1:]:
        ctx.require_eq(
            product(b.dims), i64(count), "begin, end and strides must have the same length"
        )
    axes = [ctx.axis(a, x.rank) for a in (range(count) if axes is None else axes)]
    if len(set(axes)) < len(axes):
        raise TypeMismatch(ctx.where(f"axes: expected different axes, found {axes}"))
    if len(axes) != count:
        raise TypeMismatch(
            ctx.where(
                f"expected one bound for each of the axes {axes}, found {counted(count, 'bound')}"
            )
        )
    begins, ends, strides = (integer_vector(ctx, b, "a slice bound") for b in bounds)
    picks = []
    found: list[Tensor] = []
    for k, axis in enumerate(axes):
        size = number(ctx, x.dims[axis], I64)
        begin, end = (clip(item(ctx, b, k), -BEYOND, BEYOND) for b in (begins, ends))
        step = clip(item(ctx, strides, k), -BEYOND, BEYOND)
        first, length, width = _extent(ctx, size, (begin, end), step)
        picks.append((axis, first, step))
        found += [length, clip(width, 0, 1)]
    sizes = ctx.size_arg(joined(ctx, found), "a slice bound") if found else []
    text = ctx.where("the slice step must not be 0")
    for moves in sizes[1::2]:
        ctx.solver.require(moves >= 1, text, text)
    return {a: Extent(f, sizes[2 * k], s) for k, (a, f, s) in enumerate(picks)}


def _extent(
    ctx: Emitter, size: Tensor, bounds: tuple[Tensor, Tensor], step: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return (begin, length, absolute step) along an axis after NumPy's wrapping and clamping."""

    def wrapped(x: Tensor) -> Tensor:
        return where(x < 0, x + size, x)

    begin, end = bounds
    up = step >= 0
    low = where(up, ctx.scalar(0, I64), -1)
    high = where(up, size, size - 1)
    first, last = (clip(wrapped(b), low, high) for b in (begin, end))
    length, width = _steps(ctx, first, last, step, up)
    return where(length.equal(0), 0, first), length, width


def _steps(
    ctx: Emitter, start: Tensor, stop: Tensor, step: Tensor, up: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the number of steps from ``start`` to before ``stop``, and the absolute step."""
    width = where(up, step, item(ctx, literals(ctx, [0]), 0) - step)
    span = maximum(where(up, stop - start, start - stop), 0)
    return (span + width - 1) // maximum(width, 1), width


def whole_range(ctx: Emitter, args: Args, dtype: str) -> Tensor:
    """Return an integer range ``start, start + step, ...`` whose step is read at run time."""
    start, stop, step = (item(ctx, integer_vector(ctx, a, "a bound of the range"), 0) for a in args)
    sizes = _steps(ctx, start, stop, step, step >= 0)
    size, wide = ctx.size_arg(joined(ctx, sizes), "the length of the range")
    text = ctx.where("the range step must not be 0")
    ctx.solver.require(wide >= 1, text, text)
    return cast(ctx, iota(ctx, ctx.solver.simplify(size)) * step + start, dtype)


def trilu(ctx: Emitter, x: Tensor, k: Tensor, upper: bool) -> Tensor:
    """Return the part above or below a diagonal whose number is read at run time."""
    high, wide = (iota(ctx, d) for d in x.dims[-2:])
    column = ctx.reshape(high, [x.dims[-2], i64(1)])
    above = wide - column
    diagonal = item(ctx, integer_vector(ctx, k, "the diagonal"), 0)
    kept = above >= diagonal if upper else above < diagonal + 1
    return where(kept, x, 0)


def borders(ctx: Emitter, x: Tensor, widths: Sequence[object], mode: str) -> Tensor:
    """Return ``x`` padded with its own elements: ``edge`` repeats the last element, ``reflect``
    mirrors without repeating it.
    """
    for axis in range(x.rank):
        before, after = (ctx.dim(w) for w in widths[2 * axis : 2 * axis + 2])
        if ctx.literal(before) == 0 and ctx.literal(after) == 0:
            continue
        dim, most = x.dims[axis], tirx.max(before, after)
        text = ctx.where(f"axis {axis} is too short for padding by {mode}")
        least = i64(1) if mode == "edge" else most + 1
        ctx.solver.require(tirx.Or(tirx.EQ(most, i64(0)), dim >= least), text, text)
        size, shift = (number(ctx, d, I64) for d in (dim, before))
        place = iota(ctx, ctx.solver.simplify(dim + before + after)) - shift
        if mode == "edge":
            place = clip(place, 0, size - 1)
        else:
            zero = item(ctx, literals(ctx, [0]), 0)
            place = where(place < 0, zero - place, place)
            place = where(place < size, place, (size - 1) * 2 - place)
        x = rows(ctx, x, place, axis)
    return x


def _dyn_reshape(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    allow_zero = bool(attrs["allowzero"])
    value = value_of(args[1])
    if value is None:
        return reshape(ctx, args[0], args[1], allow_zero)
    return reshape_to(ctx, args[0], list(value.reshape(-1)), allow_zero)


def _dyn_expand_dims(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    value, count = value_of(args[1]), int(attrs.get("num_newaxis", 1))
    if value is None or not is_number(value.reshape(-1)[0]):
        return expand_dims(ctx, args[0], args[1], count)
    given = {"axis": int(value.reshape(-1)[0]), "num_newaxis": count}
    result: Tensor = STATIC["expand_dims"](ctx, args[:1], given)
    return result


def _dyn_squeeze(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    value = value_of(args[1])
    if value is None or not all(map(is_number, value.reshape(-1))):
        return squeeze(ctx, args[0], args[1])
    axes = tuple(int(a) for a in value.reshape(-1))
    result: Tensor = STATIC["squeeze"](ctx, args[:1], {"axis": axes})
    return result


def _dyn_strided_slice(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    value = value_of(args[3]) if len(args) > 3 else None
    known = value is not None and all(map(is_number, value.reshape(-1)))
    if known or len(args) < 4 or attrs["slice_mode"] == "size":
        return strided_slice(ctx, args, attrs)
    x: Tensor = args[0]
    for axis, extent in extents(ctx, x, args[1:4], attrs["axes"]).items():
        x = rows(ctx, x, extent.places(ctx), axis)
    return x


def _trilu(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    x, k = args
    value, upper = value_of(k), bool(attrs["upper"])
    if value is None or not is_number(value.reshape(-1)[0]):
        return trilu(ctx, x, k, upper)
    build = R.triu if upper else R.tril
    return ctx.emit(build(ctx.expr(x), int(value.reshape(-1)[0])), x.dims, x.dtype)


def _arange(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    whole = all("int" in a.dtype for a in args)
    if whole and value_of(args[2]) is None:
        return whole_range(ctx, args, attrs["dtype"])
    return arange(ctx, args, attrs)


LOWER: Mapping[str, Rule] = {
    "arange": _arange,
    "dyn.expand_dims": _dyn_expand_dims,
    "dyn.reshape": _dyn_reshape,
    "dyn.squeeze": _dyn_squeeze,
    "dyn.strided_slice": _dyn_strided_slice,
    "trilu": _trilu,
}
