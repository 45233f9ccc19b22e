"""Code of the exponential, logarithm and power functions; ``functions`` states their contract.

``exp`` and ``log`` follow Cody and Waite, "Software Manual for the Elementary Functions"; they
scale by an addition to the exponent bits. ``tanh`` is computed from ``expm1``, ``sinh`` and
``cosh`` from ``exp(|x|)/2``.
``erf`` is a polynomial near 0, and ``1 - exp(polynomial)`` for larger arguments. ``gelu`` is
``x*(1/2 + x*P(x^2))`` near 0, and ``relu(x) - |x|*Phi(-|x|)`` for larger arguments, where the
second term is relatively accurate even if it is small. ``pow`` is
``exp2(y*log2(x))`` with a float64 logarithm.
"""

from __future__ import annotations

from tvm import tirx

from tvm_disc.schedules.math import fused
from tvm_disc.schedules.math.language import F32, ROUNDING, ScalarBody
from tvm_disc.schedules.math.tables import (
    ERF_DIGITS,
    ERF_END,
    ERF_TABLE,
    ERFC_K,
    ERFC_TAIL,
    EXP_NEAR,
    EXP_TABLE,
    GELU_K,
    GELU_NEAR,
    GELU_TAIL,
)
from tvm_disc.tir import llvm_ops
from tvm_disc.typing import Expr

INF = float("inf")
NAN = float("nan")
FLT_MAX = 3.4028234663852886e38
LN2 = 0.6931471805599453

# ERF_SMALL: erf(a)/a - 1 in powers of a^2, for a in [0, 0.93]. ERF_LARGE: log(erfc(a)), for a in
# [0.92, 4].
ERF_SMALL = (
    0.12837916612625122,
    -0.3761262893676758,
    0.11283625662326813,
    -0.02685573138296604,
    0.005192405078560114,
    -0.0008049769676290452,
    7.99664921942167e-05,
)
ERF_LARGE = (
    -0.00019567344861570746,
    -1.1276756525039673,
    -0.6371821761131287,
    -0.10393168032169342,
    0.02222696878015995,
    -0.003043231088668108,
    0.0001959387445822358,
)

# log2(1+f)/f in powers of f; float64 coefficients for a float32 result
LOG2_F64 = (
    1.4426950408686194,
    -0.7213475208699884,
    0.480898361446469,
    -0.36067367465944804,
    0.2885372885029725,
    -0.24045316949795975,
    0.20617552850759774,
    -0.18030070651260113,
    0.1587674938178328,
    -0.1431528397803532,
    0.1447584480971259,
    -0.1428645118149017,
    0.07738224687870762,
)

SINH_TAIL = (
    0.1666666716337204,
    0.00833331048488617,
    0.00019842895762560732,
    2.7822131869470468e-06,
)


def exp(x: Expr) -> Expr:
    """Return e**x; see :mod:`tvm_disc.schedules.math.functions` for bounds."""
    b = ScalarBody(x)
    if b.native:
        return b.done(_exp_native(b))
    if b.fused:
        return b.done(fused.exp(b))
    over, under = b.c(b.fmt.exp_over), b.c(b.fmt.exp_under)
    finite = tirx.And(b.x >= under, b.x <= over)
    n, f = b.exp_reduce(b.let("t", b.select(finite, b.x, b.c(0.0))), b.x)
    result = b.scale_gradual(b.exp_poly(f), n)
    return b.done(b.select(b.x > over, b.c(INF), b.select(b.x < under, b.c(0.0), result)))


def exp_nonpositive(x: Expr) -> Expr:
    """Return e**x for ``x <= 0``; see :mod:`tvm_disc.schedules.math.functions`."""
    b = ScalarBody(x)
    return b.done(fused.exp_nonpositive(b)) if b.fused and not b.native else exp(x)


