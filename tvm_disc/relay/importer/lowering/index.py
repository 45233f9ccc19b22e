"""Import rules: gathers and scatters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tvm import relax, tirx
from tvm.relax import op as R

from tvm_disc.errors import TypeMismatch, Unsupported
from tvm_disc.relay.importer.context import Emitter, i64, product
from tvm_disc.relay.importer.lowering.slice import sliced
from tvm_disc.relay.importer.lowering.tensor import (
    Args,
    Attrs,
    Rule,
    cast,
    filled,
    iota,
    number,
)
from tvm_disc.relay.importer.lowering.transform import permute
from tvm_disc.relay.importer.positions import (
    columns_of,
    line_along,
    line_of,
    read_in_place,
    same_everywhere,
)
from tvm_disc.relay.importer.tensor import Tensor
from tvm_disc.relay.importer.values import is_number, value_of
from tvm_disc.relay.ops.algebra import maximum, minimum, where
from tvm_disc.typing import Expr

MODES = ("clip", "wrap", "fast")


def _take(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    data, picks = args
    axis, mode = attrs["axis"], attrs["mode"]
    if mode not in MODES:
        raise TypeMismatch(ctx.where(f"mode: expected one of {', '.join(MODES)}, found {mode!r}"))
    ctx.require_integers(picks, "indices")
    if attrs["batch_dims"]:
        return _take_batched(ctx, data, picks, attrs)
    if axis is None:
        data, axis = ctx.reshape(data, [product(data.dims)]), 0
    axis = ctx.axis(axis, data.rank)
    literal = value_of(picks)
    row = literal is not None and literal.ndim == 0 and is_number(literal.item())
    # Inside a branch no guard can require that the axis is not empty, so a gather is used.
    if row and (not ctx.nested or ctx.solver.known_le(i64(1), data.dims[axis])):
        assert literal is not None
        return _pick_one(ctx, data, axis, int(literal.item()), mode)
    return rows(ctx, data, picks, axis, mode)


def rows(ctx: Emitter, data: Tensor, picks: Tensor, axis: int, mode: str = "clip") -> Tensor:
    """Return ``data`` gathered along ``axis`` at the positions ``picks``."""
    dims = [*data.dims[:axis], *picks.dims, *data.dims[axis + 1 :]]
    size, row = ctx.literal(data.dims[axis]), same_everywhere(ctx, picks)
    if size and row is not None and 0 <= row < size:
        return _one_row(ctx, data, axis, row, dims)
    view = read_in_place(ctx, data, axis, [line_of(ctx, picks)], picks.dims)
    if view is not None:
        return view
    call = R.take(ctx.expr(data), ctx.expr(picks), axis, mode)
    return ctx.emit(call, dims, data.dtype)


def _one_row(ctx: Emitter, data: Tensor, axis: int, position: int, dims: list[Expr]) -> Tensor:
    """Return the one row that all positions select, broadcast."""
    row = sliced(ctx, data, {axis: (i64(position), i64(1), 1)})
    ones = [i64(1)] * (len(dims) - data.rank + 1)
    line = ctx.reshape(row, [*data.dims[:axis], *ones, *data.dims[axis + 1 :]])
    return ctx.broadcast(line, dims, full=True)


def _take_batched(ctx: Emitter, data: Tensor, picks: Tensor, attrs: Attrs) -> Tensor:
    """Return a gather in which each batch entry of ``data`` has its own positions."""
    given = int(attrs["batch_dims"])
    among = given + picks.rank if given < 0 else given
    if not -picks.rank - 1 <= among <= picks.rank:
        limits = f"{-picks.rank} to {picks.rank}"
        raise TypeMismatch(ctx.where(f"batch_dims: expected {limits}, found {given}"))
    batch = ctx.axis(among, picks.rank + 1)
    if attrs["axis"] is None:
        raise Unsupported(
            ctx.where(f"axis: expected an integer, because batch_dims is {given}; found None")
        )
    axis = ctx.axis(attrs["axis"], data.rank)
    if axis < batch:
        text = f"axis: expected an axis after the batch dims (batch_dims {batch}), found"
        raise TypeMismatch(ctx.where(f"{text} {attrs['axis']}"))
    for a in range(batch):
        ctx.require_eq(
            data.dims[a], picks.dims[a], f"batch axis {a} of both operands must have the same size"
        )
    size = number(ctx, data.dims[axis], picks.dtype)
    if attrs["mode"] == "wrap":
        place = picks % size
    elif attrs["mode"] == "fast":
        place = picks  # the form that the gather kernel reads
    else:
        last = size - 1
        place = minimum(picks, last)
        place = maximum(place, 0)
    middle = list(range(batch, axis))
    moved = permute(ctx, data, [*range(batch), axis, *middle, *range(axis + 1, data.rank)])
    coords = ctx.reshape(place, [*place.dims, i64(1)])
    dims = [*picks.dims, *moved.dims[batch + 1 :]]
    found = ctx.emit(R.gather_nd(ctx.expr(moved), ctx.expr(coords), batch), dims, data.dtype)
    free = list(range(batch, picks.rank))
    inner = [picks.rank + k for k in range(len(middle))]
    rest = range(picks.rank + len(middle), found.rank)
    return permute(ctx, found, [*range(batch), *inner, *free, *rest])


def _pick_one(ctx: Emitter, data: Tensor, axis: int, position: int, mode: str) -> Tensor:
    """Return the element at a literal position, as a slice."""
    dim = data.dims[axis]
    ctx.require_some([(axis, dim)], [d for a, d in enumerate(data.dims) if a != axis])
    if mode == "wrap":
        place = tirx.floormod(i64(position), tirx.max(dim, i64(1)))
    elif mode == "fast" and position < 0:
        place = tirx.max(dim + position, i64(0))
    else:
        place = tirx.max(tirx.min(i64(position), dim - 1), i64(0))
    row = sliced(ctx, data, {axis: (place, i64(1), 1)})
    return ctx.reshape(row, [*data.dims[:axis], *data.dims[axis + 1 :]])


def _gather(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    data, picks = args
    axis = ctx.axis(attrs["axis"] or 0, data.rank)
    _require_inside(ctx, picks, data, axis)
    call = R.gather_elements(ctx.expr(data), ctx.expr(picks), axis)
    return ctx.emit(call, picks.dims, data.dtype)


def _require_inside(ctx: Emitter, picks: Tensor, data: Tensor, axis: int) -> None:
    """Require that element-wise indices fit the operand on every axis except ``axis``."""
    if picks.rank != data.rank:
        raise TypeMismatch(
            ctx.where(f"expected indices of rank {data.rank}, found rank {picks.rank}")
        )
    for a in range(data.rank):
        if a != axis:
            ctx.solver.require_le(
                picks.dims[a], data.dims[a], ctx.where(f"axis {a} of the indices")
            )


def _gather_nd(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    """Return a gather; the coordinate axis is the first of the indices in Relay, the last in
    Relax.
    """
    data, picks = args
    if attrs["index_rank"] is not None:
        picks = counted(ctx, picks, 0, int(attrs["index_rank"]), "index_rank")
    moved = permute(ctx, picks, [*range(1, picks.rank), 0])
    return at_coordinates(ctx, data, moved, int(attrs["batch_dims"]))


def counted(ctx: Emitter, x: Tensor, axis: int, size: int, what: str) -> Tensor:
    """Return ``x`` with ``axis`` required to have the literal size ``size``."""
    ctx.require_eq(x.dims[axis], i64(size), f"{what}: the size of axis {axis} must be {size}")
    return ctx.reshape(x, [*x.dims[:axis], i64(size), *x.dims[axis + 1 :]])


def at_coordinates(ctx: Emitter, data: Tensor, picks: Tensor, batch: int = 0) -> Tensor:
    """Return ``data`` at the coordinates along the last axis of ``picks``."""
    depth = ctx.static(picks.dims[-1], "the number of coordinates")
    if not 0 <= batch < picks.rank:
        text = f"batch_dims: expected 0 to {picks.rank - 1}, found {batch}"
        raise TypeMismatch(ctx.where(f"{text}; the indices have rank {picks.rank}"))
    if batch + depth > data.rank:
        text = f"coordinates per element: expected at most {data.rank - batch}, found {depth}"
        raise TypeMismatch(ctx.where(text))
    for a in range(batch):
        ctx.require_eq(
            picks.dims[a], data.dims[a], f"batch axis {a} of both operands must have the same size"
        )
    lines = None if batch else columns_of(ctx, picks)
    view = read_in_place(ctx, data, 0, lines, picks.dims[:-1]) if lines else None
    if view is not None:
        return view
    dims = [*picks.dims[:-1], *data.dims[batch + depth :]]
    return ctx.emit(R.gather_nd(ctx.expr(data), ctx.expr(picks), batch), dims, data.dtype)


def _adv_index(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    """Return NumPy's advanced indexing of the leading axes by tensors that broadcast."""
    data, *picks = args[0]
    dims = ctx.broadcast_dims([p.dims for p in picks])
    view = read_in_place(ctx, data, 0, [line_along(ctx, p, dims) for p in picks], dims)
    if view is not None:
        return view
    columns = [
        ctx.reshape(cast(ctx, ctx.broadcast(p, dims, full=True), "int64"), [*dims, i64(1)])
        for p in picks
    ]
    if len(columns) > 1:
        call = R.concat([ctx.expr(c) for c in columns], len(dims))
        coords = ctx.emit(call, [*dims, i64(len(columns))], "int64")
    else:
        coords = columns[0]
    return at_coordinates(ctx, data, coords)


