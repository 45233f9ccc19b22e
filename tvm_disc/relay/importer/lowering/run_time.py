"""Import rules whose shape codes, axes, strides or factors are computed at run time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.relax import op as R

from tvm_disc.errors import TypeMismatch
from tvm_disc.relay.importer.context import Emitter, i64, product
from tvm_disc.relay.importer.lowering.index import rows
from tvm_disc.relay.importer.lowering.numbers import Numbers, dims_of, joined, line, literals
from tvm_disc.relay.importer.lowering.slice import BEYOND, strided_slice
from tvm_disc.relay.importer.lowering.tensor import (
    Args,
    Attrs,
    Rule,
    apply,
    arange,
    iota,
    number,
)
from tvm_disc.relay.importer.lowering.transform import LOWER as STATIC
from tvm_disc.relay.importer.lowering.transform import reshape_to
from tvm_disc.relay.importer.tensor import Tensor
from tvm_disc.relay.importer.values import is_number, value_of

I64 = "int64"


def _as_dims(ctx: Emitter, x: Tensor, dims: Numbers, what: str) -> Tensor:
    """Return ``x`` reshaped to dims computed at run time, with a guard on the number of
    elements.
    """
    sizes = dims.sizes(what)
    ctx.require_same_elements(x, sizes)
    return ctx.reshape(x, sizes)


def reshape(ctx: Emitter, x: Tensor, codes: Tensor, allow_zero: bool) -> Tensor:
    """Return ``x`` reshaped by run-time codes 0, -1 and -3; each code yields one dim."""
    given = line(ctx, codes, "the new shape")
    count = ctx.static(codes.dims[0] if codes.rank else i64(1), "the rank of the new shape")
    merged = given.equals(-3).pick(1, 0)
    copied = given.equals(-3) if allow_zero else given.equals(0) | given.equals(-3)
    # Each -3 consumes two dims, which shifts the source axis of later codes by one.
    before = literals(ctx, [[int(b < a) for b in range(count)] for a in range(count)])
    source = (before * merged.under(1, count)).sum(1) + literals(ctx, list(range(count)))
    axes = literals(ctx, list(range(x.rank))).under(1, x.rank)
    dims = dims_of(ctx, x.dims).under(1, x.rank) if x.rank else None
    if dims is None:
        value = given
        rest = literals(ctx, [1])
    else:
        first = axes.equals(source.under(count, 1))
        second = axes.equals((source + 1).under(count, 1)) & merged.under(count, 1).equals(1)
        used = (first | second) & copied.under(count, 1)
        own = used.pick(dims, 1).prod(1)
        # A code that refers to a missing dim becomes -1, which the size guard refuses.
        beyond = copied & ((source + merged) >= x.rank)
        value = beyond.pick(-1, copied.pick(own, given))
        rest = used.pick(1, 0).sum(0).equals(0).pick(dims.under(x.rank), 1)
    inferred = given.equals(-1)
    others = (copied | inferred).pick(1, given)
    guess = rest.prod() // others.prod().most(1)
    return _as_dims(ctx, x, inferred.pick(guess, value), "the new shape")


def expand_dims(ctx: Emitter, x: Tensor, axis: Tensor, count: int) -> Tensor:
    """Return ``x`` with ``count`` dims of 1 inserted before an axis read at run time."""
    total = x.rank + count
    place = line(ctx, axis, "the axis")
    place = (place < 0).pick(place + (x.rank + 1), place)
    spots = literals(ctx, list(range(total)))
    nothing = literals(ctx, [-1] * count)
    dims = dims_of(ctx, x.dims) if x.rank else None
    kept = joined([dims, nothing]) if dims else nothing
    moved = joined([nothing, dims]) if dims else nothing
    ones = (spots < place + count).pick(1, moved)
    inside = (place >= 0) & (place < x.rank + 1)
    found = inside.pick((spots < place).pick(kept, ones), -1)
    what = f"axis must be between {-x.rank - 1} and {x.rank}, and the resulting sizes"
    return _as_dims(ctx, x, found, what)


def squeeze(ctx: Emitter, x: Tensor, axes: Tensor) -> Tensor:
    """Return ``x`` without the axes read at run time.

    The guard on the number of elements ensures that the removed dims are 1.
    """
    given = line(ctx, axes, "the axes")
    count = ctx.static(axes.dims[0] if axes.rank else i64(1), "the number of axes")
    if count > x.rank:
        raise TypeMismatch(ctx.where(f"expected at most {x.rank} axes to squeeze, found {count}"))
    if count == 0:
        return x
    given = (given < 0).pick(given + x.rank, given)
    spots = literals(ctx, list(range(x.rank)))
    hits = given.under(count, 1).equals(spots.under(1, x.rank)).pick(1, 0).sum(0)
    kept = hits.equals(0).pick(1, 0)
    before = literals(ctx, [[int(b < a) for b in range(x.rank)] for a in range(x.rank)])
    place = (before * kept.under(1, x.rank)).sum(1)
    rank = x.rank - count
    # If an axis occurs twice or is out of range, more than ``rank`` dims remain; -1 is then
    # refused.
    fits = kept.sum().equals(rank)
    if rank == 0:
        ctx.require_same_elements(x, [])
        return ctx.reshape(x, [])
    spot = literals(ctx, list(range(rank))).under(rank, 1)
    own = spot.equals(place.under(1, x.rank)) & kept.under(1, x.rank).equals(1)
    dims = own.pick(dims_of(ctx, x.dims).under(1, x.rank), 0).sum(1)
    what = f"the {count} axes must be different axes of rank {x.rank}, and the resulting sizes"
    return _as_dims(ctx, x, fits.pick(dims, -1), what)


@dataclass(frozen=True)
class Extent:
    """A slice along one axis with run-time begin, length and step, clamped to the axis."""

    first: Numbers
    length: Any
    step: Numbers

    def places(self) -> Tensor:
        """Return the positions of the slice's elements."""
        count = iota(self.first.ctx, self.first.ctx.solver.simplify(self.length))
        return (Numbers(self.first.ctx, count) * self.step + self.first).tensor


