"""Import rules: operators on quantized tensors.

Matmuls and convolutions multiply 8- or 16-bit numbers and add in int32. A known zero point is
applied where it costs least: in constant weights, or in a constant vector added after the matmul.
If the data needs a border of zeros, the zero point is subtracted from the data in 16 bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from tvm.relax import op as R

from tvm_disc.errors import TypeMismatch, Unsupported
from tvm_disc.relay.importer.context import Emitter
from tvm_disc.relay.importer.lowering import transform, transposed, window
from tvm_disc.relay.importer.lowering.index import rows
from tvm_disc.relay.importer.lowering.nn import last_two, matmul
from tvm_disc.relay.importer.lowering.quantize import (
    Scaling,
    clamped,
    fixed_point,
    is_zero,
    laid,
    literal,
    requantize,
    scaled,
    scaling_of,
    shifted,
)
from tvm_disc.relay.importer.lowering.tensor import Args, Attrs, Rule, cast, reduction
from tvm_disc.relay.importer.tensor import Tensor
from tvm_disc.relay.ops.algebra import maximum, minimum, where

BYTES = ("int8", "uint8")


def _scalings(ctx: Emitter, args: Args) -> list[Scaling]:
    """Return the scalings of consecutive (scale, zero point) operands."""
    return [scaling_of(ctx, *args[k : k + 2]) for k in range(0, len(args), 2)]


def _require_bytes(ctx: Emitter, x: Tensor) -> None:
    if x.dtype not in BYTES:
        raise TypeMismatch(ctx.where(f"expected int8 or uint8, found {x.dtype}"))


# -- matmuls -----------------------------------------------------------------------------------


def centred(ctx: Emitter, x: Tensor, zero_point: Tensor, axis: int = 0) -> Tensor:
    """Return ``x - zero_point`` in the narrowest type that holds it."""
    if is_zero(zero_point):
        return x
    origin = zero_point.constant
    if x.constant is not None and origin is not None:
        origin = laid(ctx, zero_point, x, axis).constant
        assert origin is not None
        exact = x.constant.astype("int32") - origin
        least, most = int(exact.min(initial=0)), int(exact.max(initial=0))
        return ctx.constant(exact.astype(_narrowest(least, most)))
    if origin is None or x.dtype not in BYTES:
        return shifted(ctx, x, zero_point, axis, "int16" if x.dtype in BYTES else "int32")
    kind = np.iinfo(x.dtype)
    dtype = _narrowest(kind.min - int(origin.max()), kind.max - int(origin.min()))
    # Compute in 16 bits even if the result fits int8: a zero point of 128 does not fit int8.
    wide = shifted(ctx, x, zero_point, axis, "int32" if dtype == "int32" else "int16")
    return cast(ctx, wide, dtype)


def _narrowest(low: int, high: int) -> str:
    kinds = ("int8", "int16", "int32")
    return next(k for k in kinds if np.iinfo(k).min <= low and high <= np.iinfo(k).max)


def _int32(exact: object) -> np.ndarray:
    """Wrap exact sums as int32 arithmetic does."""
    return np.asarray(exact).astype("int64").astype("int32")


def _dense(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    """Return the matmul of data (..., k) and transposed weights (units, k)."""
    x, w, x_zero, w_zero = args[:4]
    w = centred(ctx, w, w_zero, 0)
    dtype = _sums(ctx, attrs)
    if w.constant is None or x_zero.constant is None or x_zero.rank:
        return matmul(ctx, centred(ctx, x, x_zero, -1), last_two(ctx, w, True), dtype)
    y = matmul(ctx, x, last_two(ctx, w, True), dtype)
    return _less(ctx, y, x_zero.constant * w.constant.astype("int64").sum(1), y.rank - 1)


def _sums(ctx: Emitter, attrs: Attrs) -> str:
    dtype = attrs["out_dtype"] or "int32"
    if dtype != "int32":
        raise Unsupported(ctx.where(f"out_dtype: expected int32, found {dtype}"))
    return "int32"


def _less(ctx: Emitter, y: Tensor, vector: np.ndarray, axis: int) -> Tensor:
    """Return ``y`` minus a constant vector along ``axis``."""
    if not vector.any():
        return y
    return y - laid(ctx, ctx.constant(_int32(vector)), y, axis)


def _batch_matmul(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    x, y, x_zero, y_zero = args[:4]
    for zero in (x_zero, y_zero):
        if zero.rank:
            text = f"expected one zero point per operand, found zero points of rank {zero.rank}"
            raise Unsupported(ctx.where(text))
    a = last_two(ctx, centred(ctx, x, x_zero), bool(attrs["transpose_a"]))
    b = last_two(ctx, centred(ctx, y, y_zero), bool(attrs["transpose_b"]))
    return matmul(ctx, a, b, _sums(ctx, attrs))


def _conv2d(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    x, w, x_zero, w_zero = args[:4]
    kernel, plain = attrs["kernel_layout"], {**attrs, "out_dtype": _sums(ctx, attrs)}
    _check_axes(ctx, attrs, "OI")
    w = centred(ctx, w, w_zero, kernel.index("O"))
    bare = not any(window.padding(ctx, attrs["padding"], 2))
    channels = attrs["data_layout"].index("C")
    if bare and w.constant is not None and x_zero.constant is not None and not x_zero.rank:
        y: Tensor = window.LOWER["nn.conv2d"](ctx, [x, w], plain)
        taps = tuple(a for a, c in enumerate(kernel) if c != "O")
        return _less(ctx, y, x_zero.constant * w.constant.astype("int64").sum(taps), channels)
    x = centred(ctx, x, x_zero, channels)
    return window.LOWER["nn.conv2d"](ctx, [x, w], plain)  # type: ignore[no-any-return]


def _check_axes(ctx: Emitter, attrs: Attrs, kernel: str) -> None:
    for name, wanted in (("data_layout", "NCHW"), ("kernel_layout", f"{kernel}HW")):
        if sorted(attrs[name]) != sorted(wanted):
            raise Unsupported(
                ctx.where(f"{name}: expected an order of {wanted}, found {attrs[name]}")
            )


def _conv2d_transpose(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    x, w, x_zero, w_zero = args[:4]
    _check_axes(ctx, attrs, "IO")
    w = centred(ctx, w, w_zero, attrs["kernel_layout"].index("O"))
    x = centred(ctx, x, x_zero, attrs["data_layout"].index("C"))
    plain = {**attrs, "out_dtype": _sums(ctx, attrs)}
    return transposed.LOWER["nn.conv2d_transpose"](ctx, [x, w], plain)  # type: ignore[no-any-return]


# -- element-wise ------------------------------------------------------------------------------


def _rescaled(ctx: Emitter, x: Tensor, given: Scaling, wanted: Scaling, axis: int = -1) -> Tensor:
    """Return the numbers of ``x`` in a different scaling, not yet clamped to 8 bits."""
    if given.is_same(wanted):
        return cast(ctx, x, "int32")
    return requantize(ctx, x, given, wanted, "int32", axis)


def _sum(*, subtract: bool) -> Rule:
    """Return a rule for a sum or difference of rescaled operands.

    A sum contains the zero point twice, so it is subtracted once; a difference contains none, so it
    is added.
    """

    def rule(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
        a, b = args[:2]
        ctx.same_dtype([a, b])
        first, second, wanted = _scalings(ctx, args[2:])
        left = _rescaled(ctx, a, first, wanted, int(attrs["lhs_axis"]))
        right = _rescaled(ctx, b, second, wanted, int(attrs["rhs_axis"]))
        y = left - right if subtract else left + right
        if not is_zero(wanted.zero_point):
            origin = wanted.zero_point
            y = y + origin if subtract else y - origin
        return clamped(ctx, y, a.dtype)

    return rule


def _mul(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    """Return the requantized product: an int32 tensor whose scale is the product of both scales."""
    a, b = args[:2]
    ctx.same_dtype([a, b])
    first, second, wanted = _scalings(ctx, args[2:])
    axes = int(attrs["lhs_axis"]), int(attrs["rhs_axis"])
    scales = [literal(ctx, s.scale, "an input scale") for s in (first, second)]
    if scales[0].ndim != scales[1].ndim or (scales[0].ndim and axes[0] != axes[1]):
        raise Unsupported(
            ctx.where(
                "expected scales per channel for the same axis of both operands, or one scale "
                f"for each; found scales of rank {scales[0].ndim} (lhs_axis {axes[0]}) and "
                f"{scales[1].ndim} (rhs_axis {axes[1]})"
            )
        )
    left = shifted(ctx, a, first.zero_point, axes[0], "int32")
    right = shifted(ctx, b, second.zero_point, axes[1], "int32")
    scale = np.multiply(*scales, dtype="float32")
    given = Scaling(ctx.constant(scale), ctx.scalar(0, "int32"))
    return requantize(ctx, left * right, given, wanted, a.dtype, axes[0])


def _leaky_relu(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    """Return a leaky relu: negative numbers become ``alpha * q + (1 - alpha) * zero_point`` in
    the output scaling.
    """
    x = args[0]
    _require_bytes(ctx, x)
    given, wanted = _scalings(ctx, args[1:])
    data = cast(ctx, x, "int32")
    moved = _rescaled(ctx, x, given, wanted)
    alpha = float(attrs["alpha"])
    slope = scaled(ctx, moved, *fixed_point(alpha))
    origin = scaled(ctx, wanted.zero_point, *fixed_point(1 - alpha))
    negative = data < given.zero_point
    y = where(negative, slope + origin, moved)
    return clamped(ctx, y, x.dtype)


def _hardswish(x: np.ndarray) -> np.ndarray:
    return np.asarray(x * np.clip(x + 3.0, 0.0, 6.0) / 6.0)


def _erf(x: np.ndarray) -> np.ndarray:
    return np.asarray(np.vectorize(math.erf, otypes=["float64"])(x))


FUNCTIONS: Mapping[str, Callable[[Any], Any]] = {
    "abs": np.abs,
    "erf": _erf,
    "exp": np.exp,
    "hardswish": _hardswish,
    "log": np.log,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "sqrt": np.sqrt,
    "tanh": np.tanh,
}


def table_of(
    fn: Callable[[object], object], dtype: str, params: Sequence[np.ndarray]
) -> np.ndarray:
    """Return ``fn`` of all numbers of an 8-bit type, in ascending order.

    ``params`` are the scale and zero point of the operand, then of the result.
    """
    scale, zero_point, out_scale, out_zero_point = (p.reshape(()) for p in params)
    kind = np.iinfo(dtype)
    every = np.arange(kind.min, kind.max + 1, dtype="int32")
    real = (every - zero_point).astype("float32") * scale.astype("float32")
    with np.errstate(all="ignore"):
        out = np.asarray(fn(real), "float32") / out_scale.astype("float32")
        whole = np.trunc(out)
        whole = np.where(np.abs(out - whole) >= 0.5, whole + np.sign(out), whole)
        moved = (whole + np.float32(out_zero_point)).astype("float32")
    # NaN maps to the maximum, like Relay's comparison-based `min`.
    inside = np.clip(moved, kind.min, kind.max)
    return np.asarray(np.where(np.isnan(moved), kind.max, inside).astype(dtype))


def _looked_up(fn: Callable[[object], object]) -> Rule:
    """Return a rule that evaluates a function of an 8-bit operand by a table of 256 entries."""

    def rule(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
        x = args[0]
        _require_bytes(ctx, x)
        params = [literal(ctx, a, "a scale or zero point") for a in args[1:]]
        table = ctx.constant(table_of(fn, x.dtype, params))
        place = cast(ctx, x, "int32")
        if x.dtype == "int8":
            place = place + 128
        return rows(ctx, table, place, 0)

    return rule


# -- windows, concatenation and sums ----------------------------------------------------------


def _concatenate(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    parts, scales, zeros, scale, zero = args
    ctx.same_dtype(parts)
    wanted = Scaling(scale, zero)
    moved = []
    for x, s, z in zip(parts, scales, zeros, strict=True):
        given = Scaling(s, z)
        same = given.is_same(wanted)
        moved.append(x if same else requantize(ctx, x, given, wanted, x.dtype))
    joined: Tensor = transform.LOWER["concatenate"](ctx, [moved], attrs)
    return joined


def _avg_pool2d(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    x = args[0]
    _require_bytes(ctx, x)
    given, wanted = _scalings(ctx, args[1:])
    moved = _rescaled(ctx, x, given, wanted)
    return clamped(ctx, window.LOWER["nn.avg_pool2d"](ctx, [moved], attrs), x.dtype)


# Powers of two in softmax are fractions of 30 bits; the result has 7 fraction bits.
_FRACTION, _RESULT = 30, 7


def _softmax(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    """Return softmax in integer arithmetic: ``exp(s * d) = 2**-q * 2**-f``, with a linear
    approximation of the fraction.
    """
    x = args[0]
    given, wanted = _scalings(ctx, args[1:])
    if x.dtype != "int8":
        raise TypeMismatch(ctx.where(f"expected int8, found {x.dtype}"))
    scale = float(literal(ctx, given.scale, "the input scale").reshape(()))
    if not 0 < scale <= 1:
        raise Unsupported(
            ctx.where(f"input scale: expected more than 0 and at most 1, found {scale:g}")
        )
    axis = {"axis": (int(attrs["axis"]),), "keepdims": True, "exclude": False}
    unit = ctx.scalar(int(np.floor(np.float32(1) / np.float32(scale) + 0.5)), "int32")

    def number(value: int) -> Tensor:
        return ctx.scalar(value, "int32")

    data = shifted(ctx, x, given.zero_point, -1, "int32")
    below = data - reduction(R.max)(ctx, [data], axis)
    # log2(e) is approximately 1 + 1/2 - 1/16.
    half, part = (below >> number(k) for k in (1, 4))
    power = below + half - part
    minus = ctx.constant(-unit.constant)  # type: ignore[operator]
    whole = power / minus
    whole = minimum(maximum(whole, number(0)), number(20))
    most = reduction(R.max)(ctx, [whole], axis)
    rest = power - whole * minus
    line = (rest >> number(1)) + unit
    exps = line << (most - whole)
    total = reduction(R.sum)(ctx, [exps], axis)
    inverse = number(1 << _FRACTION) / total
    share = inverse * exps
    y = share >> number(_FRACTION - _RESULT)
    found = Scaling(ctx.scalar(2.0**-_RESULT, "float32"), number(0))
    return requantize(ctx, y, found, wanted, "int8")


def _dense_pack(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    layout = attrs["weight_layout"]
    if layout != "NC":
        raise Unsupported(ctx.where(f"weight_layout: expected NC, found {layout}"))
    return _dense(ctx, args, attrs)


LOWER: Mapping[str, Rule] = {
    "qnn.dense": _dense,
    "qnn.contrib_dense_pack": _dense_pack,
    "qnn.batch_matmul": _batch_matmul,
    "qnn.conv2d": _conv2d,
    "qnn.conv2d_transpose": _conv2d_transpose,
    "qnn.add": _sum(subtract=False),
    "qnn.subtract": _sum(subtract=True),
    "qnn.mul": _mul,
    "qnn.leaky_relu": _leaky_relu,
    "qnn.concatenate": _concatenate,
    "qnn.avg_pool2d": _avg_pool2d,
    "qnn.softmax": _softmax,
    **{f"qnn.{name}": _looked_up(fn) for name, fn in FUNCTIONS.items()},
}
