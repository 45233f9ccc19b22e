"""Image resizing in core operators: axis by axis, each as a weighted sum of rows.

    before  image.resize2d(x)                           # f32[n, c, h, w] -> f32[n, c, t, u]
    after   x1 = sum_k take(x, place + k, 2) * weight_k    # f32[n, c, t, w]
            y  = sum_k take(x1, place + k, 3) * weight_k   # f32[n, c, t, u]

Places and weights are vectors over the new axis, computed from the dims alone. Positions out of
bounds read the border, because ``take`` clips them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import tvm
from tvm import relax, tirx
from tvm.relax import op as R

from tvm_disc.relay.importer.context import reshape_call

Expr: TypeAlias = Any
Emit: TypeAlias = Callable[[Expr], Expr]

F32 = "float32"
FLOATS = ("float32", "float64")


def resize(emit: Emit, call: Any) -> Expr | None:
    """Return ``image.resize2d`` in core operators, or None if its attributes are not supported."""
    attrs, x = call.attrs, call.args[0]
    method, layout = str(attrs.method), str(attrs.layout)
    mode, rounding = str(attrs.coordinate_transformation_mode), str(attrs.rounding_method)
    target = call.ty.shape
    if not isinstance(target, relax.ShapeExpr) or set(layout) != set("NCHW"):
        return None
    if mode not in COORDINATES or str(call.ty.dtype) != str(x.ty.dtype):
        return None
    if method == "nearest_neighbor":
        if rounding not in NEAREST:
            return None
    elif str(x.ty.dtype) not in FLOATS or (method == "cubic" and int(attrs.cubic_exclude)):
        return None
    for axis in (layout.index("H"), layout.index("W")):
        length, size = x.ty.shape.values[axis], target.values[axis]
        if tvm.sym.Analyzer().can_prove_equal(length, size) and mode in IDENTITY:
            continue
        where = COORDINATES[mode](
            emit, _places(emit, size), _float(emit, length), _float(emit, size)
        )
        if method == "nearest_neighbor":
            picks = emit(R.astype(NEAREST[rounding](emit, where), "int64"))
            x = emit(R.take(x, picks, axis, "clip"))
        else:
            alpha = float(attrs.cubic_alpha) if method == "cubic" else None
            x = _weighted(emit, x, where, axis, alpha)
    return x


def _weighted(emit: Emit, x: Expr, where: Expr, axis: int, alpha: float | None) -> Expr:
    """Return the weighted sum of two rows (four with the cubic ``alpha``) around every place."""
    below = emit(R.floor(where))
    weights = _linear(emit, emit(R.subtract(where, below)))
    first = 0
    if alpha is not None:
        weights = _cubic(emit, emit(R.subtract(where, below)), alpha)
        first = -1
    start = emit(R.astype(below, "int64"))
    shape = [1] * len(x.ty.shape.values)
    shape[axis] = where.ty.shape.values[0]
    total: Expr = None
    for k, weight in enumerate(weights):
        picks = emit(R.add(start, _const(first + k, "int64"))) if first + k else start
        along = emit(reshape_call(weight, shape))
        if str(x.ty.dtype) != F32:
            along = emit(R.astype(along, str(x.ty.dtype)))
        term = emit(R.multiply(emit(R.take(x, picks, axis, "clip")), along))
        total = term if total is None else emit(R.add(total, term))
    return total


def _linear(emit: Emit, part: Expr) -> Sequence[Expr]:
    return [emit(R.subtract(_const(1), part)), part]


def _cubic(emit: Emit, t: Expr, a: float) -> Sequence[Expr]:
    """Return Keys' cubic kernel with parameter ``a`` at distances 1 + t, t, 1 - t, 2 - t."""

    def polynomial(*coefficients: float) -> Expr:
        value: Expr = _const(coefficients[0])
        for c in coefficients[1:]:
            value = emit(R.multiply(value, t))
            value = emit(R.add(value, _const(c))) if c else value
        return value

    return [
        polynomial(a, -2 * a, a, 0),
        polynomial(a + 2, -(a + 3), 0, 1),
        polynomial(-(a + 2), 2 * a + 3, -a, 0),
        polynomial(-a, a, 0, 0),
    ]


def _const(value: float, dtype: str = F32) -> Expr:
    return relax.const(np.array(value, dtype), dtype)


def _places(emit: Emit, size: Expr) -> Expr:
    """Return 0, 1, ..., size - 1 as floats."""
    zero, one = tirx.IntImm("int64", 0), tirx.IntImm("int64", 1)
    return emit(R.astype(emit(R.arange(zero, size, one, "int64")), F32))


def _float(emit: Emit, dim: Expr) -> Expr:
    """Return a dim as a tensor that broadcasts."""
    if isinstance(dim, tirx.IntImm):
        return _const(float(dim.value))
    return emit(R.astype(emit(R.shape_to_tensor(relax.ShapeExpr([dim]))), F32))


def _middles(emit: Emit, place: Expr, source: Expr, target: Expr) -> Expr:
    """Return the center of each new element in units of old elements, measured from the border."""
    scale = emit(R.divide(source, target))
    return emit(R.multiply(emit(R.add(place, _const(0.5))), scale))


def _half_pixel(emit: Emit, place: Expr, source: Expr, target: Expr) -> Expr:
    return emit(R.subtract(_middles(emit, place, source, target), _const(0.5)))


def _pytorch_half_pixel(emit: Emit, place: Expr, source: Expr, target: Expr) -> Expr:
    several = emit(R.greater(target, _const(1)))
    return emit(R.where(several, _half_pixel(emit, place, source, target), _const(0)))


def _align_corners(emit: Emit, place: Expr, source: Expr, target: Expr) -> Expr:
    gaps = emit(R.maximum(emit(R.subtract(target, _const(1))), _const(1)))
    scale = emit(R.divide(emit(R.subtract(source, _const(1))), gaps))
    return emit(R.multiply(place, scale))


def _asymmetric(emit: Emit, place: Expr, source: Expr, target: Expr) -> Expr:
    return emit(R.multiply(place, emit(R.divide(source, target))))


COORDINATES: dict[str, Callable[[Emit, Expr, Expr, Expr], Expr]] = {
    "half_pixel": _half_pixel,
    "pytorch_half_pixel": _pytorch_half_pixel,
    "tf_half_pixel_for_nn": _middles,
    "align_corners": _align_corners,
    "asymmetric": _asymmetric,
}
"""Functions ``(emit, place, source, target)`` to the input coordinate of an output element."""

IDENTITY = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric")
"""Modes that leave an axis unchanged if its length does not change."""

LITTLE = 1e-5  # keeps a place that rounding moved slightly off an integer

NEAREST: dict[str, Callable[[Emit, Expr], Expr]] = {
    "round": lambda emit, where: emit(R.round(where)),
    "floor": lambda emit, where: emit(R.floor(emit(R.add(where, _const(LITTLE))))),
    "ceil": lambda emit, where: emit(R.ceil(emit(R.subtract(where, _const(LITTLE))))),
    "round_prefer_floor": lambda emit, w: emit(R.ceil(emit(R.subtract(w, _const(0.5))))),
    "round_prefer_ceil": lambda emit, w: emit(R.floor(emit(R.add(w, _const(0.5))))),
}

__all__ = ["resize"]
