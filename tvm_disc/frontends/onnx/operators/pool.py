"""Converters of pooling operators."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

from tvm_disc.errors import Unsupported
from tvm_disc.frontends.calc import Dim, Expr, is_float, least_of, op
from tvm_disc.frontends.onnx.node import OnnxNode
from tvm_disc.frontends.onnx.operators.convolution import (
    Window,
    bordered,
    reach,
    spatial,
    window_of,
)
from tvm_disc.frontends.onnx.operators.slices import padded
from tvm_disc.frontends.onnx.table import Row


def _window(n: OnnxNode, x: Expr) -> Window:
    return window_of(n, x, [int(k) for k in n.required("kernel_shape")])


def _kernel(window: Window) -> list[int]:
    """Return the size of the kernel; it is constant, because it is an attribute."""
    return [k for k in window.kernel if isinstance(k, int)]


def _pooled(
    n: OnnxNode, x: Expr, window: Window, name: str, padding: object, **attrs: object
) -> Expr:
    return op(
        f"nn.{name}_pool{spatial(n, x)}d",
        x,
        pool_size=tuple(window.kernel),
        strides=tuple(window.strides),
        dilation=tuple(window.dilations),
        padding=padding,
        **attrs,
    )


def _is_plain(n: OnnxNode, window: Window) -> bool:
    """Return whether the padding is constant and the number of windows is rounded down."""
    return window.is_fixed and not n.attr("ceil_mode", 0)


def _begin_inside(window: Window) -> bool:
    """Return whether every window begins before the end padding, for every size of the input.

    Then rounding the number of windows up returns ONNX's number of windows. Otherwise the rounded
    number may be too large, because ONNX drops windows that begin in the end padding.
    """
    return window.is_fixed and all(
        isinstance(after, int) and (k - 1) * d + 1 >= stride + after
        for k, d, stride, after in zip(
            _kernel(window), window.dilations, window.strides, window.after, strict=True
        )
    )


def _beyond(n: OnnxNode, x: Expr, window: Window) -> list[Dim]:
    """Return by how many elements the last window of each axis extends beyond the padded input.

    With ceil_mode, the last window may be partial, but must begin in the input or the padding
    before it.
    """
    found = []
    for k, stride in enumerate(window.strides):
        size = n.size(x, 2 + k)
        inside = n.dim("add", size, window.before[k])
        whole = n.dim("add", inside, window.after[k])
        span = reach(n, window.kernel[k], window.dilations[k])
        count = n.dim("subtract", whole, span)
        if n.attr("ceil_mode", 0):
            count = n.dim("add", count, stride - 1)
        last = n.dim("floor_divide", count, stride)
        if n.attr("ceil_mode", 0):
            begins = n.dim("floor_divide", n.dim("subtract", inside, 1), stride)
            last = n.dim("minimum", last, begins)
        end = n.dim("add", n.dim("multiply", last, stride), span)
        found.append(n.dim("maximum", n.dim("subtract", end, whole), 0))
    return found


def _extended(n: OnnxNode, x: Expr, more: Sequence[Dim], fill: object) -> Expr:
    rank = n.rank(x)
    return padded(n, x, [0] * rank + [0, 0, *more], fill, "constant")


def _covered(n: OnnxNode, x: Expr, window: Window, more: Sequence[Dim], fill: object) -> Expr:
    """Return ``x`` with the padding of a window, and ``more`` elements at the ends."""
    return _extended(n, bordered(n, x, window, fill), more, fill)


def _max_pool(n: OnnxNode) -> Expr | list[Expr]:
    x = n[0]
    window = _window(n, x)
    if n.wants(1):
        return _max_pool_with_indices(n, x, window)
    if _is_plain(n, window):
        return _pooled(n, x, window, "max", window.padding)
    if _begin_inside(window):
        return _pooled(n, x, window, "max", window.padding, ceil_mode=True)
    least = least_of(n.dtype(x))
    wide = _covered(n, x, window, _beyond(n, x, window), least)
    return _pooled(n, wide, window, "max", (0,) * 2 * spatial(n, x))


def _max_pool_with_indices(n: OnnxNode, x: Expr, window: Window) -> list[Expr]:
    """Return the maxima of all windows, and their positions in the flat input."""
    rank, least = spatial(n, x), least_of(n.dtype(x))
    wide = _covered(n, x, window, _beyond(n, x, window), least)
    counts = [_count(n, wide, window, k) for k in range(rank)]
    taps = list(product(*map(range, _kernel(window))))
    cells = []
    for tap in taps:
        cell = wide
        for k, t in enumerate(tap):
            first, stride = t * window.dilations[k], window.strides[k]
            last = n.dim("multiply", n.dim("subtract", counts[k], 1), stride)
            cell = n.slice(cell, 2 + k, first, n.dim("add", last, first + 1), stride)
        cells.append(cell)
    both = n.stack(cells, 2 + rank)
    best = n.cast(op("argmax", both, axis=(2 + rank,)), "int64")
    return [n.reduce("max", both, [2 + rank]), _places(n, x, window, best, counts)]


def _count(n: OnnxNode, wide: Expr, window: Window, k: int) -> Dim:
    """Return the number of windows along an axis of the padded input."""
    span = reach(n, window.kernel[k], window.dilations[k])
    rest = n.dim("subtract", n.size(wide, 2 + k), span)
    return n.dim("add", n.dim("floor_divide", rest, window.strides[k]), 1)


def _places(n: OnnxNode, x: Expr, window: Window, best: Expr, counts: Sequence[Dim]) -> Expr:
    """Return the maxima's positions in the flat input; ``best`` has those in the windows."""
    rank, sizes = n.rank(x) - 2, n.sizes(x)
    channels = n.along(n.arange(sizes[0]), 0, 2 + rank) * n.scalar(sizes[1])
    found = channels + n.along(n.arange(sizes[1]), 1, 2 + rank)
    order = list(range(rank))
    found = found * n.scalar(n.product(sizes[2:]))
    stride: Dim = 1
    rest = best
    for k in reversed(order):
        tap = rest % _kernel(window)[k]
        rest = rest // _kernel(window)[k]
        begin = n.arange(counts[k]) * window.strides[k] - n.scalar(window.before[k])
        place = tap * window.dilations[k] + n.along(begin, 2 + k, 2 + rank)
        if n.attr("storage_order", 0):
            columns = n.product(sizes[2 : 2 + k])
            found = found + place * n.scalar(columns)
        else:
            found = found + place * n.scalar(stride)
            stride = n.dim("multiply", stride, sizes[2 + k])
    return found


