"""Image resizing in core operators: axis by axis, each as a weighted sum of rows.

    before  image.resize2d(x)                           # f32[n, c, h, w] -> f32[n, c, t, u]
    after   x1 = sum_k take(x, index + k, 2) * weight_k    # f32[n, c, t, w]
            y  = sum_k take(x1, index + k, 3) * weight_k   # f32[n, c, t, u]

Indices and weights are vectors over the new axis, computed from the dims alone. Indices out of
bounds read the border, because ``take`` clips them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tvm
from tvm import relax, tirx
from tvm.relax import op as R

from tvm_disc.relay.ops.algebra import maximum, where
from tvm_disc.relay_passes.terms import Term, TermEmitter, scalar
from tvm_disc.typing import Call, Expr, Size

F32 = "float32"
FLOATS = ("float32", "float64")


def resize(t: TermEmitter, call: Call) -> Term | None:
    """Return ``image.resize2d`` in core operators, or None if its attributes are not supported."""
    attrs, x = call.attrs, t.of(call.args[0])
    dims = call.args[0].ty.shape.values
    method, layout = str(attrs.method), str(attrs.layout)
    mode, rounding = str(attrs.coordinate_transformation_mode), str(attrs.rounding_method)
    target = call.ty.shape
    if not isinstance(target, relax.ShapeExpr) or set(layout) != set("NCHW"):
        return None
    if mode not in COORDINATES or str(call.ty.dtype) != x.dtype:
        return None
    if method == "nearest_neighbor":
        if rounding not in NEAREST:
            return None
    elif x.dtype not in FLOATS or (method == "cubic" and int(attrs.cubic_exclude)):
        return None
    for axis in (layout.index("H"), layout.index("W")):
        length, size = dims[axis], target.values[axis]
        if tvm.sym.Analyzer().can_prove_equal(length, size) and mode in IDENTITY:
            continue
        at = COORDINATES[mode](_places(t, size), _float(t, length), _float(t, size))
        if method == "nearest_neighbor":
            x = _taken(t, x, t.cast(NEAREST[rounding](t, at), "int64"), axis)
        else:
            alpha = float(attrs.cubic_alpha) if method == "cubic" else None
            along: list[Any] = [1] * len(dims)
            along[axis] = size
            x = _weighted(t, x, at, axis, along, alpha)
    return x


def _taken(t: TermEmitter, x: Term, picks: Term, axis: int) -> Term:
    return t.made(R.take(t.expr(x), t.expr(picks), axis, "clip"), x.dtype)


def _weighted(
    t: TermEmitter, x: Term, at: Term, axis: int, along: Sequence[Size], alpha: float | None
) -> Term:
    """Return the weighted sum of the two rows around each position, or of four if ``alpha`` is set.

    ``alpha`` is the parameter of the cubic kernel.
    """
    below = t.apply("floor", at)
    part = at - below
    weights, first = ([1 - part, part], 0) if alpha is None else (_cubic(part, alpha), -1)
    start = t.cast(below, "int64")
    total: Term | None = None
    for k, weight in enumerate(weights, first):
        row = _taken(t, x, start + k if k else start, axis)
        term = row * t.cast(t.reshape(weight, along), x.dtype)
        total = term if total is None else total + term
    assert total is not None
    return total


def _cubic(t: Term, a: float) -> list[Term]:
    """Return Keys' cubic kernel with parameter ``a`` at distances 1 + t, t, 1 - t, 2 - t."""
    return [
        ((t * a - 2 * a) * t + a) * t,
        (t * (a + 2) - (a + 3)) * t * t + 1,
        ((t * -(a + 2) + (2 * a + 3)) * t - a) * t,
        (t * -a + a) * t * t,
    ]


def _places(t: TermEmitter, size: Expr) -> Term:
    """Return 0, 1, ..., size - 1 as floats."""
    zero, one = tirx.IntImm("int64", 0), tirx.IntImm("int64", 1)
    return t.cast(t.made(R.arange(zero, size, one, "int64"), "int64"), F32)


def _float(t: TermEmitter, dim: Expr) -> Term:
    """Return a dim as a float32 scalar, or as a vector of one element."""
    if isinstance(dim, tirx.IntImm):
        return t.of(scalar(float(dim.value), F32))
    return t.cast(t.made(R.shape_to_tensor(relax.ShapeExpr([dim])), "int64"), F32)


def _middles(place: Term, source: Term, target: Term) -> Term:
    """Return the distance of the center of each new element from the border, in old elements."""
    scale = source / target
    return (place + 0.5) * scale


def _half_pixel(place: Term, source: Term, target: Term) -> Term:
    return _middles(place, source, target) - 0.5


def _pytorch_half_pixel(place: Term, source: Term, target: Term) -> Term:
    return where(target > 1, _half_pixel(place, source, target), 0)


def _align_corners(place: Term, source: Term, target: Term) -> Term:
    gaps = maximum(target - 1, 1)
    return place * ((source - 1) / gaps)


def _asymmetric(place: Term, source: Term, target: Term) -> Term:
    return place * (source / target)


COORDINATES: dict[str, Callable[[Term, Term, Term], Term]] = {
    "half_pixel": _half_pixel,
    "pytorch_half_pixel": _pytorch_half_pixel,
    "tf_half_pixel_for_nn": _middles,
    "align_corners": _align_corners,
    "asymmetric": _asymmetric,
}
"""Functions that map ``(place, source, target)`` to the input coordinate of an output element."""

IDENTITY = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric")
"""Modes that leave an axis unchanged if its length does not change."""

LITTLE = 1e-5  # tolerance for positions that rounding moved slightly off an integer

NEAREST: dict[str, Callable[[TermEmitter, Term], Term]] = {
    "round": lambda t, at: t.apply("round", at),
    "floor": lambda t, at: t.apply("floor", at + LITTLE),
    "ceil": lambda t, at: t.apply("ceil", at - LITTLE),
    "round_prefer_floor": lambda t, at: t.apply("ceil", at - 0.5),
    "round_prefer_ceil": lambda t, at: t.apply("floor", at + 0.5),
}

__all__ = ["resize"]
