"""Special functions in terms of Relay operators, in float64.

Formulas are from Abramowitz and Stegun, "Handbook of Mathematical Functions". Series are truncated
where further terms are below the rounding error of float64. Callers widen operands and narrow
results, so that float32 results are exact up to the last rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from tvm_disc.frontends.calls import Calls

T = TypeVar("T")
Function = Callable[[Calls[T, Any], T], T]

# digamma(z) = log(z) - 1/(2z) - sum of B(2k)/(2k z^2k); these are Bernoulli numbers over 2k.
_DIGAMMA = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12, -3617 / 8160)
_SHIFT = 9  # terms of the recurrence, after which the series has converged
# Winitzki's constant: the first approximation of the inverse of erf then has an error up to 0.4 %.
_WINITZKI = 0.147
_HALLEY_STEPS = 3
# Modified Bessel functions: a power series up to this value, an asymptotic one beyond.
_BESSEL_SPLIT = 24.0
_BESSEL_NEAR, _BESSEL_FAR = 46, 28
# exp(x^2)*erfc(x): an asymptotic series from this value on.
_ERFCX_FAR = 25.0
_HIGH_BITS = -(1 << 27)  # mask of the high bits of a float64 whose square is exact


def _poly(m: Calls[T, Any], x: T, coefficients: Sequence[float]) -> T:
    """Return ``sum(c[k] * x^k)``, lowest order first, by Horner's scheme."""
    made = m.like(coefficients[-1], x)
    for c in reversed(coefficients[:-1]):
        made = m.add(m.mul(made, x), c)
    return made


def digamma(m: Calls[T, Any], x: T) -> T:
    """Return the derivative of the logarithm of the gamma function.

    -inf at 0.0, inf at -0.0, NaN at negative integers; its error near a zero is absolute.
    """
    low = m.less(x, 0.5)
    y = m.where(low, m.sub(1.0, x), x)
    steps = m.div(1.0, y)
    for k in range(1, _SHIFT):
        steps = m.add(steps, m.div(1.0, m.add(y, float(k))))
    z = m.add(y, float(_SHIFT))
    inverse = m.div(1.0, m.mul(z, z))
    series = m.add(m.mul(inverse, _poly(m, inverse, _DIGAMMA)), m.div(0.5, z))
    right = m.sub(m.sub(m.log(z), series), steps)
    # Reflection: digamma(x) = digamma(1 - x) - pi/tan(pi*x). The fractional part of x is exact.
    part = m.sub(x, m.round_even(x))
    slope = m.div(math.pi, m.apply("tan", m.mul(part, math.pi)))
    pole = m.logical_and(m.less(x, 0.0), m.equal(x, m.floor(x)))
    found = m.where(pole, math.nan, m.where(low, m.sub(right, slope), right))
    return m.where(m.equal(x, 0.0), m.div(-1.0, x), found)


def _erf_inverse(m: Calls[T, Any], p: T, q: T) -> T:
    """Return the ``y >= 0`` with ``erf(y) = p`` and ``erfc(y) = q``, where ``p + q = 1``."""
    central = m.less(p, 0.5)
    near = m.log1p(m.negative(m.mul(p, p)))
    log = m.where(central, near, m.log(m.mul(q, m.sub(2.0, q))))
    t = m.add(m.mul(log, 0.5), 2 / (math.pi * _WINITZKI))
    c = m.div(log, -_WINITZKI)
    y = m.sqrt(m.div(c, m.add(m.sqrt(m.add(m.mul(t, t), c)), t)))
    for _ in range(_HALLEY_STEPS):
        miss = m.where(central, m.sub(m.erf(y), p), m.sub(q, m.erfc(y)))
        slope = m.mul(m.exp(m.negative(m.mul(y, y))), 2 / math.sqrt(math.pi))
        step = m.div(miss, slope)
        y = m.sub(y, m.div(step, m.add(m.mul(y, step), 1.0)))
    return m.where(m.equal(q, 0.0), math.inf, y)


