"""Exact remainders, and quotients of floats that are rounded to integers, as in NumPy and C.

``x - trunc(x / y) * y`` is not exact. The quotient may round up to the next integer: for x = 1 and
the float nearest to 0.1, the result would be almost 0 instead of almost 0.1. A large quotient also
lacks its last digits. If the CPU has fused multiply-adds, the remainder of float32 is computed in
float64, in steps that each yield 51 bits of the quotient. Otherwise, for float64, and on devices,
the math library computes it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from tvm import tirx

from tvm_disc.schedules.math.device import NATIVE
from tvm_disc.schedules.math.language import ScalarBody, dtype_of, libm, narrow, widen
from tvm_disc.tir.llvm_ops import emitting_for
from tvm_disc.typing import Expr

# The integral part of the quotient of two float32 has up to 277 bits; a step yields 51.
STEPS = 6

Use = Callable[[ScalarBody, Expr, Expr, Expr], Expr]


def trunc_mod(x: Expr, y: Expr) -> Expr:
    """Return C's ``fmod``; its sign is that of ``x``, even for 0; NaN if y = 0 or x = +-inf."""
    return _with_remainder(x, y, lambda b, x, y, r: _signed(b, r, x))


def floor_mod(x: Expr, y: Expr) -> Expr:
    """Return Python's ``%``; the remainder has the sign of ``y``; NaN if y = 0 or x = +-inf."""

    def use(b: ScalarBody, x: Expr, y: Expr, r: Expr) -> Expr:
        zero = tirx.const(0.0, str(r.ty.dtype))
        rest = b.let("rest", b.select(_other_side(r, y), r + y, r))
        return b.select(tirx.EQ(rest, zero), _signed(b, zero, y), rest)

    return _with_remainder(x, y, use)


def floor_divide(x: Expr, y: Expr) -> Expr:
    """Return Python's ``//``; for y = 0 the result is x / 0: infinite, or NaN."""

    def use(b: ScalarBody, x: Expr, y: Expr, r: Expr) -> Expr:
        zero, one = (tirx.const(v, str(r.ty.dtype)) for v in (0.0, 1.0))
        whole = b.let("whole", tirx.nearbyint((x - r) / y))
        below = b.let("below", b.select(_other_side(r, y), whole - one, whole))
        exact = b.let("exact", x / y)
        signed = b.select(tirx.EQ(below, zero), _signed(b, zero, exact), below)
        return b.select(tirx.EQ(y, zero), exact, signed)

    return _with_remainder(x, y, use)


def round_quotient(x: Expr, divisor: float) -> Expr | None:
    """Return ``x / divisor`` rounded to the nearest integer, ties to even, without a division.

    None if a division is needed: if ``x`` is not float32, the machine lacks fused multiply-adds, or
    the divisor is out of range.

    The product of ``x`` and the rounded inverse of the divisor, corrected once, is the correctly
    rounded quotient (Markstein, "Computation of elementary functions on the IBM RISC System/6000
    processor", 1990), unless intermediate results underflow. They do not if the quotient is at
    least 1/2 and the divisor is in the range. A quotient within 2 units of the largest float may be
    infinite.
    """
    b = ScalarBody(x) if dtype_of(x)[0] == "float32" else None
    if b is None or not b.fused or not _DIVISORS[0] <= divisor <= _DIVISORS[1]:
        return None
    inverse = b.c(float(np.float32(1.0) / np.float32(divisor)))
    near = b.let("near", b.x * inverse)
    rest = b.let("rest", b.fma(b.c(0.0) - near, b.c(divisor), b.x))
    exact = b.fma(rest, inverse, near)
    # If the remainder is 0, ``near`` is exact and keeps the sign of a zero. If the quotient is
    # infinite, the remainder is NaN.
    size = b.let("size", tirx.abs(rest))
    corrected = tirx.And(size > b.c(0.0), size <= b.c(float(np.finfo(np.float32).max)))
    quotient = b.select(corrected, exact, near)
    return b.done(tirx.nearbyint(quotient))


_DIVISORS = 2.0**-60, 2.0**60
# The sum of this number and a float32 below 2^22 has the nearest integer, ties to even, in its low
# bits.
_MAGIC, _MAGIC_BITS = 1.5 * 2**23, 0x4B400000
_MOST = 2**20  # largest magnitude of a rounded quotient


def clipped_byte(
    x: Expr, divisor: float, shift: int, limits: tuple[int, int], ends: tuple[float, float]
) -> Expr | None:
    """Return an int32 whose lowest byte is the rounded ``clip(x, *ends) / divisor`` plus ``shift``.

    The sum is clamped to ``limits``. None if a division is needed. For NaN the byte is arbitrary.
    """
    low, high = (end - shift for end in limits)
    found = _clipped(x, divisor, (low, high), ends)
    if found is None:
        return None
    b, moved = found
    return b.done(b.bits(moved) - b.i(_MAGIC_BITS - shift))