def _exp_native(b: ScalarBody) -> Expr:
    """Return ``2^(k/16) * 2^n * e^f``.

    The scaling by 2^n is an instruction that handles overflow and denormals. For infinite and huge
    arguments ``f`` has no meaning. It is clamped, and the scale alone determines the result.
    """
    to_sixteenth = b.c(ROUNDING / llvm_ops.TABLE)
    s = b.let("s", b.fma(b.x, b.c(1.0 / LN2), to_sixteenth))
    n = b.let("n", s - to_sixteenth)
    hi, lo = b.fmt.ln2
    f = b.let("f", b.fma(n, b.c(-hi), b.x))
    f = b.let("f", llvm_ops.clamp(b.fma(n, b.c(-lo), f), b.c(0.5)))
    root = b.let("r", llvm_ops.lookup(EXP_TABLE, b.bits(s)))
    near = b.poly(f, (1.0, *EXP_NEAR))
    return llvm_ops.scale(b.fma(root * f, near, root), n)


def exp2(x: Expr) -> Expr:
    """Return 2**x; see :mod:`tvm_disc.schedules.math.functions` for bounds."""
    b = ScalarBody(x)
    under = b.c(-150.0)
    finite = tirx.And(b.x > under, b.x < b.c(128.0))
    whole = b.let("w", tirx.nearbyint(b.select(finite, b.x, b.c(0.0))))
    f = b.let("f", (b.x - whole) * b.c(LN2))
    result = b.scale_gradual(b.exp_poly(f), b.let("k", b.small_int(whole)))
    return b.done(b.select(b.x >= b.c(128.0), b.c(INF), b.select(b.x <= under, b.c(0.0), result)))


def _decay(b: ScalarBody, reach: float) -> tuple[Expr, Expr, Expr]:
    """Return ``(n, p, e)`` with ``exp(-min(|x|, reach)) = 2^n * p``, and ``e`` equal to that value.

    If the value is below 2^-64, ``e`` is inexact.
    """
    clean = b.let("t", tirx.max(-b.abs(b.x), b.c(-reach)))
    n, f = b.exp_reduce(clean, clean)
    p = b.exp_poly(f)
    return n, p, b.let("e", b.scale(p, tirx.max(n, b.i(-64))))


def sigmoid(x: Expr) -> Expr:
    """Return 1 / (1 + e**-x); see :mod:`tvm_disc.schedules.math.functions` for bounds."""
    b = ScalarBody(x)
    if b.fused:
        return b.done(fused.sigmoid(b))
    n, p, e = _decay(b, 104.0 if b.fmt is F32 else 745.2)
    negative = b.let("neg", b.x < b.c(0.0))
    ratio = b.let("q", b.select(negative, p, b.c(1.0)) / (e + b.c(1.0)))
    result = b.scale_gradual(ratio, b.let("m", b.select(negative, n, b.i(0))))
    return b.done(b.or_nan(result))


def silu(x: Expr) -> Expr:
    """Return x * sigmoid(x); see :mod:`tvm_disc.schedules.math.functions` for bounds."""
    b = ScalarBody(x)
    if b.fused:
        return b.done(fused.silu(b))
    reach = 110.0
    n, p, e = _decay(b, reach)
    negative = b.let("neg", b.x < b.c(0.0))
    ratio = b.select(negative, p, b.c(1.0)) / (e + b.c(1.0))
    value = b.let("v", ratio * tirx.max(b.x, b.c(-reach)))
    result = b.scale_gradual(value, b.let("m", b.select(negative, n, b.i(0))))
    return b.done(b.select(b.x >= b.c(-FLT_MAX), result, b.c(NAN)))


def tanh(x: Expr) -> Expr:
    """Return the hyperbolic tangent; see :mod:`tvm_disc.schedules.math.functions` for bounds."""
    b = ScalarBody(x)
    if b.fused:
        return b.done(fused.tanh(b))
    t = b.let("t", tirx.min(b.abs(b.x), b.c(b.fmt.tanh_one)))
    n, f = b.exp_reduce(b.let("t2", t + t), t + t)
    p = b.expm1_poly(f)
    s = b.let("s", b.pow2(n))
    e = b.let("e", b.fma(p, s, s - b.c(1.0)))  # e = expm1(2t)
    result = b.with_sign(e / (e + b.c(2.0)), b.x)
    return b.done(b.or_nan(result))


