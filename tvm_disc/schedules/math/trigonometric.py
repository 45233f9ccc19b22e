"""Code of the trigonometric functions and their inverses; ``functions`` states their contract.

``sin``, ``cos``, ``tan`` reduce their argument in float64 with pi/2 in three parts (Cody and
Waite). The first two parts have 24 bits, so that their products with a quadrant number below 2^29
are exact.
"""

from __future__ import annotations

from tvm import tirx

from tvm_disc.schedules.math.language import ScalarBody
from tvm_disc.typing import Expr

PIO2_F64 = (1.5707963705062866, -4.371138828673793e-08, -1.7151244994428829e-15)
PIO2 = (1.5707963705062866, -4.371138828673793e-08)
PI = (3.1415927410125732, -8.742277657347586e-08)
# for smaller |x|, quadrant numbers are exact and the reduced argument is accurate
TRIG_LIMIT = 2.0**29

SIN_TAIL = (
    -0.1666666716337204,
    0.008333379402756691,
    -0.0001985307171707973,
    2.8326892334007425e-06,
)
COS_TAIL = (0.04166664555668831, -0.0013887310633435845, 2.4432543796137907e-05)
TAN_TAIL = (
    0.33333155512809753,
    0.13338840007781982,
    0.05340762436389923,
    0.024443941190838814,
    0.0030968186911195517,
    0.009399551898241043,
)
ASIN_TAIL = (
    0.16666755080223083,
    0.07495185732841492,
    0.04548512399196625,
    0.02410336211323738,
    0.04230126738548279,
)
ATAN_TAIL = (
    -0.33333298563957214,
    0.1999853104352951,
    -0.14264051616191864,
    0.10951174795627594,
    -0.08400474488735199,
    0.057906508445739746,
    -0.03112693317234516,
    0.010887304320931435,
    -0.0017875299090519547,
)


def _quadrant(b: ScalarBody) -> tuple[Expr, Expr]:
    """Return ``(q, r)`` with ``x = q*pi/2 + r``, ``|r| <= pi/4``; NaN from ``TRIG_LIMIT`` on."""
    inside = tirx.And(b.x > b.c(-TRIG_LIMIT), b.x < b.c(TRIG_LIMIT))
    x = b.let("d", b.cast(b.select(inside, b.x, b.c(0.0)), "float64"))
    n = b.let("n", tirx.nearbyint(x * b.d(0.6366197723675814)))
    r = x
    for part in PIO2_F64:
        r = b.let("r", b.fma(n, b.d(-part), r))
    reduced = b.select(inside, b.cast(r, "float32"), b.c(float("nan")))
    # The reduction loses the sign of -0, so for x = +-0 the reduced argument is x.
    zero = b.eq(b.x, b.c(0.0))
    return b.let("q", b.cast(n, "int32")), b.let("s", b.select(zero, b.x, reduced))


def _sin_cos(x: Expr, shift: int) -> Expr:
    b = ScalarBody(x)
    q, r = _quadrant(b)
    q = b.let("q", q + b.i(shift)) if shift else q
    s = b.let("z", r * r)
    # a product, unlike a sum, keeps the sign of -0
    sine = r * b.fma(s, b.poly(s, SIN_TAIL), b.c(1.0))
    cosine = b.fma(s * s, b.poly(s, COS_TAIL), b.fma(s, b.c(-0.5), b.c(1.0)))
    odd = b.eq(tirx.bitwise_and(q, b.i(1)), b.i(1))
    value = b.let("v", b.select(odd, cosine, sine))
    sign = tirx.shift_left(tirx.bitwise_and(q, b.i(2)), b.i(30))
    return b.done(b.float_of(tirx.bitwise_xor(b.bits(value), sign)))


def sin(x: Expr) -> Expr:
    """Return the sine; see :mod:`tvm_disc.schedules.math.functions` for bounds."""
    return _sin_cos(x, 0)


def cos(x: Expr) -> Expr:
    """Return the cosine; see :mod:`tvm_disc.schedules.math.functions` for bounds."""
    return _sin_cos(x, 1)


def tan(x: Expr) -> Expr:
    """Return the tangent; see :mod:`tvm_disc.schedules.math.functions` for bounds."""
    b = ScalarBody(x)
    q, r = _quadrant(b)
    s = b.let("z", r * r)
    t = b.let("t", b.fma(r * s, b.poly(s, TAN_TAIL), r))
    odd = b.eq(tirx.bitwise_and(q, b.i(1)), b.i(1))
    return b.done(b.select(odd, b.c(-1.0) / t, t))


def _asin_parts(b: ScalarBody) -> tuple[Expr, Expr]:
    """Return ``(big, y)``: ``asin(|x|)``, or if ``big`` (``|x| > 1/2``) half of ``acos(|x|)``."""
    a = b.let("a", b.abs(b.x))
    big = b.let("big", a > b.c(0.5))
    z = b.let("z", b.select(big, (b.c(1.0) - a) * b.c(0.5), a * a))
    s = b.let("s", b.select(big, tirx.sqrt(z), a))
    return big, b.let("y", b.fma(s * z, b.poly(z, ASIN_TAIL), s))


def asin(x: Expr) -> Expr:
    """Return the arc sine; see :mod:`tvm_disc.schedules.math.functions` for bounds."""
    b = ScalarBody(x)
    big, y = _asin_parts(b)
    far = b.fma(b.c(-2.0), y, b.c(PIO2[1])) + b.c(PIO2[0])
    return b.done(b.with_sign(b.select(big, far, y), b.x))


def acos(x: Expr) -> Expr:
    """Return the arc cosine; see :mod:`tvm_disc.schedules.math.functions` for bounds."""
    b = ScalarBody(x)
    big, y = _asin_parts(b)
    y2 = b.let("y2", y + y)
    far = b.select(b.x < b.c(0.0), (b.c(PI[1]) - y2) + b.c(PI[0]), y2)
    near = (b.c(PIO2[1]) - b.with_sign(y, b.x)) + b.c(PIO2[0])
    return b.done(b.select(big, far, near))


def atan(x: Expr) -> Expr:
    """Return the arc tangent; see :mod:`tvm_disc.schedules.math.functions` for bounds."""
    b = ScalarBody(x)
    a = b.let("a", b.abs(b.x))
    big = b.let("big", a > b.c(1.0))
    t = b.let("t", b.select(big, b.c(1.0) / a, a))
    z = b.let("z", t * t)
    y = b.let("y", b.fma(t * z, b.poly(z, ATAN_TAIL), t))
    far = (b.c(PIO2[1]) - y) + b.c(PIO2[0])
    return b.done(b.with_sign(b.select(big, far, y), b.x))