def extents(
    ctx: Emitter, x: Tensor, bounds: Sequence[Tensor], axes: Any = None
) -> dict[int, Extent]:
    """Return, by axis, the extent of a slice whose begins, ends and strides are read at run time.

    Raises:
        TypeMismatch: the numbers of bounds differ, or an axis occurs twice.
    """
    count = ctx.static(product(bounds[0].dims), "the number of slice bounds")
    for b in bounds[1:]:
        ctx.require_eq(product(b.dims), i64(count), "the numbers of slice bounds must agree")
    axes = [ctx.axis(a, x.rank) for a in (range(count) if axes is None else axes)]
    if len(axes) != count or len(set(axes)) < count:
        raise TypeMismatch(
            ctx.where(f"expected one bound for each of the axes {axes}, found {count}")
        )
    begins, ends, strides = (line(ctx, b, "a slice bound") for b in bounds)
    picks = []
    found: list[Numbers] = []
    for k, axis in enumerate(axes):
        size = Numbers(ctx, number(ctx, x.dims[axis], I64))
        begin, end = (b.at(k).within(-BEYOND, BEYOND) for b in (begins, ends))
        step = strides.at(k).within(-BEYOND, BEYOND)
        first, length, width = _extent(size, (begin, end), step)
        picks.append((axis, first, step))
        found += [length, width.within(0, 1)]
    sizes = joined(found).sizes("a slice bound") if found else []
    text = ctx.where("the slice step must not be 0")
    for moves in sizes[1::2]:
        ctx.solver.require(moves >= 1, text, text)
    return {a: Extent(f, sizes[2 * k], s) for k, (a, f, s) in enumerate(picks)}


def _extent(
    size: Numbers, bounds: tuple[Numbers, Numbers], step: Numbers
) -> tuple[Numbers, Numbers, Numbers]:
    """Return (begin, length, absolute step) along an axis after NumPy's wrapping and clamping."""

    def wrapped(x: Numbers) -> Numbers:
        return (x < 0).pick(x + size, x)

    begin, end = bounds
    up = step >= 0
    low, high = up.pick(0, -1), up.pick(size, size - 1)
    first, last = (wrapped(b).within(low, high) for b in (begin, end))
    width = up.pick(step, literals(step.ctx, [0]).at(0) - step)
    span = up.pick(last - first, first - last).most(0)
    length = (span + width - 1) // width.most(1)
    return (length.equals(0)).pick(0, first), length, width


def whole_range(ctx: Emitter, args: Args, dtype: str) -> Tensor:
    """Return an integer range ``start, start + step, ...`` whose step is read at run time."""
    start, stop, step = (line(ctx, a, "a bound of the range").at(0) for a in args)
    up = step >= 0
    width = up.pick(step, literals(ctx, [0]).at(0) - step)
    span = up.pick(stop - start, start - stop).most(0)
    length = (span + width - 1) // width.most(1)
    size, wide = joined([length, width]).sizes("the length of the range")
    text = ctx.where("the range step must not be 0")
    ctx.solver.require(wide >= 1, text, text)
    places = Numbers(ctx, iota(ctx, ctx.solver.simplify(size))) * step + start
    return (
        places.tensor
        if dtype == I64
        else ctx.emit(R.astype(places.tensor.expr, dtype), places.tensor.dims, dtype)
    )


def trilu(ctx: Emitter, x: Tensor, k: Tensor, upper: bool) -> Tensor:
    """Return the part above or below a diagonal whose number is read at run time."""
    high, wide = (Numbers(ctx, iota(ctx, d)) for d in x.dims[-2:])
    column = Numbers(ctx, ctx.reshape(high.tensor, [x.dims[-2], i64(1)]))
    above = wide - column
    diagonal = line(ctx, k, "the diagonal").at(0)
    kept = above >= diagonal if upper else above < diagonal + 1
    return apply(ctx, R.where, kept.tensor, x, ctx.scalar(0, x.dtype))


def borders(ctx: Emitter, x: Tensor, widths: Sequence[Any], mode: str) -> Tensor:
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
        size, shift = (Numbers(ctx, number(ctx, d, I64)) for d in (dim, before))
        total = ctx.solver.simplify(dim + before + after)
        place = Numbers(ctx, iota(ctx, total)) - shift
        if mode == "edge":
            place = place.within(0, size - 1)
        else:
            zero = literals(ctx, [0]).at(0)
            place = (place < 0).pick(zero - place, place)
            place = (place < size).pick(place, (size - 1) * 2 - place)
        x = rows(ctx, x, place.tensor, axis)
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
        x = rows(ctx, x, extent.places(), axis)
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
