"""Knobs of one GEMM variant.

The register tile follows Goto & van de Geijn (2008): ``m_r x n_r`` accumulators stay in vector
registers while one column of A (broadcast) and one row of a B panel (vectors) stream by.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np

from tvm_disc.target.isa import Isa


@dataclass(frozen=True)
class GemmTile:
    """Knobs of one GEMM variant; sizes are in elements.

    ``m_r`` rows and ``n_r`` columns form the register tile, ``lanes`` columns one vector.
    ``k_unroll`` steps of K are written out per loop turn. ``kc`` bounds the K range of one
    micro-kernel call (0: whole K). A task covers up to ``m_blocks`` register tiles of rows and
    ``n_panels`` panels of columns. ``prefetch`` is how many K steps ahead B is fetched (0: not).
    ``pack_rows`` is the number of rows beyond which a strided B is packed, not read in place.
    """

    m_r: int
    n_r: int
    lanes: int
    k_unroll: int = 1
    kc: int = 768
    m_blocks: int = 12
    n_panels: int = 4
    prefetch: int = 32
    pack_rows: int = 72

    def __post_init__(self) -> None:
        if self.n_r % self.lanes or min(self.m_r, self.n_r, self.lanes) < 1:
            raise ValueError(f"n_r={self.n_r} must be a positive multiple of lanes={self.lanes}")
        if self.lanes & (self.lanes - 1):
            raise ValueError(f"lanes={self.lanes} must be a power of two")

    @property
    def vectors(self) -> int:
        """Vectors across the register tile."""
        return self.n_r // self.lanes

    def to_json(self) -> dict[str, int]:
        """The knobs as plain numbers."""
        return asdict(self)

    @staticmethod
    def from_json(knobs: Mapping[str, int]) -> GemmTile:
        """The inverse of :meth:`to_json`."""
        return GemmTile(**knobs)


def default_tile(isa: Isa, dtype: str = "float32", n: int | None = None) -> GemmTile:
    """A good tile for accumulators of ``dtype``, derived from the register file.

    A near-square tile in units of registers needs the fewest loads per multiply-add: 9 x 3
    vectors with 32 registers, 6 x 2 with 16; one register holds A, one row of them B. If the
    number of columns ``n`` is known and small, the width that leaves no narrow panel is taken.
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
