"""The last steps of an attention: division by the sum of weights, and combination of parts.

A block that processes a part of the keys stores three things in scratch memory: its result before
the division, the maximum of its scores, and the sum of its weights. A second kernel combines the
parts (Dao et al., Flash-Decoding, 2023).
"""

from __future__ import annotations

from dataclasses import dataclass

from tvm import tirx

from tvm_disc.graph.attention import Attention
from tvm_disc.schedules.elements import cast
from tvm_disc.schedules.gemm.view import MatMulView
from tvm_disc.schedules.group import Body
from tvm_disc.schedules.loops.fallback import store_outputs
from tvm_disc.schedules.loops.reducers import accumulator
from tvm_disc.schedules.math.functions import MATH
from tvm_disc.tir.builder import const, i64
from tvm_disc.tir.index import add, mul
from tvm_disc.tir.llvm_ops import difference
from tvm_disc.typing import Expr


@dataclass(frozen=True)
class Core:
    """An attention, with the index maps of its two matmuls."""

    found: Attention
    scores: MatMulView
    values: MatMulView

    @property
    def dtype(self) -> str:
        """The dtype of scores, weights and sums."""
        return accumulator(self.found.result.dtype)

    @property
    def rows(self) -> Expr:
        """The number of queries in all batch items."""
        return mul(self.values.sizes[0], self.values.m)

    def scratch_elems(self, parts: int) -> Expr:
        """Return the number of elements of scratch memory for the results of ``parts`` parts."""
        return mul(mul(self.rows, add(i64(self.values.n), i64(2))), parts)


def shift_of(peak: Expr, dtype: str) -> Expr:
    """Return the value that is subtracted from scores; 0 if all scores are minus infinity."""
    lowest = const(float("-inf"), dtype)
    return tirx.Select(tirx.EQ(peak, lowest), const(0, dtype), peak)


def exponential(x: Expr, shift: Expr) -> Expr:
    """Return ``exp(x - shift)``."""
    return MATH["exp"](difference(x, shift))


def quotient(core: Core, result: Expr, total: Expr) -> Expr:
    """Return a result divided by the sum of weights; 0 if there are no keys.

    If the model replaces NaN weights by 0 (a guard), a row whose weights are all NaN is 0.
    """
    zero = const(0, core.dtype)
    value = result / total
    if core.found.guard:
        value = tirx.Select(total > zero, value, zero)
    return tirx.Select(i64(core.scores.n) > 0, value, zero)


def store_result(core: Core, body: Body, place: tuple[Expr, Expr, Expr], value: Expr) -> None:
    """Emit the operators after the attention at (g, i, column), and the stores of the results."""
    low, anchor = body.low, core.found.result
    settled = low.settle("total", cast(value, anchor.dtype))
    index = core.values.index(low, *place)
    store_outputs(core.values.group, body, anchor, settled, index, core.values.flat(*place))


def store_part(core: Core, body: Body, part: Expr, flat: Expr, value: Expr) -> None:
    """Emit the store of one element of a part's result, before the division."""
    assert body.scratch is not None
    size = mul(core.rows, core.values.n)
    body.block.store(body.scratch, part * size + flat, value)


def store_sums(
    core: Core, body: Body, parts: int, at: tuple[Expr, Expr], peak: Expr, total: Expr
) -> None:
    """Emit the stores of a row's maximum and sum of weights; ``at`` is (part, row)."""
    assert body.scratch is not None
    for k, value in enumerate((peak, total)):
        body.block.store(body.scratch, _sums(core, parts, k) + at[0] * core.rows + at[1], value)


def _sums(core: Core, parts: int, number: int) -> Expr:
    """Return the offset in scratch memory of the maxima (0) or the sums (1) of all parts."""
    return mul(mul(core.rows, add(i64(core.values.n), i64(number))), parts)


def combine_parts(core: Core, parts: int, body: Body) -> None:
    """Emit the computation of one element of the result from the results of the parts."""
    block, low, dtype = body.block, body.low, core.dtype
    scratch = body.scratch
    assert scratch is not None
    with low.scope():
        rows, width = block.bind("rows", core.rows), i64(core.values.n)
        row = block.bind("row", tirx.truncdiv(body.lo, width))
        peaks, sums = (block.bind(n, _sums(core, parts, k)) for k, n in enumerate(("at", "sums")))
        cells = {name: block.alloc(name, 1, dtype) for name in ("peak", "sum", "result")}
        block.store(cells["peak"], 0, const(float("-inf"), dtype))
        for name in ("sum", "result"):
            block.store(cells[name], 0, const(0, dtype))
        with low.loop("part", parts, kind="unrolled") as part:
            theirs = scratch[peaks + part * rows + row]
            block.store(cells["peak"], 0, tirx.max(cells["peak"][i64(0)], theirs))
        shift = block.bind("shift", shift_of(cells["peak"][i64(0)], dtype))
        with low.loop("part", parts, kind="unrolled") as part:
            factor = exponential(scratch[peaks + part * rows + row], shift)
            factor = block.bind("factor", factor)
            for name, at in (
                ("sum", sums + part * rows + row),
                ("result", part * (rows * width) + body.lo),
            ):
                block.store(cells[name], 0, cells[name][i64(0)] + factor * scratch[at])
        g = block.bind("g", tirx.truncdiv(row, i64(core.values.m)))
        place = (g, block.bind("i", row - g * core.values.m), body.lo - row * width)
        value = quotient(core, cells["result"][i64(0)], cells["sum"][i64(0)])
        store_result(core, body, place, value)


__all__ = [
    "Core",
    "combine_parts",
    "exponential",
    "quotient",
    "shift_of",
    "store_part",
    "store_result",
    "store_sums",
]
