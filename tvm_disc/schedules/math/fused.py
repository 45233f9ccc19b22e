"""Exponential functions with a fused multiply-add, written for AVX2.

AVX2 has only 16 registers, and a select takes two operations (compare, blend), so the code in this
module contains almost no selects. AVX-512 scales with one instruction and selects with masks; for
it, ``exp`` and ``erf`` have other code (``exponential.py``).

    s = x*log2(e) + magic       the low bits of s hold the integer n nearest to the product
    n = s - magic               the low bits of magic are the bias of an exponent
    2^n = bits(s) << 23         one shift yields the power of two

Results beyond the range of one exponent field are ``p * 2^h * 2^(n-h)`` with ``h = floor(n/2)``.
The first product is exact. The second one rounds once, possibly to inf or a denormal. Arguments are
clamped, but NaN is preserved. If n is split into halves, all steps of sigmoid are in range:

    1/(1+e^-x) = 2^-g / (2^-g + p*2^h)        with e^-x = p * 2^(g+h)

The sum with ``magic`` must be rounded. As part of an ``fma`` it is, since no fast-math flag splits
an ``fma``. Without such an instruction, the sum could be re-associated.
"""

from __future__ import annotations

from tvm import tirx

from tvm_disc.schedules.math.language import F32, ROUNDING, ScalarBody
from tvm_disc.schedules.math.tables import GELU_K, GELU_NEAR, GELU_TAIL
from tvm_disc.typing import Expr

LOG2E = 1.4426950408889634
HIGH, LOW = F32.ln2
_MANTISSA = F32.mantissa
# Bias of the exponent field for a product of two powers of two, and for a single power.
_TWO, _ONE = 2 * F32.bias, F32.bias
LN2 = 0.6931471805599453
FLT_MAX = 3.4028234663852886e38
# log(erfc(a)) = a*(slope + P(a)) on [0, 4]; for a >= 4, erf(a) rounds to 1.
ERF_END = 4.0
ERFC_SLOPE = -1.128379225730896
ERFC_REST = (
    1.8678349533729488e-08,
    -0.6366164684295654,
    -0.10281474888324738,
    0.019322970882058144,
    -0.00020776191377080977,
    -0.0012501232558861375,
    0.00038038843194954097,
    -4.062075095134787e-05,
)


def _clamp(b: ScalarBody, x: Expr, low: float, high: float) -> Expr:
    """Return ``x`` clamped to [low, high]. NaN is preserved, because it is the second operand."""
    return b.let("t", tirx.min(b.c(high), b.let("t", tirx.max(b.c(low), x))))


def _shifted(b: ScalarBody, bits: Expr) -> Expr:
    """Return a float whose sign and exponent are the low nine bits of ``bits``."""
    return b.float_of(tirx.shift_left(bits, b.i(_MANTISSA)))


def _reduce(b: ScalarBody, t: Expr, scale: float, bias: int) -> tuple[Expr, Expr]:
    """Return ``(bits, f)`` with ``scale*t = n*ln2 + scale*f``.

    The low bits of ``bits`` are ``n + bias``.
    """
    magic = b.c(ROUNDING + bias)
    s = b.let("s", b.fma(t, b.c(scale * LOG2E), magic))
    n = b.let("n", s - magic)
    f = b.let("f", b.fma(n, b.c(-HIGH / scale), t))
    return b.let("i", b.bits(s)), b.let("f", b.fma(n, b.c(-LOW / scale), f))


def _halves(b: ScalarBody, bits: Expr) -> tuple[Expr, Expr]:
    """Return integers whose low bits are the exponent fields of ``2^h`` and ``2^(n-h)``.

    :func:`_shifted` converts them to floats.
    """
    first = b.let("h", tirx.shift_right(bits, b.i(1)))
    return first, b.let("g", bits - first)


def _exp_less_one(b: ScalarBody, f: Expr, scale: float = 1.0) -> Expr:
    """Return ``(e^(scale*f) - 1)/scale`` for ``|scale*f| <= ln(2)/2``, relatively accurate."""
    tail = [scale ** (k + 1) * c for k, c in enumerate(F32.exp_tail)]
    return b.fma(f * f, b.poly(f, tail), f)


def _exp(b: ScalarBody, f: Expr, scale: float = 1.0) -> Expr:
    """Return ``e^(scale*f)`` for ``|scale*f| <= ln(2)/2``."""
    return b.poly(f, [scale**k * c for k, c in enumerate((1.0, 1.0, *F32.exp_tail))])


def exp(b: ScalarBody) -> Expr:
    """Return e^x; the last product overflows for x > 88.73, and rounds to 0 for x < -103.98."""
    bits, f = _reduce(b, _clamp(b, b.x, -104.5, 89.0), 1.0, _TWO)
    first, second = _halves(b, bits)
    return _exp(b, f) * _shifted(b, first) * _shifted(b, second)


