"""Multi-dimensional counter over consecutive row-major positions.

It avoids index computation by division, which costs as much as a small tile.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm import tirx

from tvm_disc.schedules.gemm.micro_kernel import bind_opaque
from tvm_disc.tir.builder import Block, i64
from tvm_disc.typing import Expr, Size


class PlaceCounter:
    """The multi-dimensional index of a row-major position, starting at ``first``.

    ``dims`` are all dims but the leading one, whose size is not needed.
    """

    def __init__(self, block: Block, first: Size, dims: Sequence[Expr]) -> None:
        self.block, self.dims = block, dims
        self.cells = [block.alloc(f"place{d}", 1, "int64") for d in range(len(dims) + 1)]
        rest = bind_opaque(block, "rest", first)
        for cell, size in zip(self.cells[:0:-1], reversed(dims), strict=True):
            safe = tirx.max(i64(size), i64(1))
            above = bind_opaque(block, "above", tirx.truncdiv(rest, safe))
            block.store(cell, 0, rest - above * safe)
            rest = above
        block.store(self.cells[0], 0, rest)

    def here(self) -> list[Expr]:
        """Return the current index."""
        return [bind_opaque(self.block, "at", cell[i64(0)]) for cell in self.cells]

    def advance(self) -> None:
        """Emit the step to the next position."""
        block = self.block
        carry: Expr = i64(1)
        for cell, size in zip(self.cells[:0:-1], reversed(self.dims), strict=True):
            moved = bind_opaque(block, "moved", cell[i64(0)] + carry)
            wraps = bind_opaque(block, "wraps", tirx.Select(moved >= i64(size), i64(1), i64(0)))
            block.store(cell, 0, tirx.Select(wraps > 0, i64(0), moved))
            carry = wraps
        block.store(self.cells[0], 0, self.cells[0][i64(0)] + carry)
