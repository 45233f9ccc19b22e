"""Converters of gathers and scatters. Negative indices count from the end.

With ``Options(check_indices=True)`` the program refuses calls with an index outside its axis. The
indices of GatherND and ScatterND are not checked, because they belong to several axes.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tvm_disc.errors import TypeMismatch, Unsupported
from tvm_disc.frontends.calc import Calc, Dim, Expr, const, op
from tvm_disc.frontends.onnx.node import OnnxNode, title
from tvm_disc.frontends.onnx.table import CLASSIC, Row


def wrapped(n: Calc, picks: Expr, size: Dim) -> Expr:
    """Return indices along an axis, with ``size`` added to negative ones."""
    if n.infer.is_natural(picks):
        return picks
    known = n.known(picks)
    if known is not None and isinstance(size, int):
        return const(np.where(known < 0, known + size, known).astype(known.dtype))
    from_end = picks + n.scalar(size, n.dtype(picks))
    return n.where(picks < 0, from_end, picks)


def checked(n: OnnxNode, picks: Expr, size: Dim) -> Expr:
    """Return indices along an axis of length ``size``, with a range check if it is enabled."""
    known = n.known(picks)
    if known is not None and isinstance(size, int) and ((-size <= known) & (known < size)).all():
        return picks
    what = f"{title(n.proto)}: the indices"
    low, high = n.scalar(n.dim("subtract", 0, size)), n.scalar(size)
    return op("assert_inside", picks, low, high, what=what, default=False)


def _places(n: OnnxNode, picks: Expr, x: Expr, axis: int) -> Expr:
    """Return indices along an axis of ``x``, checked, with nonnegative values."""
    size = n.size(x, axis)
    return wrapped(n, checked(n, picks, size), size)


def _gather(n: OnnxNode) -> Expr:
    x = n[0]
    axis = n.axis_of(x, 0)
    picks = checked(n, n[1], n.size(x, axis))
    known = n.known(picks)
    if known is not None and known.ndim == 0:
        # For a constant scalar index the mode handles negative values without a comparison.
        return op("take", x, picks, axis=axis, mode="clip" if known >= 0 else "wrap")
    return n.take(x, wrapped(n, picks, n.size(x, axis)), axis)


def _features(n: OnnxNode) -> Expr:
    """Convert ArrayFeatureExtractor: gather along the last axis; a vector is a batch of one row."""
    x = n.expand(n[0], 0) if n.rank(n[0]) == 1 else n[0]
    axis = n.rank(x) - 1
    return n.take(x, _places(n, n.reshape(n[1], [-1]), x, axis), axis)


def _gather_elements(n: OnnxNode) -> Expr:
    x, axis = n[0], n.axis_of(n[0], 0)
    return op("gather", x, _places(n, n[1], x, axis), axis=axis)


def _gather_nd(n: OnnxNode) -> Expr:
    """Convert GatherND; an index is stored along the last axis in ONNX, the first in Relay."""
    x, batch = n[0], int(n.attr("batch_dims", 0))
    picks, depth = n[1], n.literals(n[1])[-1]
    if depth is None:
        made = n.rank(x) + n.rank(picks) - 1 - batch
        depth = n.implied("the last dim of the indices", lambda rank: made - rank)
        picks = _of_depth(n, picks, depth)
    coords = _coordinates(n, x, picks, batch, depth)
    return op("gather_nd", x, coords, batch_dims=batch)


def _of_depth(n: Calc, picks: Expr, depth: int) -> Expr:
    """Return indices whose last dim is ``depth``; it is guarded if unknown at compile time."""
    dims = [*[None] * (n.rank(picks) - 1), depth]
    made: Expr = n.fitted({"indices": (picks, dims)})[0]
    return made


def _coordinates(n: Calc, x: Expr, picks: Expr, batch: int, depth: int) -> Expr:
    """Return the indices for Relay: their last axis is moved to the front, and negative ones are
    made nonnegative.

    ``depth`` is the number of axes that are indexed, after ``batch`` batch axes.
    """
    if not n.infer.is_natural(picks):
        sizes = n.vector(n.sizes(x)[batch : batch + depth])
        from_end = picks + n.cast(sizes, n.dtype(picks))
        picks = n.where(picks < 0, from_end, picks)
    return n.move(picks, -1, 0)


_REDUCTIONS = {"none": "update", "add": "add", "mul": "mul", "min": "min", "max": "max"}


def _reduction(n: OnnxNode) -> str:
    name = str(n.attr("reduction", "none"))
    if name not in _REDUCTIONS:
        raise Unsupported(f"reduction: expected one of {', '.join(_REDUCTIONS)}, found {name!r}")
    return _REDUCTIONS[name]


def _numbers(n: OnnxNode, scatter: Callable[[Expr, Expr], Expr]) -> Expr:
    """Return ``scatter`` of the data and the updates, which for bool tensors is done in int8."""
    if n.dtype(n[0]) != "bool":
        return scatter(n[0], n[2])
    made = scatter(n.cast(n[0], "int8"), n.cast(n[2], "int8"))
    return n.not_equal(made, 0)


def _scatter_elements(n: OnnxNode) -> Expr:
    axis = n.axis_of(n[0], 0)
    picks, how = _places(n, n[1], n[0], axis), _reduction(n)
    return _numbers(n, lambda x, y: op("scatter_elements", x, picks, y, axis=axis, reduction=how))


def _scatter_nd(n: OnnxNode) -> Expr:
    # The number of axes that are indexed follows from the ranks.
    depth = n.rank(n[1]) - 1 + n.rank(n[0]) - n.rank(n[2])
    picks = _of_depth(n, n[1], depth)
    coords, how = _coordinates(n, n[0], picks, 0, depth), _reduction(n)
    return _numbers(n, lambda x, y: op("scatter_nd", x, coords, y, mode=how))


def _one_hot(n: OnnxNode) -> Expr:
    """Convert OneHot; an index that is out of range sets no element."""
    picks, values = n.cast(n[0], "int64"), n[2]
    axis = n.axis(int(n.attr("axis", -1)), n.rank(picks) + 1, "the result")
    size = n.length(n[1])
    off, on = (n.item(values, k) for k in range(2))
    places = n.along(n.arange(size), axis, n.rank(picks) + 1)
    hit = n.equal(n.expand(wrapped(n, picks, size), axis), places)
    return n.where(hit, on, off)


def _tensor_scatter(n: OnnxNode) -> Expr:
    """Convert TensorScatter: write an update into each batch entry of a cache, at its position."""
    cache, update = n[0], n[1]
    rank, axis = n.rank(cache), n.axis_of(cache, -2)
    mode = str(n.attr("mode", "linear"))
    if axis == 0:
        raise TypeMismatch(
            f"axis: expected an axis other than the batch axis, 0; found {n.attr('axis')}"
        )
    if mode not in ("linear", "circular"):
        raise Unsupported(f"mode: expected 'linear' or 'circular', found {mode!r}")
    batch, size = n.size(cache, 0), n.size(cache, axis)
    first = n.get(2)
    first = n.full(0, [batch], "int64") if first is None else n.cast(first, "int64")
    place = n.arange(size) - n.expand(first, 1)  # [batch, size]
    place = place % n.scalar(size) if mode == "circular" else place
    count = n.scalar(n.size(update, axis))
    inside = (place >= 0) & (place < count)
    at = n.maximum(n.minimum(place, count - 1), 0)
    read = op("take", update, at, axis=axis, batch_dims=1)
    shown = n.reshape(inside, [batch if a == 0 else size if a == axis else 1 for a in range(rank)])
    parts = cache, update, n.expand(first, 1)
    return n.written(n.where(shown, read, cache), parts, [axis], mode == "circular")


ROWS: tuple[Row, ...] = (
    Row("Gather", _gather),
    Row("ArrayFeatureExtractor", _features, domain=CLASSIC),
    Row("GatherElements", _gather_elements),
    Row("GatherND", _gather_nd),
    Row("Scatter ScatterElements", _scatter_elements),
    Row("ScatterND", _scatter_nd),
    Row("OneHot", _one_hot),
    Row("TensorScatter", _tensor_scatter),
)

__all__ = ["ROWS", "wrapped"]
