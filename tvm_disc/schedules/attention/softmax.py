"""Softmax of a block of scores: the element-wise chain, a running maximum, a running sum."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tvm import tirx

from tvm_disc.schedules.attention.sizes import AttentionEmitter
from tvm_disc.schedules.elements import cast
from tvm_disc.schedules.gemm.micro_kernel import bind_opaque, splat, vload, vstore
from tvm_disc.schedules.gemm.partition import div
from tvm_disc.schedules.math.language import FORMATS
from tvm_disc.schedules.rows.accumulate import fold
from tvm_disc.tir.builder import (
    Block,
    const,
    dtype_of,
    first_lanes,
    i64,
    is_nan,
    lane_index,
    lanes_of,
    ramp,
    with_lanes,
)
from tvm_disc.tir.llvm_ops import difference
from tvm_disc.typing import Buffer, Expr, Size

# 2^f - 1 = f * P(f) for |f| <= 1/2, with an error below 1e-7 relative to 2^f. For float64, P is the
# Taylor series.
_POWER_F32 = (
    0.6931470036506653,
    0.24022242426872253,
    0.05550733581185341,
    0.009671512991189957,
    0.001326472731307149,
)
_POWER_F64 = tuple(math.log(2) ** k / math.factorial(k) for k in range(1, 14))
LOG2_E = math.log2(math.e)


def weight(b: Block, x: Expr, shift: Expr, dtype: str) -> Expr:
    """Return ``exp(x - shift)`` for ``x <= shift`` or NaN; results below the normal range are 0."""
    fmt, lanes = FORMATS[dtype], lanes_of(x)
    real, whole = with_lanes(dtype, x), with_lanes(fmt.int_name, x)

    def c(value: float) -> Expr:
        return const(value, real)

    def fma(u: Expr, v: Expr, w: Expr) -> Expr:
        return tirx.call_intrin(real, "tirx.fma", u, v, w)

    # With the constant first, the maximum propagates NaN.
    lowest = c((fmt.min_exp + 1) * math.log(2))
    below = b.bind("below", difference(x, splat(shift, lanes)))
    d = b.bind("d", tirx.max(lowest, below))
    # Adding 1.5 * 2^mantissa puts the nearest integer in the low bits.
    magic = c(1.5 * 2.0**fmt.mantissa)
    rounded = b.bind("rounded", fma(d, c(LOG2_E), magic))
    f = b.bind("f", fma(d, c(LOG2_E), b.bind("n", magic - rounded)))
    terms = _POWER_F32 if dtype == "float32" else _POWER_F64
    p = c(terms[-1])
    for term in (*reversed(terms[:-1]), 1.0):
        p = fma(p, f, c(term))
    high = tirx.shift_left(tirx.reinterpret(whole, rounded), const(fmt.mantissa, whole))
    value = tirx.reinterpret(real, tirx.reinterpret(whole, b.bind("p", p)) + high)
    return b.bind("p", tirx.Select(below < lowest, c(0.0), value))


class SoftmaxRows(AttentionEmitter):
    """Emits the softmax of rows of scores in scratch.

    The values of a row become ``exp(x - max)`` without division: the sums are stored separately,
    and the result of the attention is divided instead. If all keys so far are masked with minus
    infinity, 0 is used instead of the maximum, which avoids NaN if later keys are not masked. A row
    whose keys are all masked becomes 0 / 0.

    If the attention has a guard that replaces NaN by zero, NaN weights are stored as zeros, while
    their sum stays NaN. All weights in such a row are NaN, and its result is multiplied by zero at
    the end.
    """

    def emit(self, g: Size, queries: tuple[Size, Size], block: tuple[Size, Size, Size]) -> None:
        """Emit the softmax of rows for one block of keys, and update the rows' maximum and sum.

        Sums and results of earlier blocks of keys are rescaled to the new maximum.

        Args:
            g: the batch item.
            queries: (first, number) of the rows.
            block: (number of the block, first key, number of keys).
        """
        b, low, z = self.b, self.low, self.sizes
        i0, rows = queries
        kb, k0, keys = block
        scratch = self.scratch
        row_at = self.row_of(i64(g))
        with low.loop("r", rows) as r:
            row = bind_opaque(b, "row", z.s_at + r * z.s_row)
            i = bind_opaque(b, "i", i0 + r)
            peak = self._first_pass(row, row_at(i), k0, keys)
            first = tirx.EQ(i64(kb), i64(0))
            lowest = tirx.FloatImm(self.dtype, float("-inf"))
            before = b.bind("before", tirx.if_then_else(first, lowest, scratch[z.max_at + r]))
            peak = b.bind("peak", tirx.max(before, peak))
            b.store(scratch, z.max_at + r, peak)
            zero = const(0, self.dtype)
            shift = b.bind("shift", tirx.if_then_else(peak > lowest, peak, zero))
            total = self._second_pass(row, shift, k0, keys)
            with b.when(first):
                b.store(scratch, z.sum_at + r, total)
            with b.otherwise():
                factor = b.bind("factor", weight(b, before, shift, self.dtype))
                b.store(scratch, z.sum_at + r, scratch[z.sum_at + r] * factor + total)
                factor = b.bind("factor", self._number(factor))
                at = bind_opaque(b, "o", z.o_at + r * z.o_row)
                with b.loop("v", div(z.o_row, self.lanes)) as v:
                    old = vload(scratch, at + v * self.lanes, self.lanes)
                    vstore(
                        b, scratch, at + v * self.lanes, self.lanes, old * splat(factor, self.lanes)
                    )

    def _spans(self, keys: Size, step: Any) -> None:
        """Emit ``step(offset, width, mask)`` for each vector of a row.

        Unrolled steps of several vectors come first, then single masked vectors.
        """
        b, low = self.b, self.low
        blocks = bind_opaque(b, "blocks", div(keys, self.wide))
        with low.loop("jo", blocks) as jo:
            step(bind_opaque(b, "at", jo * self.wide), self.wide, None)
        done = bind_opaque(b, "done", blocks * self.wide)
        rest = bind_opaque(b, "rest", div(keys - done + (self.lanes - 1), self.lanes))
        with low.loop("jt", rest) as jt:
            at = bind_opaque(b, "at", done + jt * self.lanes)
            mask = first_lanes(b.bind("left", keys - at), self.lanes)
            with low.masked(mask):
                step(at, self.lanes, mask)

    def _first_pass(self, row: Expr, outer: Sequence[Expr], k0: Size, keys: Size) -> Expr:
        """Emit the chain over a row of scores and store its values; return their maximum."""
        b, low, found = self.b, self.low, self.found
        scratch, dtype = self.scratch, self.dtype
        lowest = tirx.FloatImm(dtype, float("-inf"))
        cells = {w: self._cells("peaks", w, lowest) for w in (self.wide, self.lanes)}

        def step(at: Expr, width: int, mask: Expr) -> None:
            scores = vload(scratch, row + at, width)
            if self.spec.scaled[0]:
                scores = scores * self._factors(self.sizes.k_factors_at, k0 + at, width)
            scores = b.bind("scores", scores)
            rounded = b.bind("rounded", cast(scores, found.scores.dtype))
            low.bind_reader(found.scores, lambda _index: rounded)
            value = scores
            if found.masked is not found.scores:
                value = low.at(found.masked, [*outer, ramp(bind_opaque(b, "j", k0 + at), width)])
                value = cast(value, dtype)
            low.drop_reader(found.scores)
            if mask is not None:
                value = b.bind("value", tirx.Select(mask, value, splat(lowest, width)))
            if value is not scores or self.spec.scaled[0]:
                vstore(b, scratch, row + at, width, value)
            acc, lane = cells[width], lane_index(width)
            b.store(acc, lane, tirx.max(acc[lane], value))

        self._spans(keys, step)
        return self._fold(cells, tirx.max)

    def _factors(self, factors_at: Size, key: Expr, width: int) -> Expr:
        return vload(self.scratch, bind_opaque(self.b, "factors_at", factors_at + key), width)

    def _second_pass(self, row: Expr, shift: Expr, k0: Size, keys: Size) -> Expr:
        """Emit the exponentials of a row, and return their sum.

        If V has factors, the stored exponentials are multiplied by them; the sum is not.
        """
        b, scratch, dtype = self.b, self.scratch, self.dtype
        zero = const(0, dtype)
        cells = {w: self._cells("sums", w, zero) for w in (self.wide, self.lanes)}

        def step(at: Expr, width: int, mask: Expr) -> None:
            x = b.bind("x", vload(scratch, row + at, width))
            value = weight(b, x, shift, dtype)
            if mask is not None:
                value = b.bind("p", tirx.Select(mask, value, splat(zero, width)))
            kept = self._number(value)
            if self.spec.scaled[1]:
                kept = kept * self._factors(self.sizes.v_factors_at, k0 + at, width)
            vstore(b, scratch, row + at, width, kept)
            acc, lane = cells[width], lane_index(width)
            b.store(acc, lane, acc[lane] + value)

        self._spans(keys, step)
        return self._fold(cells, lambda x, y: x + y)

    def _number(self, value: Expr) -> Expr:
        """Return ``value`` with NaN replaced by zero if the attention has a guard against NaN."""
        if not self.found.guard:
            return value
        return tirx.Select(is_nan(value), const(0, dtype_of(value)), value)

    def _cells(self, name: str, width: int, value: Expr) -> Buffer:
        cells = self.b.alloc(name, width, self.dtype)
        self.b.store(cells, lane_index(width), splat(value, width))
        return cells

    def _fold(self, cells: dict[int, Any], combine: Any) -> Expr:
        b, wide, narrow = self.b, cells[self.wide], cells[self.lanes]
        parts = [wide[ramp(i64(k), self.lanes)] for k in range(0, self.wide, self.lanes)]
        while len(parts) > 1:
            parts = [combine(x, y) for x, y in zip(parts[::2], parts[1::2], strict=True)]
        lane = lane_index(self.lanes)
        b.store(narrow, lane, combine(narrow[lane], parts[0]))
        return b.bind("folded", fold(b, narrow, self.lanes, combine))
