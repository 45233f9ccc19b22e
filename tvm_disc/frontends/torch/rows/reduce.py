"""Converters of reductions and cumulative operators."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from tvm_disc.frontends.calls import greatest_of, is_float, least_of
from tvm_disc.frontends.torch.maker import Maker, Row
from tvm_disc.frontends.torch.values import Value, wide_dtype


def axes_of(x: Value, dim: Any) -> list[int]:
    """Return the axes that PyTorch's ``dim`` selects; None or an empty list selects all axes."""
    if dim is None or (isinstance(dim, Sequence) and not dim):
        return list(range(x.rank))
    return [a % max(1, x.rank) for a in ([dim] if isinstance(dim, int) else dim)]


def _total(name: str) -> Row:
    """Return the converter of a sum, product or mean; elements are cast to the result's dtype."""

    def row(
        m: Maker, x: Value, dim: object = None, keepdim: bool = False, *, dtype: object = None
    ) -> Value:
        return m.reduce(name, m.cast(x, m.out_dtype), axes_of(x, dim), keepdim)

    return row


def _extreme(name: str) -> Row:
    def row(m: Maker, x: Value, dim: object = None, keepdim: bool = False) -> Value:
        return extreme(m, name, _some_along(m, x, dim), axes_of(x, dim), keepdim)

    return row


def _some_along(m: Maker, x: Value, dim: object) -> Value:
    """Return the operand of a max or min, with a check that the reduced axes are not empty."""
    return m.nonempty(x, axes_of(x, dim)) if x.rank else x


def extreme(m: Maker, name: str, x: Value, axes: Sequence[int], keep: bool = False) -> Value:
    """Return the maximum or minimum; for bool these are ``any`` and ``all``."""
    if x.dtype == "bool":
        name = {"max": "any", "min": "all"}[name]
    return m.reduce(name, x, axes, keep)


def _extreme_along(name: str) -> Row:
    """Return the converter of max or min along an axis: values, and the first position of each."""

    def row(m: Maker, x: Value, dim: int, keepdim: bool = False) -> tuple[Value, Value]:
        x = _some_along(m, x, dim)
        values = extreme(m, name, x, axes_of(x, dim), keepdim)
        return values, position(m, f"arg{name}", x, dim, keepdim)

    return row


def position(m: Maker, name: str, x: Value, dim: int | None, keep: bool = False) -> Value:
    """Return the index of the maximum or minimum along ``dim``, or in the flat tensor if None."""
    if x.rank == 0:
        return m.tensor(0, "int64")
    if dim is None:
        found = m.reduce_position(name, m.flat(x), 0, False)
        return m.reshape(found, [1] * x.rank) if keep else found
    return m.reduce_position(name, x, dim, keep)


def _arg(name: str) -> Row:
    def row(m: Maker, x: Value, dim: int | None = None, keepdim: bool = False) -> Value:
        return position(m, name, _some_along(m, x, dim), dim, keepdim)

    return row


def _truth(name: str) -> Row:
    def row(m: Maker, x: Value, dim: object = None, keepdim: bool = False) -> Value:
        found = m.reduce(name, m.cast(x, "bool"), axes_of(x, dim), keepdim)
        return m.cast(found, m.out_dtype)

    return row


def moments(
    m: Maker, x: Value, axes: Sequence[int], correction: float, keep: bool
) -> tuple[Value, Value]:
    """Return the variance and the mean over ``axes``."""
    mean = m.reduce("mean", x, axes, True)
    centred = x - mean
    total = m.reduce("sum", centred * centred, axes, keep)
    count = m.scalar(m.product([x.dims[a] for a in axes]), x.dtype)
    below = count - correction if correction else count
    if not keep:
        mean = m.squeeze(mean, axes)
    return total / m.maximum(below, 0.0), mean


def _variance(root: bool, pair: bool) -> Row:
    def row(m: Maker, x: Value, *args: object, **kwargs: object) -> tuple[Value, Value] | Value:
        dim, correction, keep = _spread(args, kwargs)
        dtype = m.out_dtype
        wide = m.cast(x, wide_dtype(dtype))
        found, mean = moments(m, wide, axes_of(x, dim), correction, keep)
        found = m.cast(m.sqrt(found) if root else found, dtype)
        return (found, m.cast(mean, dtype)) if pair else found

    return row