def exp_nonpositive(b: ScalarBody) -> Expr:
    """Return e^x for ``x <= 0``; 0 if the power of two would be denormal."""
    bits, f = _reduce(b, b.let("t", tirx.max(b.c(-88.0), b.x)), 1.0, _ONE)
    slope = b.let("e", b.poly_in_pairs(f, (1.0, *F32.exp_tail)))
    return b.fma(slope, f, b.c(1.0)) * _shifted(b, bits)


def _logistic(b: ScalarBody, t: Expr) -> tuple[Expr, Expr]:
    """Return ``(c, d)`` with ``1/(1 + e^-t) = c/d`` for ``|t| <= 110``; ``c`` is a power of two."""
    bits, f = _reduce(b, t, -1.0, _TWO)
    first = b.let("h", tirx.shift_right(bits, b.i(1)))
    power = b.let("a", _shifted(b, first))
    inverse = b.let("c", _shifted(b, first - bits + b.i(_TWO)))
    return inverse, b.fma(_exp(b, f, -1.0), power, inverse)


def sigmoid(b: ScalarBody) -> Expr:
    """Return 1/(1 + e^-x); the only division may round to a denormal."""
    inverse, total = _logistic(b, _clamp(b, b.x, -105.0, 105.0))
    return inverse / total


def silu(b: ScalarBody) -> Expr:
    """Return x/(1 + e^-x), scaled after the division, so that no earlier step overflows."""
    low = b.let("l", tirx.max(b.c(-110.0), b.x))
    inverse, total = _logistic(b, b.let("t", tirx.min(b.c(110.0), low)))
    value = low / total * inverse
    return b.select(b.x >= b.c(-FLT_MAX), value, b.c(float("nan")))


def tanh(b: ScalarBody) -> Expr:
    """Return ``e/(e+1)`` with ``e = (e^(2x) - 1)/2 = p*2^n - (1 - 2^n)/2``.

    The sign is copied from x, which matters only for x = -0.
    """
    t = _clamp(b, b.x, -F32.tanh_one, F32.tanh_one)
    bits, f = _reduce(b, t, 2.0, _ONE)
    p = _exp_less_one(b, f, 2.0)
    power = b.let("a", _shifted(b, bits))
    e = b.let("e", b.fma(p, power, b.fma(b.c(0.5), power, b.c(-0.5))))
    return b.with_sign(e / (e + b.c(1.0)), b.x)


def erf(b: ScalarBody) -> Expr:
    """Return ``1 - e^L(|x|)``, where L is the logarithm of erfc: one polynomial for all arguments.

    L is relatively accurate near 0. So is ``1 - e^L = -(p*2^n - (1 - 2^n))``, with p = e^f - 1.
    """
    a = b.let("a", tirx.min(b.c(ERF_END), b.abs(b.x)))
    rest = b.let("r", b.poly(a, ERFC_REST) * a)
    value = b.let("l", b.fma(a, b.c(ERFC_SLOPE), rest))
    magic = b.c(ROUNDING + _ONE)
    s = b.let("s", b.fma(value, b.c(LOG2E), magic))
    # For values >= -18, a single product with the rounded ln2 is accurate enough.
    f = b.let("f", b.fma(s - magic, b.c(-LN2), value))
    p = _exp_less_one(b, b.let("f", f))
    power = b.let("w", _shifted(b, b.bits(s)))
    return b.with_sign(b.fma(-p, power, b.c(1.0) - power), b.x)


def gelu_erf(b: ScalarBody) -> Expr:
    """Return ``relu(x) - |x|*Phi(-|x|)``, or near 0 ``x*(1/2 + x*P(x^2))``.

    ``x^2`` is computed as a rounded square and its rounding error.
    """
    a = b.let("a", tirx.min(b.abs(b.x), b.c(14.5)))
    square = b.let("z", a * a)
    rest = b.let("y", b.fma(a, a, -square))
    bits, f = _reduce(b, square, -0.5, _TWO)
    first, second = _halves(b, bits)
    p = _exp(b, b.let("g", f + rest), -0.5)
    u = b.let("u", a / (a + b.c(GELU_K)))
    t = b.let("w", b.fma(u, b.c(2.0), b.c(-1.0)))
    tail = b.poly(t, GELU_TAIL) * u * p
    tail = tail * _shifted(b, first) * _shifted(b, second)
    far = tirx.max(b.c(-0.0), b.x) - tail
    near = b.x * b.fma(b.x, b.poly(square, GELU_NEAR), b.c(0.5))
    result = b.select(a < b.c(0.7), near, far)
    return b.select(b.x >= b.c(-FLT_MAX), result, b.c(float("nan")))