def erfinv(m: Calls[T, Any], x: T) -> T:
    """Return the inverse of erf; infinite at 1 and -1, NaN beyond."""
    size = m.abs(x)
    y = _erf_inverse(m, size, m.sub(1.0, size))
    y = m.where(m.less(x, 0.0), m.negative(y), y)
    return m.where(m.equal(x, 0.0), x, y)


def ndtri(m: Calls[T, Any], x: T) -> T:
    """Return the inverse of the normal distribution; infinite at 0 and 1, NaN beyond."""
    other = m.sub(1.0, x)
    low = m.less(x, other)
    q = m.mul(m.where(low, x, other), 2.0)
    y = m.mul(_erf_inverse(m, m.sub(1.0, q), q), math.sqrt(2.0))
    return m.where(low, m.negative(y), y)


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

    def made(m: Calls[T, Any], x: T) -> T:
        size = m.abs(x)
        near = m.less(size, _BESSEL_SPLIT)
        small = m.where(near, size, 0.0)
        large = m.where(near, _BESSEL_SPLIT, size)
        low = _poly(m, m.mul(m.mul(small, small), 0.25), _bessel_series(order))
        low = m.mul(low, m.mul(small, 0.5)) if order else low
        high = _poly(m, m.div(1.0, large), _bessel_asymptotic(order))
        high = m.div(m.mul(high, 1 / math.sqrt(2 * math.pi)), m.sqrt(large))
        if scaled:
            found = m.where(near, m.mul(low, m.exp(m.negative(small))), high)
        else:
            # Use two factors: the exponential alone would overflow before the product.
            root = m.exp(m.mul(large, 0.5))
            grown = m.where(m.isinf(size), math.inf, m.mul(m.mul(high, root), root))
            found = m.where(near, low, grown)
        found = m.where(m.isnan(x), x, found)
        return m.where(m.less(x, 0.0), m.negative(found), found) if order else found

    return made


def _square(m: Calls[T, Any], x: T) -> tuple[T, T]:
    """Return ``x^2`` as a sum of two float64, the high one exact, so that exp has no large
    error.
    """
    bits = m.made(m.call("reinterpret", x, dtype="int64"), lambda: m.sizes(x), dtype="int64")
    kept = m.apply("bitwise_and", bits, m.like(_HIGH_BITS, bits))
    high = m.made(m.call("reinterpret", kept, dtype="float64"), lambda: m.sizes(x), dtype="float64")
    return m.mul(high, high), m.mul(m.sub(x, high), m.add(x, high))


def erfcx(m: Calls[T, Any], x: T) -> T:
    """Return ``exp(x^2) * erfc(x)``."""
    square, rest = _square(m, x)
    middle = m.mul(m.mul(m.exp(square), m.exp(rest)), m.erfc(x))
    inverse = m.div(1.0, x)
    half = m.mul(m.mul(inverse, inverse), -0.5)
    terms = [float(math.prod(range(1, 2 * k, 2))) for k in range(9)]
    far = m.mul(m.mul(inverse, 1 / math.sqrt(math.pi)), _poly(m, half, terms))
    found = m.where(m.greater(x, _ERFCX_FAR), far, middle)
    return m.where(m.less(x, -27.0), math.inf, found)


def log_ndtr(m: Calls[T, Any], x: T) -> T:
    """Return the logarithm of the normal distribution, with small relative error in both tails."""
    low = m.less(x, 1.0)
    tail = m.mul(erfcx(m, m.mul(m.where(low, m.negative(x), x), math.sqrt(0.5))), 0.5)
    square, rest = _square(m, x)
    half, less = m.mul(square, -0.5), m.mul(rest, -0.5)
    below = m.add(m.add(m.log(tail), less), half)
    below = m.where(m.equal(x, -math.inf), x, below)
    above = m.negative(m.mul(m.mul(tail, m.exp(less)), m.exp(half)))
    above = m.where(m.equal(x, math.inf), -0.0, m.log1p(above))
    return m.where(low, below, above)


__all__ = ["bessel_i", "digamma", "erfcx", "erfinv", "log_ndtr", "ndtri"]
