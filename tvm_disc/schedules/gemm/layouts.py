"""Packed layouts of the constant operands of a GEMM.

The register tile reads columns of A (broadcast) and rows of B panels (vectors), as in Goto & van de
Geijn (2008).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from tvm_disc.schedules.packing import Array, Form


_LINE_BYTES = 64  # cache line; each packed row of A is aligned to it


def packed_row_elems(k: int, itemsize: int) -> int:
    """Return the stride in elements between rows of a packed A.

    It is a multiple of the cache line, and never a multiple of a page.
    """
    line = max(1, _LINE_BYTES // itemsize)
    elems = math.ceil(max(k, 1) / line) * line
    # With an odd number of lines, consecutive rows use every cache set before one repeats.
    return elems + line if (elems // line) % 2 == 0 else elems


@dataclass(frozen=True)
class RowsOfA:
    """Layout of a constant A: ``a[M, K...]`` as ``[M, packed_row_elems(K)]``, zero padded.

    The elements are converted to ``dtype``. Rows stay contiguous along K. The micro-kernel
    broadcasts from ``m_r`` rows at once, so the row stride only has to keep these rows in different
    cache sets.
    """

    dtype: str

    def form(self, shape: tuple[int, ...], dtype: str) -> Form:
        """Return the shape and element type of the packed array."""
        del dtype
        k = math.prod(shape[1:])
        return (shape[0], packed_row_elems(k, np.dtype(self.dtype).itemsize)), self.dtype

    def write(self, array: Array, out: Array) -> None:
        """Pack ``array`` into ``out``, which is zero-initialized."""
        k = math.prod(array.shape[1:])
        out[:, :k] = array.reshape(len(array), k)


def panel_starts(n: int, n_r: int, lanes: int, even: bool = True) -> list[int]:
    """Return the first column of each panel of a packed B, and ``n``.

    The vectors of a row are divided evenly, and wider panels alternate with narrower ones. Threads
    with equal numbers of adjacent panels therefore have nearly equal work. With ``n_r = 48``, 256
    columns in vectors of 16 are panels of 2, 3, 3, 2, 3 and 3 vectors, not of 3, 3, 3, 3, 3 and 1.
    """
    panels, vectors = panel_count(n, n_r, lanes, even), -(-n // lanes)
    return [k * vectors // panels * lanes for k in range(panels)] + [n]


def panel_count(n: int, n_r: int, lanes: int, even: bool = True) -> int:
    """Return the number of panels of a packed B.

    It is the smallest number that suffices. If ``even``, an odd number (except 1) is increased by
    one, so that two threads can have equal work, unless a panel would then have fewer than two
    vectors. Quantized weights do not have the additional panel, which takes memory.
    """
    panels = -(-n // n_r)
    odd = even and panels > 1 and panels % 2 == 1
    return panels + (odd and n_r > 2 * lanes and n > (2 * panels + 1) * lanes)


def _write_panels(matrix: Array, out: Array, lanes: int, even: bool) -> None:
    """Write the columns of ``matrix[..., N]`` to the panels ``out[..., panel_count(N), n_r]``.

    Adjacent panels of equal width are copied together.
    """
    *outer, n = matrix.shape
    starts = panel_starts(n, out.shape[-1], lanes, even)
    first = 0
    for width, run in groupby(b - a for a, b in pairwise(starts)):
        end = first + len(list(run))
        columns = matrix[..., starts[first] : starts[end]]
        out[..., first:end, :width] = columns.reshape(*outer, end - first, width)
        first = end


@dataclass(frozen=True)
class PanelsOfB:
    """Layout of a constant B: ``b[K, N]`` as panels ``[panel_count(N), K, n_r]``.

    The columns of a panel are those of :func:`panel_starts`; zeros follow on the right.
    """

    n_r: int
    lanes: int
    even: bool = True

    def form(self, shape: tuple[int, ...], dtype: str) -> Form:
        """Return the shape and element type of the packed array; bfloat16 is stored as uint16
        bits.
        """
        k, n = shape
        return (
            panel_count(n, self.n_r, self.lanes, self.even),
            k,
            self.n_r,
        ), "uint16" if dtype == "bfloat16" else dtype

    def write(self, array: Array, out: Array) -> None:
        """Pack ``array`` into ``out``, which is zero-initialized."""
        _write_panels(array.view(out.dtype), out.swapaxes(0, 1), self.lanes, self.even)


@dataclass(frozen=True)
class QuadsOfB:
    """Layout of an int8 B: ``b[K, N]`` as panels ``[panel_count(N), 1 + ceil(K / per), n_r]`` of
    int32.

    Each word holds ``per`` numbers along K, four of 8 bits or two of 16. The kernel reads A with
    ``origin`` added to each element. To correct the sums, row 0 of a panel holds ``-origin`` times
    the sum of each column.
    """

    n_r: int
    lanes: int
    per: int
    origin: int

    def form(self, shape: tuple[int, ...], dtype: str) -> Form:
        """Return the shape and element type of the packed array."""
        del dtype
        k, n = shape
        panels = panel_count(n, self.n_r, self.lanes)
        return (panels, 1 + -(-k // self.per), self.n_r), "int32"

    def write(self, array: Array, out: Array) -> None:
        """Pack ``array`` into ``out``, which is zero-initialized."""
        (k, n), (panels, rows, n_r) = array.shape, out.shape
        per, number = self.per, np.int8 if self.per == 4 else np.int16
        words = out.view(number).reshape(panels, rows, n_r, per)[:, 1:].transpose(1, 3, 0, 2)
        full, rest = divmod(k, per)
        filled = array[: full * per].reshape(full, per, n)
        _write_panels(filled, words[:full], self.lanes, True)
        if rest:
            _write_panels(array[full * per :], words[full, :rest], self.lanes, True)
        sums = array.sum(0, dtype=np.int32)
        _write_panels(-self.origin * sums, out[:, 0], self.lanes, True)


@dataclass(frozen=True)
class WordsOfB:
    """Layout of a B of ``bits``-bit numbers, 4 or 8: ``b[K, N]`` as panels ``[panel_count(N),
    K * bits / 32, n_r]`` of int32.

    Each word holds adjacent numbers along K. With 4 bits, the lower half of byte i holds number i
    and the upper half number i + 4, so that one mask yields four adjacent numbers. Numbers are in
    two's complement; if ``unsigned``, half of their range is added to them.
    """

    n_r: int
    lanes: int
    bits: int
    unsigned: bool = False

    def form(self, shape: tuple[int, ...], dtype: str) -> Form:
        """Return the shape and element type of the packed array."""
        del dtype
        k, n = shape
        panels = panel_count(n, self.n_r, self.lanes, even=False)
        return (panels, k * self.bits // 32, self.n_r), "int32"

    def write(self, array: Array, out: Array) -> None:
        """Pack ``array`` into ``out``, which is zero-initialized."""
        (_, n), (panels, rows, n_r) = array.shape, out.shape
        numbers = array.view(np.uint8).reshape(rows, 32 // self.bits, n)
        if self.unsigned:
            numbers = numbers + np.uint8(1 << (self.bits - 1))
        low: Array = numbers[:, :4]
        if self.bits == 4:
            low = (low & 15) | (numbers[:, 4:] << 4)
        words = out.view(np.uint8).reshape(panels, rows, n_r, 4)
        _write_panels(low, words.transpose(1, 3, 0, 2), self.lanes, False)


__all__ = [
    "PanelsOfB",
    "QuadsOfB",
    "RowsOfA",
    "WordsOfB",
    "packed_row_elems",
    "panel_count",
    "panel_starts",
]
