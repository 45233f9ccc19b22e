"""Knobs of one GEMM variant.

The register tile follows Goto & van de Geijn (2008). The ``m_r x n_r`` accumulators stay in vector
registers. Each step of K reads one column of A (broadcast) and one row of a B panel (vectors).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np

from tvm_disc.target.isa import Isa

ROUNDED_COLUMNS = 768  # columns of a task whose rows are rounded
ROUNDED_KC = 6144  # bytes of a row of a K block of rounded rows
# Independent sums needed to cover the latency of two 4-cycle FMA pipes.
_LATENCY_SUMS = 8


@dataclass(frozen=True)
class GemmTile:
    """Knobs of one GEMM variant; sizes are in elements.

    Attributes:
        m_r, n_r: rows and columns of the register tile.
        lanes: columns of one vector.
        k_unroll: steps of K that are unrolled in one loop iteration.
        kc: largest K range of one micro-kernel call.
        m_blocks: largest number of register tiles along M in one task.
        n_panels: largest number of B panels in one task.
        prefetch: K steps by which B is prefetched ahead; 0 disables the prefetch.
        more_sums: further sums per result for one row that reads packed weights, or 0.
    """

    m_r: int
    n_r: int
    lanes: int
    k_unroll: int = 1
    kc: int = 768
    m_blocks: int = 12
    n_panels: int = 4
    prefetch: int = 32
    more_sums: int = 0

    def __post_init__(self) -> None:
        if self.n_r % self.lanes or min(self.m_r, self.n_r, self.lanes) < 1:
            raise ValueError(f"n_r={self.n_r} must be a positive multiple of lanes={self.lanes}")
        if self.lanes & (self.lanes - 1):
            raise ValueError(f"lanes={self.lanes} must be a power of two")

    @property
    def vectors(self) -> int:
        """Return the number of vectors across the register tile."""
        return self.n_r // self.lanes

    def to_json(self) -> dict[str, int]:
        """Return the knobs by name."""
        return asdict(self)

    @staticmethod
    def from_json(knobs: Mapping[str, int]) -> GemmTile:
        """Return the tile with these knobs; the inverse of :meth:`to_json`."""
        return GemmTile(**knobs)


def rounded_tile(isa: Isa) -> GemmTile:
    """Return a good tile for rows that are rounded to int8.

    Eight rows of sums leave registers for the numbers of B, which are unpacked for each tile, while
    the scaled sums stay in memory. Tasks are wide, since each task rounds its rows of A again.
    Measured speedup over float32 for 128 rows times 768 x 3072: 2.2 with tiles of 8 x 32, 2.1 with
    4 x 64, 1.2 with 9 x 48 (AVX-512); 1.8 with 8 x 8, 1.6 with 4 x 16, 1.2 with 6 x 16 (AVX2).

    K blocks are long, since each one interrupts the stream of B. With blocks of 768, one row times
    2048 x 768 four-bit weights takes 1.5 times as long (AVX-512), 512 rows 1.1 times.
    """
    lanes = isa.lanes_f32
    columns = lanes * (2 if isa.registers >= 32 else 1)
    panels = max(1, ROUNDED_COLUMNS // columns)
    return GemmTile(m_r=8, n_r=columns, lanes=lanes, kc=ROUNDED_KC, n_panels=panels)


def default_tile(isa: Isa, dtype: str = "float32", n: int | None = None) -> GemmTile:
    """Return a good tile for accumulators of ``dtype``, derived from the size of the register file.

    The sums fill the register file, so that a step of K needs few loads per multiply-add: 9 x 3
    vectors with 32 registers, 6 x 2 with 16. One more register holds an element of A, and one for
    each vector of a row holds B. If the number of columns ``n`` is known and small, a width that
    leaves no narrow last panel is preferred.
    """
    lanes = max(1, isa.lanes_f32 * 4 // np.dtype(dtype).itemsize)
    vectors = max(1, int(math.sqrt(isa.registers / 3.5)))
    if n is not None and n <= 8 * lanes:
        needed = max(1, -(-n // lanes))
        for width in (vectors, vectors + 1, vectors - 1):
            if width > 0 and needed % width == 0:
                vectors = width
                break
        else:
            vectors = min(vectors, needed)
    rows = min(14, max(1, (isa.registers - vectors - 1) // vectors))
    return GemmTile(m_r=rows, n_r=vectors * lanes, lanes=lanes)


def independent_sums(rows: int, vectors: int, more: int = 0) -> int:
    """Return the number of sums per result of a register tile, for consecutive steps of K.

    The number is 1, 2 or 4, plus ``more`` for several sums of one row. A load of B advances by one
    step of K per sum. Without ``more``, this stride may be a power of two, which can be slow.
    """
    sums = 1
    while sums < 4 and rows * vectors * sums < _LATENCY_SUMS:
        sums *= 2
    return sums + (more if rows == 1 and sums > 1 else 0)
