"""Fourier transforms as matrix products.

A composite length m * k is transformed by two matrix products of lengths m and k, with twiddle
factors between them (Cooley and Tukey, 1965). A large prime length becomes a convolution whose
length is a power of two (Bluestein, 1970). The tables of sines and cosines are computed in float64.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from tvm_disc.errors import Unsupported
from tvm_disc.frontends.calc import Dim, Expr, const
from tvm_disc.frontends.stablehlo.node import StableHLONode

Parts: TypeAlias = tuple[Expr, Expr]
RealOrParts: TypeAlias = "tuple[Expr, Expr | None]"  # None: the imaginary part is 0

DIRECT = 64  # maximum composite length that is transformed by one matrix product
MOST = 1024  # maximum prime length that is transformed by one matrix product


def fourier(n: StableHLONode, kind: str, x: RealOrParts, lengths: Sequence[int]) -> Parts:
    """Return the real and imaginary parts of a transform, as StableHLO's ``fft`` defines it.

    Args:
        kind: FFT, IFFT, RFFT or IRFFT.
        x: the real and imaginary parts of the operand.
        lengths: the lengths of the last axes, which are transformed.

    Raises:
        Unsupported: a length is 0.
    """
    if 0 in lengths:
        raise Unsupported(f"expected transform lengths of at least 1, found {list(lengths)}")
    rank = n.rank(x[0])
    axes = range(rank - len(lengths), rank)
    steps = list(zip(axes, lengths, strict=True))
    for axis, size in steps if kind == "IRFFT" else reversed(steps):
        last = axis == rank - 1
        parts = tuple(None if p is None else n.move(p, axis, rank - 1) for p in x)
        real, imag = _line(n, kind, parts, size, last)  # type: ignore[arg-type]
        x = made = n.move(real, rank - 1, axis), n.move(imag, rank - 1, axis)
    return made


def _line(n: StableHLONode, kind: str, x: RealOrParts, size: int, last: bool) -> Parts:
    """Return the transform of the last axis.

    ``last`` means that this is the last axis of the whole transform; only along it a real transform
    is real.
    """
    if kind in ("FFT", "RFFT"):
        real, imag = transformed(n, x, size)
        if kind == "RFFT" and last:
            return _first(n, real, size // 2 + 1), _first(n, imag, size // 2 + 1)
        return real, imag
    real, imag = _whole(n, x, size) if kind == "IRFFT" and last else _both(n, x)
    # the inverse is the forward transform with real and imaginary parts exchanged before and after
    back, front = transformed(n, (imag, real), size)
    return front * (1 / size), back * (1 / size)


def _both(n: StableHLONode, x: RealOrParts) -> Parts:
    real, imag = x
    return real, n.full(0.0, n.sizes(real), n.dtype(real)) if imag is None else imag


def _whole(n: StableHLONode, x: RealOrParts, size: int) -> Parts:
    """Return all frequencies of a real signal; ``x`` has the first half of them."""
    mirrored = [k if k <= size // 2 else size - k for k in range(size)]
    signs = np.array([1.0 if k <= size // 2 else -1.0 for k in range(size)])
    real, imag = (n.take(p, const(mirrored, "int64"), n.rank(p) - 1) for p in _both(n, x))
    return real, imag * n.like(signs, imag)


def _first(n: StableHLONode, x: Expr, count: int) -> Expr:
    return n.slice(x, n.rank(x) - 1, 0, count)


def transformed(n: StableHLONode, x: RealOrParts, size: int) -> Parts:
    """Return the forward transform of the last axis, which has ``size`` elements."""
    factor = _divisor(size) if size > DIRECT else 1
    if factor > 1:
        return _in_two_steps(n, x, factor, size // factor)
    return _product(n, x, size) if size <= MOST else _convolved(n, x, size)


def _divisor(size: int) -> int:
    """Return the largest divisor of ``size`` that is at most its square root."""
    return next(k for k in range(math.isqrt(size), 0, -1) if size % k == 0)


def _product(n: StableHLONode, x: RealOrParts, size: int) -> Parts:
    """Return the transform as one matrix product of the concatenated parts."""
    real, imag = x
    k = np.arange(size)
    cos, sin = _waves(np.outer(k, k), size)
    table = np.concatenate([cos, -sin], 1)
    if imag is None:
        whole = n.matmul(real, n.like(table, real))
    else:
        table = np.concatenate([table, np.concatenate([sin, cos], 1)], 0)
        axis = n.rank(real) - 1
        whole = n.matmul(n.concat([real, imag], axis), n.like(table, real))
    axis = n.rank(whole) - 1
    return n.slice(whole, axis, 0, size), n.slice(whole, axis, size, 2 * size)


def _waves(turns: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the cosines and sines of the angles ``2 pi turns / size``."""
    angles = 2 * np.pi * (turns % size) / size
    return np.cos(angles), np.sin(angles)


def _turned(n: StableHLONode, x: Parts, cos: np.ndarray, sin: np.ndarray) -> Parts:
    """Return ``x`` multiplied by ``cos - i sin``."""
    (a, b), c, s = x, n.like(cos, x[0]), n.like(sin, x[0])
    return a * c + b * s, b * c - a * s


def _in_two_steps(n: StableHLONode, x: RealOrParts, outer: int, inner: int) -> Parts:
    """Return the transform of ``outer * inner`` elements by transforms of both lengths."""
    lead = n.sizes(x[0])[:-1]
    axis = len(lead)

    def lines(part: Expr | None) -> Expr | None:
        if part is None:
            return None
        return n.swap(n.reshape(part, [*lead, outer, inner]), axis, axis + 1)

    columns = lines(x[0])
    assert columns is not None
    made = transformed(n, (columns, lines(x[1])), outer)
    turns = np.outer(np.arange(inner), np.arange(outer))
    made = _turned(n, made, *_waves(turns, outer * inner))
    made = transformed(n, (n.swap(made[0], axis, axis + 1), n.swap(made[1], axis, axis + 1)), inner)
    size: list[Dim] = [*lead, outer * inner]
    first, second = (n.reshape(n.swap(p, axis, axis + 1), size) for p in made)
    return first, second


def _convolved(n: StableHLONode, x: RealOrParts, size: int) -> Parts:
    """Return the transform as a circular convolution with a chirp, by Bluestein's algorithm."""
    width = 1 << (2 * size - 2).bit_length()
    k = np.arange(size)
    cos, sin = _waves(k * k, 2 * size)
    chirp = np.zeros(width, complex)
    chirp[:size] = cos + 1j * sin
    chirp[width - size + 1 :] = chirp[1:size][::-1]
    filtered = np.fft.fft(chirp)
    real, imag = _turned(n, _both(n, x), cos, sin)
    rest: list[Dim] = [*n.sizes(real)[:-1], width - size]
    zeros = n.full(0.0, rest, n.dtype(real))
    axis = n.rank(real) - 1
    made = transformed(n, (n.concat([real, zeros], axis), n.concat([imag, zeros], axis)), width)
    made = _turned(n, made, filtered.real, -filtered.imag)
    back, front = transformed(n, (made[1], made[0]), width)
    scaled = _first(n, front, size) * (1 / width), _first(n, back, size) * (1 / width)
    return _turned(n, scaled, cos, sin)
