"""A convolution's last panel, if it has few columns: inner products along K.

An image of 7 x 7 pixels is a panel of three vectors and one pixel. A register tile would spend a
third of a whole one on that pixel; inner products of a row of weights and the pixel's column spend
a twelfth.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from tvm import tirx

from tvm_disc.schedules.emit import Block, Buffer, Expr, i64
from tvm_disc.schedules.gemm_inner import inner_kernel
from tvm_disc.schedules.gemm_micro import MicroKernels, call, vload, vstore
from tvm_disc.schedules.gemm_spec import Index, cdiv
from tvm_disc.schedules.gemm_tile import GemmTile, packed_row_elems

_ROWS = 4  # of a tile of inner products; as many columns as then fill a vector with sums


def tail_columns(tile: GemmTile, rows: int, columns: Index) -> int:
    """A panel of at most so many columns is a tail; 0 where there is none, whatever the shape."""
    most = tile.lanes // _ROWS
    if rows < _ROWS or (isinstance(columns, int) and not 0 < columns % tile.n_r <= most):
        return 0
    return most


@dataclass
class Tail:
    """The columns of a narrow panel, at most ``most``: transposed and multiplied.

    They lie in ``scratch`` at ``at``, each contiguous along K, and after them the sums of a tile.
    Rows of the register tiles that sums end in are ``width`` apart.
    """

    b: Block
    bind: Callable[[str, Index], Index]
    kernels: MicroKernels
    tile: GemmTile
    dtype: str
    most: int
    depth: int
    width: Index
    scratch: Buffer
    at: Index

    @staticmethod
    def elems(most: int, rest: Index, depth: int, tile: GemmTile, itemsize: int) -> Index:
        """Elements of scratch where the last panel has ``rest`` columns, or 0 for all of them."""
        elems = most * (packed_row_elems(depth, itemsize) + tile.m_r)
        if most == 0 or isinstance(rest, int):
            return elems
        return tirx.Select(tirx.And(rest > 0, rest <= most), i64(elems), i64(0))

    @property
    def _row(self) -> int:
        itemsize = tirx.const(0, self.dtype).ty.dtype.bits // 8
        return packed_row_elems(self.depth, itemsize)

    def take(self, panel: Expr, depth: Expr) -> None:
        """Transpose the panel at ``panel``, a vector wide; zeros stand beyond its columns."""
        b, lanes = self.b, self.tile.lanes
        with b.loop("tk", depth) as k:
            for j in range(self.most):
                b.store(self.scratch, self._column(j) + k, self.scratch[panel + k * lanes + j])

    def _column(self, j: int) -> Expr:
        return i64(self.at) + j * self._row

    def multiply(
        self,
        weights: tuple[Buffer, Expr, Index],
        rows: Expr,
        depth: Expr,
        into: tuple[Expr, Expr],
    ) -> None:
        """Sums of ``rows`` of weights (buffer, begin, distance) with the tail.

        They go to the tile at ``into[0]``, and are added to what is there if
        ``into[1]`` is not 0. The last tile of rows overlaps the one before it.
        """
        b, lanes, most = self.b, self.tile.lanes, self.most
        buffer, begin, distance = weights
        key = ("inner", self.dtype, lanes, _ROWS)
        run = self.kernels.add(key, "gemm_inner", partial(inner_kernel, self.dtype, lanes, _ROWS))
        sums = self._column(most)
        with b.loop("tq", cdiv(rows, _ROWS)) as q:
            i = self.bind("i", tirx.min(q * _ROWS, i64(rows) - _ROWS))
            places = (buffer[begin + i * distance], self.scratch[i64(self.at)],
                      self.scratch[sums + i * most])  # fmt: skip
            sizes = (depth, distance, self._row, most)
            b.eval(call(run, [*map(tirx.address_of, places), *map(i64, sizes)]))
        at, more = into
        with b.loop("tr", rows) as r:
            value = vload(self.scratch, sums + r * most, most)
            put = self.bind("put", at + r * self.width)
            with b.when(more == 0):
                vstore(b, self.scratch, put, most, value)
            with b.when(more != 0):
                vstore(b, self.scratch, put, most, value + vload(self.scratch, put, most))
