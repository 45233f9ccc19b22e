"""Import rules: quantization, dequantization and requantization.

A tensor of integers ``q`` with a scale and a zero point represents ``scale * (q - zero_point)``.
Every rule is element-wise, so that fusion makes it an epilogue.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from tvm import tirx
from tvm.relax import op as R

from tvm_disc.errors import TypeMismatch, Unsupported
from tvm_disc.relay.importer.context import Emitter, i64
from tvm_disc.relay.importer.lowering.tensor import (
    Args,
    Attrs,
    Rule,
    cast,
    is_float,
    on_floats,
    rounded,
)
from tvm_disc.relay.importer.tensor import Tensor
from tvm_disc.relay.ops.algebra import maximum, minimum, where
from tvm_disc.typing import Size

# Position of the binary point in a fixed-point factor.
POINT = 31


@dataclass(frozen=True)
class Scaling:
    """The scale and the zero point of a quantized tensor."""

    scale: Tensor
    zero_point: Tensor

    def is_same(self, other: Scaling) -> bool:
        """Return whether both scalings are literal scalars and equal."""
        pairs = ((self.scale, other.scale), (self.zero_point, other.zero_point))
        return all(_equal_numbers(a, b) for a, b in pairs)


def scaling_of(ctx: Emitter, scale: Tensor, zero_point: Tensor) -> Scaling:
    """Return the scaling of two operands; the zero point may have any integer type."""
    return Scaling(scale, as_dtype(ctx, zero_point, "int32"))


def _equal_numbers(a: Tensor, b: Tensor) -> bool:
    if a.constant is None or b.constant is None or a.rank or b.rank:
        return False
    return bool(a.constant == b.constant)


def literal(ctx: Emitter, x: Tensor, what: str) -> np.ndarray:
    """Return the elements of a tensor that must be constant, as for a fixed-point factor.

    Raises:
        Unsupported: the tensor is not constant.
    """
    found = ctx.elements(x)
    if found is None:
        raise Unsupported(ctx.where(f"{what} must be a constant"))
    return found


def is_zero(x: Tensor) -> bool:
    """Return whether a tensor is known to be all zeros."""
    return x.constant is not None and not x.constant.any()


def laid(ctx: Emitter, x: Tensor, like: Tensor, axis: int) -> Tensor:
    """Return a scalar, or a vector with one entry per entry of ``axis``, in a shape that
    broadcasts to ``like``.
    """
    if x.constant is not None and x.constant.size == 1:
        return ctx.constant(x.constant.reshape(()))
    if x.rank == 0:
        return x
    if x.rank != 1:
        raise TypeMismatch(
            ctx.where(f"scale or zero point: expected rank 0 or 1, found rank {x.rank}")
        )
    if ctx.literal(x.dims[0]) == 1:
        return ctx.reshape(x, [])
    axis = ctx.axis(axis, like.rank)
    x = _per_entry(ctx, x, like.dims[axis], f"one scale or zero point per entry of axis {axis}")
    if axis == like.rank - 1:
        return x
    dims = [x.dims[0] if a == axis else i64(1) for a in range(like.rank)]
    if x.constant is not None:
        return ctx.constant(x.constant.reshape([int(d.value) for d in dims]))
    return ctx.reshape(x, dims)


def _per_entry(ctx: Emitter, x: Tensor, dim: Size, what: str) -> Tensor:
    """Return ``x`` as a vector of ``dim`` elements.

    If the length of ``x`` is unknown, a guard requires ``dim`` elements or one, which is repeated.
    """
    own = x.dims[0]
    if ctx.literal(own) is not None or ctx.same(own, dim):
        ctx.require_eq(dim, own, what)
        return x
    names = [ctx.solver.name_of(d) for d in (own, dim)]
    text = f"{ctx.where(what)}: {names[0]} must equal {names[1]} or be 1"
    ctx.solver.require(tirx.Or(tirx.EQ(own, i64(1)), tirx.EQ(own, dim)), ctx.where(what), text)
    return ctx.broadcast(x, [dim])


def shifted(ctx: Emitter, x: Tensor, zero_point: Tensor, axis: int, dtype: str) -> Tensor:
    """Return ``x - zero_point`` in ``dtype``."""
    wide = cast(ctx, x, dtype)
    if is_zero(zero_point):
        return wide
    return wide - _laid_as(ctx, zero_point, dtype, x, axis)


def as_dtype(ctx: Emitter, x: Tensor, dtype: str) -> Tensor:
    """Return ``x`` cast to ``dtype``; a constant is folded."""
    return cast(ctx, x, dtype) if x.constant is None else ctx.constant(x.constant.astype(dtype))


def _laid_as(ctx: Emitter, x: Tensor, dtype: str, like: Tensor, axis: int) -> Tensor:
    return laid(ctx, as_dtype(ctx, x, dtype), like, axis)


def clamped(ctx: Emitter, x: Tensor, dtype: str) -> Tensor:
    """Return ``x`` clamped to the range of ``dtype``, as ``dtype``."""
    if x.dtype == dtype:
        return x
    kind = np.iinfo(dtype)
    low, high = (ctx.scalar(v, x.dtype) for v in (kind.min, kind.max))
    inside = minimum(maximum(x, low), high)
    return cast(ctx, inside if "int" in x.dtype else cast(ctx, inside, "int32"), dtype)


# -- fixed point -------------------------------------------------------------------------------


def fixed_point(factor: float) -> tuple[int, int]:
    """Return ``factor`` as ``significand / 2**31 * 2**shift``, the significand rounded to 31
    bits.
    """
    mantissa, shift = math.frexp(factor)
    exact = abs(mantissa) * (1 << POINT)
    whole = math.floor(exact)
    whole += exact - whole >= 0.5
    if whole == 1 << POINT:
        whole, shift = whole // 2, shift + 1
    return (whole if factor >= 0 else -whole), shift


def scaled(ctx: Emitter, x: Tensor, significand: int, shift: int) -> Tensor:
    """Return an int32 tensor times a fixed-point number, with halves rounded up."""
    power = shift - 1
    if significand == 1 << (POINT - 1) and power > -POINT:
        return _times_power(ctx, x, power)
    parts = (significand, max(shift, 0), max(-shift, 0))
    return _scaled_wide(ctx, x, [ctx.scalar(v, "int64") for v in parts])


def _times_power(ctx: Emitter, x: Tensor, power: int) -> Tensor:
    """Return ``x * 2**power``, with halves rounded up."""
    if power >= 0:
        return x if power == 0 else x << power
    half = ctx.scalar(1 << (-power - 1), "int32")
    return (x + half) >> -power


def _scaled_wide(ctx: Emitter, x: Tensor, parts: Sequence[Tensor], upward: bool = True) -> Tensor:
    """Return ``((x << left) * factor) >> (right + 31)`` computed in int64, rounded.

    ``parts`` are factor, left and right: scalars or vectors that broadcast to ``x``.
    """
    factor, left, right = parts
    wide = cast(ctx, x, "int64")
    if not is_zero(left):
        wide = wide << left
    wide = wide * factor
    if right.constant is not None:
        # A product has at most 62 bits, so that a shift by more than 63 gives the same result as
        # 63.
        total = np.minimum(right.constant + POINT, 63)
        shift, half = ctx.constant(total), ctx.constant(np.left_shift(np.int64(1), total - 1))
    else:
        shift = right + POINT
        shift = minimum(shift, 63)
        below = shift - 1
        half = 1 << below
    if not upward:
        sign = wide >> 63
        wide = wide + sign
    total_t = wide + half
    return cast(ctx, total_t >> shift, "int32")


def _fixed_point_multiply(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    _require_int32(ctx, args[0])
    return scaled(ctx, args[0], int(attrs["multiplier"]), int(attrs["shift"]))


def _fixed_point_multiply_per_axis(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    x, *factors = args
    _require_int32(ctx, x)
    axes = [ctx.axis(a, x.rank) for a in attrs["axes"]]
    factor, left, right = (_over(ctx, as_dtype(ctx, f, "int64"), x, axes) for f in factors)
    if not attrs["is_lshift_required"]:
        left = ctx.scalar(0, "int64")
    return _scaled_wide(ctx, x, (factor, left, right))


def _over(ctx: Emitter, x: Tensor, like: Tensor, axes: Sequence[int]) -> Tensor:
    """Return a tensor with one dim per listed axis, reshaped to the rank of ``like``."""
    if len(axes) == 1:
        return laid(ctx, x, like, axes[0])
    if x.rank != len(axes):
        raise TypeMismatch(ctx.where(f"expected factors of rank {len(axes)}, found rank {x.rank}"))
    sizes = dict(zip(axes, x.dims, strict=True))
    return ctx.reshape(x, [sizes.get(a, i64(1)) for a in range(like.rank)])


def _require_int32(ctx: Emitter, x: Tensor) -> None:
    if x.dtype != "int32":
        raise TypeMismatch(ctx.where(f"expected int32, found {x.dtype}"))


# -- requantization ----------------------------------------------------------------------------


def requantize(
    ctx: Emitter,
    x: Tensor,
    given: Scaling,
    wanted: Scaling,
    dtype: str,
    axis: int = -1,
    rounding: str = "UPWARD",
    compute: str = "int64",
) -> Tensor:
    """Return the numbers of ``x`` in a different scaling."""
    target = float(literal(ctx, wanted.scale, "the output scale").reshape(()))
    source = literal(ctx, given.scale, "the input scale").astype("float64")
    if target == 0:
        raise Unsupported(ctx.where("output scale: expected a number other than 0, found 0"))
    factors = ctx.constant(source / target)
    same = _equal_numbers(given.scale, wanted.scale)
    if compute == "int64":
        centred = shifted(ctx, x, given.zero_point, axis, "int32")
        y = centred if same else _rescaled(ctx, centred, factors, axis, rounding == "UPWARD")
        if not is_zero(wanted.zero_point):
            y = y + as_dtype(ctx, wanted.zero_point, "int32")
        return clamped(ctx, y, dtype)
    y = shifted(ctx, x, given.zero_point, axis, compute)
    if not same:
        y = y * _laid_as(ctx, factors, compute, x, axis)
        # The maximum changes no number. It keeps the product from being fused with a sum into one
        # operation that rounds once.
        y = maximum(y, float(np.finfo(compute).min))
    if not is_zero(wanted.zero_point):
        y = y + as_dtype(ctx, wanted.zero_point, compute)
    y = ctx.apply("floor", y + 0.5) if rounding == "UPWARD" else rounded(ctx, y)
    return clamped(ctx, cast(ctx, y, "int32"), dtype)


def _rescaled(ctx: Emitter, x: Tensor, factors: Tensor, axis: int, upward: bool) -> Tensor:
    """Return an int32 tensor times a scalar, or a factor per entry of ``axis``, in fixed point."""
    assert factors.constant is not None
    parts = np.array([fixed_point(float(f)) for f in factors.constant.reshape(-1)], "int64")
    if factors.rank == 0 and upward:
        return scaled(ctx, x, int(parts[0, 0]), int(parts[0, 1]))
    shape = factors.constant.shape
    columns = (parts[:, 0], np.maximum(parts[:, 1], 0), np.maximum(-parts[:, 1], 0))
    vectors = [laid(ctx, ctx.constant(c.reshape(shape)), x, axis) for c in columns]
    return _scaled_wide(ctx, x, vectors, upward)


def _requantize(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    rounding = _choice(ctx, attrs, "rounding", ("UPWARD", "TONEAREST"))
    compute = _choice(ctx, attrs, "compute_dtype", ("int64", "float32", "float64"))
    given, wanted = (scaling_of(ctx, *args[k : k + 2]) for k in (1, 3))
    dtype = attrs["out_dtype"] or "int8"
    return requantize(ctx, args[0], given, wanted, dtype, int(attrs["axis"]), rounding, compute)


def _choice(ctx: Emitter, attrs: Attrs, name: str, values: tuple[str, ...]) -> str:
    """Return an attribute that must be one of ``values``; "None" means the first."""
    value = str(attrs[name])
    if value == "None":
        return values[0]
    if value not in values:
        raise Unsupported(
            ctx.where(f"{name}: expected one of {', '.join(values)}, found {value!r}")
        )
    return value


# -- quantization and dequantization -----------------------------------------------------------


def _quantize(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    x, scale, zero_point = args
    if x.dtype != "float32":
        raise TypeMismatch(ctx.where(f"expected float32, found {x.dtype}"))
    ctx.require_integers(zero_point, "zero point")
    axis = int(attrs["axis"])
    whole = rounded(ctx, x / _laid_as(ctx, scale, x.dtype, x, axis))
    if not is_zero(zero_point):
        origin = _laid_as(ctx, zero_point, "float32", x, axis)
        whole = whole + origin
    return clamped(ctx, whole, attrs["out_dtype"] or "int8")


def _dequantize(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    x, scale, zero_point = args
    ctx.require_integers(x, "data")
    ctx.require_integers(zero_point, "zero point")
    axis, dtype = int(attrs["axis"]), attrs["out_dtype"] or "float32"
    whole = cast(ctx, shifted(ctx, x, zero_point, axis, "int32"), "float32")
    y = whole * _laid_as(ctx, scale, "float32", x, axis)
    if dtype in ("float32", "float64"):
        return cast(ctx, y, dtype)
    limit = float(np.finfo(dtype).max)
    return cast(ctx, ctx.emit(R.clip(ctx.expr(y), -limit, limit), y.dims, "float32"), dtype)


# The type to simulate, by its run-time code; any other code means no quantization.
_SIMULATED = {1: "int8", 2: "uint8", 3: "int32"}


def _simulated(
    ctx: Emitter, code: Tensor, make: Callable[[Sequence[Tensor]], Tensor], x: Tensor
) -> Tensor:
    """Return ``make(limits of the type)`` if ``code`` is the code of a type, otherwise ``x``."""
    if not is_float(x.dtype):
        raise TypeMismatch(ctx.where(f"expected floats, found {x.dtype}; cast it first"))
    if "int" not in code.dtype:
        raise TypeMismatch(ctx.where(f"expected the code of a type as int32, found {code.dtype}"))
    if code.constant is not None:
        kind = _SIMULATED.get(int(code.constant.reshape(())))
        limits = () if kind is None else (float(np.iinfo(kind).min), float(np.iinfo(kind).max))
        return x if kind is None else make([ctx.scalar(v, x.dtype) for v in limits])
    which = {k: code.equal(k) for k in (1, 2)}
    last = code.equal(3)
    limits_t = []
    for end in ("min", "max"):
        byte, plain, word = (
            ctx.scalar(float(getattr(np.iinfo(_SIMULATED[k]), end)), x.dtype) for k in (1, 2, 3)
        )
        narrow = where(which[2], plain, word)
        limits_t.append(where(which[1], byte, narrow))
    known = which[1] | which[2] | last
    return where(known, make(limits_t), x)


def _simulated_quantize(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    x, code, scale, zero_point = args
    axis = int(attrs["axis"])

    def make(limits: Sequence[Tensor]) -> Tensor:
        whole = rounded(ctx, x / _laid_as(ctx, scale, x.dtype, x, axis))
        y = whole + _laid_as(ctx, zero_point, x.dtype, x, axis)
        return maximum(minimum(y, limits[1]), limits[0])

    return _simulated(ctx, code, make, x)


def _simulated_dequantize(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    x, code, scale, zero_point = args
    axis = int(attrs["axis"])

    def make(limits: Sequence[Tensor]) -> Tensor:
        y: Tensor = x - _laid_as(ctx, zero_point, x.dtype, x, axis)
        return y * _laid_as(ctx, scale, x.dtype, x, axis)

    return _simulated(ctx, code, make, x)


def _annotated(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    """Return ``x`` rounded within limits and scaled back, to simulate the quantization error."""
    x: Tensor = args[0]
    scale, low, high = (as_dtype(ctx, a, x.dtype) for a in args[1:])
    if not attrs["sign"] or attrs["rounding"] != "round":
        found = f"{attrs['sign']} and {attrs['rounding']!r}"
        raise Unsupported(ctx.where(f"sign, rounding: expected True and 'round', found {found}"))
    if int(attrs["kind"]) == 0:
        return x
    y = x / scale
    y = maximum(minimum(y, high), low)
    return rounded(ctx, y) * scale


LOWER: Mapping[str, Rule] = {
    "fixed_point_multiply": _fixed_point_multiply,
    "fixed_point_multiply_per_axis": _fixed_point_multiply_per_axis,
    "qnn.requantize": _requantize,
    "qnn.quantize": _quantize,
    "qnn.dequantize": _dequantize,
    "qnn.simulated_quantize": _simulated_quantize,
    "qnn.simulated_dequantize": _simulated_dequantize,
    "relay.op.annotation.simulated_quantize": on_floats(_annotated),
}
