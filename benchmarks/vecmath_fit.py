"""Derive the coefficients of ``tvm_disc.schedules.math.functions`` (needs mpmath; run once).

Each row fits ``tail(u) ~ P(u)`` for a small *relative* error of the final function: Chebyshev nodes
in 60-digit arithmetic, Lawson's iteration (least squares re-weighted by the error), coefficients
rounded to float32 one at a time, lowest order first, re-fitting the others. Coefficients in float64
are fitted together.

    python -m benchmarks.vecmath_fit [name ...]
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

import mpmath as mp
import numpy as np

mp.mp.dps = 60
Fn = Callable[[mp.mpf], mp.mpf]


@dataclass(frozen=True)
class Fit:
    """Fit of ``tail`` on [lo, hi] by ``count`` coefficients in ``var(x)``, with error weight
    ``scale``.
    """

    tail: Fn
    scale: Fn  # d(result)/d(tail) / result
    lo: float
    hi: float
    count: int
    var: Fn = lambda x: x
    fixed: tuple[float, ...] = ()
    bits: int = 32


def _ndtr_scaled(a: mp.mpf) -> mp.mpf:
    return mp.exp(a * a / 2) * mp.erfc(a / mp.sqrt(2)) / 2


def _erfcx(a: mp.mpf) -> mp.mpf:
    return mp.exp(a * a) * mp.erfc(a)


def _phi_slope(x: mp.mpf) -> mp.mpf:
    return mp.erf(x / mp.sqrt(2)) / (2 * x)


def _odd(fn: Fn, lo: float, hi: float, count: int) -> Fit:
    """Return the fit of ``fn(x) = x + x*x^2*P(x^2)``."""
    return Fit(lambda x: (fn(x) - x) / x**3, lambda x: x**3 / fn(x), lo, hi, count, lambda x: x * x)


L2 = float(mp.log(2) / 2) * 1.0005
S0, S1 = 2**-0.5 - 1 - 1e-4, 2**0.5 - 1 + 1e-4
GELU_K = 2.75
ERFC_K = 3.0

FITS: dict[str, Fit] = {
    "exp": Fit(lambda x: (mp.exp(x) - 1 - x) / x**2, lambda x: x**2 / mp.exp(x), -L2, L2, 5),
    "exp_near": Fit(
        lambda x: (mp.exp(x) - 1 - x) / x**2, lambda x: x**2 / mp.exp(x), -L2 / 16, L2 / 16, 2
    ),
    "log": Fit(
        lambda x: (mp.log1p(x) - x) / x**2,
        lambda x: x**2 / mp.log1p(x),
        S0,
        S1,
        10,
        fixed=(-0.5,),
    ),
    "log2_f64": Fit(
        lambda x: mp.log1p(x) / mp.log(2) / x,
        lambda x: mp.log(2) * x / mp.log1p(x),
        S0,
        S1,
        13,
        bits=64,
    ),
    "log_f64": Fit(  # s = f/(2+f): (log(1+f) - 2s)/s = z*P(z), z = s*s
        lambda s: (2 * mp.atanh(s) - 2 * s) / s**3,
        lambda s: s**3 / (2 * mp.atanh(s)),
        1e-3,
        0.1717,
        8,
        lambda s: s * s,
        bits=64,
    ),
    "erf_small": Fit(
        lambda x: (mp.erf(x) - x) / x, lambda x: x / mp.erf(x), 1e-6, 0.93, 7, lambda x: x * x
    ),
    "erf_large": Fit(lambda x: mp.log(mp.erfc(x)), lambda x: mp.erfc(x) / mp.erf(x), 0.92, 4.0, 7),
    "erfc": Fit(
        lambda x: _erfcx(x) * (x + ERFC_K),
        lambda x: 1 / (_erfcx(x) * (x + ERFC_K)),
        0.0,
        10.3,
        10,
        lambda x: (x - ERFC_K) / (x + ERFC_K),
    ),
    "gelu": Fit(
        lambda x: _ndtr_scaled(x) * (x + GELU_K),
        lambda x: 1 / (_ndtr_scaled(x) * (x + GELU_K)),
        0.0,
        14.5,
        11,
        lambda x: (x - GELU_K) / (x + GELU_K),
    ),
    "gelu_near": Fit(_phi_slope, lambda x: 1 / _phi_slope(x), 1e-4, 0.75, 6, lambda x: x * x),
    "sin": _odd(mp.sin, 1e-4, 0.786, 4),
    "cos": Fit(
        lambda x: (mp.cos(x) - 1 + x * x / 2) / x**4,
        lambda x: x**4 / mp.cos(x),
        1e-4,
        0.786,
        3,
        lambda x: x * x,
    ),
    "tan": _odd(mp.tan, 1e-4, 0.786, 6),
    "asin": _odd(mp.asin, 1e-4, 0.501, 5),
    "atan": _odd(mp.atan, 1e-4, 1.0, 9),
    "sinh": _odd(mp.sinh, 1e-4, 1.0, 4),
    "asinh": _odd(mp.asinh, 1e-4, 0.501, 6),
}


def solve(fit: Fit, nodes: int = 500) -> tuple[list[float], float]:
    """Return the rounded coefficients, lowest order first, and the largest weighted error."""
    t = np.cos(np.pi * (np.arange(nodes) + 0.5) / nodes) / 2 + 0.5
    xs = [mp.mpf(float(v)) for v in fit.lo + (fit.hi - fit.lo) * t]
    xs = [x if x != 0 else mp.mpf(1e-9) for x in xs]
    y = np.array([float(fit.tail(x)) for x in xs])
    u = np.array([float(fit.var(x)) for x in xs])
    w = np.array([abs(float(fit.scale(x))) for x in xs])
    basis = np.vander(u, fit.count, increasing=True)
    known = list(fit.fixed)

    def lawson() -> tuple[np.ndarray, float]:
        k = len(known)
        rest = y - basis[:, :k] @ np.array(known)
        lam = np.ones(nodes) / nodes
        best: tuple[np.ndarray, float] = (np.zeros(fit.count - k), np.inf)
        for _ in range(120 if fit.bits == 32 else 400):
            root = np.sqrt(lam) * w
            coef, *_ = np.linalg.lstsq(basis[:, k:] * root[:, None], rest * root, rcond=None)
            err = np.abs((basis[:, k:] @ coef - rest) * w)
            if err.max() < best[1]:
                best = (coef, float(err.max()))
            lam = lam * (err + 1e-30)
            lam /= lam.sum()
        return best

    while len(known) < fit.count:
        coef = lawson()[0]
        known.append(float(np.float32(coef[0])) if fit.bits == 32 else float(coef[0]))
        if fit.bits == 64:
            known += [float(c) for c in coef[1:]]
    final = np.abs((basis @ np.array(known) - y) * w).max()
    return known, float(final)


ERF_STEP, ERF_PIECES, ERF_COUNT = 0.25, 16, 6
ERF_LIFT = 2.8e-8  # added to the end of the last polynomial, so that it rounds to 1 there


def erf_table() -> tuple[list[list[float]], float]:
    """Return polynomials about ``k * ERF_STEP``, one row per coefficient, and their largest error.

    The first polynomial has no constant term, so that it is relatively accurate. The last one is
    increased towards its end, so that it ends in 1.
    """
    half, pieces, worst = ERF_STEP / 2, [], 0.0
    for k in range(ERF_PIECES):
        at, lift = k * ERF_STEP, ERF_LIFT if k == ERF_PIECES - 1 else 0.0

        def value(r: mp.mpf, at: float = at, lift: float = lift) -> mp.mpf:
            return mp.erf(at + r) + lift * ((r + half) / ERF_STEP) ** 4

        if k == 0:
            fit = Fit(lambda r: mp.erf(r) / r, lambda r: r / mp.erf(r), 1e-6, half, ERF_COUNT - 1)
        else:
            fit = Fit(value, lambda r, at=at: 1 / mp.erf(at + r), -half, half, ERF_COUNT)
        found, error = solve(fit, 200)
        pieces.append([0.0] * (ERF_COUNT - len(found)) + found)
        worst = max(worst, error)
    return [list(row) for row in zip(*pieces, strict=True)], worst


if __name__ == "__main__":
    for name in sys.argv[1:] or (*FITS, "erf_table"):
        if name == "erf_table":
            rows, error = erf_table()
            print(f"{name}: relative error {error:.2e} (2^{np.log2(error):.1f})")
            print("\n".join(f"    {tuple(row)!r}," for row in rows))
            continue
        coefficients, error = solve(FITS[name])
        print(f"{name}: relative error {error:.2e} (2^{np.log2(error):.1f})")
        print("   ", ", ".join(repr(c) for c in coefficients))
