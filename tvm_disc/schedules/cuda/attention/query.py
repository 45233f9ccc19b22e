"""Attention with a thread block per query, or several blocks that share its keys.

    for each 128 keys:
        every thread computes the score of one key
        maximum, sum and result are rescaled to the new maximum (Milakov & Gimelshein, 2018)
        every thread adds the keys' values to one column of the result

Scores are stored only in shared memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast as typed

from tvm import tirx

from tvm_disc.schedules.cuda.attention.parts import (
    Core,
    exponential,
    quotient,
    shift_of,
    store_part,
    store_result,
    store_sums,
)
from tvm_disc.schedules.cuda.block import DeviceBlock
from tvm_disc.schedules.cuda.reduce import fold
from tvm_disc.schedules.dispatch.variant import Knobs
from tvm_disc.schedules.elements import cast
from tvm_disc.schedules.kernel import Body
from tvm_disc.schedules.loops.reducers import REDUCERS
from tvm_disc.tir.builder import const, i64
from tvm_disc.tir.index import ceil_div
from tvm_disc.typing import Expr

THREADS = 128


@dataclass(frozen=True)
class QueryKnobs(Knobs):
    """Keys per step (one per thread), and blocks that share the keys of a query."""

    keys: int = THREADS
    parts: int = 1


def emit_query(core: Core, knobs: QueryKnobs, body: Body) -> None:
    """Emit the attention of one query, or of one query and a part of the keys."""
    block, low = typed(DeviceBlock, body.block), body.low
    scores, values, dtype, parts = core.scores, core.values, core.dtype, knobs.parts
    batch, m, n, _ = scores.sizes
    sizes = zip("bmnw", (batch, m, n, values.n), strict=True)
    batch, m, n, width = (block.bind(k, i64(x)) for k, x in sizes)
    item = block.bind("item", tirx.truncdiv(body.lo, m))
    i = block.bind("i", body.lo - item * m)
    g, part = item, i64(0)
    first, last = i64(0), n
    if parts > 1:
        part = block.bind("part", tirx.truncdiv(item, batch))
        g = block.bind("g", item - part * batch)
        share = block.bind("share", ceil_div(n, i64(parts)))
        first = block.bind("first", part * share)
        last = block.bind("last", tirx.min(first + share, n))
    weights = block.shared("weights", THREADS, dtype)
    cells = {name: block.alloc(name, 1, dtype) for name in ("peak", "sum", "result", "score")}
    lowest, zero = const(float("-inf"), dtype), const(0, dtype)

    # If a value has more columns than the block has threads, the result is computed in slices of
    # columns; scores are recomputed for each slice.
    with low.loop("slice", ceil_div(width, i64(THREADS))) as number:
        column = block.bind("column", number * THREADS + body.thread)
        for name, start in (("peak", lowest), ("sum", zero), ("result", zero)):
            block.store(cells[name], 0, start)
        with low.loop("c", ceil_div(tirx.max(last - first, i64(0)), i64(THREADS))) as c:
            k0 = block.bind("k0", first + c * THREADS)
            key = block.bind("key", k0 + body.thread)
            block.store(cells["score"], 0, lowest)
            with block.when(key < last), low.scope():
                block.store(cells["score"], 0, _score(core, body, (g, i, key)))
            mine = block.bind("score", cells["score"][i64(0)])
            larger = REDUCERS["relax.max"].combine
            top = fold(body, mine, larger, dtype, THREADS)
            before = block.bind("before", cells["peak"][i64(0)])
            peak = block.bind("peak", larger(before, top))
            shift = block.bind("shift", shift_of(peak, dtype))
            factor = block.bind("factor", exponential(before, shift))
            weight = block.bind("weight", exponential(mine, shift))
            weight = block.bind("weight", tirx.Select(key < last, weight, zero))
            block.store(weights, body.thread, weight)
            total = fold(body, weight, lambda x, y: x + y, dtype, THREADS)
            block.store(cells["peak"], 0, peak)
            block.store(cells["sum"], 0, cells["sum"][i64(0)] * factor + total)
            with block.when(column < width), low.scope():
                block.store(cells["result"], 0, cells["result"][i64(0)] * factor)
                count = block.bind("count", tirx.min(last - k0, i64(THREADS)))
                with low.loop("t", count) as t:
                    value = cast(values.b_at(low, g, k0 + t, column), dtype)
                    low.resolve([value])
                    block.store(cells["result"], 0, cells["result"][i64(0)] + weights[t] * value)
            block.barrier()
        with block.when(column < width), low.scope():
            result, total = (cells[name][i64(0)] for name in ("result", "sum"))
            if parts == 1:
                store_result(core, body, (g, i, column), quotient(core, result, total))
                return
            store_part(core, body, part, values.flat(g, i, column), result)
            with block.when(tirx.EQ(column, i64(0))):
                at = (part, g * m + i)
                store_sums(core, body, parts, at, cells["peak"][i64(0)], total)


def _score(core: Core, body: Body, at: tuple[Expr, Expr, Expr]) -> Expr:
    """Return one score, after the scales, biases and masks that follow the matmul."""
    block, low, found, view, dtype = body.block, body.low, core.found, core.scores, core.dtype
    g, i, j = at
    acc = block.alloc("dot", 1, dtype)
    block.store(acc, 0, const(0, dtype))
    with low.loop("d", i64(view.k)) as d:
        x, y = cast(view.a_at(low, g, i, d), dtype), cast(view.b_at(low, g, d, j), dtype)
        low.resolve([x, y])
        block.store(acc, 0, acc[i64(0)] + x * y)
    dot = low.settle("dot", cast(acc[i64(0)], found.scores.dtype))
    low.bind_reader(found.scores, lambda index: dot)
    try:
        lead = low.space.split(g, found.masked.shape[:-2])
        return low.settle("masked", cast(low.at(found.masked, [*lead, i, j]), dtype))
    finally:
        low.drop_reader(found.scores)


__all__ = ["THREADS", "QueryKnobs", "emit_query"]
