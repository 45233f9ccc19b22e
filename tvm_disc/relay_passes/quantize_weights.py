"""Quantization of float32 weights to numbers of 8 or 4 bits with a scale per group of rows."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray

BITS = {"int8": 8, "int4": 4}
HALF = np.finfo(np.float16)


@dataclass(frozen=True)
class WeightFormat:
    """How weights are quantized.

    Attributes:
        bits: bits per number, 8 or 4.
        group: rows (elements along K) that share a scale; 0 means all rows.
        positive: whether every scale is positive. Otherwise a scale may be negative, so that the
            element of largest magnitude becomes the lowest number.
    """

    bits: int
    group: int
    positive: bool = False

    def __str__(self) -> str:
        rows = f"{self.group} rows" if self.group else "column"
        return f"int{self.bits}, a scale per {rows}"


@dataclass(frozen=True)
class QuantizedMatrix:
    """The approximation ``numbers[k, n] * scale[k // group, n]`` of a matrix.

    Attributes:
        numbers: int8 ``[K, N]``.
        scale: float32 ``[ceil(K / group), N]``.
        error: root mean square of the differences, divided by the root mean square of the matrix.
    """

    numbers: Array
    scale: Array
    error: float


def quantized(matrix: Array, form: WeightFormat) -> QuantizedMatrix:
    """Quantize a finite float32 matrix ``[K, N]``, symmetrically.

    Each column of a group has two candidate scales, and the one with the smaller error is used.
    The first maps the element of largest magnitude to the lowest number, -128 or -8; the second
    maps its magnitude to the highest, 127 or 7. With ``form.positive`` only the second is tried.
    Scales are rounded to float16 in its normal range, so that kernels read 16 bits.
    """
    k, n = matrix.shape
    group = form.group or max(k, 1)
    numbers = np.empty((k, n), np.int8)
    scale = np.ones((-(-k // group), n), np.float32)
    wrong = total = 0.0
    for row, begin in enumerate(range(0, k, group)):
        part = matrix[begin : begin + group]
        best, lost = _candidate(part, form.bits, lowest=False)
        if not form.positive:
            other, others_lost = _candidate(part, form.bits, lowest=True)
            better = others_lost <= lost
            best = np.where(better, other[0], best[0]), np.where(better, other[1], best[1])
            lost = np.minimum(lost, others_lost)
        numbers[begin : begin + group], scale[row] = best
        wrong += float(lost.sum(dtype=np.float64))
        total += float(np.square(part, dtype=np.float64).sum())
    return QuantizedMatrix(numbers, scale, sqrt(wrong / total) if total else 0.0)


def _candidate(part: Array, bits: int, lowest: bool) -> tuple[tuple[Array, Array], Array]:
    """Return (numbers, scales) of a group of rows, and the squared error per column."""
    half = 1 << (bits - 1)
    top = np.take_along_axis(part, np.abs(part).argmax(0)[None], 0)[0]
    scale = top / np.float32(-half) if lowest else np.abs(top) / np.float32(half - 1)
    safe = np.where(np.abs(scale) > np.finfo(np.float32).tiny, scale, np.float32(1))
    normal = (np.abs(safe) >= HALF.tiny) & (np.abs(safe) <= HALF.max)
    safe[normal] = safe[normal].astype(np.float16)
    numbers = np.clip(np.rint(part / safe), -half, half - 1)
    return (numbers, safe), np.square(numbers * safe - part).sum(0)


__all__ = ["BITS", "QuantizedMatrix", "WeightFormat", "quantized"]
