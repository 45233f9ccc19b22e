"""Converters of pooling operators."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from tvm_disc.errors import Unsupported
from tvm_disc.frontends.calls import is_one
from tvm_disc.frontends.torch.maker import Maker, Row
from tvm_disc.frontends.torch.rows.conv import per_axis
from tvm_disc.frontends.torch.values import Dim, Value
from tvm_disc.typing import Ints


def _batched(m: Maker, x: Value, rank: int) -> tuple[Value, bool]:
    """Return the operand with a batch axis, and whether PyTorch's operand has none."""
    alone = x.rank == rank + 1
    return (m.expand(x, 0) if alone else x), alone


def _filled(m: Maker, x: Value, rank: int) -> Value:
    """Return the operand with a check that its channels and spatial axes are not empty."""
    return m.nonempty(x, range(x.rank - rank - 1, x.rank))


def _window(kernel: Ints, stride: Ints, padding: Ints, rank: int) -> dict[str, tuple[int, ...]]:
    size = per_axis(kernel, rank)
    steps = size if stride is None or stride == [] or stride == () else per_axis(stride, rank)
    return {"pool_size": size, "strides": steps, "padding": per_axis(padding, rank) * 2}


def _result(m: Maker, made: object, x: Value, rank: int, alone: bool) -> Value:
    """Return the result of pooling, with a check that at least one window fits.

    ``alone`` means that PyTorch's operand has no batch axis.
    """
    found = Value(made, x.dtype, (1, *m.out_dims) if alone else m.out_dims)
    found = m.nonempty(found, range(2, 2 + rank))
    return m.squeeze(found, [0]) if alone else found


def _cut(m: Maker, made: object, rank: int, x: Value, dims: Sequence[Dim], ceil_mode: bool) -> Any:
    """Return the result of pooling without the windows that PyTorch drops.

    With ``ceil_mode`` Relay may add windows that begin after the operand.
    """
    if not ceil_mode:
        return made
    found = Value(made, x.dtype, (*x.dims[:2], *[None] * rank))
    for axis in range(rank):
        found = m.slice(found, 2 + axis, 0, dims[len(dims) - rank + axis])
    return found.expr


def _max_pool(rank: int) -> Row:
    def row(m: Maker, x: Value, kernel: Ints, stride: Ints = (), padding: Ints = 0,
            dilation: Ints = 1, ceil_mode: bool = False) -> Value:  # fmt: skip
        x, alone = _batched(m, _filled(m, x, rank), rank)
        window = _window(kernel, stride, padding, rank)
        steps = per_axis(dilation, rank)
        made = m.call(f"nn.max_pool{rank}d", x, dilation=steps, ceil_mode=ceil_mode, **window)
        made = _cut(m, made, rank, x, m.out_dims, ceil_mode)
        return _result(m, made, x, rank, alone)

    return row


def _max_pool_indices(rank: int) -> Row:
    plain = _max_pool(rank)

    def row(m: Maker, x: Value, kernel: Ints, stride: Ints = (), padding: Ints = 0,
            dilation: Ints = 1, ceil_mode: bool = False) -> tuple[Any, Value | None]:  # fmt: skip
        if not m.used(1):
            return plain(m, x, kernel, stride, padding, dilation, ceil_mode), None
        window = _window(kernel, stride, padding, rank)
        return _positions(m, x, rank, window, per_axis(dilation, rank))

    return row


def _positions(
    m: Maker, x: Value, rank: int, window: dict[str, tuple[int, ...]], dilation: Sequence[int]
) -> tuple[Value, Value]:
    """Return the maxima and their positions in the flattened spatial axes, by gathering all
    windows.
    """
    dims = m.out_dims
    lead = x.rank - rank
    sizes, line = x.dims[lead:], None
    inside: Value | None = None
    for k in range(rank):
        starts = m.arange(dims[lead + k]) * window["strides"][k]
        starts = starts - window["padding"][k]
        taps = m.arange(window["pool_size"][k]) * dilation[k]
        at = m.along(starts, k, 2 * rank) + m.along(taps, rank + k, 2 * rank)
        here = (at >= 0) & (at < m.tensor(sizes[k], "int64"))
        inside = here if inside is None else inside & here
        scale = m.tensor(m.product(sizes[k + 1 :]), "int64")
        part = at * scale
        line = part if line is None else line + part
    assert line is not None and inside is not None
    grid = (*dims[lead:], math.prod(window["pool_size"]))
    shape = (*dims[lead:], *window["pool_size"])
    places = m.reshape(m.broadcast(line, shape), grid)
    shown = m.reshape(m.broadcast(inside, shape), grid)
    flat = m.reshape(x, [*x.dims[:lead], m.product(sizes)])
    read = m.take(flat, m.where(shown, places, 0), lead)
    lowest = -math.inf if x.is_float else -(1 << 30)
    read = m.where(shown, read, lowest)
    values = m.reduce("max", read, [-1])
    # As in PyTorch's kernel, select the last NaN, or the first maximum that is not padding.
    largest = shown & m.equal(read, m.expand(values, values.rank))
    at = m.reduce_position("argmax", m.cast(largest, "int8"), -1, False)
    if x.is_float:
        order = m.arange(grid[-1])
        last = m.reduce("max", m.where(m.isnan(read), order, -1), [-1])
        at = m.where(last < 0, at, last)
    wide = m.broadcast(places, read.dims)
    found = m.gather(wide, m.expand(at, at.rank), -1)
    return values, m.squeeze(found, [-1])


