"""Sizes of an attention kernel: its blocks, and the layout of a task's scratch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from tvm import tirx

from tvm_disc.graph.attention import Attention
from tvm_disc.schedules.gemm.macro_kernel import GemmTile, Isa, default_tile
from tvm_disc.schedules.gemm.partition import cdiv, div, known, least, most
from tvm_disc.schedules.group import Body
from tvm_disc.tir.builder import i64
from tvm_disc.typing import Expr, Size

LINE_BYTES = 64
UNROLLED_VECTORS = 4
# Algorithms: keys are packed for register tiles, or inner products read them in place.
KEYS_PACKED, KEYS_IN_PLACE = 0, 1

# Maps an item to a function that maps a row of the item to its index in the masked scores, without
# the last axis.
RowsOfItem: TypeAlias = Callable[[Expr], Callable[[Expr], list[Expr]]]


@dataclass(frozen=True)
class AttentionTile:
    """Knobs of the attention template.

    ``scores`` and ``values`` are the register tiles of the two matmuls. A task has up to
    ``queries`` rows. Rows of more than ``keys`` scores are divided into nearly equal blocks. Keys
    that are read in place are prefetched ``ahead`` keys before they are used.
    """

    scores: GemmTile
    values: GemmTile
    queries: int = 36
    keys: int = 1024
    ahead: int = 128

    @property
    def lanes(self) -> int:
        """Return the number of elements of a vector."""
        return self.scores.lanes


def attention_tile(isa: Isa, dtype: str, width: Size) -> AttentionTile:
    """Return the default tile for values of ``width`` elements."""
    literal = known(width)
    values = default_tile(isa, dtype, literal if isinstance(literal, int) else None)
    return AttentionTile(default_tile(isa, dtype), values)


@dataclass(frozen=True)
class AttentionSpec:
    """The dims and options of an attention.

    It is ``batch`` chains of matmuls ``[m, depth] x [depth, n] x [n, width]``.

    With ``values_in_place``, the body has code that reads values in place, and selects it at run
    time. With ``staged``, keys are computed row by row into a buffer before they are packed. An
    item of the batch consists of ``shared`` heads with ``m`` rows in all, which use the same keys
    and values. ``scaled`` is a pair of flags, for keys and for values: whether they are
    quantized, with one scale per row.
    """

    batch: Size
    m: Size
    n: Size
    depth: Size
    width: Size
    dtype: str
    staged: bool = False
    shared: int = 1
    values_in_place: bool = False
    scaled: tuple[bool, bool] = (False, False)

    @property
    def queries(self) -> Size:
        """Return the number of queries of one head."""
        return self.m if self.shared == 1 else div(self.m, self.shared)


def _units(spec: AttentionSpec, tile: AttentionTile) -> tuple[Size, Size]:
    """Return (units of an item, rows of a unit).

    A unit is a head if heads have many queries, otherwise it is the item.
    """
    queries, shared = known(spec.queries), spec.shared
    if shared == 1:
        return 1, known(spec.m)
    if isinstance(queries, int):
        return (shared, queries) if 2 * queries > tile.queries else (1, known(spec.m))
    apart = i64(queries) * 2 > tile.queries
    pairs = ((i64(shared), i64(1)), (i64(queries), i64(spec.m)))
    units, rows = (tirx.Select(apart, *pair) for pair in pairs)
    return units, rows


class AttentionSizes:
    """The block sizes, and the scratch offsets in elements; ``bind`` binds a non-constant size."""

    def __init__(
        self,
        spec: AttentionSpec,
        tile: AttentionTile,
        bind: Callable[[str, Size], Size] = lambda _name, value: value,
    ) -> None:
        self.m, self.n = m, n = known(spec.m), known(spec.n)
        self.depth, self.width = known(spec.depth), known(spec.width)
        self.line = max(1, LINE_BYTES // np.dtype(spec.dtype).itemsize)
        self.k_columns = k_r = tile.scores.n_r
        v_r = tile.values.n_r
        # A block contains rows of one unit. With a causal mask, the first queries of a head see the
        # fewest keys, so a block across two heads would skip fewer masked keys.
        self.units, rows_of_unit = _units(spec, tile)
        self.unit = bind("unit", rows_of_unit)
        self.q_each = bind("q_each", cdiv(self.unit, tile.queries))
        self.single = isinstance(self.units, int) and self.units == 1
        self.q_blocks = self.q_each if self.single else bind("q_blocks", self.q_each * self.units)
        self.q_base = bind("q_base", div(self.unit, most(self.q_each, 1)))
        self.q_extra = bind("q_extra", self.unit - self.q_base * self.q_each)
        turns = most(cdiv(n, tile.keys), 1)
        self.keys = bind("keys_block", cdiv(cdiv(n, turns), k_r) * k_r)
        self.k_blocks = bind("k_blocks", most(cdiv(n, most(self.keys, 1)), 1))
        self.k_panels = bind("k_panels", cdiv(n, k_r))
        self.v_panels = bind("v_panels", cdiv(self.width, v_r))
        self.q_row = bind("q_row", self._odd_lines(self.depth))
        self.s_row = bind("s_row", self._odd_lines(self.keys))
        self.o_row = bind("o_row", self.v_panels * v_r)

        rows = least(m, tile.queries)
        self.k_at = 0
        self.v_at = bind("v_at", self.k_panels * k_r * self.depth)
        self.q_at = bind("q_at", self.v_at + self._lines(self.v_panels * v_r * n))
        self.s_at = bind("s_at", self.q_at + rows * self.q_row)
        self.o_at = bind("o_at", self.s_at + rows * self.s_row)
        self.max_at = bind("max_at", self.o_at + rows * self.o_row)
        self.sum_at = bind("sum_at", self.max_at + self._lines(rows))
        self.bound_at = bind("bound_at", self.sum_at + self._lines(rows))
        self.stage_at = bind("stage_at", self.bound_at + self.line)
        stage = tile.lanes * self.q_row if spec.staged else 0
        end = self._lines(self.stage_at + stage)
        # Factors of keys, then those of values, each padded by one vector.
        self.k_factors_at = bind("k_factors_at", end) if spec.scaled[0] else end
        end = end + self._lines(n + tile.lanes) if spec.scaled[0] else end
        self.v_factors_at = bind("v_factors_at", end) if spec.scaled[1] else end
        end = end + self._lines(n + tile.lanes) if spec.scaled[1] else end
        # One more cache line, since vectors may be read or written past the last element.
        self.elems = end + self.line

    def block(self, number: Size, bind: Callable[[str, Size], Size]) -> tuple[Size, Size]:
        """Return (first, number of rows) of a block of rows of an item."""
        unit: Size = 0
        if not self.single:
            unit = bind("head", div(number, most(self.q_each, 1)))
            number = bind("own", number - unit * self.q_each)
        first = unit * self.unit + number * self.q_base + least(number, self.q_extra)
        more = tirx.Select(i64(number) < self.q_extra, i64(1), i64(0))
        return bind("i0", first), bind("rows", self.q_base + more)

    def _lines(self, elems: Size) -> Size:
        return cdiv(elems, self.line) * self.line

    def _odd_lines(self, elems: Size) -> Size:
        """Return ``elems`` rounded up to an odd number of cache lines.

        Adjacent rows then use different cache sets.
        """
        return (div(cdiv(elems, self.line), 2) * 2 + 1) * self.line

    def tasks(self, batch: Size) -> Size:
        """Return the number of independent tasks."""
        return batch * self.q_blocks


@dataclass
class AttentionEmitter:
    """Base class of the classes that emit the parts of one attention body."""

    spec: AttentionSpec
    tile: AttentionTile
    found: Attention
    body: Body
    sizes: AttentionSizes
    row_of: RowsOfItem

    def __post_init__(self) -> None:
        assert self.body.scratch is not None
        self.low, self.b, self.scratch = self.body.low, self.body.block, self.body.scratch
        self.dtype, self.lanes = self.spec.dtype, self.tile.lanes
        self.wide = self.lanes * UNROLLED_VECTORS
