"""GEMM variants: the register tiles and the algorithms worth trying.

:mod:`.cost` predicts their times.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from tvm import tirx

from tvm_disc.schedules.dispatch.cost_model import CostModel
from tvm_disc.schedules.dispatch.variant import AT_BUILD, IN_CALL, IN_PLACE, Knobs, Need, Read
from tvm_disc.schedules.gemm.algorithm import BY_ROWS, PANELS, TILES, Algorithm, Selection
from tvm_disc.schedules.gemm.inner import fitting_tiles
from tvm_disc.schedules.gemm.narrow import widths
from tvm_disc.schedules.gemm.outer import MOST_STEPS, step_counts
from tvm_disc.schedules.gemm.partition import (
    GemmSpec,
    copies_a,
    has_close_rows,
    in_place_operands,
    is_one,
    known,
    may_copy_rows,
    may_leave_columns,
    may_stride,
    never_packs_b,
    reads_masked,
    stores_direct,
)
from tvm_disc.schedules.gemm.tile import GemmTile, default_tile, rounded_tile
from tvm_disc.target.isa import Isa
from tvm_disc.tir.builder import i64

FINE_BLOCKS, FINE_PANELS = 4, 2  # sizes of smaller tasks, for more parallelism
AT_ONCE_ROWS, AT_ONCE_PANELS = 3, 2  # largest number of tiles of an item that is computed at once


_Offer: TypeAlias = tuple[Algorithm, tuple[Need, ...]]


@dataclass(frozen=True)
class GemmKnobs(Knobs):
    """The fields of :class:`GemmTile` in which variants differ, and the algorithm."""

    m_r: int
    n_r: int
    kc: int
    m_blocks: int
    n_panels: int
    algorithm: str

    @staticmethod
    def of(tile: GemmTile, selection: Selection = PANELS) -> GemmKnobs:
        """Return the knobs of a tile and of one algorithm."""
        number = int(selection.number)
        text = Algorithm(number % BY_ROWS).text + (" by rows" if number >= BY_ROWS else "")
        return GemmKnobs(tile.m_r, tile.n_r, tile.kc, tile.m_blocks, tile.n_panels, text)

    def code(self) -> dict[str, Any]:
        """Return the knobs that change the generated code.

        The algorithm does not change it, because it is a run-time argument of the body.
        """
        return {k: v for k, v in self.to_json().items() if k != "algorithm"}


def tiles(isa: Isa, dtype: str, n: int | None) -> list[GemmTile]:
    """Return the candidate tiles, the default first. All of them fit the register file."""
    default = default_tile(isa, dtype, n)
    found = [default]
    for vectors in (2, 3, 4):
        rows = min(14, (isa.registers - vectors - 1) // vectors)
        if rows >= 2 and (n is None or vectors * default.lanes < n + default.lanes):
            found.append(replace(default, m_r=rows, n_r=vectors * default.lanes))
    return _with_fine(found)


def rounded_tiles(isa: Isa) -> list[GemmTile]:
    """Return the candidate tiles for rows that are rounded to int8, the default first."""
    tile = rounded_tile(isa)
    return _with_fine([tile, replace(tile, n_panels=tile.n_panels // 4)])


def _with_fine(found: list[GemmTile]) -> list[GemmTile]:
    fine = [replace(t, m_blocks=FINE_BLOCKS, n_panels=FINE_PANELS) for t in found]
    return list(dict.fromkeys([*found, *fine]))


def algorithms(
    spec: GemmSpec, tile: GemmTile, default: bool = True, threads: int = 1
) -> list[tuple[Selection, tuple[Need, ...]]]:
    """Return the algorithms of a body, each with its conditions; the first has none.

    Algorithms that do not use register tiles are returned for the ``default`` tile only, and tasks
    by rows only if there are several ``threads``.
    """
    found: list[_Offer] = [(a, ()) for a in _tile_algorithms(spec, tile)]
    rows = found if default else []
    if in_place_operands(spec, tile):
        if _may_run_at_once(spec, tile):
            found = [*found, (Algorithm.AT_ONCE, _at_once_needs(spec, tile))]
        if default:
            found = [*found, *_special(spec, tile)]
            rows = [(a, needs) for a, needs in found if a in (*TILES, Algorithm.OUTER)]
    by_rows = threads > 1 and is_one(known(spec.batch)) and _may_share_lines(spec)
    return [
        *((Selection.only(a), needs) for a, needs in found),
        *((Selection.only(a, by_rows=True), needs) for a, needs in rows if by_rows),
    ]


def _tile_algorithms(spec: GemmSpec, tile: GemmTile) -> list[Algorithm]:
    view = spec.b.affine
    if may_copy_rows(spec, tile):
        return [Algorithm.PANELS, Algorithm.COPIED]
    if spec.b.packed is not None or view is None or spec.dtype != spec.acc_dtype:
        return [Algorithm.PANELS]
    if is_one(view.stride):
        close = has_close_rows(spec, tile)
        return [Algorithm.IN_PLACE] if close else [Algorithm.PANELS, Algorithm.IN_PLACE]
    return [Algorithm.PANELS, *[Algorithm.LAST_APART] * may_leave_columns(spec, tile)]


def with_sums(tile: GemmTile, spec: GemmSpec, model: CostModel) -> GemmTile:
    """Return the tile with one more sum for one row if the cost model predicts a gain.

    Without it, one row loses ``stride_cycles`` per vector of B if :func:`may_stride`. With it, each
    vector of the result takes one more addition.
    """
    k = known(spec.k)
    gain = isinstance(k, int) and k * model.stride_cycles > model.fma_latency
    return replace(tile, more_sums=int(gain and may_stride(spec, tile)))


def _may_run_at_once(spec: GemmSpec, tile: GemmTile) -> bool:
    view = spec.b.affine
    assert view is not None
    whole = reads_masked(spec, tile) or isinstance(known(spec.n), int)
    return is_one(view.stride) and stores_direct(spec, tile) and whole


def _at_once_needs(spec: GemmSpec, tile: GemmTile) -> tuple[Need, ...]:
    rows = 1 if isinstance(known(spec.m), int) else min(AT_ONCE_ROWS, tile.m_blocks)
    most = (rows * tile.m_r, tile.n_r * min(AT_ONCE_PANELS, tile.n_panels), tile.kc)
    sizes = zip("MNK", (spec.m, spec.n, spec.k), most, strict=True)
    return tuple(Need(f"{name} <= {end}", i64(size) <= end) for name, size, end in sizes)


def _special(spec: GemmSpec, tile: GemmTile) -> list[_Offer]:
    """Return the algorithms without register tiles, with their conditions.

    They require that both operands can be read in place.
    """
    m, n, k = (i64(x) for x in (spec.m, spec.n, spec.k))
    view = spec.b.affine
    found: list[_Offer] = []
    assert view is not None
    if is_one(view.stride):
        if stores_direct(spec, tile) and step_counts(known(spec.k)):
            few = Need(f"1 <= K <= {MOST_STEPS}", tirx.all(k >= 1, k <= MOST_STEPS))
            found.append((Algorithm.OUTER, (few,)))
        end = max(widths(tile.lanes))
        need = Need(f"1 <= N <= {end}", tirx.all(n >= 1, n <= end))
        found.append((Algorithm.SHARED_VECTORS, (need,)))
    elif is_one(view.k_stride):
        all_rows, all_columns = tile.m_r * tile.m_blocks, tile.n_r * tile.n_panels
        one_task = Need(f"M <= {all_rows}", m <= all_rows)
        fits = Need("M and N fill a tile of inner products", fitting_tiles(m, n, tile.lanes))
        found.append((Algorithm.INNER, (one_task, fits)))
        found.append((Algorithm.LINES, (Need(f"N <= {all_columns}", n <= all_columns),)))
    return found


def reads(
    spec: GemmSpec, tile: GemmTile, selection: Selection, operands: tuple[str, str]
) -> tuple[Read, ...]:
    """Return how the body of one algorithm reads A and B, which ``explain`` calls ``operands``."""
    a, b = operands
    copied = copies_a(spec) or selection.uses(Algorithm.COPIED)
    how = AT_BUILD if spec.a.packed is not None else IN_CALL if copied else IN_PLACE
    rows = Read(a, how)
    if spec.b.packed is not None:
        numbers = spec.quantized
        parts = {"scale": numbers.scale, "zero": numbers.zero} if numbers is not None else {}
        given = [f"{b} {name}" for name, part in parts.items() if part is not None]
        return rows, *(Read(name, AT_BUILD) for name in (b, *given))
    if selection.uses(Algorithm.PANELS, Algorithm.LAST_APART, Algorithm.SHARED_VECTORS):
        return rows, Read(b, IN_CALL)
    if not never_packs_b(spec, tile, selection):
        last = f"the last columns of {b}"
        return rows, Read(last, IN_CALL, "if they do not fill a vector"), Read(b, IN_PLACE)
    return rows, Read(b, IN_PLACE)


def _may_share_lines(spec: GemmSpec) -> bool:
    """Return whether rows of the result may end inside a cache line that two threads write."""
    n, itemsize = known(spec.n), max(1, tirx.const(0, spec.acc_dtype).ty.dtype.bits // 8)
    return not (isinstance(n, int) and n * itemsize % 64 == 0)


def doubt(tile: GemmTile, default: GemmTile, packed: bool) -> str:
    """Return the field of ``CostModel`` that is a factor on a tile's predicted time; "" if none is.

    The default tile was chosen by measuring whole matmuls with ``packed`` weights, whose layout
    depends on ``n_r``. The model is less accurate than those measurements, so another tile must
    beat the default by this factor.
    """
    if tile == default:
        return ""
    return "layout_doubt" if packed and tile.n_r != default.n_r else "tile_doubt"
