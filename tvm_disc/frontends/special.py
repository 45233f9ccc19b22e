"""Special functions in terms of Relay operators, in float64.

Formulas are from Abramowitz and Stegun, "Handbook of Mathematical Functions". Series are truncated
when further terms are below the rounding error of float64. Callers cast operands to float64 and
results back, so that float32 results have only the error of the last rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from tvm_disc.frontends.calls import Calls
from tvm_disc.relay.ops.algebra import Algebra

T = TypeVar("T", bound=Algebra)
Function = Callable[[Calls[T, Any], T], T]

# digamma(z) = log(z) - 1/(2z) - sum of B(2k)/(2k z^2k). The list has B(2k)/2k, with the Bernoulli
# numbers B.
_DIGAMMA = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12, -3617 / 8160)
# digamma(z) = digamma(z + 9) - sum of 1/(z + k) for k < 9: at z + 9 the series has converged.
_SHIFT = 9
# Winitzki's constant: the initial approximation of the inverse of erf has an error up to 0.4 %.
_WINITZKI = 0.147
_HALLEY_STEPS = 3
# Modified Bessel functions use a power series below this value, and an asymptotic series above.
_BESSEL_SPLIT = 24.0
_BESSEL_NEAR, _BESSEL_FAR = 46, 28
# exp(x^2)*erfc(x) uses an asymptotic series above this value.
_ERFCX_FAR = 25.0
# Mask of the high bits of a float64: 26 significant bits remain, so the square is exact.
_HIGH_BITS = -(1 << 27)


def _poly(m: Calls[T, object], x: T, coefficients: Sequence[float]) -> T:
    """Return the polynomial ``sum(coefficients[k] * x^k)`` by Horner's scheme."""
    made = m.like(coefficients[-1], x)
    for c in reversed(coefficients[:-1]):
        made = made * x + c
    return made


def digamma(m: Calls[T, object], x: T) -> T:
    """Return the derivative of the logarithm of the gamma function.

    The result is -inf at 0.0, inf at -0.0, and NaN at negative integers. Near a zero of the
    function the absolute error is small, but the relative error is not.
    """
    low = x < 0.5
    y = m.where(low, 1.0 - x, x)
    steps = 1.0 / y
    for k in range(1, _SHIFT):
        steps = steps + 1.0 / (y + float(k))
    z = y + float(_SHIFT)
    inverse = 1.0 / (z * z)
    series = inverse * _poly(m, inverse, _DIGAMMA) + 0.5 / z
    right = m.log(z) - series - steps
    # Reflection: digamma(x) = digamma(1 - x) - pi/tan(pi*x). The fractional part of x is exact.
    part = x - m.round_even(x)
    slope = math.pi / m.apply("tan", part * math.pi)
    pole = (x < 0.0) & m.equal(x, m.floor(x))
    found = m.where(pole, math.nan, m.where(low, right - slope, right))
    return m.where(m.equal(x, 0.0), -1.0 / x, found)


def _erf_inverse(m: Calls[T, object], p: T, q: T) -> T:
    """Return the ``y >= 0`` with ``erf(y) = p`` and ``erfc(y) = q``, where ``p + q = 1``."""
    central = p < 0.5
    near = m.log1p(-(p * p))
    log = m.where(central, near, m.log(q * (2.0 - q)))
    t = log * 0.5 + (2 / (math.pi * _WINITZKI))
    c = log / -_WINITZKI
    y = m.sqrt(c / (m.sqrt(t * t + c) + t))
    for _ in range(_HALLEY_STEPS):
        miss = m.where(central, m.erf(y) - p, q - m.erfc(y))
        slope = m.exp(-(y * y)) * (2 / math.sqrt(math.pi))
        step = miss / slope
        y = y - step / (y * step + 1.0)
    return m.where(m.equal(q, 0.0), math.inf, y)


def erfinv(m: Calls[T, object], x: T) -> T:
    """Return the inverse of erf; it is infinite at 1 and -1, and NaN for ``|x| > 1``."""
    size = m.abs(x)
    y = _erf_inverse(m, size, 1.0 - size)
    y = m.where(x < 0.0, -y, y)
    return m.where(m.equal(x, 0.0), x, y)