def _avg_pool(rank: int) -> Row:
    def row(m: Maker, x: Value, kernel: Ints, stride: Ints = (), padding: Ints = 0,
            ceil_mode: bool = False, count_include_pad: bool = True,
            divisor_override: int | None = None) -> Value:  # fmt: skip
        x, alone = _batched(m, _filled(m, x, rank), rank)
        window = _window(kernel, stride, padding, rank)
        if ceil_mode or divisor_override is not None:
            made = _counted_average(m, x, window, (count_include_pad, divisor_override)).expr
        else:
            made = m.call(
                f"nn.avg_pool{rank}d",
                x,
                dilation=(1,) * rank,
                ceil_mode=False,
                count_include_pad=count_include_pad,
                **window,
            )
        return _result(m, made, x, rank, alone)

    return row


def _counted_average(
    m: Maker, x: Value, window: dict[str, tuple[int, ...]], how: tuple[bool, int | None]
) -> Value:
    """Return the sums of windows divided by PyTorch's counts of elements.

    ``how`` is (count_include_pad, divisor_override). Positions of a window beyond the padding are
    not counted; those in the padding are counted if ``count_include_pad`` is true.
    """
    rank = len(window["pool_size"])
    dims = m.out_dims[-rank:]
    found = x
    count: Value | None = None
    for k in range(rank):
        axis, size = 2 + k, x.dims[2 + k]
        step, taps, pad = window["strides"][k], window["pool_size"][k], window["padding"][k]
        starts = m.arange(dims[k]) * step - pad
        at = m.expand(starts, 1) + m.arange(taps)
        end = m.tensor(size, "int64")
        here = (at >= 0) & (at < end)
        read = m.take(found, m.limited(at, size), axis)
        wide = m.expand(here, 2, read.rank - axis - 2)
        found = m.reduce("sum", m.where(wide, read, 0), [axis + 1])
        limit = end + pad if how[0] else end
        low = starts if how[0] else m.maximum(starts, 0)
        high = m.minimum(starts + taps, limit)
        own = m.along(high - low, k, rank)
        count = own if count is None else count * own
    assert count is not None
    if how[1] is not None:
        return found / how[1]
    return found / m.cast(count, x.dtype)


def _adaptive(kind: str, rank: int) -> Row:
    def row(m: Maker, x: Value, output_size: Any) -> Value:
        sizes = [output_size] * rank if isinstance(output_size, int) else list(output_size)
        x, alone = _batched(m, _adaptable(m, x, sizes, kind), rank)
        dims = (1, *m.out_dims) if alone else m.out_dims
        for k, size in enumerate(sizes):
            x = _adapted(m, x, 2 + k, size, kind)
        found = Value(x.expr, x.dtype, dims)
        return m.squeeze(found, [0]) if alone else found

    return row


def _adaptable(m: Maker, x: Value, sizes: Sequence[Dim], kind: str) -> Value:
    """Return the operand with a check of the axes that PyTorch refuses if they are empty.

    These are all axes but the first. Two averages are exceptions: those of 1 and 2 axes accept
    0 channels, and an average of all elements is a mean, which is NaN if there are none.
    """
    rank = len(sizes)
    if kind == "avg" and all(is_one(size) for size in sizes):
        return x
    first = x.rank - rank if kind == "avg" and rank < 3 else 1
    return m.nonempty(x, range(first, x.rank))


def _adapted(m: Maker, x: Value, axis: int, size: Dim, kind: str) -> Value:
    """Return ``x`` with one axis pooled to ``size`` elements."""
    if size == x.dims[axis]:
        return x
    if is_one(size):
        return m.reduce("mean" if kind == "avg" else "max", x, [axis], True)
    if not isinstance(size, int):
        raise Unsupported(
            f"expected a size of adaptive pooling that is known at compile time, found {size}"
        )
    moved = m.move(x, axis, -1)
    flat = m.reshape(moved, [m.product(moved.dims[:-1]), 1, x.dims[axis]])
    made = m.call(f"nn.adaptive_{kind}_pool1d", flat, output_size=(size,))
    found = m.reshape(Value(made, x.dtype, (*flat.dims[:2], size)), [*moved.dims[:-1], size])
    return m.move(found, -1, axis)


def _adaptive_max(rank: int) -> Row:
    plain = _adaptive("max", rank)

    def row(m: Maker, x: Value, output_size: object) -> tuple[Any, Any]:
        if m.used(1):
            raise Unsupported("the indices of adaptive_max_pool are not supported")
        return plain(m, x, output_size), None

    return row


ROWS: Mapping[str, Row] = {
    **{f"max_pool{n}d.default": _max_pool(n) for n in (1, 2, 3)},
    **{f"max_pool{n}d_with_indices.default": _max_pool_indices(n) for n in (1, 2, 3)},
    **{f"avg_pool{n}d.default": _avg_pool(n) for n in (1, 2, 3)},
    **{f"adaptive_avg_pool{n}d.default": _adaptive("avg", n) for n in (1, 2, 3)},
    "_adaptive_avg_pool2d.default": _adaptive("avg", 2),
    "_adaptive_avg_pool3d.default": _adaptive("avg", 3),
    **{f"adaptive_max_pool{n}d.default": _adaptive_max(n) for n in (1, 2, 3)},
}
