"""Exponentials for vectors without masks, for machines with a fused multiply-add.

Where AVX-512 scales by an instruction and selects with masks, AVX2 has eight lanes, sixteen
registers, and a select that is two operations. So the bodies here have next to no selects:

    s = x*log2(e) + magic       the nearest whole number n to the product is in the low bits of s,
    n = s - magic               and magic's own low bits are the bias of an exponent:
    2^n = bits(s) << 23         one shift makes the power of two

Results beyond the range of one exponent field are ``p * 2^h * 2^(n-h)`` with ``h = floor(n/2)``:
the first product is exact and the second rounds once, to inf or a denormal as it may be. Arguments
are clamped, NaN passing, and the halves of n keep all of sigmoid in range:

    1/(1+e^-x) = 2^-g / (2^-g + p*2^h)        with e^-x = p * 2^(g+h)

The sum with ``magic`` must be rounded: as the product is in an ``fma``, which no fast-math flag
takes apart, n is what is meant. Without such an instruction it would be a sum like any other.
"""

from __future__ import annotations

from tvm import tirx

from tvm_disc.schedules.math.language import F32, ROUNDING, Body, Expr
from tvm_disc.schedules.math.tables import GELU_K, GELU_NEAR, GELU_TAIL

LOG2E = 1.4426950408889634
HIGH, LOW = F32.ln2
_MANTISSA = F32.mantissa
# The sum of the biases of two powers of two whose product is meant, and of one.
_TWO, _ONE = 2 * F32.bias, F32.bias
LN2 = 0.6931471805599453
FLT_MAX = 3.4028234663852886e38
# log(erfc(a)) = a*(slope + P(a)) on [0, 4]; from the end on, the result rounds to 1.
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


def _clamp(b: Body, x: Expr, low: float, high: float) -> Expr:
    """``x`` within the range; NaN stays NaN, since it is the second operand."""
    return b.let("t", tirx.min(b.c(high), b.let("t", tirx.max(b.c(low), x))))


def _shifted(b: Body, bits: Expr) -> Expr:
    """The low nine bits of ``bits`` as a float's sign and exponent."""
    return b.float_of(tirx.shift_left(bits, b.i(_MANTISSA)))


def _reduce(b: Body, t: Expr, scale: float, bias: int) -> tuple[Expr, Expr]:
    """``(bits, f)``: ``scale*t = n*ln2 + scale*f``, ``bits`` ends in ``n + bias``."""
    magic = b.c(ROUNDING + bias)
    s = b.let("s", b.fma(t, b.c(scale * LOG2E), magic))
    n = b.let("n", s - magic)
    f = b.let("f", b.fma(n, b.c(-HIGH / scale), t))
    return b.let("i", b.bits(s)), b.let("f", b.fma(n, b.c(-LOW / scale), f))


def _halves(b: Body, bits: Expr) -> tuple[Expr, Expr]:
    """Integers that end in the exponents of ``2^h`` and ``2^(n-h)``; see :func:`_shifted`."""
    first = b.let("h", tirx.shift_right(bits, b.i(1)))
    return first, b.let("g", bits - first)


def _exp_less_one(b: Body, f: Expr, scale: float = 1.0) -> Expr:
    """``(e^(scale*f) - 1)/scale`` for ``|scale*f| <= ln(2)/2``, relatively accurate."""
    tail = [scale ** (k + 1) * c for k, c in enumerate(F32.exp_tail)]
    return b.fma(f * f, b.poly(f, tail), f)


def _exp(b: Body, f: Expr, scale: float = 1.0) -> Expr:
    """``e^(scale*f)`` for ``|scale*f| <= ln(2)/2``."""
    return b.poly(f, [scale**k * c for k, c in enumerate((1.0, 1.0, *F32.exp_tail))])


def exp(b: Body) -> Expr:
    """e^x: beyond 88.73 and below -103.98 the last product overflows, or is rounded to 0."""
    bits, f = _reduce(b, _clamp(b, b.x, -104.5, 89.0), 1.0, _TWO)
    first, second = _halves(b, bits)
    return _exp(b, f) * _shifted(b, first) * _shifted(b, second)


def exp_nonpositive(b: Body) -> Expr:
    """e^x for ``x <= 0``: one factor is the power of two, which is 0 where it would be denormal."""
    bits, f = _reduce(b, b.let("t", tirx.max(b.c(-88.0), b.x)), 1.0, _ONE)
    slope = b.let("e", b.poly_in_pairs(f, (1.0, *F32.exp_tail)))
    return b.fma(slope, f, b.c(1.0)) * _shifted(b, bits)


def _logistic(b: Body, t: Expr) -> tuple[Expr, Expr]:
    """``(c, d)`` with ``1/(1 + e^-t) = c/d``, ``c`` a power of two, for ``|t| <= 110``."""
    bits, f = _reduce(b, t, -1.0, _TWO)
    first = b.let("h", tirx.shift_right(bits, b.i(1)))
    power = b.let("a", _shifted(b, first))
    inverse = b.let("c", _shifted(b, first - bits + b.i(_TWO)))
    return inverse, b.fma(_exp(b, f, -1.0), power, inverse)


def sigmoid(b: Body) -> Expr:
    """1/(1 + e^-x): one division, rounded to a denormal where it must be."""
    inverse, total = _logistic(b, _clamp(b, b.x, -105.0, 105.0))
    return inverse / total


def silu(b: Body) -> Expr:
    """x/(1 + e^-x): scaled after the division, so that neither over- nor underflows before."""
    low = b.let("l", tirx.max(b.c(-110.0), b.x))
    inverse, total = _logistic(b, b.let("t", tirx.min(b.c(110.0), low)))
    value = low / total * inverse
    return b.select(b.x >= b.c(-FLT_MAX), value, b.c(float("nan")))


def tanh(b: Body) -> Expr:
    """``e/(e+1)``, ``e = (e^(2x) - 1)/2 = p*2^n - (1 - 2^n)/2``; only 0 must be given its sign."""
    t = _clamp(b, b.x, -F32.tanh_one, F32.tanh_one)
    bits, f = _reduce(b, t, 2.0, _ONE)
    p = _exp_less_one(b, f, 2.0)
    power = b.let("a", _shifted(b, bits))
    e = b.let("e", b.fma(p, power, b.fma(b.c(0.5), power, b.c(-0.5))))
    return b.with_sign(e / (e + b.c(1.0)), b.x)


def erf(b: Body) -> Expr:
    """``1 - e^L(|x|)``, L the logarithm of erfc: one polynomial serves all arguments.

    It has relative accuracy at 0, as has ``1 - e^L = -(p*2^n - (1 - 2^n))``, p = e^f - 1.
    """
    a = b.let("a", tirx.min(b.c(ERF_END), b.abs(b.x)))
    rest = b.let("r", b.poly(a, ERFC_REST) * a)
    value = b.let("l", b.fma(a, b.c(ERFC_SLOPE), rest))
    magic = b.c(ROUNDING + _ONE)
    s = b.let("s", b.fma(value, b.c(LOG2E), magic))
    # At -18 and above, what is left out of ln2 does not show in the result.
    f = b.let("f", b.fma(s - magic, b.c(-LN2), value))
    p = _exp_less_one(b, b.let("f", f))
    power = b.let("w", _shifted(b, b.bits(s)))
    return b.with_sign(b.fma(-p, power, b.c(1.0) - power), b.x)


def gelu_erf(b: Body) -> Expr:
    """``relu(x) - |x|*Phi(-|x|)``, near 0 ``x*(1/2 + x*P(x^2))``; ``x^2`` is taken in two parts."""
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
