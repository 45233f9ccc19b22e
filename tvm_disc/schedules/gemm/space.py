"""GEMM variants: the register tiles worth trying. :mod:`.cost` predicts their times."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tvm_disc.schedules.dispatch.variant import Knobs
from tvm_disc.schedules.gemm.tile import GemmTile, default_tile
from tvm_disc.target.isa import Isa

FINE_BLOCKS, FINE_PANELS = 4, 2  # finer tasks, so that there are enough for all threads


@dataclass(frozen=True)
class GemmKnobs(Knobs):
    """The fields of :class:`GemmTile` in which variants differ."""

    m_r: int
    n_r: int
    kc: int
    m_blocks: int
    n_panels: int
    pack_rows: int

    @staticmethod
    def of(tile: GemmTile) -> GemmKnobs:
        """Return the knobs of a tile."""
        return GemmKnobs(tile.m_r, tile.n_r, tile.kc, tile.m_blocks, tile.n_panels, tile.pack_rows)


def tiles(isa: Isa, dtype: str, n: int | None) -> list[GemmTile]:
    """Return the candidate tiles, the default first. All of them fit the register file."""
    default = default_tile(isa, dtype, n)
    found = [default]
    for vectors in (2, 3, 4):
        rows = min(14, (isa.registers - vectors - 1) // vectors)
        if rows >= 2 and (n is None or vectors * default.lanes < n + default.lanes):
            found.append(replace(default, m_r=rows, n_r=vectors * default.lanes))
    fine = [replace(t, m_blocks=FINE_BLOCKS, n_panels=FINE_PANELS) for t in found]
    return list(dict.fromkeys([*found, *fine]))


def doubt(tile: GemmTile, default: GemmTile, packed: bool) -> float:
    """Return the factor by which a tile's predicted time is increased before comparison.

    The default tile was chosen by measuring whole matmuls with ``packed`` weights, whose layout
    depends on ``n_r``. The model is less accurate than those measurements, so another tile must
    beat the default by this factor.
    """
    if tile == default:
        return 1.0
    return 1.4 if packed and tile.n_r != default.n_r else 1.02
