"""Converters of other operators: embedding bags, folding, assertions."""

from __future__ import annotations

import math
from collections.abc import Mapping

from tvm_disc.errors import Unsupported
from tvm_disc.frontends.torch.maker import Maker, Row
from tvm_disc.frontends.torch.rows.scatter import scattered
from tvm_disc.frontends.torch.values import Value


def _nothing(m: Maker, *args: object, **kwargs: object) -> None:
    """Emit nothing for an assertion of PyTorch; its conditions on sizes are guards already."""


def _embedding_bag(
    m: Maker,
    weight: Value,
    indices: Value,
    offsets: Value,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Value | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> tuple[object, ...]:
    """Return the sum, mean or maximum of the rows of each bag.

    ``offsets`` are the positions in ``indices`` at which bags begin.
    """
    bags, width = m.out_dims
    starts = m.cast(offsets, "int64")
    starts = m.slice(starts, 0, 0, bags) if include_last_offset else starts
    places = m.arange(indices.dims[0])
    found = m.call("searchsorted", starts, places, right=True, dtype="int64")
    bag = Value(found, "int64", places.dims) - 1
    rows = m.take(weight, m.inside(indices, weight.dims[0]), 0)
    counted = m.full(1, indices.dims, weight.dtype)
    if per_sample_weights is not None:
        rows = rows * m.expand(per_sample_weights, 1)
    if padding_idx >= 0:
        plain = m.not_equal(indices, padding_idx)
        rows = m.where(m.expand(plain, 1), rows, -math.inf if mode == 2 else 0.0)
        counted = m.cast(plain, weight.dtype)
    at = m.broadcast(m.expand(bag, 1), rows.dims)
    count = scattered(m, m.full(0, [bags], weight.dtype), 0, bag, counted, "add")
    if mode == 2:
        low = m.full(-math.inf, [bags, width], weight.dtype)
        made = scattered(m, low, 0, at, rows, "max")
        made = m.where(m.expand(count > 0.0, 1), made, 0.0)
    else:
        made = scattered(m, m.full(0, [bags, width], weight.dtype), 0, at, rows, "add")
    if mode == 1:
        made = made / m.expand(m.maximum(count, 1.0), 1)
    if any(m.used(k) for k in (1, 2, 3)):
        raise Unsupported(
            "only the first result of embedding_bag is supported; the module uses others"
        )
    return made, None, None, None


def _one_hot(m: Maker, x: Value, num_classes: int = -1) -> Value:
    depth = m.out_dims[-1]
    x = m.inside(x, depth, what="the class")
    same = m.equal(m.expand(x, x.rank), m.arange(depth, x.dtype))
    return m.cast(same, m.out_dtype)


def _channel_shuffle(m: Maker, x: Value, groups: int) -> Value:
    n, c, *rest = x.dims
    split = m.reshape(x, [n, groups, m.quotient(c, groups), *rest])
    return m.reshape(m.swap(split, 1, 2), x.dims)


def _glu(m: Maker, x: Value, dim: int = -1) -> Value:
    half = m.out_dims[dim]
    first, second = m.slice(x, dim, 0, half), m.slice(x, dim, half, half + half)
    return first * m.sigmoid(second)


def _bincount(m: Maker, x: Value, weights: Value | None = None, minlength: int = 0) -> Value:
    """Return the number, or the total weight, of the elements of each value.

    The size of the result is the greatest element plus 1, but at least ``minlength``.
    """
    x = m.at_least_zero(m.cast(x, "int64"))
    most = m.reduce("max", m.concat([x, m.literal([minlength - 1], "int64")], 0), [0])
    bins = m.counting(most + 1)
    given = m.full(1, x.dims, "int64") if weights is None else weights
    empty = m.cast(m.where(bins < 0, bins, 0), m.out_dtype)
    return scattered(m, empty, 0, x, m.cast(given, m.out_dtype), "add")


def _histc(m: Maker, x: Value, bins: int = 100, min: object = 0, max: object = 0) -> Value:
    """Return the number of elements in each of ``bins`` ranges; the last includes its upper end.

    If ``min`` equals ``max``, the limits are the least and the greatest element. NaN and elements
    outside the limits are not counted.
    """
    x = m.flat(x)
    low, high = m.like(min, x), m.like(max, x)
    if min == max:
        least, most = m.reduce("min", x, [0]), m.reduce("max", x, [0])
        alone = m.equal(least, most)
        low = m.where(alone, least - 1.0, least)
        high = m.where(alone, most + 1.0, most)
    place = (x - low) * float(bins) / (high - low)
    inside = (x >= low) & (x <= high)
    place = m.cast(m.where(inside, place, 0.0), "int64")  # rounded towards 0, as in PyTorch
    place = m.minimum(place, bins - 1)
    counts = m.full(0, [bins], x.dtype)
    return scattered(m, counts, 0, place, m.cast(inside, x.dtype), "add")


def _trace(m: Maker, x: Value) -> Value:
    rows, columns = x.dims
    same = m.equal(m.expand(m.arange(rows), 1), m.expand(m.arange(columns), 0))
    return m.reduce("sum", m.where(same, m.cast(x, m.out_dtype), 0), [0, 1])


_CHECKS = (
    "_assert_async.default _assert_async.msg _assert_scalar.default "
    "_assert_tensor_metadata.default sym_constrain_range.default "
    "sym_constrain_range_for_size.default _functional_assert_async.msg "
    "_functional_sym_constrain_range.default _functional_sym_constrain_range_for_size.default"
).split()

ROWS: Mapping[str, Row] = {
    **dict.fromkeys(_CHECKS, _nothing),
    "_embedding_bag.default": _embedding_bag,
    "_embedding_bag_forward_only.default": _embedding_bag,
    "one_hot.default": _one_hot,
    "channel_shuffle.default": _channel_shuffle,
    "native_channel_shuffle.default": _channel_shuffle,
    "glu.default": _glu,
    "bincount.default": _bincount,
    "histc.default": _histc,
    "trace.default": _trace,
}
