"""Converters of Slice and Pad, whose parameters may be unknown at compile time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tvm_disc.errors import TypeMismatch, Unsupported, counted
from tvm_disc.frontends.calc import Calc, Dim, Expr, const, op
from tvm_disc.frontends.onnx.node import OnnxNode
from tvm_disc.frontends.onnx.operators.shape import FAR, spread
from tvm_disc.frontends.onnx.table import Row


def _slice_by_attributes(n: OnnxNode) -> Expr:
    starts, ends = list(n.required("starts")), list(n.required("ends"))
    axes = list(n.attr("axes") or range(len(starts)))
    axes = [n.axis(a, n.rank(n[0])) for a in axes]
    for name, values in (("starts", starts), ("ends", ends)):
        if len(values) != len(axes):
            raise TypeMismatch(
                f"{name}: expected {counted(len(axes), 'element')}, found {len(values)}"
            )
    return cut(n, n[0], axes, starts, ends, [1] * len(axes))


def _slice(n: OnnxNode) -> Expr:
    x, rank = n[0], n.rank(n[0])
    axes, at = n.known(n.get(3)), n.get(3)
    if at is None and n.literals(n[1]) != [None]:
        axes = np.arange(n.count(n[1], "starts"))
    if axes is None:
        named = {"starts": n[1], "ends": n[2], "axes": at, "steps": n.get(4)}
        lows, highs, at, strides = n.fitted({k: (v, ["count"]) for k, v in named.items()})
        given = ((lows, 0), (highs, FAR), (strides, 1))
        starts, ends, steps = (_everywhere(n, v, at, rank, default) for v, default in given)
        return cut(n, x, list(range(rank)), starts, ends, steps)
    where = [n.axis(int(a), rank) for a in axes.reshape(-1)]
    starts, ends = (_bounds(n, n[k], len(where), name) for k, name in ((1, "starts"), (2, "ends")))
    steps = [1] * len(where) if n.get(4) is None else _bounds(n, n[4], len(where), "steps")
    return cut(n, x, where, starts, ends, steps)


def _bounds(n: OnnxNode, vector: Expr, count: int, what: str) -> list[Dim]:
    """Return the ``count`` elements of a vector of starts, ends, steps or widths.

    If the length of the vector is unknown at compile time, each call checks it.
    """
    return n.elements(n.of_length(vector, count, what), what)


def _everywhere(n: OnnxNode, vector: Expr, axes: Any, rank: int, default: int) -> list[Dim]:
    """Return one bound for each of ``rank`` axes, for ``axes`` that are unknown at compile time.

    Element i of ``vector`` is the bound of axis ``axes[i]``, or of axis i if ``axes`` is None.
    Other axes get ``default``.
    """
    if vector is None:
        return [default] * rank
    wide = n.cast(vector, "int64")
    if axes is None:
        full = n.concat([wide, const(np.full(rank, default), "int64")], 0)
        return [n.item(full, a) for a in range(rank)]
    at = n.cast(axes, "int64")
    at = n.where(at < 0, at + rank, at)
    found: list[Dim] = []
    for a in range(rank):
        hit = n.equal(at, a)
        total = n.reduce("sum", n.where(hit, wide, 0), [0])
        some = n.reduce("sum", n.cast(hit, "int64"), [0]) > 0
        found.append(n.where(some, total, default))
    return found


def cut(
    n: Calc,
    x: Expr,
    axes: Sequence[int],
    starts: Sequence[Dim],
    ends: Sequence[Dim],
    steps: Sequence[Dim],
) -> Expr:
    """Return ``x`` sliced along ``axes``; a slice whose step is unknown becomes a gather."""
    # A step beyond every axis takes one element; sums with larger steps would overflow.
    steps = [max(-FAR, min(s, FAR)) if isinstance(s, int) else n.clip(s, -FAR, FAR) for s in steps]
    plain = [k for k, s in enumerate(steps) if isinstance(s, int)]
    if plain:
        where = tuple(axes[k] for k in plain)
        chosen = [[v[k] for k in plain] for v in (starts, ends, steps)]
        if all(isinstance(v, int) for values in chosen for v in values):
            begin, end, stride = (tuple(v) for v in chosen)
            x = op("strided_slice", x, begin=begin, end=end, strides=stride, axes=where)
        else:
            bounds = [n.vector(v) for v in chosen]
            none: dict[str, object] = {"begin": None, "end": None, "strides": None}
            x = op("dyn.strided_slice", x, *bounds, axes=where, **none)
    for k, step in enumerate(steps):
        if not isinstance(step, int):
            x = _stepped(n, x, axes[k], (starts[k], ends[k], step))
    return x


def _stepped(n: Calc, x: Expr, axis: int, bounds: tuple[Dim, Dim, Expr]) -> Expr:
    """Return a slice along one axis for a step that is unknown at compile time, of any sign."""
    size = n.scalar(n.size(x, axis))
    first, last = (n.clip(n.scalar(b), -FAR, FAR) for b in bounds[:2])
    step = bounds[2]
    up = step > 0
    low, high = n.where(up, n.like(0, size), -1), n.where(up, size, size - 1)
    first, last = (n.where(b < 0, b + size, b) for b in (first, last))
    first = n.minimum(n.maximum(first, 0), high)
    last = n.minimum(n.maximum(last, low), high)
    span = n.where(up, last - first, first - last)
    stride = n.maximum(n.abs(step), 1)
    count = (n.maximum(span, 0) + (stride - 1)) // stride
    places = n.arange(count) * step + first
    return n.take(x, places, axis)


# -- padding -----------------------------------------------------------------------------------


def _pad_by_attributes(n: OnnxNode) -> Expr:
    widths = n.attr("pads") or n.required("paddings")
    return padded(
        n, n[0], list(widths), float(n.attr("value", 0.0)), str(n.attr("mode", "constant"))
    )


def _pad(n: OnnxNode) -> Expr:
    x, rank = n[0], n.rank(n[0])
    fill = n.get(2)
    given = n.get(3)
    axes = n.known(given) if given is not None else np.arange(rank)
    if axes is None:
        sides = _sides(n, n[1], given, rank)
    else:
        where = [n.axis(int(a), rank) for a in axes.reshape(-1)]
        half = len(where)
        widths = _bounds(n, n[1], 2 * half, "pads")
        sides = [spread(n, w, where, rank, 0) for w in (widths[:half], widths[half:])]
    value: Any = 0 if fill is None else n.reshape(fill, [])
    known = n.known(fill)
    value = value if known is None else known.reshape(-1)[0].item()
    return padded(n, x, [*sides[0], *sides[1]], value, str(n.attr("mode", "constant")))


def _sides(n: OnnxNode, widths: Expr, axes: object, rank: int) -> list[list[Dim]]:
    half = n.dim("floor_divide", n.size(widths, 0), 2)
    parts = n.slice(widths, 0, 0, half), n.slice(widths, 0, half, None)
    return [_everywhere(n, p, axes, rank, 0) for p in parts]


def padded(n: Calc, x: Expr, widths: Sequence[Dim], fill: Any, mode: str) -> Expr:
    """Return ``x`` padded, or cropped by negative widths.

    ``widths`` are the widths before all axes, then the widths after all axes.
    """
    rank = n.rank(x)
    pairs = list(zip(widths[:rank], widths[rank:], strict=True))
    for a, (before, after) in enumerate(pairs):
        low = before if isinstance(before, int) and before < 0 else 0
        high = after if isinstance(after, int) and after < 0 else 0
        if low or high:
            x = n.slice(x, a, -low, high or None)
            pairs[a] = (0 if low else before, 0 if high else after)
    if mode == "constant":
        return n.pad(x, pairs, fill)
    if mode not in ("edge", "reflect", "wrap"):
        raise Unsupported(f"mode: expected constant, edge, reflect or wrap, found {mode!r}")
    for a, (before, after) in enumerate(pairs):
        x, (before, after) = _trimmed(n, x, a, (before, after))
        if not (isinstance(before, int) and isinstance(after, int) and before == after == 0):
            x = _mirrored(n, x, a, (before, after), mode)
    return x


def _trimmed(n: Calc, x: Expr, axis: int, pair: tuple[Dim, Dim]) -> tuple[Expr, tuple[Dim, Dim]]:
    """Return ``x`` cropped by widths that are negative at run time, and the nonnegative parts.

    The nonnegative part of a width is max(width, 0).
    """
    cuts: list[Dim] = [0, 0]
    left = list(pair)
    for side, width in enumerate(pair):
        if isinstance(width, Expr) and not n.infer.is_natural(width):
            cuts[side] = n.maximum(-width, 0)
            left[side] = n.maximum(width, 0)
    if not any(isinstance(c, Expr) for c in cuts):
        return x, pair
    first, last = cuts
    length = n.dim("subtract", n.dim("subtract", n.size(x, axis), first), last)
    end = n.dim("add", first, n.lengths([length])[0])
    return n.slice(x, axis, first, end), (left[0], left[1])


def _mirrored(n: Calc, x: Expr, axis: int, pair: tuple[Dim, Dim], mode: str) -> Expr:
    """Return ``x`` padded along one axis with its elements by ``mode``: edge, wrap or reflect."""
    size = n.size(x, axis)
    length = n.dim("add", n.dim("add", size, pair[0]), pair[1])
    place = n.arange(length) - n.scalar(pair[0])
    if mode == "edge":
        last = n.scalar(size) - 1
        place = n.minimum(n.maximum(place, 0), last)
    elif mode == "wrap":
        place = place % n.maximum(n.scalar(size), 1)
    else:
        period = n.maximum((n.scalar(size) - 1) * 2, 1)
        turned = place % period
        place = n.minimum(turned, period - turned)
    return n.take(x, place, axis)


ROWS: tuple[Row, ...] = (
    Row("Slice", _slice_by_attributes),
    Row("Slice", _slice, since=10),
    Row("Pad", _pad_by_attributes),
    Row("Pad", _pad, since=11),
)

__all__ = ["ROWS", "cut", "padded"]
