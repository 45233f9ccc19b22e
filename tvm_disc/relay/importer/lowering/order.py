"""Import rules: scans, sorting, searching, and operators composed of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tvm import tirx
from tvm.relax import op as R

from tvm_disc.errors import TypeMismatch, Unsupported
from tvm_disc.relay.importer.context import Emitter, i64, product
from tvm_disc.relay.importer.lowering.index import nonzero, rows
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
from tvm_disc.relay.importer.tensor import Tensor
from tvm_disc.relay.importer.values import is_number
from tvm_disc.shape.arithmetic import literal
from tvm_disc.typing import Size


def _scan(build: Any) -> Rule:
    def rule(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
        x = args[0]
        dtype = attrs["dtype"] or x.dtype
        if dtype == "bool":
            raise TypeMismatch(
                ctx.where("expected numbers, found bool; cast it first, or set dtype")
            )
        if x.dtype == "bool":
            x = cast(ctx, x, dtype)
        axis = attrs["axis"]
        if axis is None:
            x, axis = ctx.reshape(x, [product(x.dims)]), 0
        call = build(ctx.expr(x), ctx.axis(axis, x.rank), dtype, bool(attrs["exclusive"]))
        return ctx.emit(call, x.dims, dtype)

    return rule


def order(ctx: Emitter, x: Tensor, axis: int, ascending: bool) -> Tensor:
    """Return the positions that sort ``axis``, stable for equal elements."""
    if x.rank == 0:
        raise TypeMismatch(ctx.where("expected an operand of rank 1 or more, found rank 0"))
    call = R.argsort(ctx.expr(x), axis, not ascending, "int64")
    return ctx.emit(call, x.dims, "int64")


def picked(ctx: Emitter, x: Tensor, places: Tensor, axis: int) -> Tensor:
    """Return ``x`` gathered along ``axis``, with separate positions for each line."""
    call = R.gather_elements(ctx.expr(x), ctx.expr(places), axis)
    return ctx.emit(call, places.dims, x.dtype)


def _argsort(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    x, axis = args[0], ctx.axis(attrs["axis"], args[0].rank)
    return cast(ctx, order(ctx, x, axis, bool(attrs["is_ascend"])), attrs["dtype"] or "int32")


def _sort(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    x, axis = args[0], ctx.axis(attrs["axis"], args[0].rank)
    return picked(ctx, x, order(ctx, x, axis, bool(attrs["is_ascend"])), axis)


def _topk(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor | tuple[Tensor, ...]:
    x, axis = args[0], ctx.axis(attrs["axis"], args[0].rank)
    k = ctx.shape_arg(args[1], "k")[0] if len(args) > 1 else attrs["k"]
    count = _top_count(ctx, x.dims[axis], k)
    places = _first_places(ctx, x, axis, count, bool(attrs["is_ascend"]))
    kind, found = attrs["ret_type"], []
    if kind in ("both", "values"):
        found.append(picked(ctx, x, places, axis))
    if kind in ("both", "indices"):
        found.append(cast(ctx, places, attrs["dtype"] or "int32"))
    if not found:
        raise TypeMismatch(ctx.where(f"ret_type: expected both, values or indices, found {kind!r}"))
    return found[0] if len(found) == 1 else tuple(found)


def _first_places(ctx: Emitter, x: Tensor, axis: int, count: Any, ascending: bool) -> Tensor:
    """Return the first ``count`` positions of :func:`order`, without a sort if at most ``FEW``."""
    few = literal(count)
    if few is None or not 0 < few <= FEW:
        places = order(ctx, x, axis, ascending)
        return sliced(ctx, places, {axis: (i64(0), count, 1)})
    call = R.topk(ctx.expr(x), int(few), axis, "indices", not ascending, "int64")
    dims = [*x.dims[:axis], i64(int(few)), *x.dims[axis + 1 :]]
    return ctx.emit(call, dims, "int64")


# Maximum number of positions that are selected by insertion instead of a sort. In the worst case, a
# sorted line, each element moves all of them, which costs about as much as a merge sort.
FEW = 64


def _top_count(ctx: Emitter, size: Size, k: Any) -> object:
    """Return the number of kept elements; a ``k`` below 1 keeps all."""
    if k is None or (is_number(k) and k < 1):
        return size
    some = tirx.min(ctx.dim(k), size)
    if not is_number(k) and not ctx.solver.known_le(i64(1), ctx.dim(k)):
        some = tirx.Select(ctx.dim(k) < 1, size, some)
    return ctx.solver.simplify(some)


def _searchsorted(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    row, values = args
    ctx.same_dtype(args)
    if row.rank != 1:
        if row.rank != values.rank:
            raise TypeMismatch(
                ctx.where(f"expected values of rank {row.rank}, found rank {values.rank}")
            )
        for a in range(row.rank - 1):
            ctx.require_eq(
                row.dims[a], values.dims[a], f"axis {a} of both operands must have the same size"
            )
    call = R.bucketize(ctx.expr(values), ctx.expr(row), False, bool(attrs["right"]))
    return cast(ctx, ctx.emit(call, values.dims, "int64"), attrs["dtype"])


def _unique(ctx: Emitter, args: Args, attrs: Attrs) -> tuple[Tensor, ...]:
    """Return (values, first positions, inverse, number of values[, counts]), by sorting."""
    x = args[0]
    if x.rank != 1:
        raise Unsupported(ctx.where(f"expected a tensor of rank 1, found rank {x.rank}"))
    by_value = order(ctx, x, 0, True)
    line = picked(ctx, x, by_value, 0)
    begins = _run_begins(ctx, line)
    found = nonzero(ctx, begins)
    size = found.dims[1]
    heads = ctx.reshape(found, [size])
    running = R.cumsum(ctx.expr(cast(ctx, begins, "int64")), 0, "int64", False)
    run = ctx.emit(running, x.dims, "int64") - 1
    zeros = filled(ctx, x.dims, ctx.scalar(0, "int64"), "int64")
    inverse = _placed(ctx, zeros, by_value, run, "update")
    values, first = rows(ctx, line, heads, 0), rows(ctx, by_value, heads, 0)
    # Count into a buffer of the operand's size and slice it, so that only results have a
    # data-dependent size.
    ones = filled(ctx, x.dims, ctx.scalar(1, "int64"), "int64")
    counts = sliced(ctx, _placed(ctx, zeros, inverse, ones, "add"), {0: (i64(0), size, 1)})
    if not attrs["sorted"]:
        placed = order(ctx, first, 0, True)
        inverse = rows(ctx, order(ctx, placed, 0, True), inverse, 0)
        values, first, counts = (rows(ctx, t, placed, 0) for t in (values, first, counts))
    many = ctx.reshape(number(ctx, size, "int32"), [i64(1)])
    result = (values, cast(ctx, first, "int32"), cast(ctx, inverse, "int32"), many)
    return (*result, cast(ctx, counts, "int32")) if attrs["return_counts"] else result


def _run_begins(ctx: Emitter, line: Tensor) -> Tensor:
    """Return flags of the elements of a sorted vector that differ from the previous one."""
    places = iota(ctx, line.dims[0])
    before = rows(ctx, line, places - 1, 0)
    first = places.equal(0)
    other = line.not_equal(before)
    return first | other


def _placed(ctx: Emitter, into: Tensor, places: Tensor, values: Tensor, how: str) -> Tensor:
    operands = [ctx.expr(t) for t in (into, places, values)]
    return ctx.emit(R.scatter_elements(*operands, axis=0, reduction=how), into.dims, into.dtype)


def _invert_permutation(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    x = args[0]
    if x.rank != 1:
        raise Unsupported(ctx.where(f"expected a tensor of rank 1, found rank {x.rank}"))
    return cast(ctx, order(ctx, x, 0, True), x.dtype)


LOWER: Mapping[str, Rule] = {
    "cumsum": _scan(R.cumsum),
    "cumprod": _scan(R.cumprod),
    "argsort": _argsort,
    "sort": _sort,
    "topk": _topk,
    "dyn.topk": _topk,
    "searchsorted": _searchsorted,
    "unique": _unique,
    "invert_permutation": _invert_permutation,
}