def erf(x: Expr) -> Expr:
    """Return the error function; see :mod:`tvm_disc.schedules.math.functions` for bounds."""
    b = ScalarBody(x)
    a = b.let("a", b.abs(b.x))
    if b.native:
        return b.done(_erf_native(b, a))
    if b.fused:
        return b.done(fused.erf(b))
    near = b.fma(b.x, b.poly(b.let("s", a * a), ERF_SMALL), b.x)
    far = b.let("t", tirx.min(a, b.c(4.0)))
    log_erfc = b.let("l", b.poly(far, ERF_LARGE))
    n, f = b.exp_reduce(log_erfc, log_erfc)
    beyond = b.c(1.0) - b.scale(b.exp_poly(f), n)
    return b.done(b.select(a >= b.c(0.925), b.with_sign(beyond, b.x), near))


def _erf_native(b: ScalarBody, a: Expr) -> Expr:
    """Return erf as a polynomial around the nearest of 16 points; the last piece reaches 1."""
    end = b.c(ERF_END)
    clean = b.let("t", b.select(a > end, end, a))
    index = b.let("i", b.bits(clean + b.c(ROUNDING / 2**ERF_DIGITS)))
    r = b.let("r", llvm_ops.remainder(clean, ERF_DIGITS))
    value = llvm_ops.lookup(ERF_TABLE[-1], index)
    for row in reversed(ERF_TABLE[:-1]):
        value = b.fma(value, r, llvm_ops.lookup(row, index))
    return b.with_sign(value, b.x)


def erfc(x: Expr) -> Expr:
    """Return 1 - erf(x); see :mod:`tvm_disc.schedules.math.functions` for bounds.

    With ``a = |x|``, erfc is a polynomial near 0, and ``exp(-a^2) * P(a)`` for larger ``a``, which
    is subtracted from 2 if x is negative. The square is computed as an exact high part and a low
    part, so that its rounding error does not affect the exponential.
    """
    b = ScalarBody(x)
    a = b.let("a", tirx.min(b.abs(b.x), b.c(10.3)))
    high = b.let("h", b.float_of(tirx.bitwise_and(b.bits(a), b.i(-4096))))
    square = b.let("s", -high * high)
    rest = b.let("r", (high - a) * (high + a))
    n, f = b.exp_reduce(b.let("e", square + rest), square)
    p = b.expm1_poly(b.let("g", f + rest))
    w = b.let("w", a + b.c(ERFC_K))
    t = b.let("t", (a - b.c(ERFC_K)) / w)
    # The operand of scale_gradual must be of order 1: 16*erfcx(a) is between 0.8 and 16.
    scaled = b.let("q", b.poly(t, [16.0 * c for c in ERFC_TAIL]) / w)
    tail = b.let("v", b.scale_gradual(b.let("m", b.fma(scaled, p, scaled)), n - b.i(4)))
    far = b.select(b.x < b.c(0.0), b.c(2.0) - tail, tail)
    near = b.fma(-b.x, b.poly(b.let("z", a * a), ERF_SMALL), b.c(1.0) - b.x)
    return b.done(b.or_nan(b.select(a < b.c(0.8), near, far)))


def expm1(x: Expr) -> Expr:
    """Return e**x - 1; see :mod:`tvm_disc.schedules.math.functions` for bounds.

    Half of the result is computed first, because ``2^n`` may overflow although the result is
    finite; ``2^(n-1)`` does not.
    """
    b = ScalarBody(x)
    inside = tirx.And(b.x >= b.c(-30.0), b.x <= b.c(b.fmt.exp_over))
    n, f = b.exp_reduce(b.let("t", b.select(inside, b.x, b.c(0.0))), b.x)
    half = b.let("s", b.pow2(n - b.i(1)))
    value = b.fma(b.expm1_poly(f), half, half - b.c(0.5))
    # The result has the sign of x, even if the result is 0.
    result = b.with_sign(b.abs(b.let("v", value + value)), b.x)
    result = b.select(b.x > b.c(b.fmt.exp_over), b.c(INF), result)
    return b.done(b.or_nan(b.select(b.x < b.c(-30.0), b.c(-1.0), result)))


