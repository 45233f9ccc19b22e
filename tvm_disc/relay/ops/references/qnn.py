"""NumPy semantics of quantized operators: exact arithmetic on Python integers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tvm_disc.relay.ops.references import nn as nn

Array = NDArray[Any]


def along(vector: Array, like: Array, axis: int) -> Array:
    """Return a scalar, or a vector with one entry per entry of ``axis``, broadcastable to
    ``like``.
    """
    if vector.size == 1:
        return vector.reshape(())
    shape = [1] * like.ndim
    shape[axis] = -1
    return vector.reshape(shape)


def clamp(x: Array, dtype: str) -> Array:
    """Clamp to the range of an integer type; NaN becomes the greatest number."""
    kind = np.iinfo(dtype)
    below = np.where(x < kind.max, x, x.dtype.type(kind.max) if x.dtype != object else kind.max)
    return np.where(below > kind.min, below, kind.min).astype(dtype)


def wrap(x: Array) -> Array:
    """Wrap exact integers to int32."""
    exact = np.asarray(x, object)
    return np.asarray((exact + 2**31) % 2**32 - 2**31).astype("int32")


def fixed_point(factor: float) -> tuple[int, int]:
    """Return the ``significand * 2**(shift - 31)`` nearest to ``factor``, with 31 significand
    bits.
    """
    exact = Fraction(abs(factor))
    if not exact:
        return 0, 0
    shift = exact.numerator.bit_length() - exact.denominator.bit_length() - 1
    while Fraction(2) ** shift <= exact:
        shift += 1
    whole = math.floor(exact * Fraction(2) ** (31 - shift) + Fraction(1, 2))
    if whole == 2**31:
        whole, shift = whole // 2, shift + 1
    return (whole if factor > 0 else -whole), shift


WIDEST = 1 << 12  # Limit of shift counts, since random data may contain shifts by 2**31.


def shifted_product(x: Any, significand: int, left: int, right: int, upward: bool = True) -> int:
    """Return ``x * 2**left * significand / 2**(31 + right)``, with halves rounded up or away
    from zero.
    """
    if not (0 <= left < WIDEST and 0 <= right < WIDEST):
        raise ValueError(f"shifts by {left} and {right}")
    if abs(int(x) * 2**left * significand) >= 2**62:
        raise OverflowError(f"a product with {x} * 2^{left}")
    value = Fraction(int(x) * 2**left * significand, 2 ** (31 + right))
    if upward:
        return math.floor(value + Fraction(1, 2))
    size = math.floor(abs(value) + Fraction(1, 2))
    return size if value >= 0 else -size


def _each(fn: Callable[..., int], *args: object) -> Array:
    return np.asarray(np.vectorize(fn, otypes=[object])(*args))


def fixed_point_multiply(x: Array, *, multiplier: int, shift: int) -> Array:
    """Return ``x * multiplier * 2**(shift - 31)``, with halves rounded up."""
    left, right = max(shift, 0), max(-shift, 0)
    return wrap(_each(lambda v: shifted_product(v, multiplier, left, right), x))


def fixed_point_multiply_per_axis(
    x: Array,
    factor: Array,
    left: Array,
    right: Array,
    *,
    is_lshift_required: bool,
    axes: Sequence[int],
    **_: object,
) -> Array:
    """Return ``fixed_point_multiply`` by one factor per entry of the listed axes."""
    shape = [n if a in [i % x.ndim for i in axes] else 1 for a, n in enumerate(x.shape)]
    spread = [v.reshape(shape).astype(object) for v in (factor, left, right)]
    if not is_lshift_required:
        spread[1] = spread[1] * 0
    return wrap(_each(lambda v, f, a, b: shifted_product(v, int(f), int(a), int(b)), x, *spread))


def requantize(
    x: Array,
    scale: Array,
    zero_point: Array,
    out_scale: Array,
    out_zero_point: Array,
    *,
    axis: int = -1,
    rounding: str = "None",
    compute_dtype: str = "None",
    out_dtype: str = "int8",
) -> Array:
    """Return the same real numbers with a different scale and zero point."""
    upward = rounding != "TONEAREST"
    origin = along(zero_point, x, axis)
    factors = scale.astype("float64") / out_scale.astype("float64")
    same = scale.ndim == 0 and scale == out_scale
    if compute_dtype in ("None", "int64"):
        y = wrap(x.astype(object) - origin.astype(object))
        if not same:
            y = _in_fixed_point(y, along(factors, x, axis), upward)
        y = wrap(y.astype(object) + int(out_zero_point))
        return y if out_dtype == "int32" else clamp(y, out_dtype)
    y = x.astype(compute_dtype) - origin.astype(compute_dtype)
    if not same:
        y = y * along(factors.astype(compute_dtype), x, axis)
    y = y + out_zero_point.astype(compute_dtype)
    y = np.floor(y + y.dtype.type(0.5)) if upward else half_away(y)
    return clamp(y.astype("int32"), out_dtype)


def _in_fixed_point(y: Array, factors: Array, upward: bool) -> Array:
    def one(value: object, factor: float) -> int:
        significand, shift = fixed_point(factor)
        return shifted_product(value, significand, max(shift, 0), max(-shift, 0), upward)

    return wrap(_each(one, y, factors))


def half_away(x: Array) -> Array:
    """Round, with halves away from zero."""
    whole = np.trunc(x)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(np.abs(x - whole) >= 0.5, whole + np.sign(x), whole))


def quantize(
    x: Array, scale: Array, zero_point: Array, *, axis: int = -1, out_dtype: str = "int8"
) -> Array:
    """Quantize real numbers.

    Raises:
        ValueError: a number is NaN.
    """
    if np.isnan(x).any():
        raise ValueError(f"NaN is no {out_dtype}")
    return _quantized(x, scale, zero_point, axis, out_dtype)


def _quantized(x: Array, scale: Array, zero_point: Array, axis: int, dtype: str) -> Array:
    y = half_away(x / along(scale, x, axis))
    return clamp(y + along(zero_point, x, axis).astype("float32"), dtype)


def dequantize(
    x: Array, scale: Array, zero_point: Array, *, axis: int = -1, out_dtype: str = "float32"
) -> Array:
    """Return the real numbers that integers represent."""
    whole = x.astype("int32") - along(zero_point, x, axis)
    y = whole.astype("float32") * along(scale, x, axis)
    limit = np.finfo(out_dtype).max
    return np.asarray(np.clip(y, -limit, limit).astype(out_dtype))


_SIMULATED = {1: "int8", 2: "uint8", 3: "int32"}


def simulated_quantize(
    x: Array, code: Array, scale: Array, zero_point: Array, *, axis: int
) -> Array:
    """Return ``quantize`` in the type of ``x``; ``code`` selects the simulated type."""
    kind = _SIMULATED.get(int(code))
    if kind is None:
        return x
    y = half_away(x / along(scale, x, axis).astype(x.dtype))
    y = y + along(zero_point, x, axis).astype(x.dtype)
    limits = np.iinfo(kind)
    return np.asarray(np.clip(y, x.dtype.type(limits.min), x.dtype.type(limits.max)))


def simulated_dequantize(
    x: Array, code: Array, scale: Array, zero_point: Array, *, axis: int, **_: object
) -> Array:
    """Return ``dequantize`` of numbers from ``simulated_quantize``."""
    if int(code) not in _SIMULATED:
        return x
    origin = along(zero_point, x, axis).astype(x.dtype)
    return np.asarray((x - origin) * along(scale, x, axis).astype(x.dtype))


def annotated(x: Array, scale: Array, low: Array, high: Array, *, kind: int, **_: object) -> Array:
    """Return ``x / scale`` clipped, rounded and multiplied by ``scale``; ``x`` for kind 0."""
    scale, low, high = (a.astype(x.dtype) for a in (scale, low, high))
    return np.asarray(half_away(np.clip(x / scale, low, high)) * scale) if kind else x


# -- products


def _less(x: Array, zero_point: Array, axis: int) -> Array:
    return np.asarray(x.astype("int32") - along(zero_point, x, axis).astype("int32"))


def dense(
    x: Array, w: Array, x_zero: Array, w_zero: Array, _x: Array, _w: Array, **_: object
) -> Array:
    """Return ``(x - x_zero) @ (w - w_zero).T`` in int32."""
    return np.asarray(np.matmul(_less(x, x_zero, -1), _less(w, w_zero, 0).T))


def batch_matmul(
    a: Array,
    b: Array,
    a_zero: Array,
    b_zero: Array,
    _a: Array,
    _b: Array,
    *,
    transpose_a: bool,
    transpose_b: bool,
    **_: object,
) -> Array:
    """Return the matmul of two batches of matrices in int32."""
    left, right = _less(a, a_zero, -1), _less(b, b_zero, -1)
    left = left.swapaxes(1, 2) if transpose_a else left
    product = np.matmul(left, right.swapaxes(1, 2) if transpose_b else right)
    return np.asarray(product, "int32")


_CONV = nn.conv(2)


def conv2d(
    x: Array, w: Array, x_zero: Array, w_zero: Array, _x: Array, _w: Array, **attrs: Any
) -> Array:
    """Return a convolution of the represented numbers; the padding represents zero."""
    data = _less(x, x_zero, attrs["data_layout"].index("C"))
    kernel = _less(w, w_zero, attrs["kernel_layout"].index("O"))
    return _CONV(data, kernel, **{**attrs, "out_dtype": "int32"})


def conv2d_transpose(
    x: Array,
    w: Array,
    x_zero: Array,
    w_zero: Array,
    _x: Array,
    _w: Array,
    *,
    strides: Sequence[int],
    padding: Sequence[int],
    output_padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    data_layout: str,
    kernel_layout: str,
    **_: object,
) -> Array:
    """Return a transposed convolution: each element of ``x`` adds a kernel; NCHW and IOHW only."""
    data, kernel = _less(x, x_zero, 1), _less(w, w_zero, 1)
    before, after = nn.full_padding(padding, 2)
    if tuple(dilation) != (1, 1) or (data_layout, kernel_layout) != ("NCHW", "IOHW"):
        raise ValueError("a dilation, or other layouts")
    if min(before + after) < 0:
        raise ValueError("negative padding")
    taps, channels = kernel.shape[2:], kernel.shape[1]
    size = [(n - 1) * s + k for n, s, k in zip(x.shape[2:], strides, taps, strict=True)]
    out = np.zeros((x.shape[0], groups, channels, *size), "int32")
    parts = data.reshape(x.shape[0], groups, x.shape[1] // groups, *x.shape[2:])
    kernels = kernel.reshape(groups, -1, *kernel.shape[1:])
    for i, j in itertools.product(*map(range, taps)):
        part = np.einsum("ngihw,gio->ngohw", parts, kernels[..., i, j])
        rows = slice(i, i + (x.shape[2] - 1) * strides[0] + 1, strides[0])
        columns = slice(j, j + (x.shape[3] - 1) * strides[1] + 1, strides[1])
        out[..., rows, columns] += part
    out = out.reshape(x.shape[0], groups * channels, *size)
    more = [(0, 0), (0, 0), (0, output_padding[0]), (0, output_padding[1])]
    height, width = (n + p for n, p in zip(size, output_padding, strict=True))
    cut = (slice(before[0], height - after[0]), slice(before[1], width - after[1]))
    return np.asarray(np.pad(out, more)[(..., cut[0], cut[1])])


# -- element-wise and windows


def _moved(
    x: Array, axis: int, scale: Array, zero: Array, to_scale: Array, to_zero: Array
) -> Array:
    if scale.ndim == 0 and zero.ndim == 0 and scale == to_scale and zero == to_zero:
        return x.astype("int32")
    return requantize(x, scale, zero, to_scale, to_zero, axis=axis, out_dtype="int32")


def add(a: Array, b: Array, *params: Array, lhs_axis: int, rhs_axis: int) -> Array:
    """Return the sum; ``params`` are scale and zero point of ``a``, ``b`` and the result."""
    left = _moved(a, lhs_axis, *params[:2], *params[4:])
    right = _moved(b, rhs_axis, *params[2:4], *params[4:])
    return clamp(left + right - params[5], a.dtype.name)


def subtract(a: Array, b: Array, *params: Array, lhs_axis: int, rhs_axis: int) -> Array:
    """Return the difference; ``params`` are scale and zero point of ``a``, ``b`` and the result."""
    left = _moved(a, lhs_axis, *params[:2], *params[4:])
    right = _moved(b, rhs_axis, *params[2:4], *params[4:])
    return clamp(left - right + params[5], a.dtype.name)


def mul(a: Array, b: Array, *params: Array, lhs_axis: int, rhs_axis: int) -> Array:
    """Return the product; ``params`` are scale and zero point of ``a``, ``b`` and the result."""
    product = _less(a, params[1], lhs_axis) * _less(b, params[3], rhs_axis)
    scale, zero = np.asarray(params[0] * params[2]), np.zeros((), "int32")
    return requantize(product, scale, zero, *params[4:], axis=lhs_axis, out_dtype=a.dtype.name)


def leaky_relu(
    x: Array, scale: Array, zero: Array, out_scale: Array, out_zero: Array, *, alpha: float
) -> Array:
    """Multiply numbers below the zero point by ``alpha``."""
    moved = _moved(x, -1, scale, zero, out_scale, out_zero)
    slope = _in_fixed_point(moved, np.asarray(alpha), True)
    origin = _in_fixed_point(np.asarray(out_zero), np.asarray(1 - alpha), True)
    return clamp(np.where(x < zero, slope + origin, moved), x.dtype.name)


def concatenate(
    parts: Sequence[Array],
    scales: Sequence[Array],
    zeros: Sequence[Array],
    out_scale: Array,
    out_zero: Array,
    *,
    axis: int,
) -> Array:
    """Concatenate along ``axis``, with one common scale and zero point."""
    moved = [
        clamp(_moved(x, -1, s, z, out_scale, out_zero), x.dtype.name)
        for x, s, z in zip(parts, scales, zeros, strict=True)
    ]
    return np.concatenate(moved, axis)


def avg_pool2d(
    x: Array, scale: Array, zero: Array, out_scale: Array, out_zero: Array, **attrs: Any
) -> Array:
    """Return the mean of each window, rounded towards zero."""
    moved = _moved(x, -1, scale, zero, out_scale, out_zero)
    return clamp(nn.avg_pool(moved, **attrs), x.dtype.name)


def softmax(
    x: Array, scale: Array, zero: Array, out_scale: Array, out_zero: Array, *, axis: int
) -> Array:
    """Return softmax in integers: powers of two with a linear approximation of the fraction."""
    unit = int(np.floor(np.float32(1) / scale + np.float32(0.5)))
    data = x.astype("int32") - zero
    below = data - data.max(axis, keepdims=True)
    power = below + (below >> 1) - (below >> 4)
    whole = np.clip(-power // unit, 0, 20)
    line = ((power + whole * unit) >> 1) + unit
    exps = line << (whole.max(axis, keepdims=True) - whole)
    total = exps.sum(axis, keepdims=True, dtype="int32")
    share = (2**30 // total) * exps >> 23
    found = np.asarray(2.0**-7, "float32")
    return requantize(share, found, np.zeros((), "int32"), out_scale, out_zero)


def lookup(fn: Callable[[Array], object]) -> Callable[..., Array]:
    """Return ``fn`` of the represented numbers, quantized again."""

    def apply(x: Array, scale: Array, zero: Array, out_scale: Array, out_zero: Array) -> Array:
        with np.errstate(all="ignore"):
            real = np.asarray(fn(dequantize(x, scale, zero)), "float32")
            return _quantized(real, out_scale, out_zero, -1, x.dtype.name)

    return apply


def hardswish(x: Array) -> Array:
    """Return ``x * clip(x + 3, 0, 6) / 6``."""
    return np.asarray(x * np.clip(x + np.float32(3), 0, 6) / np.float32(6))


def erf(x: Array) -> Array:
    """Return the error function."""
    return np.asarray(np.vectorize(math.erf, otypes=["float64"])(x))
