"""Stores past the caches, of results that the last-level cache would not hold.

A store to a line that is not there reads the line first and pushes others out. Where a kernel
touches more than the last level holds, its results are gone from the caches before anything reads
them: whole registers on whole lines go to memory directly, which moves two thirds of the bytes. A
kernel asks once which it does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from tvm import tirx

from tvm_disc.tir.builder import LINE_BYTES, Block, Buffer, base_address, element_pointer, i64, ramp
from tvm_disc.tir.llvm_ops import can_stream, fence, stream

Expr: TypeAlias = Any


def far_elems(far_bytes: int, arrays: int) -> int:
    """From so many elements on, so many arrays of float32 do not fit the caches together."""
    return max(1, far_bytes // (4 * arrays))


class PastCaches:
    """Stores of vectors of ``width`` to ``buffers``, past the caches where that pays.

    ``elems``: of a result, of which ``far`` do not fit; ``row``: from the begin of a row to the
    next one's, where rows begin the vectors. If ``lined``, vectors begin on lines of :attr:`first`.
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
        """Those of ``buffers`` that hold float32, if the target can; else None.

        ``sizes`` are ``elems`` and ``row``; from ``far`` elements on they go past the caches.
        """
        floats = [b for b in buffers if str(b.dtype) == "float32"]
        elems = sizes[0]
        small = isinstance(elems, tirx.IntImm) and int(elems.value) < far
        if not floats or small or not can_stream(width):
            return None
        return PastCaches(block, floats, sizes, width, far, lined)

    @property
    def chosen(self) -> Expr:
        """Whether they go past the caches here."""
        return self._chosen > 0

    def takes(self, buffer: Buffer, lanes: int) -> bool:
        """Whether a store of so many lanes may be one of these."""
        return lanes == self._width and any(b.same_as(buffer) for b in self._buffers)

    def store(self, buffer: Buffer, base: Expr, value: Expr) -> None:
        """Store a vector at ``base``."""
        block, whole = self._block, ramp(i64(0), self._width)
        # By way of memory, which LLVM removes: a binding would be computed in both arms.
        block.store(self._cell, whole, value)
        with block.when(self.chosen):
            block.eval(stream(self._cell[whole], element_pointer(buffer, base)))
        with block.otherwise():
            block.store(buffer, ramp(base, self._width), self._cell[whole])

    def end(self) -> None:
        """Other threads see what was stored before they see that this one has ended."""
        with self._block.when(self.chosen):
            self._block.eval(fence())
