"""Converters of operators that write elements by index."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from tvm_disc.errors import Unsupported
from tvm_disc.frontends.calls import MOST, Number, greatest_of, is_float, least_of
from tvm_disc.frontends.torch.maker import Maker, Row
from tvm_disc.frontends.torch.values import Dim, Value

_NAMES = {
    "sum": "add",
    "add": "add",
    "prod": "mul",
    "multiply": "mul",
    "amax": "max",
    "amin": "min",
}


def scattered(m: Maker, x: Value, dim: int, index: Value, src: Value, how: str) -> Value:
    """Return ``x`` with ``src`` scattered to the indices of an axis, combined by ``how``."""
    if x.rank == 0:
        return m.reshape(scattered(m, m.line(x), 0, m.line(index), m.line(src), how), ())
    if index.rank == 0:
        index, src = m.line(index), m.line(src)
    for axis, (have, want) in enumerate(zip(src.dims, index.dims, strict=True)):
        if have != want:
            src = m.slice(src, axis, 0, want)
    return m.call_like("scatter_elements", x, index, src, axis=dim % x.rank, reduction=how)


def _inside(m: Maker, x: Value, dim: int, index: Value) -> Value:
    """Return the indices of a scatter, with a run-time check that they are in [0, size)."""
    return m.inside(index, x.dims[dim % x.rank] if x.rank else 1)


def _scatter(m: Maker, x: Value, dim: int, index: Value, src: Any, *, reduce: str = "") -> Value:
    if not isinstance(src, Value):
        src = m.full(src, index.dims, x.dtype)
    index = _inside(m, x, dim, index)
    return scattered(m, x, dim, index, m.cast(src, x.dtype), _NAMES.get(reduce, "update"))


def _scatter_reduce(
    m: Maker,
    x: Value,
    dim: int,
    index: Value,
    src: Value,
    reduce: str,
    *,
    include_self: bool = True,
) -> Value:
    index = _inside(m, x, dim, index)
    if reduce == "mean":
        return _scatter_mean(m, x, dim, index, src, include_self)
    if reduce not in _NAMES:
        raise Unsupported(
            f"reduce: expected 'mean' or one of {', '.join(map(repr, _NAMES))}, found {reduce!r}"
        )
    how = _NAMES[reduce]
    if not include_self:
        nothing = m.full(_neutral(how, x.dtype), index.dims, x.dtype)
        x = scattered(m, x, dim, index, nothing, "update")
    return scattered(m, x, dim, index, src, how)


def _neutral(how: str, dtype: str) -> Number:
    if how in ("add", "mul"):
        return 0 if how == "add" else 1
    return least_of(dtype) if how == "max" else greatest_of(dtype)


def _scatter_mean(
    m: Maker, x: Value, dim: int, index: Value, src: Value, include_self: bool
) -> Value:
    one = m.full(1, index.dims, x.dtype)
    own = m.full(1 if include_self else 0, x.dims, x.dtype)
    count = scattered(m, own, dim, index, one, "add")
    if not include_self:
        x = scattered(m, x, dim, index, m.full(0, index.dims, x.dtype), "update")
        count = m.maximum(count, 1)
    total = scattered(m, x, dim, index, src, "add")
    return m.apply("divide" if is_float(x.dtype) else "floor_divide", total, count)


def bounds(m: Maker, size: Dim, start: Dim, end: Dim) -> tuple[Dim, Dim]:
    """Return the nonnegative start and end of a slice; negative ones count from the axis' end."""
    if isinstance(size, int) and all(isinstance(v, int | None) for v in (start, end)):
        begin, stop, _ = slice(start, end).indices(size)
        return begin, max(begin, stop)
    begin = 0 if start is None else start
    begin = size + begin if isinstance(begin, int) and begin < 0 else begin
    stop = size if end is None or (isinstance(end, int) and end >= MOST) else end
    return begin, size + stop if isinstance(stop, int) and stop < 0 else stop


