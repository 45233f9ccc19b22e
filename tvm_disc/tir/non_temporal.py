"""Non-temporal stores for results larger than the last-level cache.

An ordinary store to a line that is not cached first reads the line, and evicts another one. If the
arrays of a kernel exceed the last-level cache, its results are evicted before they are read again.
In this case, non-temporal stores of complete lines reduce memory traffic to two thirds. A kernel
decides once per call, at run time, which kind of store it uses.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm import tirx

from tvm_disc.tir.builder import LINE_BYTES, Block, base_address, element_pointer, i64, ramp
from tvm_disc.tir.llvm_ops import can_stream, fence, stream
from tvm_disc.typing import Buffer, Expr


def far_elems(far_bytes: int, arrays: int) -> int:
    """Return the elements per array at which ``arrays`` float32 arrays take ``far_bytes`` bytes."""
    return max(1, far_bytes // (4 * arrays))


class PastCaches:
    """Stores of vectors of ``width`` elements to ``buffers``: non-temporal if results are large.

    ``sizes`` is (elements of a result, row stride); the row stride is 0 if vectors do not start
    anew in each row. A result of at least ``far`` elements does not fit the caches. If ``lined``,
    vectors begin at cache lines of :attr:`first`.
    """

    def __init__(
        self,
        block: Block,
        buffers: Sequence[Buffer],
        sizes: tuple[Expr, Expr],
        width: int,
        far: int,
        lined: bool = False,
    ) -> None:
        self._block, self._buffers, self._width = block, list(buffers), width
        self.first = buffers[0]
        elems, row = sizes
        begin = base_address(self.first)
        odd = tirx.bitwise_or(i64(row) * 4, begin)
        if lined:
            odd = tirx.bitwise_and(begin, i64(3))
        for buffer in buffers[1:]:
            odd = tirx.bitwise_or(odd, tirx.bitwise_xor(base_address(buffer), begin))
        odd = tirx.bitwise_and(odd, i64(LINE_BYTES - 1))
        large = tirx.min(tirx.truncdiv(i64(elems), i64(far)), i64(1))
        self._chosen = block.number("past", large * (1 - tirx.min(odd, i64(1))))
        self._cell = block.alloc("line", width, "float32")

    @staticmethod
    def of(
        block: Block,
        buffers: Sequence[Buffer],
        sizes: tuple[Expr, Expr],
        width: int,
        far: int,
        lined: bool = False,
    ) -> PastCaches | None:
        """Return the stores to the float32 buffers among ``buffers``.

        None if there are no such buffers, if the target lacks non-temporal stores of vectors of
        ``width``, if the result is known to have fewer than ``far`` elements, or if its rows are
        known not to be aligned to cache lines. Other arguments are those of the class.
        """
        floats = [b for b in buffers if str(b.dtype) == "float32"]
        elems, row = sizes
        small = isinstance(elems, tirx.IntImm) and int(elems.value) < far
        odd = isinstance(row, tirx.IntImm) and int(row.value) * 4 % LINE_BYTES != 0
        if not floats or small or (odd and not lined) or not can_stream(width):
            return None
        return PastCaches(block, floats, sizes, width, far, lined)

    @property
    def chosen(self) -> Expr:
        """Return the run-time condition that the stores of this call are non-temporal."""
        return self._chosen > 0

    def takes(self, buffer: Buffer, lanes: int) -> bool:
        """Return whether :meth:`store` supports vectors of ``lanes`` lanes to ``buffer``."""
        return lanes == self._width and any(b.same_as(buffer) for b in self._buffers)

    def store(self, buffer: Buffer, base: Expr, value: Expr) -> None:
        """Emit a store of a vector at ``base``, non-temporal if :attr:`chosen` holds."""
        block, whole = self._block, ramp(i64(0), self._width)
        # The value is passed through a stack cell, which LLVM removes. TVM would substitute a
        # binding, and so compute the value in both branches.
        block.store(self._cell, whole, value)
        with block.when(self.chosen):
            block.eval(stream(self._cell[whole], element_pointer(buffer, base)))
        with block.otherwise():
            block.store(buffer, ramp(base, self._width), self._cell[whole])

    def end(self) -> None:
        """Emit the fence that makes the stores visible before this thread signals its end."""
        with self._block.when(self.chosen):
            self._block.eval(fence())