def _spread(args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[object, float, bool]:
    """Return (axes, correction, keepdim) from the arguments of any overload of ``var``."""
    named = dict(kwargs)
    if args and isinstance(args[0], bool):  # var(x, unbiased)
        return None, float(args[0]), False
    dim = args[0] if args else named.get("dim")
    if len(args) > 1 or "unbiased" in named:
        unbiased = args[1] if len(args) > 1 else named["unbiased"]
        keep = args[2] if len(args) > 2 else named.get("keepdim", False)
        return dim, float(unbiased), bool(keep)
    given = named.get("correction")
    return dim, 1.0 if given is None else float(given), bool(named.get("keepdim", False))


def norm(m: Maker, x: Value, order: float, axes: Sequence[int], keep: bool) -> Value:
    """Return the p-norm over ``axes``, for p = ``order``."""
    size = m.abs(x)
    if order < 0 or order == math.inf:  # the norm of no elements is undefined
        size = m.nonempty(size, axes)
    if order == math.inf:
        return m.reduce("max", size, axes, keep)
    if order == -math.inf:
        return m.reduce("min", size, axes, keep)
    if order == 0:
        some = m.cast(m.not_equal(x, 0.0), x.dtype)
        return m.reduce("sum", some, axes, keep)
    if order == 1:
        return m.reduce("sum", size, axes, keep)
    if order == 2:
        return m.sqrt(m.reduce("sum", x * x, axes, keep))
    total = m.reduce("sum", size ** float(order), axes, keep)
    return total ** (1.0 / float(order))


def _vector_norm(
    m: Maker,
    x: Value,
    ord: Any = 2,
    dim: object = None,
    keepdim: bool = False,
    *,
    dtype: object = None,
) -> Value:
    wide = m.cast(x, wide_dtype(m.out_dtype))
    return m.cast(norm(m, wide, float(ord), axes_of(x, dim), keepdim), m.out_dtype)


def _logsumexp(m: Maker, x: Value, dim: object, keepdim: bool = False) -> Value:
    x = m.cast(x, m.out_dtype)
    axes = axes_of(x, dim)
    top = m.reduce("max", x, axes, True)
    top = m.where(m.isinf(top), 0.0, top)
    total = m.reduce("sum", m.exp(x - top), axes, True)
    found = m.log(total) + top
    return found if keepdim else m.squeeze(found, axes)


def _scan(name: str) -> Row:
    def row(m: Maker, x: Value, dim: int, *, dtype: object = None) -> Value:
        x = m.cast(x, m.out_dtype)
        if x.rank == 0:
            return x
        return m.call_like(name, x, axis=dim % x.rank, dtype=x.dtype, exclusive=False)

    return row


def _logcumsumexp(m: Maker, x: Value, dim: int) -> Value:
    """Return the logarithm of cumulative sums of exponentials.

    Each sum is computed separately and scaled by the maximum of its elements. Scaled by the maximum
    of the whole axis, sums of much smaller elements would be 0, and a NaN would affect earlier
    results.
    """
    if x.rank == 0:
        return x
    moved = m.move(x, dim, -1)
    places = m.arange(moved.dims[-1])
    seen = m.expand(places, 0) <= m.expand(places, 1)
    wide = m.where(seen, m.expand(moved, -2), -math.inf)
    top = m.reduce("max", wide, [-1], True)
    top = m.where(m.isinf(top), 0.0, top)
    total = m.reduce("sum", m.exp(wide - top), [-1], True)
    return m.move(m.squeeze(m.log(total) + top, [-1]), -1, dim)


def _running_extreme(name: str) -> Row:
    """Return the converter of cummax or cummin: values, and the last position of each.

    The extreme of each prefix of the axis is computed separately.
    """

    def row(m: Maker, x: Value, dim: int) -> tuple[Value, Value]:
        if x.rank == 0:
            return x, m.tensor(0, "int64")
        moved = m.move(x, dim, -1)
        size = moved.dims[-1]
        places = m.arange(size)
        seen = m.expand(places, 0) <= m.expand(places, 1)
        number = m.cast(moved, "int8") if x.dtype == "bool" else moved
        neutral = (least_of if name == "max" else greatest_of)(number.dtype)
        wide = m.where(seen, m.expand(number, -2), neutral)
        values = m.reduce(name, wide, [-1])
        # Select the last of equal elements. After a NaN, all results are NaN.
        chosen = m.equal(wide, m.expand(values, -1))
        if number.is_float:
            chosen = chosen | m.isnan(wide)
        at = m.where(chosen & seen, places, -1)
        found = m.reduce("max", at, [-1])
        values = m.gather(moved, found, -1)
        return m.move(values, -1, dim), m.move(found, -1, dim)

    return row


def _at_place(m: Maker, x: Value, place: Value, dim: int, keepdim: bool) -> tuple[Value, Value]:
    """Return the element at one index of each line of an axis, and the index."""
    value = m.gather(x, place, dim)
    if keepdim:
        return value, place
    return m.squeeze(value, [dim]), m.squeeze(place, [dim])


def _median(m: Maker, x: Value, dim: int = -1, keepdim: bool = False) -> tuple[Value, Value]:
    """Return the lower median along an axis and its position; it is NaN if an element is NaN."""
    if x.rank == 0:
        return x, m.tensor(0, "int64")
    x = m.nonempty(x, [dim])
    size = m.scalar(x.dims[dim % x.rank])
    order = m.order(x, dim, ascending=True)
    middle = (size - 1) // m.tensor(2, "int64")
    place = m.take(order, m.reshape(middle, [1]), dim)
    if is_float(x.dtype):  # the sort places NaN last
        last = m.slice(order, dim, -1, None)
        place = m.where(m.isnan(m.gather(x, last, dim)), last, place)
    return _at_place(m, x, place, dim, keepdim)


def _nanmedian(m: Maker, x: Value, dim: int = -1, keepdim: bool = False) -> tuple[Value, Value]:
    """Return (median, position): the lower median of the elements that are not NaN.

    The median is NaN if all elements are NaN.
    """
    if x.rank == 0:
        return x, m.tensor(0, "int64")
    if not is_float(x.dtype):
        return _median(m, x, dim, keepdim)
    x = m.nonempty(x, [dim])
    numbers = m.cast(~m.isnan(x), "int64")
    count = m.reduce("sum", numbers, [dim], True)
    middle = m.maximum((count - 1) // m.tensor(2, "int64"), 0)
    place = m.gather(m.order(x, dim, ascending=True), middle, dim)
    return _at_place(m, x, place, dim, keepdim)


def _whole_median(m: Maker, x: Value) -> Value:
    """Return the lower median of all elements; it is NaN if an element is NaN, or if none exists.

    An empty tensor of integers is refused. PyTorch converts NaN to an integer there, and the
    result depends on the processor.
    """
    line = m.flat(x)
    if not x.is_float or _has_elements(x):
        return _median(m, line, 0)[0]
    some = m.reduce("any", m.isnan(line), [0])
    return m.where(some, math.nan, _whole_nanmedian(m, line))


def _whole_nanmedian(m: Maker, x: Value) -> Value:
    """Return the lower median of all elements that are not NaN; it is NaN if there is none."""
    line = m.flat(x)
    if x.is_float and not _has_elements(x):
        line = m.concat([line, m.literal([math.nan], x.dtype)], 0)
    return _nanmedian(m, line, 0)[0]


def _has_elements(x: Value) -> bool:
    return all(isinstance(d, int) and d for d in x.dims)


def _mode(m: Maker, x: Value, dim: int = -1, keepdim: bool = False) -> tuple[Value, Value]:
    """Return the least of the most frequent elements along an axis, and its last position.

    A NaN differs from every element.
    """
    if x.rank == 0:
        return x, m.tensor(0, "int64")
    x = m.nonempty(x, [dim])
    order = m.move(m.order(x, dim, ascending=True), dim, -1)
    number = m.cast(x, "uint8") if x.dtype == "bool" else x
    line = m.gather(m.move(number, dim, -1), order, -1)
    first, end = (
        Value(m.call("searchsorted", line, line, right=right, dtype="int64"), "int64", line.dims)
        for right in (False, True)
    )
    length = end - first
    if line.is_float:
        length = m.where(m.isnan(line), 1, length)
    start = m.reduce_position("argmax", length, -1, True)
    last = start + m.gather(length, start, -1) - 1
    place = m.move(m.gather(order, last, -1), -1, dim)
    return _at_place(m, x, place, dim, keepdim)


def _kth(m: Maker, x: Value, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Value, Value]:
    if x.rank == 0:
        return x, m.tensor(0, "int64")
    x = m.nonempty(x, [dim], int(k))
    place = m.expand(m.pick(m.order(x, dim, ascending=True), dim, int(k) - 1), dim % x.rank)
    return _at_place(m, x, place, dim, keepdim)


def _count_nonzero(m: Maker, x: Value, dim: object = None) -> Value:
    some = m.cast(m.cast(x, "bool"), "int64")
    return m.reduce("sum", some, axes_of(x, dim))


ROWS: Mapping[str, Row] = {
    **{f"sum.{o}": _total("sum") for o in ("default", "dim_IntList")},
    **{f"prod.{o}": _total("prod") for o in ("default", "dim_int")},
    **{f"mean.{o}": _total("mean") for o in ("default", "dim")},
    "amax.default": _extreme("max"),
    "amin.default": _extreme("min"),
    "max.default": _extreme("max"),
    "min.default": _extreme("min"),
    "max.dim": _extreme_along("max"),
    "min.dim": _extreme_along("min"),
    "argmax.default": _arg("argmax"),
    "argmin.default": _arg("argmin"),
    **{f"{n}.{o}": _truth(n) for n in ("any", "all") for o in ("default", "dim", "dims")},
    **{f"var.{o}": _variance(False, False) for o in ("default", "dim", "correction")},
    **{f"std.{o}": _variance(True, False) for o in ("default", "dim", "correction")},
    **{f"var_mean.{o}": _variance(False, True) for o in ("default", "dim", "correction")},
    **{f"std_mean.{o}": _variance(True, True) for o in ("default", "dim", "correction")},
    "linalg_vector_norm.default": _vector_norm,
    "logsumexp.default": _logsumexp,
    "cumsum.default": _scan("cumsum"),
    "cumprod.default": _scan("cumprod"),
    "logcumsumexp.default": _logcumsumexp,
    "cummax.default": _running_extreme("max"),
    "cummin.default": _running_extreme("min"),
    "median.default": _whole_median,
    "median.dim": _median,
    "nanmedian.default": _whole_nanmedian,
    "nanmedian.dim": _nanmedian,
    "kthvalue.default": _kth,
    "mode.default": _mode,
    "count_nonzero.default": _count_nonzero,
    "count_nonzero.dim_IntList": _count_nonzero,
}