def _slice_scatter(
    m: Maker, x: Value, src: Value, dim: int = 0, start: Dim = None, end: Dim = None, step: int = 1
) -> Value:
    axis = dim % x.rank
    size = x.dims[axis]
    begin, _ = bounds(m, size, start, end)
    src = m.cast(src, x.dtype)
    if step != 1:
        return _strided_scatter(m, x, src, axis, begin, step)
    parts = [src]
    if begin != 0:
        parts.insert(0, m.slice(x, axis, 0, begin))
    stop = begin + src.dims[axis]
    if stop != size:
        parts.append(m.slice(x, axis, stop, MOST))
    made = m.concat(parts, axis)
    return Value(made.expr, x.dtype, x.dims)


def _strided_scatter(m: Maker, x: Value, src: Value, axis: int, begin: Dim, step: int) -> Value:
    """Return ``x`` with the positions of a strided slice replaced by ``src``."""
    size, count = x.dims[axis], src.dims[axis]
    if count == 0:
        return x
    offset = m.arange(size) - m.tensor(begin, "int64")
    place = offset // step
    hit = m.equal(offset % step, 0)
    after = offset >= 0
    inside = place < m.tensor(count, "int64")
    here = hit & after & inside
    read = m.take(src, m.where(here, place, 0), axis)
    return m.where(m.along(here, axis, x.rank), read, x)


def _select_scatter(m: Maker, x: Value, src: Value, dim: int, index: Dim) -> Value:
    axis = dim % x.rank
    x = m.reaching(x, axis, index) if isinstance(index, int) else x
    at = index + x.dims[axis] if isinstance(index, int) and index < 0 else index
    return _slice_scatter(m, x, m.expand(src, axis), axis, at, at + 1)


def _masked_scatter(m: Maker, x: Value, mask: Value, source: Value) -> Value:
    """Return ``x`` with elements replaced where the mask is true, by consecutive ``source``
    elements.
    """
    dims = m.out_dims
    mask = m.broadcast(m.cast(mask, "bool"), dims)
    line = m.cast(m.flat(mask), "int64")
    count = m.call_like("cumsum", line, axis=0, dtype="int64", exclusive=False)
    place = m.maximum(count - 1, 0)
    read = m.reshape(m.take(m.flat(source), place, 0), dims)
    return m.where(mask, read, m.broadcast(x, dims))


def _put(m: Maker, x: Value, index: Value, source: Value, accumulate: bool = False) -> Value:
    line = m.flat(x)
    places = m.inside(m.flat(index), line.dims[0], negative=True)
    made = scattered(m, line, 0, places, m.flat(source), "add" if accumulate else "update")
    return m.reshape(made, x.dims)


def _diagonal_scatter(
    m: Maker, x: Value, src: Value, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Value:
    a, b = dim1 % x.rank, dim2 % x.rank
    lead = [k for k in range(x.rank) if k not in (a, b)]
    order = [*lead, a, b]
    moved = m.transpose(x, order)
    rows, columns = m.arange(moved.dims[-2]), m.arange(moved.dims[-1])
    gap = m.expand(columns, 0) - m.expand(rows, 1)
    on = m.equal(gap, offset)
    place = rows if offset >= 0 else rows + offset
    read = m.expand(m.take(src, m.limited(place, src.dims[-1]), -1), src.rank)
    made = m.where(on, read, moved)
    return m.transpose(made, [order.index(k) for k in range(x.rank)])


ROWS: Mapping[str, Row] = {
    **{f"scatter.{o}": _scatter for o in ("src", "value", "reduce", "value_reduce")},
    "scatter_add.default": partial(_scatter, reduce="add"),
    "scatter_reduce.two": _scatter_reduce,
    "slice_scatter.default": _slice_scatter,
    "select_scatter.default": _select_scatter,
    "diagonal_scatter.default": _diagonal_scatter,
    "masked_scatter.default": _masked_scatter,
    "put.default": _put,
    "copy.default": lambda m, x, src, *_: m.broadcast(m.cast(src, x.dtype), x.dims),
}
