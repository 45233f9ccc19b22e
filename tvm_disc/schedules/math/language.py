"""Helpers for writing math functions as straight-line code.

A :class:`ScalarBody` binds intermediate values (``tirx.Let``), so that each expression is evaluated
once. A :class:`Format` describes the bit layout of a floating-point type. A function body reads as
straight-line code::

    b = ScalarBody(x)                # f32, or f32xN if x is a vector
    f = b.let("f", b.x - b.c(1.0))
    return b.done(b.fma(f, f, b.x))  # Let(x, .., Let(f, .., fma(f, f, x)))

Two rules keep the bodies correct under ``fast-math-reassoc`` / ``-nsz`` / ``-contract``, which a
target may set. First, an error-free step (Cody-Waite reduction, ``2^-k - 1``) is always an ``fma``
call, which LLVM does not re-associate. Second, scaling by a power of two is an integer addition to
the exponent field (only :mod:`.fused` multiplies by two powers). ``fma`` lowers to
``llvm.fmuladd``: one instruction if the target has it, otherwise a multiplication and an addition.
No function needs the single rounding to meet its bound.

TVM's simplifier treats floats as real numbers: it folds ``x == x`` to true and rewrites ``not x <
y`` to ``y <= x``. Conditions are therefore written so that NaN makes them false, and are never
negated. A literal is never bound to a variable: the simplifier visits a condition more than once,
and fails if a variable is bound to an expression in one visit and to a literal in the next.
Conversions to integer are undefined for NaN and out-of-range values, so a function selects or
clamps its argument before it converts. ``min``/``max`` return their *second* operand on NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from tvm import tirx

from tvm_disc.tir.llvm_ops import emitting_for, has_native
from tvm_disc.typing import Expr

Binding: TypeAlias = "tuple[tirx.Var, Expr]"  # (variable, its value)


@dataclass(frozen=True)
class Format:
    """Bit layout of an IEEE type, and constants for argument reduction."""

    name: str
    int_name: str
    mantissa: int
    bias: int
    min_exp: int  # exponent of the smallest normal power of two
    # bit pattern of sqrt(1/2); log_split scales its argument to [sqrt(1/2), sqrt(2))
    sqrt_half: int
    tiny: float  # smallest normal number
    exp_over: float  # largest x with finite exp(x)
    exp_under: float  # for smaller x, exp(x) rounds to 0
    ln2: tuple[float, float]  # (high, low); the product of the high part with an exponent is exact
    exp_tail: tuple[float, ...]  # e^f = 1 + f + f^2 * P(f), |f| <= ln(2)/2
    tanh_one: float  # for larger x, tanh(x) rounds to 1

    @property
    def sign_bit(self) -> int:
        return -(1 << (31 if self.int_name == "int32" else 63))


F32 = Format(
    name="float32",
    int_name="int32",
    mantissa=23,
    bias=127,
    min_exp=-126,
    sqrt_half=0x3F3504F3,
    tiny=2.0**-126,
    exp_over=88.72283172607422,
    exp_under=-103.97208404541016,
    ln2=(0.693359375, -0.00021219444170128554),
    exp_tail=(
        0.4999999403953552,
        0.1666652113199234,
        0.04166826605796814,
        0.008368677459657192,
        0.001382073387503624,
    ),
    tanh_one=9.5,
)

F64 = Format(
    name="float64",
    int_name="int64",
    mantissa=52,
    bias=1023,
    min_exp=-1022,
    sqrt_half=0x3FE6A09E667F3BCD,
    tiny=2.0**-1022,
    exp_over=709.782712893384,
    exp_under=-745.1332191019412,
    ln2=(0.6931471806019545, -4.2009150726810846e-11),
    exp_tail=(  # Taylor coefficients; the next term is below 2^-57
        1 / 2,
        1 / 6,
        1 / 24,
        1 / 120,
        1 / 720,
        1 / 5040,
        1 / 40320,
        1 / 362880,
        1 / 3628800,
        1 / 39916800,
        1 / 479001600,
        1 / 6227020800,
    ),
    tanh_one=20.0,
)

# The low bits of ``x + ROUNDING`` hold the integer nearest to x, for float32 with |x| < 2^22.
ROUNDING = 1.5 * 2.0**23

FORMATS = {"float32": F32, "float64": F64}


def dtype_of(x: Expr) -> tuple[str, int]:
    """Return the scalar type name and the number of lanes of an expression."""
    name, _, lanes = str(x.ty.dtype).partition("x")
    return name, int(lanes or 1)


def literal(x: Expr) -> int | float | None:
    """Return the value of a literal, or of a vector of equal literals; else None."""
    scalar = x.value if isinstance(x, tirx.Broadcast) else x
    return scalar.value if isinstance(scalar, tirx.FloatImm | tirx.IntImm) else None


def is_literal(x: Expr) -> bool:
    """Return whether ``x`` is a literal, or a vector of equal literals."""
    return literal(x) is not None


def bound(var: tirx.Var, value: Expr) -> list[Binding]:
    """Return the bindings in ``value``, outermost first, followed by that of ``var``.

    The time of TVM's analyzer grows exponentially with a ``Let`` in the value of another.
    """
    found: list[Binding] = []
    while isinstance(value, tirx.Let):
        found.append((value.var, value.value))
        value = value.body
    return [*found, (var, value)]


def under(bindings: Sequence[Binding], result: Expr) -> Expr:
    """Return ``result`` inside ``Let`` nodes for the bindings; the first binding is outermost."""
    for var, value in reversed(bindings):
        result = tirx.Let(var, value, result)
    return result


def _widened(x: Expr, dtype: str) -> Expr:
    """Return a float converted to a wider type; a literal is converted to a literal."""
    number = literal(x)
    if number is None:
        return tirx.Cast(dtype, x)
    return tirx.const(float(np.dtype(dtype_of(x)[0]).type(number)), dtype)


def widen(x: Expr) -> Expr:
    """Return float16 or bfloat16 as float32, exactly; float32 is unchanged.

    bfloat16 is converted through its bits: TVM 0.27 lowers a cast from bfloat16 inside a ``Let`` to
    an integer conversion, and duplicates the operand of a cast to bfloat16.
    """
    dtype, lanes = dtype_of(x)
    suffix = "" if lanes == 1 else f"x{lanes}"
    if dtype == "float32":
        return x
    if dtype == "float16":
        return _widened(x, "float32" + suffix)
    bits = tirx.Cast("uint32" + suffix, tirx.reinterpret("uint16" + suffix, x))
    high = tirx.shift_left(bits, tirx.const(16, "uint32" + suffix))
    return tirx.reinterpret("float32" + suffix, high)


def narrow(x: Expr, dtype: str) -> Expr:
    """Return float32 rounded to nearest even in ``dtype``, which is float16 or bfloat16.

    See :func:`widen` for the conversion of bfloat16.
    """
    lanes = dtype_of(x)[1]
    suffix = "" if lanes == 1 else f"x{lanes}"
    if dtype == "float16":
        return tirx.Cast(dtype + suffix, x)
    uint = "uint32" + suffix
    wide, bits = tirx.Var("wide", "float32" + suffix), tirx.Var("bits", uint)
    half = tirx.const(16, uint)
    even = tirx.bitwise_and(tirx.shift_right(bits, half), tirx.const(1, uint))
    rounded = tirx.shift_right(bits + even + tirx.const(0x7FFF, uint), half)
    is_number = wide <= tirx.const(float("inf"), "float32" + suffix)
    rounded = tirx.Select(is_number, rounded, tirx.const(0x7FC0, uint))
    result = tirx.reinterpret(dtype + suffix, tirx.Cast("uint16" + suffix, rounded))
    return tirx.Let(wide, x, tirx.Let(bits, tirx.reinterpret(uint, wide), result))


def libm(name: str) -> Callable[..., Expr]:
    """Return a function that emits a call of a C math function for each lane."""

    def fn(x: Expr, *others: Expr) -> Expr:
        dtype, lanes = dtype_of(x)
        if lanes == 1:
            return tirx.call_pure_extern(dtype, name, x, *others)
        b = ScalarBody(x)
        given = [b.x, *(b.let("y", y) for y in others)]
        picks = [tirx.IntImm("int32", k) for k in range(lanes)]
        lane = [[tirx.Shuffle([x], [k]) for x in given] for k in picks]
        parts = [tirx.call_pure_extern(dtype, name, *one) for one in lane]
        return b.done(tirx.Shuffle(parts, picks))

    return fn


class ScalarBody:
    """Straight-line code of one argument ``x``; :meth:`done` returns the complete expression."""

    def __init__(self, x: Expr) -> None:
        name, self.lanes = dtype_of(x)
        self.fmt = FORMATS[name]
        self.native = self.fmt is F32 and has_native(self.lanes)
        isa = emitting_for()
        self.fused = self.fmt is F32 and isa is not None and isa.fma
        self._bindings: list[Binding] = []
        self.x = self.let("x", x)

    # Types and constants -------------------------------------------------------------------

    def ty(self, name: str) -> str:
        return name if self.lanes == 1 else f"{name}x{self.lanes}"

    def const(self, value: float | int, name: str) -> Expr:
        return tirx.const(value, self.ty(name))

    def c(self, value: float) -> Expr:
        """Return a constant of the working format."""
        return self.const(value, self.fmt.name)

    def i(self, value: int) -> Expr:
        """Return a constant of the integer type as wide as the working format."""
        return self.const(value, self.fmt.int_name)

    def d(self, value: float) -> Expr:
        return self.const(value, "float64")

    # Bindings ------------------------------------------------------------------------------

    def let(self, name: str, value: Expr) -> Expr:
        """Return a variable bound to ``value``.

        Literals and conditions are returned unchanged (TVM has no variables for vectors of bool).
        Zeros are bound, because TVM refuses to fold a division by 0.
        """
        if literal(value) or "bool" in str(value.ty.dtype):
            return value
        var = tirx.Var(name, str(value.ty.dtype))
        self._bindings += bound(var, value)
        return var

    def done(self, result: Expr) -> Expr:
        """Return ``result`` inside all bindings; the object must not be used afterwards."""
        bindings, self._bindings = self._bindings, []
        return under(bindings, result)

    # Arithmetic ----------------------------------------------------------------------------

    def fma(self, a: Expr, b: Expr, c: Expr) -> Expr:
        return tirx.call_intrin(str(a.ty.dtype), "tirx.fma", a, b, c)

    def poly(self, x: Expr, coefficients: Sequence[float], tail: Expr | None = None) -> Expr:
        """Return ``sum(c[k] * x^k)``, lowest order first, in Horner form, in the type of ``x``."""
        dtype = str(x.ty.dtype)
        terms = [tirx.const(v, dtype) for v in coefficients]
        result = terms.pop() if tail is None else tail
        for term in reversed(terms):
            result = self.fma(result, x, term)
        return result

    def poly_in_pairs(self, x: Expr, coefficients: Sequence[float]) -> Expr:
        """Return the sum of :meth:`poly` in Estrin's form.

        The form is a polynomial in ``x^2`` whose coefficients are pairs of terms. The dependency
        chain is half as long; there is one more multiplication.
        """
        terms = [self.c(v) for v in coefficients]
        pairs = [
            self.let("q", self.fma(x, odd, even))
            for even, odd in zip(terms[::2], terms[1::2], strict=False)
        ]
        result = terms[-1] if len(terms) % 2 else pairs.pop()
        square = self.let("z", x * x)
        for pair in reversed(pairs):
            result = self.fma(result, square, pair)
        return result

    def abs(self, x: Expr) -> Expr:
        return self.float_of(tirx.bitwise_and(self.bits(x), self.i(~self.fmt.sign_bit)))

    def cast(self, x: Expr, name: str) -> Expr:
        return _widened(x, self.ty(name)) if name == "float64" else tirx.Cast(self.ty(name), x)

    def bits(self, x: Expr) -> Expr:
        return tirx.reinterpret(self.ty(self.fmt.int_name), x)

    def float_of(self, bits: Expr) -> Expr:
        return tirx.reinterpret(self.ty(self.fmt.name), bits)

    def shifted(self, n: Expr) -> Expr:
        """Return the integer ``n`` shifted left to the exponent field."""
        return tirx.shift_left(n, self.i(self.fmt.mantissa))

    def pow2(self, n: Expr) -> Expr:
        """Return ``2^n`` for ``n`` in the exponent range of normal numbers."""
        return self.float_of(self.shifted(n + self.i(self.fmt.bias)))

    def scale(self, x: Expr, n: Expr) -> Expr:
        """Return ``x * 2^n`` if ``x`` and the result are normal, or if ``n`` is 0."""
        return self.float_of(self.bits(x) + self.shifted(n))

    def scale_gradual(self, x: Expr, n: Expr) -> Expr:
        """Return ``x * 2^n`` for ``x`` of order 1, rounded once, even if the result is denormal."""
        high = self.let("high", tirx.max(n, self.i(self.fmt.min_exp + 2)))
        return self.scale(x, high) * self.pow2(n - high)

    def with_sign(self, magnitude: Expr, sign: Expr) -> Expr:
        """Return ``magnitude``, whose sign bit must be 0, with the sign bit of ``sign``."""
        sign_bit = tirx.bitwise_and(self.bits(sign), self.i(self.fmt.sign_bit))
        return self.float_of(tirx.bitwise_or(self.bits(magnitude), sign_bit))

    def select(self, condition: Expr, yes: Expr, no: Expr) -> Expr:
        """Return ``yes`` or ``no``; a literal condition is folded."""
        known = literal(condition)
        if known is not None:
            return yes if known else no
        return tirx.Select(condition, yes, no)

    def or_nan(self, result: Expr) -> Expr:
        """Return ``result``, or ``x`` if ``x`` is NaN; TVM would fold ``x == x`` to true."""
        return self.select(self.x <= self.c(float("inf")), result, self.x)

    def eq(self, x: Expr, y: Expr) -> Expr:
        """Return the comparison ``x == y``, for which Python's ``==`` is a lazy placeholder."""
        return tirx.EQ(x, y)

    def small_int(self, x: Expr) -> Expr:
        """Return an integral float within int32 as an integer as wide as the working format."""
        narrow = self.cast(x, "int32")
        return narrow if self.fmt is F32 else self.cast(narrow, "int64")

    # Steps that several functions share ---------------------------------------------------

    def exp_reduce(self, clean: Expr, raw: Expr) -> tuple[Expr, Expr]:
        """Return ``(n, f)`` with ``e^clean = 2^n * e^f``, ``|f| <= ln(2)/2`` (Cody and Waite).

        ``clean`` must be finite; ``f`` is computed from ``raw``, which may also be NaN.
        """
        high, low = self.fmt.ln2
        n = self.let("n", tirx.nearbyint(clean * self.c(1.4426950408889634)))
        f = self.let("f", self.fma(n, self.c(-high), raw))
        f = self.let("f", self.fma(n, self.c(-low), f))
        return self.let("k", self.small_int(n)), f

    def exp_poly(self, f: Expr) -> Expr:
        """Return ``e^f`` for ``|f| <= ln(2)/2``."""
        return self.let("p", self.poly(f, (1.0, 1.0, *self.fmt.exp_tail)))

    def expm1_poly(self, f: Expr) -> Expr:
        """Return ``e^f - 1`` for ``|f| <= ln(2)/2``, relatively accurate."""
        tail = self.let("t", self.poly(f, self.fmt.exp_tail))
        return self.let("p", self.fma(f * f, tail, f))

    def log_split(self, x: Expr) -> tuple[Expr, Expr]:
        """Return floats ``(k, f)`` with ``x = 2^k * (1 + f)``, for positive ``x``."""
        fmt = self.fmt
        tiny = self.let("tiny", x < self.c(fmt.tiny))
        up = fmt.mantissa + 1
        bits = self.let("b", self.bits(self.select(tiny, x * self.c(2.0**up), x)))
        k = self.let("k", tirx.shift_right(bits - self.i(fmt.sqrt_half), self.i(fmt.mantissa)))
        f = self.let("f", self.float_of(bits - self.shifted(k)) - self.c(1.0))
        narrow = k if fmt is F32 else self.cast(k, "int32")
        exponent = self.cast(narrow, fmt.name)
        return self.let("e", exponent + self.select(tiny, self.c(-up), self.c(0.0))), f

    def log1p_tail(self, f: Expr) -> Expr:
        """Return ``log(1+f) - f`` for ``1+f`` in [sqrt(1/2), sqrt(2))."""
        if self.fmt is F32:
            return self.let("r", f * f * self.poly(f, LOG_TAIL_F32))
        s = self.let("s", f / (f + self.c(2.0)))
        z = self.let("z", s * s)
        half = self.let("h", self.c(0.5) * f * f)
        return self.let("r", s * self.fma(z, self.poly(z, LOG_TAIL_F64), half) - half)

    def log_join(self, exponent: Expr, f: Expr, tail: Expr) -> Expr:
        """Return ``exponent*ln2 + f + tail``."""
        high, low = self.fmt.ln2
        small = self.fma(exponent, self.c(low), tail) + f
        return self.fma(exponent, self.c(high), small)


LOG_TAIL_F32 = (
    -0.5,
    0.3333331346511841,
    -0.25000008940696716,
    0.20002074539661407,
    -0.1666799932718277,
    0.14220279455184937,
    -0.12405914068222046,
    0.11883895844221115,
    -0.11672509461641312,
    0.0675150528550148,
)

# With s = f/(2+f) and z = s^2: log(1+f) = 2s + s*z*P(z).
LOG_TAIL_F64 = (
    0.6666666666666705,
    0.3999999999956983,
    0.28571428713086827,
    0.22222201540482128,
    0.18183376773623822,
    0.15321544976222412,
    0.1462569651597045,
    0.01639046204126655,
)