def gelu_erf(x: Expr) -> Expr:
    """Return x * (1 + erf(x / sqrt 2)) / 2; see :mod:`tvm_disc.schedules.math.functions` for
    bounds.
    """
    b = ScalarBody(x)
    if b.fused:
        return b.done(fused.gelu_erf(b))
    a = b.let("a", tirx.min(b.abs(b.x), b.c(14.5)))
    # a^2 in two parts: the high part has 12 bits, so that its square is exact.
    high = b.let("h", b.float_of(tirx.bitwise_and(b.bits(a), b.i(-4096))))
    square = b.let("s", b.c(-0.5) * high * high)
    rest = b.let("r", b.c(-0.5) * (a - high) * (a + high))
    n, f = b.exp_reduce(b.let("e", square + rest), square)
    p = b.exp_poly(b.let("g", f + rest))
    u = b.let("u", a / (a + b.c(GELU_K)))
    t = b.let("w", b.fma(u, b.c(2.0), b.c(-1.0)))
    tail = b.let("v", b.poly(t, GELU_TAIL) * u * p)
    tail = b.scale_gradual(tail, n)
    far = b.select(b.x >= b.c(0.0), b.x, b.c(-0.0)) - tail
    phi = b.fma(b.x, b.poly(b.let("z", a * a), GELU_NEAR), b.c(0.5))
    result = b.select(a < b.c(0.7), b.x * phi, far)
    return b.done(b.select(b.x >= b.c(-FLT_MAX), result, b.c(NAN)))


def _sinh_parts(b: ScalarBody) -> tuple[Expr, Expr]:
    """Return ``(|x|, exp(|x|)/2)``; the second is inf if and only if sinh and cosh overflow."""
    a = b.let("a", b.abs(b.x))
    clean = b.let("t", tirx.min(a, b.c(89.5)))
    n, f = b.exp_reduce(clean, clean)
    half = b.scale(b.exp_poly(f), n - b.i(1))
    return a, b.let("h", b.select(a > b.c(89.41598629223294), b.c(INF), half))


def sinh(x: Expr) -> Expr:
    """Return the hyperbolic sine; see :mod:`tvm_disc.schedules.math.functions` for bounds."""
    b = ScalarBody(x)
    a, half = _sinh_parts(b)
    s = b.let("s", b.x * b.x)
    near = b.fma(b.x * s, b.poly(s, SINH_TAIL), b.x)
    return b.done(b.select(a >= b.c(1.0), b.with_sign(half - b.c(0.25) / half, b.x), near))


def cosh(x: Expr) -> Expr:
    """Return the hyperbolic cosine; see :mod:`tvm_disc.schedules.math.functions` for bounds."""
    b = ScalarBody(x)
    _, half = _sinh_parts(b)
    return b.done(b.or_nan(half + b.c(0.25) / half))


def _log_edges(b: ScalarBody, result: Expr) -> Expr:
    """Return a logarithm with special values: inf and NaN unchanged, 0 to -inf, negative to NaN."""
    edge = b.select(b.eq(b.x, b.c(0.0)), b.c(-INF), b.c(NAN))
    positive = b.select(b.x > b.c(0.0), result, edge)
    return b.select(b.x < b.c(INF), positive, b.x)


def log(x: Expr) -> Expr:
    """Return the natural logarithm; see :mod:`tvm_disc.schedules.math.functions` for bounds."""
    b = ScalarBody(x)
    e, f = b.log_split(b.x)
    return b.done(_log_edges(b, b.log_join(e, f, b.log1p_tail(f))))


def log2(x: Expr) -> Expr:
    """Return the logarithm to base 2; see :mod:`tvm_disc.schedules.math.functions` for bounds."""
    b = ScalarBody(x)
    e, f = b.log_split(b.x)
    high, low = b.c(1.4426950216293335), b.c(1.925963033500011e-08)
    small = b.fma(b.log1p_tail(f), high, f * low)
    return b.done(_log_edges(b, b.fma(f, high, small) + e))


