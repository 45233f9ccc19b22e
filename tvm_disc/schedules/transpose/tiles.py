"""Square tiles of a transpose: their rows in memory, and the shuffles between registers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from tvm import tirx

from tvm_disc.tir.builder import Block, element_pointer, wide
from tvm_disc.typing import UNSET, Buffer, Expr


@dataclass
class TileRows:
    """Rows of a tile in memory; ``apart`` is the row stride in elements.

    Every fourth row has an address variable. The other rows are at most three strides after such a
    row, which addressing modes can express. Computing addresses from row numbers would take a
    multiplication for each row.
    """

    views: list[Buffer]
    apart: Expr

    @staticmethod
    def of(block: Block, buffer: Buffer, start: Expr, apart: Expr, rows: int) -> TileRows:
        """Return ``rows`` rows; the first one begins at ``start``."""
        views = []
        for k in range(0, rows, 4):
            data = block.bind("at", element_pointer(buffer, start + apart * k))
            views.append(block.declare("line", data, str(buffer.dtype)))
        return TileRows(views, apart)

    def row(self, k: int) -> tuple[Buffer, Expr]:
        """Return the buffer and offset of row ``k``."""
        return self.views[k // 4], self.apart * (k % 4)


def transposed(block: Block, rows: Sequence[Expr]) -> list[Expr]:
    """Return the columns of a square of vectors; a row may be one value for all lanes."""
    rows = [wide(row, len(rows)) for row in rows]
    return _by_quarters(block, rows) if len(rows) == 16 else _by_butterfly(block, rows)


def _shuffled(block: Block, a: Expr, b: Expr, picks: Sequence[int]) -> Expr:
    mixed = tirx.Shuffle([a, b], [tirx.IntImm("int32", p) for p in picks])
    return block.bind("v", mixed)


def _by_quarters(block: Block, rows: Sequence[Expr]) -> list[Expr]:
    """Return the transpose of sixteen vectors.

    First, the 4 x 4 squares in the quarters of registers are transposed, then the quarters. Each
    step is a shuffle instruction that needs no register of indices. The steps interleave the low or
    high halves of the quarters by ones and by twos, then select the even or odd quarters of two
    registers.
    """
    quarters = range(0, 16, 4)
    ones = [[q + k // 2 + 16 * (k % 2) + h for q in quarters for k in range(4)] for h in (0, 2)]
    twos = [[q + k % 2 + 16 * (k // 2) + h for q in quarters for k in range(4)] for h in (0, 2)]
    parts = [[s + 4 * q + k for s in (0, 16) for q in (h, h + 2) for k in range(4)] for h in (0, 1)]
    mix = partial(_shuffled, block)
    first = [mix(rows[i], rows[i + 1], p) for i in range(0, 16, 2) for p in ones]
    # second[4 * g + c]: column c of each quarter of rows 4g .. 4g + 3.
    second: list[Expr] = []
    for g in range(0, 16, 4):
        for low, high in ((g, g + 2), (g + 1, g + 3)):
            second += [mix(first[low], first[high], p) for p in twos]
    result: list[Expr] = [UNSET] * 16
    for c in range(4):
        for h, p in enumerate(parts):
            top = mix(second[c], second[4 + c], p)
            bottom = mix(second[8 + c], second[12 + c], p)
            for odd, pick in enumerate(parts):
                result[4 * (h + 2 * odd) + c] = mix(top, bottom, pick)
    return result


def _by_butterfly(block: Block, rows: Sequence[Expr]) -> list[Expr]:
    """Return the transpose by exchanging blocks of 1, 2, 4 lanes between vector pairs (Eklundh)."""
    side = len(rows)
    current = list(rows)
    step = 1
    while step < side:
        following = list(current)
        for i in range(side):
            if i & step:
                continue
            low, high = current[i], current[i + step]
            keep = [j if not j & step else side + j - step for j in range(side)]
            swap = [side + j if j & step else j + step for j in range(side)]
            for at, picks in ((i, keep), (i + step, swap)):
                following[at] = _shuffled(block, low, high, picks)
        current = following
        step *= 2
    return current
