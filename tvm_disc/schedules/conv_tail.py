"""The last few columns of a convolution's panels: inner products along K.

An image of 7 x 7 pixels is three vectors and one pixel. A register tile would spend a third of a
whole one on that pixel; inner products of a row of weights and the pixel's column spend a twelfth.
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


def tail_columns(lanes: int, rows: int, columns: Index) -> int:
    """At most so many columns are a tail; 0 where there is none, whatever the shape."""
    if rows < _ROWS or (isinstance(columns, int) and columns % lanes == 0):
        return 0
    return lanes // _ROWS


@dataclass
class Tail:
    """Columns of a panel beyond its whole vectors, if they are few: transposed and multiplied.

    They lie in ``scratch`` at ``at``, each contiguous along K, and after them the sums of a tile.
    """

    b: Block
    bind: Callable[[str, Index], Index]
    kernels: MicroKernels
    tile: GemmTile
    dtype: str
    most: int
    depth: int
    scratch: Buffer
    at: Index

    @staticmethod
    def elems(most: int, depth: int, tile: GemmTile, itemsize: int) -> int:
        """Elements of scratch."""
        return most * (packed_row_elems(depth, itemsize) + tile.m_r)

    @property
    def _row(self) -> int:
        itemsize = tirx.const(0, self.dtype).ty.dtype.bits // 8
        return packed_row_elems(self.depth, itemsize)

    def count(self, columns: Expr) -> Expr:
        """How many columns of a panel are its tail."""
        rest = self.bind("rest", tirx.truncmod(i64(columns), i64(self.tile.lanes)))
        return self.bind("tail", tirx.Select(rest <= self.most, rest, i64(0)))

    def take(self, start: Expr, tail: Expr, depth: Expr) -> None:
        """Transpose the tail, which lies at ``start`` as a panel of one vector; zeros stand beyond
        it."""
        b, lanes = self.b, self.tile.lanes
        with b.when(tail > 0), b.loop("tk", depth) as k:
            for j in range(self.most):
                value = self.scratch[start + k * lanes + j]
                b.store(self.scratch, self.at + j * self._row + k, value)

    def multiply(
        self,
        weights: tuple[Buffer, Expr, Index],
        rows: Expr,
        depth: Expr,
        into: tuple[Expr, Expr, Index],
    ) -> None:
        """Sums of ``rows`` of weights (buffer, begin, distance) with the tail.

        They go to row 0 at ``into[0]``, rows being ``into[2]`` apart, and are added to what is
        there if ``into[1]`` is not 0. The last tile of rows overlaps the one before it.
        """
        b, lanes, most = self.b, self.tile.lanes, self.most
        buffer, begin, distance = weights
        key = ("inner", self.dtype, lanes, _ROWS)
        run = self.kernels.add(key, "gemm_inner", partial(inner_kernel, self.dtype, lanes, _ROWS))
        sums = self.at + most * self._row
        with b.loop("tq", cdiv(rows, _ROWS)) as q:
            i = self.bind("i", tirx.min(q * _ROWS, i64(rows) - _ROWS))
            places = (buffer[begin + i * distance], self.scratch[i64(self.at)],
                      self.scratch[sums + i * most])  # fmt: skip
            sizes = (depth, distance, self._row, most)
            b.eval(call(run, [*map(tirx.address_of, places), *map(i64, sizes)]))
        at, more, width = into
        with b.loop("tr", rows) as r:
            value = vload(self.scratch, sums + r * most, most)
            put = self.bind("put", at + r * width)
            with b.when(more == 0):
                vstore(b, self.scratch, put, most, value)
            with b.when(more != 0):
                vstore(b, self.scratch, put, most, value + vload(self.scratch, put, most))