def log10(x: Expr) -> Expr:
    """Return the logarithm to base 10; see :mod:`tvm_disc.schedules.math.functions` for bounds."""
    b = ScalarBody(x)
    e, f = b.log_split(b.x)
    high, low = b.c(0.4342944920063019), b.c(-1.0103049952192278e-08)
    small = b.fma(e, b.c(4.605039066518657e-06), f * low)
    small = b.fma(f, high, b.fma(b.log1p_tail(f), high, small))
    return b.done(_log_edges(b, b.fma(e, b.c(0.301025390625), small)))


def log1p_of(b: ScalarBody, v: Expr, extra: Expr | None = None) -> Expr:
    """Return ``log(1+v) + extra*ln2`` for finite ``v > -1``, and undefined values otherwise."""
    mantissa = b.i(b.fmt.mantissa)
    k = b.let("k", tirx.shift_right(b.bits(v + b.c(1.0)) - b.i(b.fmt.sqrt_half), mantissa))
    shift = b.let("ks", b.shifted(k))
    # 2^-k * (1+v) - 1 is computed without rounding, since both parts are exact. If k is 0, the
    # second part is a literal 0: without an fma instruction, LLVM might split the fma and add v to
    # the -1.
    four = b.float_of(b.shifted(b.i(b.fmt.bias + 2)) - shift)
    rest = b.select(tirx.EQ(k, b.i(0)), b.c(0.0), b.fma(b.c(0.25), four, b.c(-1.0)))
    f = b.let("f", b.float_of(b.bits(v) - shift) + rest)
    e = b.cast(k, b.fmt.name)
    return b.log_join(b.let("e", e if extra is None else e + extra), f, b.log1p_tail(f))


def log1p(x: Expr) -> Expr:
    """Return log(1 + x); see :mod:`tvm_disc.schedules.math.functions` for bounds."""
    b = ScalarBody(x)
    result = log1p_of(b, b.x)
    edge = b.select(b.eq(b.x, b.c(-1.0)), b.c(-INF), b.c(NAN))
    inside = b.select(b.x > b.c(-1.0), result, edge)
    inside = b.select(b.eq(b.x, b.c(0.0)), b.x, inside)  # +0 and -0 keep their sign
    return b.done(b.select(b.x < b.c(INF), inside, b.x))


def asinh(x: Expr) -> Expr:
    """Return the inverse hyperbolic sine; see :mod:`tvm_disc.schedules.math.functions` for
    bounds.
    """
    b = ScalarBody(x)
    a = b.let("a", b.abs(b.x))
    big = b.let("big", a > b.c(2.0**40))
    v = b.let("v", b.select(big, a, a + tirx.sqrt(b.fma(a, a, b.c(1.0)))))
    e, f = b.log_split(v)
    e = b.let("e", e + b.select(big, b.c(1.0), b.c(0.0)))
    far = b.with_sign(b.log_join(e, f, b.log1p_tail(f)), b.x)
    s = b.let("s", b.x * b.x)
    near = b.x * b.fma(s, b.poly(s, ASINH_TAIL), b.c(1.0))
    finite = b.select(a >= b.c(0.5), far, near)
    return b.done(b.select(a < b.c(INF), finite, b.x))


ASINH_TAIL = (
    -0.1666666567325592,
    0.07499906420707703,
    -0.044615864753723145,
    0.030031101778149605,
    -0.020038608461618423,
    0.009239258244633675,
)


def acosh(x: Expr) -> Expr:
    """Return the inverse hyperbolic cosine; see :mod:`tvm_disc.schedules.math.functions` for
    bounds.
    """
    b = ScalarBody(x)
    d = b.let("d", b.x - b.c(1.0))
    big = b.let("big", b.x > b.c(2.0**40))
    v = b.let("v", b.select(big, b.x, d + tirx.sqrt(d * (d + b.c(2.0)))))
    result = log1p_of(b, v, b.select(big, b.c(1.0), b.c(0.0)))
    inside = b.select(b.x < b.c(INF), result, b.x)
    return b.done(b.select(b.x >= b.c(1.0), inside, b.c(NAN)))