def clipped_number(
    x: Expr, divisor: float, limits: tuple[int, int], ends: tuple[float, float]
) -> Expr | None:
    """Return the rounded ``clip(x, *ends) / divisor``, clamped to ``limits``.

    None if a division is needed.
    """
    found = _clipped(x, divisor, limits, ends)
    if found is None:
        return None
    b, moved = found
    return b.done(moved - b.c(_MAGIC))


def _clipped(
    x: Expr, divisor: float, limits: tuple[int, int], ends: tuple[float, float]
) -> tuple[ScalarBody, Expr] | None:
    """Return a body and ``_MAGIC`` plus the rounded quotient; None if a division is needed.

    ``x`` is clamped to the limits times the divisor. This is equivalent to clamping the result:
    quotients are monotonic in ``x``, and the quotient of a limit times the divisor rounds to that
    limit. So no operand of the correction in :func:`round_quotient` is infinite. NaN remains NaN.
    """
    b = ScalarBody(x) if dtype_of(x)[0] == "float32" else None
    if b is None or not b.fused or not _DIVISORS[0] <= divisor <= _DIVISORS[1]:
        return None
    if max(map(abs, limits)) > _MOST:
        return None
    least, most = (float(np.float32(divisor) * np.float32(n)) for n in limits)
    # For the maximum with 0, LLVM emits a comparison and a mask; with -0, a single instruction.
    low, high = (b.c(float(np.float32(min(max(end, least), most))) or -0.0) for end in ends)
    above = b.let("above", b.select(low > b.x, low, b.x))
    inside = b.let("inside", b.select(high < above, high, above))
    inverse = b.c(float(np.float32(1.0) / np.float32(divisor)))
    near = b.let("near", inside * inverse)
    rest = b.let("rest", b.fma(near, b.c(-divisor), inside))
    return b, b.let("moved", b.fma(rest, inverse, near) + b.c(_MAGIC))


def _signed(b: ScalarBody, size: Expr, sign: Expr) -> Expr:
    """Return ``size`` with the sign bit of ``sign``; both have the same float type."""
    dtype = str(size.ty.dtype)
    name = dtype_of(size)[0]
    kind = ("int32" if name == "float32" else "int64") + dtype.removeprefix(name)
    top = tirx.const(-(1 << (31 if name == "float32" else 63)), kind)
    rest = tirx.const((1 << (31 if name == "float32" else 63)) - 1, kind)
    bits = tirx.bitwise_and(tirx.reinterpret(kind, size), rest)
    return tirx.reinterpret(
        dtype, tirx.bitwise_or(bits, tirx.bitwise_and(tirx.reinterpret(kind, sign), top))
    )


def _other_side(r: Expr, y: Expr) -> Expr:
    """Return whether the remainder is not 0 and has a sign other than ``y``."""
    zero = tirx.const(0.0, str(r.ty.dtype))
    return tirx.Or(tirx.And(r < zero, y > zero), tirx.And(r > zero, y < zero))


def _with_remainder(x: Expr, y: Expr, use: Use) -> Expr:
    dtype = dtype_of(x)[0]
    if dtype not in ("float32", "float64"):
        # The result is bound by a Let, because TVM's simplifier visits the operand of a cast twice.
        b = ScalarBody(_with_remainder(widen(x), widen(y), use))
        return b.done(narrow(b.x, dtype))
    isa = emitting_for()
    b = ScalarBody(x)
    y = b.let("y", y)
    if isa is not None and isa.device:
        return b.done(use(b, b.x, y, b.let("r", NATIVE["fmod"](b.x, y))))
    if dtype == "float64" or isa is None or not isa.fma:
        call = libm("fmodf" if dtype == "float32" else "fmod")
        return b.done(use(b, b.x, y, b.let("r", call(b.x, y))))
    p, q = (b.let(n, b.cast(v, "float64")) for n, v in (("p", b.x), ("q", y)))
    return b.done(b.cast(use(b, p, q, _exact(b, p, q)), "float32"))


def _exact(b: ScalarBody, p: Expr, q: Expr) -> Expr:
    """Return the remainder of two float32, in float64.

    Every step is exact. The total quotient may differ by 1 from the true one, which is corrected at
    the end.
    """
    zero = b.d(0.0)
    inverse = b.let("inverse", b.d(1.0) / q)
    r = p
    for _ in range(STEPS):
        whole = b.let("whole", tirx.trunc(r * inverse))
        r = b.let("r", b.fma(zero - whole, q, r))
    size = b.let("size", b.select(q < zero, zero - q, q))
    step = b.let("step", b.select(p < zero, zero - size, size))
    r = b.let("r", b.select(_other_side(r, p), r + step, r))
    over = tirx.Or(r >= size, r <= zero - size)
    r = b.let("r", b.select(over, r - step, r))
    # If the divisor is larger than the dividend, or infinite, the remainder is the dividend.
    small = tirx.And(p < size, zero - p < size)
    return b.let("r", b.select(small, p, r))


__all__ = [
    "clipped_byte",
    "clipped_number",
    "floor_divide",
    "floor_mod",
    "round_quotient",
    "trunc_mod",
]
