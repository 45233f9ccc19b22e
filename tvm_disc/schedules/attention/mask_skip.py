"""Run-time search for keys that are masked for a whole block of queries.

For any mask (causal, padding, window), no scores are computed for the keys before the first and
after the last key that is unmasked for some query of the block. The *chain* is the element-wise
operators between the scores and the softmax. The two keys are found by evaluating the chain with
zeros as scores, from both ends inwards, one vector of keys at a time.

A key is skipped only if its weight is provably zero. ``spread`` bounds the change of the chain's
value per change of a score. Scores of magnitude at most ``B`` therefore change the value by at most
``spread B``, where ``B = depth max|Q| max|K|``. If the chain's value of a key is far enough
below that of an unmasked key of the same query, the weight is at most exp(-750), which is 0 in
float32 and float64. ``B`` and V must be finite. If there is a NaN or an infinity, or a query whose
keys are all masked, every key is computed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import tirx

from tvm_disc.graph.attention import Attention
from tvm_disc.graph.core_ops import OpClass
from tvm_disc.graph.nodes import Node, static_dim
from tvm_disc.schedules.attention.sizes import AttentionEmitter
from tvm_disc.schedules.gemm.micro_kernel import bind_opaque, splat, vload
from tvm_disc.schedules.gemm.partition import cdiv, div, least
from tvm_disc.schedules.math.language import FORMATS
from tvm_disc.schedules.rows.accumulate import fold
from tvm_disc.tir.builder import const, i64, lane_index, ramp, with_lanes
from tvm_disc.typing import Buffer, Expr, Size

FEWEST_KEYS = 128  # with fewer keys, the search costs more than it saves
FEWEST_QUERIES = 8
SEEN = 128.0  # a key counts as unmasked if its mask value is at least -SEEN
FAR = 2000.0  # only keys below -FAR are skipped; FAR is much larger than SEEN + 750

_SUM, _EITHER = ("relax.add", "relax.subtract"), ("relax.maximum", "relax.minimum")
_SCALING = ("relax.multiply", "relax.divide")


def spread(found: Attention) -> float | None:
    """Return the largest change of the chain's value per change of a score, or None if unknown.

    Also returns None if the chain adds or selects no tensor, since it then masks no key.
    """
    factors: dict[Node, float] = {found.scores: 1.0}
    hides = False
    for node in found.chain:
        own = [factors[x] for x in node.inputs if x in factors]
        rest = [x for x in node.inputs if x not in factors]
        if node.cls is OpClass.VIEW:
            factors[node] = own[0]
        elif node.op in _SUM:
            factors[node] = sum(own)
        elif node.op in _EITHER or (node.op == "relax.where" and node.inputs[0] in rest):
            factors[node] = max(own)
        elif node.op in _SCALING and len(rest) == 1 and (size := _size_of(rest[0])):
            if node.op == "relax.divide" and node.inputs[0] is rest[0]:
                return None
            factors[node] = own[0] * size if node.op == "relax.multiply" else own[0] / size
        else:
            return None
        hides = hides or (node.op not in _SCALING and any(not x.is_scalar_const for x in rest))
    return factors.get(found.masked) if hides else None


def same_rows(found: Attention, shared: int = 1) -> bool:
    """Return whether the mask is the same for all rows of an item of ``shared`` heads."""
    rest = [x for n in found.chain for x in n.inputs if x not in (found.scores, *found.chain)]
    axes = (-2,) if shared == 1 else (-2, -3)
    return all(len(x.shape) < -a or static_dim(x.shape[a]) == 1 for x in rest for a in axes)


def _size_of(node: Node) -> float:
    """Return the magnitude of a scalar constant; 0 if it is not a constant, or infinite."""
    if not node.is_scalar_const or node.value is None:
        return 0.0
    size = abs(float(node.value.item()))
    return size if np.isfinite(size) else 0.0


@dataclass
class HiddenKeys(AttentionEmitter):
    """Emits the search for masked keys.

    ``item`` emits code that runs once per batch item, after K and V are copied; ``span`` emits code
    that runs for each block of queries.
    """

    factor: float  # the result of ``spread``
    inner: bool | Expr  # whether keys are read in place

    def __post_init__(self) -> None:
        super().__post_init__()
        self.same_rows = same_rows(self.found, self.spec.shared)

    @property
    def worth(self) -> Expr:
        """Return the condition under which the search saves more than it costs."""
        enough = (i64(self.sizes.n) >= FEWEST_KEYS, i64(self.spec.queries) >= FEWEST_QUERIES)
        # max|K| is computed from the packed panels; keys that are read in place have no panels.
        return tirx.all(*enough) if self.inner is False else tirx.all(*enough, tirx.Not(self.inner))

    # -- magnitudes ----------------------------------------------------------------------------

    def item(self) -> None:
        """Emit code that stores ``spread depth max|K|``, or infinity if V is not finite.

        If keys are integers with one factor per row, max|K| is bounded by the product of the
        largest integer and the largest factor.
        """
        b, z = self.b, self.sizes
        with b.when(self.worth), self.low.scope():
            cells = self._cells()
            self._panels(cells, (z.k_at, z.depth, z.n), self.tile.scores.n_r)
            keys = self._times_factors(self._largest(cells), 0, z.k_factors_at)
            cells = self._cells()
            self._panels(cells, (z.v_at, z.n, z.width), self.tile.values.n_r)
            values = self._times_factors(self._largest(cells), 1, z.v_factors_at)
            depth = tirx.Cast(self.dtype, i64(z.depth)) * const(self.factor, self.dtype)
            infinity = tirx.FloatImm(self.dtype, float("inf"))
            bound = tirx.if_then_else(values < infinity, keys * depth, infinity)
            b.store(self.scratch, z.bound_at, bound)

    def _times_factors(self, largest: Expr, operand: int, factors_at: Size) -> Expr:
        if not self.spec.scaled[operand]:
            return largest
        cells = self._cells()
        self._panels(cells, (factors_at, 1, self.sizes.n), self.lanes)
        return self.b.bind("largest", largest * self._largest(cells))

    def _cells(self) -> Buffer:
        whole = FORMATS[self.dtype].int_name
        cells = self.b.alloc("bits", self.lanes, whole)
        self.b.store(cells, lane_index(self.lanes), splat(const(0, whole), self.lanes))
        return cells

    def _widen(self, cells: Buffer, at: Expr) -> None:
        """Emit an update of the running maxima of magnitudes by the vector at ``at``.

        The bits of magnitudes are compared as integers: they have the same order, and NaN is
        largest.
        """
        x, lane = vload(self.scratch, at, self.lanes), lane_index(self.lanes)
        whole = with_lanes(FORMATS[self.dtype].int_name, x)
        largest = np.iinfo(FORMATS[self.dtype].int_name).max
        bits = tirx.reinterpret(whole, x) & const(int(largest), whole)
        self.b.store(cells, lane, tirx.max(cells[lane], bits))

    def _panels(self, cells: Buffer, panels: tuple[Size, Size, Size], n_r: int) -> None:
        """Emit the maximum over panels of ``rows x n_r``; the last panel may be narrower.

        ``panels`` is (offset of the first panel, rows, columns of all panels).
        """
        b, low = self.b, self.low
        at, rows, columns = panels
        whole = bind_opaque(b, "whole", div(i64(columns), n_r) * i64(rows) * (n_r // self.lanes))
        with low.loop("v", whole) as v:
            self._widen(cells, i64(at) + v * self.lanes)
        done = bind_opaque(b, "done", i64(at) + whole * self.lanes)
        left = bind_opaque(b, "left", columns - div(i64(columns), n_r) * n_r)
        with low.loop("r", rows) as r, low.loop("v", cdiv(left, self.lanes)) as v:
            self._widen(cells, done + r * n_r + v * self.lanes)

    def _largest(self, cells: Buffer) -> Expr:
        bits = fold(self.b, cells, self.lanes, tirx.max)
        return self.b.bind("largest", tirx.reinterpret(self.dtype, bits))

    # -- the search ----------------------------------------------------------------------------

    def span(self, g: Size, i0: Size, rows: Size) -> tuple[Expr, Expr]:
        """Return (first, end) of the keys to compute for queries ``[i0, i0 + rows)``.

        The first key is the first of a panel.
        """
        b, z, low = self.b, self.sizes, self.low
        ends = b.alloc("ends", 2, "int64")
        b.store(ends, 0, i64(0))
        b.store(ends, 1, i64(z.n))
        with b.when(self.worth), low.scope():
            cells = self._cells()
            with low.loop("r", rows) as r, low.loop("v", cdiv(z.depth, self.lanes)) as v:
                self._widen(cells, z.q_at + r * z.q_row + v * self.lanes)
            moved = b.bind("moved", self._largest(cells) * self.scratch[i64(z.bound_at)])
            four, far = const(4.0, self.dtype), const(-FAR, self.dtype)
            hidden = b.bind("hidden", far - four * moved)
            self._search(g, (i0, rows), hidden, ends)
        n_r = self.tile.scores.n_r
        begin = bind_opaque(b, "begin", div(ends[i64(0)], n_r) * n_r)
        return begin, bind_opaque(b, "end", ends[i64(1)])

    def _search(self, g: Size, queries: tuple[Size, Size], hidden: Expr, ends: Buffer) -> None:
        b, low, n = self.b, self.low, i64(self.sizes.n)
        i0, rows = queries
        row_at = self.row_of(i64(g))
        begin, end, unseen = (b.alloc(name, 1, "int64") for name in ("first", "last", "unseen"))
        for cell, value in ((begin, n), (end, i64(0)), (unseen, i64(0))):
            b.store(cell, 0, value)
        hide = splat(hidden, self.wide)
        seen = splat(const(-SEEN, self.dtype), self.wide)
        yes, no = (splat(const(k, self.dtype), self.wide) for k in (1, 0))
        with low.loop("r", i64(1) if self.same_rows else rows) as r:
            row = row_at(bind_opaque(b, "i", i0 + r))
            kept = lambda x: tirx.Select(x < hide, no, yes)  # noqa: E731  (NaN is kept)
            pos, going = self._walk(row, n, -1, lambda at: at > end[i64(0)], kept)
            with b.when(going[i64(0)] <= 0):
                b.store(end, 0, pos[i64(0)])
            pos, going = self._walk(row, i64(0), 1, lambda at: at < begin[i64(0)], kept)
            with b.when(going[i64(0)] <= 0):
                b.store(begin, 0, pos[i64(0)])
            is_seen = lambda x: tirx.Select(x >= seen, yes, no)  # noqa: E731
            pos, going = self._walk(row, begin[i64(0)], 1, lambda at: at < n, is_seen)
            with b.when(going[i64(0)] > 0):
                b.store(unseen, 0, i64(1))
        with b.when(unseen[i64(0)] <= 0):
            b.store(ends, 0, begin[i64(0)])
            b.store(ends, 1, least(end[i64(0)], n))

    def _walk(
        self, row: list[Expr], start: Expr, step: int, more: Any, test: Any
    ) -> tuple[Buffer, Buffer]:
        """Emit a search from ``start`` for the first vector with a key that passes ``test``.

        Return cells with its position, and with 1 if no vector was found. In a backward search, the
        position is the end of the vector.
        """
        b, low, wide = self.b, self.low, self.wide
        pos, going = b.alloc("pos", 1, "int64"), b.alloc("going", 1, "int64")
        b.store(pos, 0, start)
        b.store(going, 0, i64(1))
        here = pos[i64(0)]
        with b.loop_while(tirx.all(going[i64(0)] > 0, more(here))), low.scope():
            # A vector that crosses an end is shifted inside; a vector has fewer lanes than keys.
            inside = tirx.max(here - wide, i64(0)) if step < 0 else least(here, self.sizes.n - wide)
            j = bind_opaque(b, "j", inside)
            zero = splat(const(0, self.dtype), wide)
            low.bind_reader(self.found.scores, lambda _index: zero)
            value = low.at(self.found.masked, [*row, ramp(j, wide)])
            low.drop_reader(self.found.scores)
            cells = b.alloc("holds", wide, self.dtype)
            b.store(cells, lane_index(wide), test(low.settle("masked", value)))
            with b.when(fold(b, cells, wide, tirx.max) > const(0, self.dtype)):
                b.store(going, 0, i64(0))
            with b.otherwise():
                b.store(pos, 0, here + step * wide)
        return pos, going


__all__ = ["HiddenKeys", "same_rows", "spread"]
