"""Layouts of constant operands of a GEMM.

The register tile streams columns of A, broadcast, and rows of panels of B, as vectors: Goto & van
de Geijn (2008).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tvm_disc.schedules.packing import Array, Form

_LINE_BYTES = 64  # cache line; a packed row of A starts on one
_ROWS = 16  # of B that are read at a time: their pages stay in the first-level TLB


def packed_row_elems(k: int, itemsize: int) -> int:
    """Distance in elements between rows of a packed A: whole cache lines, never a page apart."""
    line = max(1, _LINE_BYTES // itemsize)
    elems = math.ceil(max(k, 1) / line) * line
    # An odd number of lines visits every set before it repeats one.
    return elems + line if (elems // line) % 2 == 0 else elems


@dataclass(frozen=True)
class RowsOfA:
    """``a[M, K...]`` as ``[M, packed_row_elems(K)]`` of ``dtype``, zero padded.

    Rows stay contiguous along K: the micro-kernel broadcasts from ``m_r`` rows at once, so all a
    packed A must ensure is that those rows do not compete for the same cache set.
    """

    dtype: str

    def form(self, shape: tuple[int, ...], dtype: str) -> Form:
        """The shape and element type of a packed array."""
        del dtype
        k = math.prod(shape[1:])
        return (shape[0], packed_row_elems(k, np.dtype(self.dtype).itemsize)), self.dtype

    def write(self, array: Array, out: Array) -> None:
        """Pack ``array`` into ``out``, which holds zeros."""
        k = math.prod(array.shape[1:])
        out[:, :k] = array.reshape(len(array), k)


@dataclass(frozen=True)
class PanelsOfB:
    """``b[K, N]`` as panels ``[ceil(N / n_r), K, n_r]``, zero padded on the right."""

    n_r: int

    def form(self, shape: tuple[int, ...], dtype: str) -> Form:
        """The shape and element type of a packed array; bfloat16 is kept as its bits."""
        k, n = shape
        return (-(-n // self.n_r), k, self.n_r), "uint16" if dtype == "bfloat16" else dtype

    def write(self, array: Array, out: Array) -> None:
        """Pack ``array`` into ``out``, which holds zeros."""
        array, (k, n) = array.view(out.dtype), array.shape
        whole = n // self.n_r
        panels = array[:, : whole * self.n_r].reshape(k, whole, self.n_r).swapaxes(0, 1)
        for row in range(0, k, _ROWS):
            out[:whole, row : row + _ROWS] = panels[:, row : row + _ROWS]
        out[whole:, :, : n - whole * self.n_r] = array[:, whole * self.n_r :]


@dataclass(frozen=True)
class QuadsOfB:
    """``b[K, N]`` as panels ``[ceil(N / n_r), 1 + ceil(K / 4), n_r]`` of four bytes along K each.

    The instruction takes unsigned bytes of A: those of a ``signed`` A are read 128 too high. The
    first row of a panel is what that adds to each column, negated.
    """

    n_r: int
    signed: bool

    def form(self, shape: tuple[int, ...], dtype: str) -> Form:
        """The shape and element type of a packed array."""
        del dtype
        k, n = shape
        return (-(-n // self.n_r), 1 + -(-k // 4), self.n_r), "int32"

    def write(self, array: Array, out: Array) -> None:
        """Pack ``array`` into ``out``, which holds zeros."""
        (k, n), (panels, rows, n_r) = array.shape, out.shape
        whole = np.zeros((4 * (rows - 1), panels * n_r), np.int8)
        whole[:k, :n] = array
        quads = out.view(np.int8).reshape(panels, rows, n_r, 4)
        quads[:, 1:] = whole.reshape(rows - 1, 4, panels, n_r).transpose(2, 0, 3, 1)
        if self.signed:
            out[:, 0] = -128 * whole.sum(0, dtype=np.int32).reshape(panels, n_r)


__all__ = ["PanelsOfB", "QuadsOfB", "RowsOfA", "packed_row_elems"]
