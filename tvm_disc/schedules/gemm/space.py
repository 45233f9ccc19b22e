"""The variants of a GEMM: which tiles are worth trying (their times: :mod:`gemm_cost`)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tvm_disc.schedules.dispatch.variant import Knobs
from tvm_disc.schedules.gemm.tile import GemmTile, default_tile
from tvm_disc.target.isa import Isa

FINE_BLOCKS, FINE_PANELS = 4, 2  # a smaller task: more of them for the threads


@dataclass(frozen=True)
class GemmKnobs(Knobs):
    """The knobs of :class:`GemmTile` that variants differ in."""

    m_r: int
    n_r: int
    kc: int
    m_blocks: int
    n_panels: int
    pack_rows: int

    @staticmethod
    def of(tile: GemmTile) -> GemmKnobs:
        """The knobs of a tile."""
        return GemmKnobs(tile.m_r, tile.n_r, tile.kc, tile.m_blocks, tile.n_panels, tile.pack_rows)


def tiles(isa: Isa, dtype: str, n: int | None) -> list[GemmTile]:
    """Tiles worth trying, the default first; all fit the register file."""
    default = default_tile(isa, dtype, n)
    found = [default]
    for vectors in (2, 3, 4):
        rows = min(14, (isa.registers - vectors - 1) // vectors)
        if rows >= 2 and (n is None or vectors * default.lanes < n + default.lanes):
            found.append(replace(default, m_r=rows, n_r=vectors * default.lanes))
    fine = [replace(t, m_blocks=FINE_BLOCKS, n_panels=FINE_PANELS) for t in found]
    return list(dict.fromkeys([*found, *fine]))


def doubt(tile: GemmTile, default: GemmTile, packed: bool) -> float:
    """How much better than the default the model must find a tile before it is believed.

    The default was chosen by measuring whole products with ``packed`` weights, whose layout
    follows it; the model knows less than that.
    """
    if tile == default:
        return 1.0
    return 1.4 if packed and tile.n_r != default.n_r else 1.02