def _unravel_index(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    picks, shape = args
    dims = ctx.size_arg(shape, "the shape")
    coords, rest = [], picks
    for dim in reversed(dims[1:]):
        size = number(ctx, ctx.dim(dim), picks.dtype)
        coords.append(rest % size)
        rest = rest // size
    lines = [ctx.reshape(c, [i64(1), *picks.dims]) for c in (rest, *reversed(coords))]
    if len(lines) == 1:
        return lines[0]
    call = R.concat([ctx.expr(c) for c in lines], 0)
    return ctx.emit(call, [i64(len(lines)), *picks.dims], picks.dtype)


def _one_hot(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    x, on, off = args[:3]
    axis = ctx.axis(attrs["axis"], x.rank + 1)
    depth = ctx.dim(ctx.size_arg(args[3], "depth")[0] if len(args) > 3 else attrs["depth"])
    dtype = attrs["dtype"] or on.dtype
    dims = [*x.dims[:axis], i64(1), *x.dims[axis:]]
    line = [depth if a == axis else i64(1) for a in range(x.rank + 1)]
    places = ctx.reshape(iota(ctx, ctx.solver.simplify(depth)), line)
    hit = ctx.reshape(cast(ctx, x, "int64"), dims).equal(places)
    return where(hit, cast(ctx, on, dtype), cast(ctx, off, dtype))


def _sequence_mask(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    x, valid = args
    axis = ctx.axis(attrs["axis"], x.rank)
    if axis > 1 or x.rank < 2:
        raise Unsupported(
            ctx.where(
                "expected axis 0 or 1 of an operand of rank 2 or more, "
                f"found axis {attrs['axis']} of an operand of rank {x.rank}"
            )
        )
    ctx.require_eq(valid.dims[0], x.dims[1 - axis], "there must be one length for each batch entry")
    ones = [i64(1)] * (x.rank - 2)
    steps, lengths = [x.dims[axis], i64(1)], [i64(1), valid.dims[0]]
    places = ctx.reshape(iota(ctx, x.dims[axis]), [*(steps if axis == 0 else steps[::-1]), *ones])
    limits = ctx.reshape(
        cast(ctx, valid, "int64"), [*(lengths if axis == 0 else lengths[::-1]), *ones]
    )
    masked: Tensor = where(places < limits, x, float(attrs["mask_value"]))
    return masked


def _scatter_elements(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    data, picks, updates = args
    ctx.same_dtype([data, updates])
    axis = ctx.axis(attrs["axis"], data.rank)
    _require_inside(ctx, picks, data, axis)
    if updates.rank != picks.rank:
        raise TypeMismatch(
            ctx.where(f"expected updates of rank {picks.rank}, found rank {updates.rank}")
        )
    for a, (u, p) in enumerate(zip(updates.dims, picks.dims, strict=True)):
        ctx.require_eq(u, p, f"axis {a} of indices and updates must have the same size")

    def scatter(into: Tensor, values: Tensor, reduction: str) -> Tensor:
        operands = [ctx.expr(t) for t in (into, picks, values)]
        call = R.scatter_elements(*operands, axis=axis, reduction=reduction)
        return ctx.emit(call, into.dims, into.dtype)

    if attrs["reduction"] == "mean":
        return _scatter_mean(ctx, data, updates, scatter)
    return scatter(data, updates, _reduction_name(ctx, attrs, "reduction"))


def _reduction_name(ctx: Emitter, attrs: Attrs, name: str) -> str:
    reduction = str(attrs[name])
    if reduction not in ("update", "add", "mul", "min", "max"):
        raise Unsupported(
            ctx.where(f"{name}: expected update, add, mul, min, max or mean, found {reduction!r}")
        )
    return reduction


def _scatter_mean(ctx: Emitter, data: Tensor, updates: Tensor, scatter: Any) -> Tensor:
    """Return the mean of each element and all updates scattered to it."""
    one = ctx.scalar(1, data.dtype)
    total: Tensor = scatter(data, updates, "add")
    ones = filled(ctx, data.dims, one, data.dtype)
    count: Tensor = scatter(ones, filled(ctx, updates.dims, one, data.dtype), "add")
    return total / count


def _scatter_nd(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    """Return a scatter; the coordinate axis is first in Relay and last in Relax."""
    data, picks, updates = args
    ctx.same_dtype([data, updates])
    depth = ctx.literal(picks.dims[0])
    if depth is None:  # inferred from the rank of the updates
        depth = data.rank - updates.rank + picks.rank - 1
        what = f"the coordinates, for updates of rank {updates.rank}"
        picks = counted(ctx, picks, 0, depth, what)
    if not 0 <= depth <= data.rank:
        text = f"coordinates per element: expected at most {data.rank}, found {depth}"
        raise TypeMismatch(ctx.where(text))
    wanted = [*picks.dims[1:], *data.dims[depth:]]
    if updates.rank != len(wanted):
        raise TypeMismatch(
            ctx.where(f"expected updates of rank {len(wanted)}, found rank {updates.rank}")
        )
    for a, (u, d) in enumerate(zip(updates.dims, wanted, strict=True)):
        ctx.require_eq(u, d, f"axis {a} of the updates")
    moved = permute(ctx, picks, [*range(1, picks.rank), 0])

    def scatter(into: Tensor, values: Tensor, reduction: str) -> Tensor:
        operands = [ctx.expr(t) for t in (into, moved, values)]
        return ctx.emit(R.scatter_nd(*operands, reduction), into.dims, into.dtype)

    if attrs["mode"] == "mean":
        return _scatter_mean(ctx, data, updates, scatter)
    return scatter(data, updates, _reduction_name(ctx, attrs, "mode"))


def _argwhere(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    x = args[0]
    if x.rank == 0:
        raise Unsupported(ctx.where("expected an operand of rank 1 or more, found rank 0"))
    return cast(ctx, permute(ctx, nonzero(ctx, x), [1, 0]), "int32")


def nonzero(ctx: Emitter, x: Tensor) -> Tensor:
    """Return the coordinates of the non-zero elements, ``[rank, count]``."""
    raw = ctx.bind(R.nonzero(ctx.expr(x)), relax.TensorType(None, "int64", ndim=2))
    count = ctx.solver.symbol("nonzero", ctx.where("the number of non-zero elements"))
    ctx.solver.assume_at_most(count, product(x.dims), "at most every element is non-zero")
    dims = [i64(x.rank), count]
    return Tensor(tuple(dims), "int64", ctx.match(raw, relax.TensorType(dims, "int64")))


LOWER: Mapping[str, Rule] = {
    "take": _take,
    "gather": _gather,
    "gather_nd": _gather_nd,
    "adv_index": _adv_index,
    "unravel_index": _unravel_index,
    "one_hot": _one_hot,
    "dyn.one_hot": _one_hot,
    "sequence_mask": _sequence_mask,
    "scatter_elements": _scatter_elements,
    "scatter_nd": _scatter_nd,
    "scatter": lambda ctx, args, attrs: _scatter_elements(
        ctx, args, {**attrs, "reduction": "update"}
    ),
    "argwhere": _argwhere,
}