def ndtri(m: Calls[T, object], x: T) -> T:
    """Return the inverse of the standard normal distribution function.

    It is infinite at 0 and 1, and NaN outside [0, 1].
    """
    other = 1.0 - x
    low = x < other
    q = m.where(low, x, other) * 2.0
    y = _erf_inverse(m, 1.0 - q, q) * math.sqrt(2.0)
    return m.where(low, -y, y)


def _bessel_series(order: int) -> list[float]:
    """Return the coefficients in ``x^2/4`` of ``I(order, x) / (x/2)^order``."""
    return [1 / (math.factorial(k) * math.factorial(k + order)) for k in range(_BESSEL_NEAR)]


def _bessel_asymptotic(order: int) -> list[float]:
    """Return the coefficients in ``1/x`` of ``I(order, x) * exp(-x) * sqrt(2*pi*x)``."""
    found = [1.0]
    for k in range(1, _BESSEL_FAR):
        found.append(found[-1] * ((2 * k - 1) ** 2 - 4 * order**2) / (8 * k))
    return found


def bessel_i(order: int, scaled: bool) -> Function[T]:
    """Return the modified Bessel function of order 0 or 1, ``scaled`` by ``exp(-|x|)``."""

    def made(m: Calls[T, object], x: T) -> T:
        size = m.abs(x)
        near = size < _BESSEL_SPLIT
        small = m.where(near, size, 0.0)
        large = m.where(near, _BESSEL_SPLIT, size)
        low = _poly(m, small * small * 0.25, _bessel_series(order))
        low = low * (small * 0.5) if order else low
        high = _poly(m, 1.0 / large, _bessel_asymptotic(order))
        high = high * (1 / math.sqrt(2 * math.pi)) / m.sqrt(large)
        if scaled:
            found = m.where(near, low * m.exp(-small), high)
        else:
            # Use two factors: the exponential alone would overflow before the product.
            root = m.exp(large * 0.5)
            grown = m.where(m.isinf(size), math.inf, high * root * root)
            found = m.where(near, low, grown)
        found = m.where(m.isnan(x), x, found)
        return m.where(x < 0.0, -found, found) if order else found

    return made


def _square(m: Calls[T, object], x: T) -> tuple[T, T]:
    """Return two float64 whose sum is ``x^2``; the first one is exact.

    ``exp`` of one rounded ``x^2`` would have a large relative error.
    """
    bits = m.made(m.call("reinterpret", x, dtype="int64"), lambda: m.sizes(x), dtype="int64")
    kept = m.apply("bitwise_and", bits, m.like(_HIGH_BITS, bits))
    high = m.made(m.call("reinterpret", kept, dtype="float64"), lambda: m.sizes(x), dtype="float64")
    return high * high, (x - high) * (x + high)


def erfcx(m: Calls[T, object], x: T) -> T:
    """Return ``exp(x^2) * erfc(x)``."""
    square, rest = _square(m, x)
    middle = m.exp(square) * m.exp(rest) * m.erfc(x)
    inverse = 1.0 / x
    half = inverse * inverse * -0.5
    terms = [float(math.prod(range(1, 2 * k, 2))) for k in range(9)]
    far = inverse * (1 / math.sqrt(math.pi)) * _poly(m, half, terms)
    found = m.where(x > _ERFCX_FAR, far, middle)
    return m.where(x < -27.0, math.inf, found)


def log_ndtr(m: Calls[T, object], x: T) -> T:
    """Return the logarithm of the standard normal distribution function.

    The relative error is small in both tails.
    """
    low = x < 1.0
    tail = erfcx(m, m.where(low, -x, x) * math.sqrt(0.5)) * 0.5
    square, rest = _square(m, x)
    half, less = square * -0.5, rest * -0.5
    below = m.log(tail) + less + half
    below = m.where(m.equal(x, -math.inf), x, below)
    above = -(tail * m.exp(less) * m.exp(half))
    above = m.where(m.equal(x, math.inf), -0.0, m.log1p(above))
    return m.where(low, below, above)


__all__ = ["bessel_i", "digamma", "erfcx", "erfinv", "log_ndtr", "ndtri"]
