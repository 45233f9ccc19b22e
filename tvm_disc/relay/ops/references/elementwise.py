"""NumPy semantics of element-wise, comparison, creation and reduction operators."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def unary(func: Callable[..., object]) -> Callable[..., Array]:
    """Return ``func`` with the result in its operand's type (NumPy would widen integers)."""

    def apply(x: Array) -> Array:
        return np.asarray(func(x)).astype(x.dtype)

    return apply


def binary(func: Callable[..., object]) -> Callable[..., Array]:
    """Return a broadcasting ``func`` whose result has the operands' type."""

    def apply(a: Array, b: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(func(a, b)).astype(np.result_type(a, b))

    return apply


def predicate(func: Callable[..., object]) -> Callable[..., Array]:
    """Return a broadcasting ``func`` with a bool result."""

    def apply(*operands: Array) -> Array:
        return np.asarray(func(*operands)).astype(np.bool_)

    return apply


def logical(func: Callable[..., object]) -> Callable[..., Array]:
    """Return a broadcasting logical ``func`` whose result has the operands' type."""
    return binary(lambda a, b: func(a.astype(bool), b.astype(bool)))


def trunc_divide(a: Array, b: Array) -> Array:
    """Divide with rounding towards zero; an integer divided by zero is zero."""
    if not np.issubdtype(np.result_type(a, b), np.integer):
        return np.asarray(np.trunc(a / b))
    safe = np.where(b == 0, np.ones_like(b), b)
    down, rest = a // safe, a % safe
    up = (rest != 0) & ((a < 0) != (safe < 0))
    return np.where(b == 0, np.zeros_like(down), down + up.astype(down.dtype))


def divide(a: Array, b: Array) -> Array:
    """Divide; integers are truncated, as in Relay's ``divide``."""
    if np.issubdtype(np.result_type(a, b), np.integer):
        return trunc_divide(a, b)
    return np.asarray(a / b)


def erf(x: Array) -> Array:
    """Return the error function."""
    return np.asarray(np.vectorize(math.erf, otypes=[np.float64])(x)).astype(x.dtype)


def erfc(x: Array) -> Array:
    """Return ``1 - erf(x)`` without cancellation."""
    return np.asarray(np.vectorize(math.erfc, otypes=[np.float64])(x)).astype(x.dtype)


_LGAMMA_END = 2.5e305  # the result overflows float64 above this


def lgamma(x: Array) -> Array:
    """Return the logarithm of the absolute gamma function; infinite at its poles."""

    def value(v: float) -> float:
        pole = v <= 0 and v == np.floor(v)
        return math.inf if pole or abs(v) > _LGAMMA_END else math.lgamma(v)

    return np.asarray(np.vectorize(value, otypes=[np.float64])(x)).astype(x.dtype)


def sigmoid(x: Array) -> Array:
    """Return ``1 / (1 + exp(-x))``."""
    return np.asarray(1 / (1 + np.exp(-x))).astype(x.dtype)


def round_half_away(x: Array) -> Array:
    """Return Relay's ``round``: halves are rounded away from zero (in NumPy to even)."""
    if x.dtype.kind in "iub":
        return x
    return np.asarray(np.sign(x) * np.floor(np.abs(x) + 0.5)).astype(x.dtype)


def clip(x: Array, *, a_min: float, a_max: float) -> Array:
    """Return values clipped to ``[a_min, a_max]``."""
    return np.clip(x, a_min, a_max).astype(x.dtype)


def cast(x: Array, *, dtype: str) -> Array:
    """Convert every element to ``dtype``."""
    return x.astype(dtype)


def cast_like(x: Array, like: Array) -> Array:
    """Convert every element to the type of ``like``."""
    return x.astype(like.dtype)


def reinterpret(x: Array, *, dtype: str) -> Array:
    """Reinterpret the bits as a different type of the same width."""
    return x.view(dtype)


def shape_of(x: Array, *, dtype: str) -> Array:
    """Return the shape as a vector, int32 by default."""
    return np.array(x.shape, dtype or "int32")


def ndarray_size(x: Array, *, dtype: str) -> Array:
    """Return the number of elements as a scalar."""
    return np.array(x.size, dtype or "int32")


def full_like(x: Array, fill: Array) -> Array:
    """Return a tensor filled with ``fill``, shaped like ``x``."""
    return np.full_like(x, fill)


def creation(value: float) -> Callable[..., Array]:
    """Return ``zeros`` or ``ones``, whose shape is an attribute."""

    def apply(*, shape: Sequence[int], dtype: str) -> Array:
        return np.full(tuple(shape), value, dtype or "float32")

    return apply


def full(fill: Array, *, shape: Sequence[int], dtype: str) -> Array:
    """Return a tensor filled with ``fill``."""
    return np.full(tuple(shape), fill, dtype or fill.dtype)


def arange(start: Array, stop: Array, step: Array, /, *, dtype: str, **_: object) -> Array:
    """Return ``start, start + step, ...`` below ``stop`` (above it for a negative step)."""
    return np.arange(start.item(), stop.item(), step.item()).astype(dtype)


def where(condition: Array, x: Array, y: Array) -> Array:
    """Return ``x`` where the condition holds, else ``y``; all three broadcast."""
    return np.where(condition.astype(bool), x, y).astype(x.dtype)


# -- reductions


def reduce_axes(ndim: int, axis: Any, exclude: bool) -> tuple[int, ...]:
    """Return the axes to reduce: all for None, and for an empty tuple without ``exclude``."""
    if axis is None and exclude:
        raise ValueError("exclude without axes")
    if axis is None or (axis == () and not exclude):
        return tuple(range(ndim))
    listed = {a % ndim for a in ((axis,) if isinstance(axis, int) else axis)}
    return tuple(a for a in range(ndim) if (a in listed) != exclude)


def reduction(func: Callable[..., object], out: str | None = None) -> Callable[..., Array]:
    """Return a reduction with Relay's ``axis``, ``keepdims`` and ``exclude``."""

    def apply(x: Array, *, axis: object, keepdims: bool, exclude: bool) -> Array:
        axes = reduce_axes(x.ndim, axis, exclude)
        return np.asarray(func(x, axis=axes, keepdims=keepdims)).astype(out or x.dtype)

    return apply


def arg_reduction(func: Callable[..., object]) -> Callable[..., Array]:
    """Return ``argmax`` or ``argmin``, with int32 positions in row-major order of the reduced
    axes.
    """

    def apply(
        x: Array, *, axis: object, keepdims: bool, exclude: bool, select_last_index: bool
    ) -> Array:
        axes = reduce_axes(x.ndim, axis, exclude)
        kept = [a for a in range(x.ndim) if a not in axes]
        count = int(np.prod([x.shape[a] for a in axes], dtype=np.int64))
        flat = x.transpose(*kept, *axes).reshape(*(x.shape[a] for a in kept), count)
        if select_last_index:
            index = flat.shape[-1] - 1 - func(flat[..., ::-1], axis=-1)
        else:
            index = func(flat, axis=-1)
        shape = [1 if a in axes else x.shape[a] for a in range(x.ndim)]
        index = np.asarray(index).astype(np.int32)
        return index.reshape(shape) if keepdims else index

    return apply


def variance(
    x: Array, mean: Array, *, axis: int, keepdims: bool, exclude: bool, unbiased: bool
) -> Array:
    """Return the mean squared distance from ``mean``; ``unbiased`` divides by n - 1."""
    axes = reduce_axes(x.ndim, axis, exclude)
    count = int(np.prod([x.shape[a] for a in axes], dtype=np.int64)) - int(unbiased)
    total = ((x - mean) ** 2).sum(axis=axes, keepdims=keepdims)
    return np.asarray(total / count).astype(x.dtype)


def scan(func: Callable[..., object], identity: int) -> Callable[..., Array]:
    """Return ``cumsum`` or ``cumprod``, which flatten their operand if ``axis`` is None."""

    def apply(x: Array, *, axis: int | None, dtype: str, exclusive: bool) -> Array:
        flat = x.reshape(-1) if axis is None else x
        ax = 0 if axis is None else axis % x.ndim
        out = np.asarray(func(flat.astype(dtype or x.dtype), axis=ax)).astype(dtype or x.dtype)
        if not exclusive:
            return out
        out = np.roll(out, 1, ax)
        out[(slice(None),) * ax + (slice(0, 1),)] = identity
        return out

    return apply