def atanh(x: Expr) -> Expr:
    """Return the inverse hyperbolic tangent; see :mod:`tvm_disc.schedules.math.functions` for
    bounds.
    """
    b = ScalarBody(x)
    a = b.let("a", b.abs(b.x))
    half = b.c(0.5) * log1p_of(b, b.let("v", (a + a) / (b.c(1.0) - a)))
    edge = b.select(b.eq(a, b.c(1.0)), b.c(INF), b.c(NAN))
    return b.done(b.with_sign(b.select(a < b.c(1.0), half, edge), b.x))


def pow_general(x: Expr, y: Expr) -> Expr:
    """Return ``x^y`` as C's ``powf``, with a float64 logarithm and selects for special cases."""
    b = ScalarBody(x)
    y = b.let("y", y)
    a = b.let("a", b.abs(b.x))
    exponent, f = b.log_split(a)
    f64 = b.let("fd", b.cast(f, "float64"))
    log2_a = b.fma(f64, b.poly(f64, LOG2_F64), b.cast(exponent, "float64"))
    log2_a = b.select(b.eq(a, b.c(0.0)), b.d(-INF), log2_a)
    log2_a = b.select(b.eq(a, b.c(INF)), b.d(INF), log2_a)
    t = b.let("t", b.cast(y, "float64") * log2_a)
    clean = b.let("tc", tirx.max(tirx.min(t, b.d(160.0)), b.d(-160.0)))
    whole = b.let("w", tirx.nearbyint(clean))
    g = b.let("g", b.cast(clean - whole, "float32") * b.c(LN2))
    result = b.scale_gradual(b.exp_poly(g), b.let("k", b.cast(whole, "int32")))
    result = b.select(t >= b.d(128.0), b.c(INF), b.select(t <= b.d(-150.0), b.c(0.0), result))
    # The result is negative if the base is negative and the exponent odd. Floats from 2^24 on, and
    # inf, count as even.
    half = b.let("hy", y * b.c(0.5))
    integral = b.let("int", b.eq(tirx.floor(y), y))
    odd = tirx.And(integral, tirx.Not(b.eq(tirx.floor(half), half)))
    sign = b.select(odd, b.x, b.c(1.0))
    result = b.with_sign(b.let("m", result), sign)
    no_root = tirx.And(tirx.And(b.x < b.c(0.0), b.x >= b.c(-FLT_MAX)), tirx.Not(integral))
    number = tirx.And(b.x <= b.c(INF), y <= b.c(INF))
    result = b.select(number, b.select(no_root, b.c(NAN), result), b.c(NAN))
    unit = tirx.And(b.eq(b.x, b.c(-1.0)), tirx.Or(b.eq(y, b.c(INF)), b.eq(y, b.c(-INF))))
    one = tirx.Or(tirx.Or(b.eq(b.x, b.c(1.0)), b.eq(y, b.c(0.0))), unit)
    return b.done(b.select(one, b.c(1.0), result))


def pow_const(x: Expr, y: float) -> Expr | None:
    """Return ``x^y`` for exponents with a cheaper exact form; None for other exponents."""
    if y not in (0.0, 1.0, 2.0, 3.0, -1.0, 0.5, -0.5):
        return None
    b = ScalarBody(x)
    if y in (0.5, -0.5):
        # pow differs from sqrt for two bases: pow(-0, 1/2) = +0 and pow(-inf, 1/2) = inf.
        outside = b.select(b.eq(b.x, b.c(-INF)), b.c(INF), b.c(NAN))
        root = b.select(b.x < b.c(0.0), outside, tirx.sqrt(b.abs(b.x)))
        return b.done(root if y > 0 else b.c(1.0) / root)
    forms = {
        0.0: lambda: b.c(1.0),
        1.0: lambda: b.x,
        2.0: lambda: b.x * b.x,
        3.0: lambda: b.x * b.x * b.x,
        -1.0: lambda: b.c(1.0) / b.x,
    }
    return b.done(forms[y]())
