"""Special values, and a comparison that tells NaN, infinities and signs of zeros apart."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

NAN, INF = math.nan, math.inf


def floats(dtype: str) -> np.ndarray:
    """Every kind of float: NaN, infinities, zeros, denormals, extremes, points of formulas."""
    kind = np.finfo(dtype)
    edges = [kind.smallest_subnormal, kind.smallest_normal, kind.max, kind.eps, 1 + kind.eps]
    numbers = [
        0.0,
        0.5,
        1.0,
        1.5,
        2.5,
        3.0,
        4.0,
        6.0,
        7.0,
        9.0,
        20.0,
        88.0,
        89.0,
        104.0,
        1e-4,
        1e20,
    ]
    both = [INF, *edges, *numbers]
    with np.errstate(all="ignore"):
        return np.array([NAN, *both, *(-v for v in both)], dtype)


def pairs(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Every pair of some special values."""
    numbers = [NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 2.5, -2.5, 3.0, -3.0, 0.7, -7.0, 1e30, -1e30]
    with np.errstate(all="ignore"):
        values = np.array(numbers, dtype)
    a, b = np.meshgrid(values, values, indexing="ij")
    return a.ravel().copy(), b.ravel().copy()


def rows(dtype: str) -> np.ndarray:
    """Rows to reduce or to sort: NaN first, last and alone, infinities, ties, signed zeros."""
    lines = [
        [1, 2, 3, 4, 5], [NAN, 1, 3, INF, -INF], [1, NAN, 3, NAN, 2], [NAN] * 5, [-INF] * 5,
        [INF] * 5, [INF, -INF, INF, 1, 1], [1, 1, 1, 1, NAN], [-1, -2, -3, NAN, NAN],
        [2, 2, 1, 2, 1], [3, NAN, -INF, 2, 2], [0, 0, 0, 0, 0], [1e4, 2e4, -1e4, 5, 1],
    ]  # fmt: skip
    return np.array(lines, dtype)


def integers(dtype: str) -> np.ndarray:
    """The extremes of an integer type, and small numbers."""
    kind = np.iinfo(dtype)
    return np.array([kind.min, kind.min + 1, -1 if kind.min else 3, 0, 1, 2, 7, kind.max], dtype)


def different(
    got: Any, want: Any, rtol: float, signs: bool = True, atol: float = 0.0
) -> np.ndarray:
    """Flat positions at which two arrays differ: by more than a rounding error, or in kind.

    NaN equals NaN, zeros differ by their signs if ``signs``.
    """
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape, (got.shape, want.shape)
    assert got.dtype == want.dtype, (got.dtype, want.dtype)
    if got.dtype.kind not in "fV":
        return np.flatnonzero(got != want)
    tiny = float(np.finfo(got.dtype).smallest_subnormal) if got.dtype.kind == "f" else 0.0
    a, b = got.astype(np.float64), want.astype(np.float64)
    with np.errstate(all="ignore"):
        near = np.abs(a - b) <= rtol * np.abs(b) + atol + 2 * tiny
        same = (a == b) | (np.isnan(a) & np.isnan(b)) | (near & np.isfinite(a) & np.isfinite(b))
        if signs:
            same &= ~((a == 0) & (b == 0) & (np.signbit(a) != np.signbit(b)))
    return np.flatnonzero(~same)


def check(name: str, got: Any, want: Any, operands: Any, **how: Any) -> list[str]:
    """A line for each operator that differs, with its first operands that do."""
    bad = different(got, want, **how)
    if not bad.size:
        return []
    got, want = np.asarray(got).ravel(), np.asarray(want).ravel()
    flat = [np.asarray(x).ravel() for x in operands]
    told = []
    for i in bad[:4]:
        given = ", ".join(str(x[i]) for x in flat if x.size == got.size)
        told.append(f"({given}) -> {got[i]}, expected {want[i]}")
    return [f"{name}: {bad.size} differ: {'; '.join(told)}"]