def _average_pool(n: OnnxNode) -> Expr:
    x = n[0]
    window, whole = _window(n, x), bool(n.attr("count_include_pad", 0))
    if _is_plain(n, window) and all(d == 1 for d in window.dilations):
        return _pooled(n, x, window, "avg", window.padding, count_include_pad=whole)
    ones = n.full(1, [1, 1, *n.sizes(x)[2:]], n.dtype(x))
    more = _beyond(n, x, window)
    count = bordered(n, ones, window, 1 if whole else 0)
    return _summed(n, x, window, more) / _sums(n, _extended(n, count, more, 0), window)


def _summed(n: OnnxNode, x: Expr, window: Window, more: Sequence[Dim]) -> Expr:
    """Return the sums of all windows of the zero-padded input."""
    return _sums(n, _covered(n, x, window, more, 0), window)


def _sums(n: OnnxNode, x: Expr, window: Window) -> Expr:
    none = (0,) * 2 * spatial(n, x)
    made = _pooled(n, x, window, "avg", none, count_include_pad=True)
    return made * math.prod(_kernel(window))


def _lp_pool(n: OnnxNode) -> Expr:
    x, p = n[0], float(n.attr("p", 2))
    window = _window(n, x)
    total = _summed(n, _power(n, x, p), window, _beyond(n, x, window))
    return _root(n, total, p)


def _power(n: OnnxNode, x: Expr, p: float) -> Expr:
    if p == 1:
        return n.abs(x)
    return x * x if p == 2 else n.abs(x) ** n.like(p, x)


def _root(n: OnnxNode, x: Expr, p: float) -> Expr:
    if p == 1:
        return x
    return n.sqrt(x) if p == 2 else x ** n.like(1 / p, x)


def _over_space(n: OnnxNode) -> list[int]:
    return list(range(2, n.rank(n[0])))


def _global_lp(n: OnnxNode) -> Expr:
    p = float(n.attr("p", 2))
    return _root(n, n.reduce("sum", _power(n, n[0], p), _over_space(n), True), p)


def _max_unpool(n: OnnxNode) -> Expr:
    """Convert MaxUnpool: write elements to the positions that max pooling has returned."""
    x, picks = n[0], n[1]
    window = _window(n, x)
    if not is_float(n.dtype(x)):
        raise Unsupported(f"expected floating-point elements, found {n.dtype(x)}")
    own: list[Dim] = n.sizes(x)[:2]
    for k, stride in enumerate(window.strides):
        full = n.dim("multiply", n.dim("subtract", n.size(x, 2 + k), 1), stride)
        full = n.dim("add", full, window.kernel[k])
        cut = n.dim("add", window.before[k], window.after[k])
        own.append(n.dim("subtract", full, cut))
    sizes = own
    if n.get(2) is not None:
        sizes = n.sizes_in(n.of_length(n[2], n.rank(x), "output_shape"), "output_shape")
        picks = _moved(n, picks, own, sizes)
    blank = n.full(0, [n.product(sizes)], n.dtype(x))
    flat = [n.reshape(v, [-1]) for v in (picks, x)]
    made = op("scatter_elements", blank, *flat, axis=0, reduction="update")
    return n.reshape(made, sizes)


def _moved(n: OnnxNode, picks: Expr, own: Sequence[Dim], sizes: Sequence[Dim]) -> Expr:
    """Convert flat positions in a tensor of shape ``own`` to those in one of shape ``sizes``."""
    found: Expr = n.like(0, picks)
    rest, stride = picks, 1
    step: Dim = stride
    for have, want in zip(reversed(own), reversed(sizes), strict=True):
        size = n.scalar(have)
        found = found + rest % size * n.scalar(step)
        rest, step = rest // size, n.dim("multiply", step, want)
    return found


ROWS: tuple[Row, ...] = (
    Row("MaxPool", _max_pool),
    Row("AveragePool", _average_pool),
    Row("LpPool", _lp_pool),
    Row("GlobalAveragePool", lambda n: n.reduce("mean", n[0], _over_space(n), True)),
    Row("GlobalMaxPool", lambda n: n.reduce("max", n[0], _over_space(n), True)),
    Row("GlobalLpPool", _global_lp),
    Row("MaxUnpool", _max_unpool),
)
