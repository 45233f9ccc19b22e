"""Split of a range of positions into vectors that begin at cache lines.

NumPy arrays begin 16 bytes into a cache line. A vector that crosses a cache line takes two accesses
and cannot be stored non-temporally: relu of 512 x 8192 took 1.45 times as long as with aligned
arrays. Therefore, if results are contiguous for all shapes, vectors start at the first element that
is aligned to a cache line. The elements before it form one masked vector, which is processed last,
with the tail.

    before | wide | wide | ... | wide | single | tail
"""

from __future__ import annotations

import tvm
from tvm import tirx

from tvm_disc.tir.builder import LINE_BYTES, Block, base_address, i64
from tvm_disc.typing import Buffer, Expr


def to_next_line(buffer: Buffer, at: Expr, lanes: int) -> Expr:
    """Return the number of elements from ``at`` to the first aligned one, less than ``lanes``.

    The alignment is the size of a cache line or of a register of ``lanes`` elements, whichever is
    smaller. The result is 0 if no element is aligned.
    """
    size = max(1, int(tvm.DataType(str(buffer.dtype)).bits) // 8)
    step = min(LINE_BYTES, lanes * size)
    over = tirx.bitwise_and(i64(0) - (base_address(buffer) + i64(at) * size), i64(step - 1))
    whole = 1 - tirx.min(tirx.bitwise_and(over, i64(size - 1)), i64(1))
    return tirx.shift_right(over, i64(size.bit_length() - 1)) * whole


class Vectors:
    """Positions ``[begin, end)`` as ``wides`` blocks of ``several`` vectors, then single vectors.

    ``lead``: number of positions before the first block, fewer than ``lanes``; None means 0.
    """

    def __init__(
        self,
        block: Block,
        span: tuple[Expr, Expr],
        lanes: int,
        several: int,
        lead: Expr | None = None,
    ) -> None:
        self._block, self._lanes, self._wide = block, lanes, lanes * several
        self._begin, self._end = span
        self._lead, self._first = lead, self._begin
        if lead is not None:
            self._lead = block.number("lead", tirx.min(lead, self._end - self._begin))
            self._first = block.bind("first", self._begin + self._lead)
        self.wides = block.bind("blocks", tirx.floordiv(self._end - self._first, i64(self._wide)))

    def wide(self, k: Expr) -> Expr:
        """Return the first position of block ``k``."""
        return self._block.bind("at", self._first + k * self._wide)

    def singles(self) -> Expr:
        """Return the number of vectors after the blocks; only the last ones need masks."""
        self._done = self._block.bind("done", self._first + self.wides * self._wide)
        count = tirx.floordiv(self._end - self._done + (self._lanes - 1), i64(self._lanes))
        if self._lead is None:
            return count
        self._rest = self._block.bind("rest", count)
        return self._rest + tirx.min(self._lead, i64(1))

    def single(self, k: Expr, masked: bool) -> tuple[Expr, Expr | None]:
        """Return the first position of single vector ``k``, and its number of positions.

        The number may exceed the lanes of a vector; it is None if ``masked`` is unset and there is
        no ``lead``.
        """
        block, at = self._block, self._done + k * self._lanes
        if self._lead is None:
            at = block.bind("at", at)
            return at, block.bind("left", self._end - at) if masked else None
        before = k >= self._rest
        at = block.number("at", tirx.Select(before, self._begin, at))
        return at, block.number("left", tirx.Select(before, self._lead, self._end - at))


__all__ = ["Vectors", "to_next_line"]
