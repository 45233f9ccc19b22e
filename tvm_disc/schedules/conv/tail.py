"""A convolution's last panel, computed as inner products along K if it has few columns.

For example, the 49 pixels of a 7 x 7 image are a panel of three vectors and a panel of one pixel. A
register tile for that pixel takes a third of the time of a full tile. Inner products of rows of
weights with the pixel's column take a twelfth.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from tvm import tirx

from tvm_disc.schedules.gemm.inner import inner_function
from tvm_disc.schedules.gemm.layouts import packed_row_elems
from tvm_disc.schedules.gemm.micro_kernel import MicroKernels, call_kernel, vload, vstore
from tvm_disc.schedules.gemm.partition import bind_size, cdiv
from tvm_disc.schedules.gemm.tile import GemmTile
from tvm_disc.tir.builder import Block, i64
from tvm_disc.typing import Buffer, Expr, Size

_ROWS = 4  # rows of a tile of inner products; it has lanes / _ROWS columns


def tail_columns(tile: GemmTile, rows: int, columns: Size | None) -> int:
    """Return the largest number of columns of a tail panel; 0 if no panel can be a tail."""
    most = tile.lanes // _ROWS
    if rows < _ROWS or (isinstance(columns, int) and not 0 < columns % tile.n_r <= most):
        return 0
    return most


class TailCut(Protocol):
    """The fields of :class:`.macro_kernel.ConvCut` that :class:`Tail` reads."""

    tail: int
    depth: int
    width: Size
    tail_at: Size


@dataclass
class Tail:
    """Transposes the columns of narrow panels, at most ``cut.tail`` each, and multiplies them.

    ``scratch`` at ``cut.tail_at`` holds the sums of a tile, followed by the columns of all tail
    panels, each contiguous along K.
    """

    b: Block
    kernels: MicroKernels
    tile: GemmTile
    dtype: str
    cut: TailCut
    scratch: Buffer

    @staticmethod
    def elems(most: int, tails: Size, depth: int, tile: GemmTile, itemsize: int) -> Size:
        """Return the scratch elements for ``tails`` narrow panels."""
        if most == 0:
            return 0
        columns = tails * (most * packed_row_elems(depth, itemsize))
        sums = _sum_elems(most, tile)
        if isinstance(tails, int):
            return sums + columns if tails else 0
        return tirx.Select(tails > 0, i64(columns) + sums, i64(0))

    @property
    def _row(self) -> int:
        itemsize = tirx.const(0, self.dtype).ty.dtype.bits // 8
        return packed_row_elems(self.cut.depth, itemsize)

    def take(self, number: Expr, panel: Size, depth: Size) -> None:
        """Emit the transposition of the panel at offset ``panel``; its rows are one vector wide."""
        b, lanes = self.b, self.tile.lanes
        first = bind_size(b, "first_column", self._columns(number))
        with b.loop("tk", depth) as k:
            for j in range(self.cut.tail):
                value = self.scratch[panel + k * lanes + j]
                b.store(self.scratch, first + j * self._row + k, value)

    def _columns(self, number: Expr) -> Expr:
        """Return the offset of the transposed columns of a tail panel."""
        most = self.cut.tail
        return i64(self.cut.tail_at) + _sum_elems(most, self.tile) + number * (most * self._row)

    def multiply(
        self,
        number: Expr,
        weights: tuple[Buffer, Size, Size],
        rows: Size,
        depth: Size,
        into: tuple[Size, Size],
    ) -> None:
        """Emit the products of ``rows`` rows of weights (buffer, begin, row stride) with the tail.

        The sums go to the tile at ``into[0]``. If ``into[1]`` is nonzero, they are added to its
        content. The last tile of rows overlaps the one before it.
        """
        b, lanes, most = self.b, self.tile.lanes, self.cut.tail
        buffer, begin, distance = weights
        run = inner_function(self.kernels, self.dtype, lanes, _ROWS)
        sums = i64(self.cut.tail_at)
        columns = bind_size(b, "tail_columns", self._columns(number))
        with b.loop("tq", cdiv(rows, _ROWS)) as q:
            i = bind_size(b, "i", tirx.min(q * _ROWS, i64(rows) - _ROWS))
            places = (buffer[begin + i * distance], self.scratch[columns],
                      self.scratch[sums + i * most])  # fmt: skip
            call_kernel(b, run, places, (depth, distance, self._row, most))
        at, more = into
        with b.loop("tr", rows) as r:
            value = vload(self.scratch, sums + r * most, most)
            put = bind_size(b, "put", at + r * self.cut.width)
            with b.when(more == 0):
                vstore(b, self.scratch, put, most, value)
            with b.when(more != 0):
                vstore(b, self.scratch, put, most, value + vload(self.scratch, put, most))


def _sum_elems(most: int, tile: GemmTile) -> int:
    """Return the elements of a tile's sums, rounded up to a multiple of 16: complete cache lines
    for types of 4 or 8 bytes.
    """
    return -(-most * tile.m_r // 16) * 16
