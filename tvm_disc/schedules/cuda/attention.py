"""Attention: scores, softmax and weighted values, with a thread block per query.

    for each 128 keys:
        every thread computes the score of one key
        maximum, sum and result are rescaled to the new maximum (Milakov & Gimelshein, 2018)
        every thread adds the keys' values to one column of the result

Scores are stored only in shared memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias
from typing import cast as typed

from tvm import tirx

from tvm_disc.errors import WhyNot
from tvm_disc.graph.attention import Attention, find_attention
from tvm_disc.graph.nodes import Node
from tvm_disc.schedules.conv.contraction import matmul_dims
from tvm_disc.schedules.cuda.block import DeviceBlock
from tvm_disc.schedules.cuda.cost import Work, waves_ns
from tvm_disc.schedules.cuda.reduce import fold
from tvm_disc.schedules.dispatch.variant import Grid, Knobs
from tvm_disc.schedules.elements import cast
from tvm_disc.schedules.gemm.view import MatMulView
from tvm_disc.schedules.kernel import Body, Group, Machine, Plan
from tvm_disc.schedules.loops.fallback import store_outputs
from tvm_disc.schedules.loops.reducers import REDUCERS, accumulator
from tvm_disc.schedules.math.functions import MATH
from tvm_disc.shape import Solver
from tvm_disc.tir.builder import const, i64
from tvm_disc.tir.index import mul, product
from tvm_disc.tir.rounding import difference

Expr: TypeAlias = Any

THREADS = 128


@dataclass(frozen=True)
class QueryKnobs(Knobs):
    """Number of keys per step, and of threads per block."""

    keys: int = THREADS


def plan_query(group: Group, solver: Solver, machine: Machine) -> Plan | WhyNot:
    """Return a plan with a thread block per query."""
    assert group.anchor is not None and machine.device is not None
    found = find_attention(group.anchor, solver)
    if not isinstance(found, Attention):
        return WhyNot("attention", "no softmax between two matmuls") if found is None else found
    scores, values = _view(group, found.scores), _view(group, found.result)
    batch, m, n, depth = scores.sizes
    tasks = mul(batch, m)
    steps = mul(tirx.floordiv(i64(n) + (THREADS - 1), i64(THREADS)), i64(depth) + THREADS)
    return Plan(
        tasks=tasks,
        work=product([batch, m, n]) * (2 * (i64(depth) + i64(values.n))),
        emit=partial(_query, found, scores, values),
        knobs=QueryKnobs(),
        grid=Grid(THREADS, shared=True),
        cost=partial(waves_ns, machine.device, group, Work(tasks, THREADS, steps, 16)),
        notes={"threads": "a block for each query"},
    )


def _view(group: Group, node: Node) -> MatMulView:
    batch, m, n, k = matmul_dims(node)
    return MatMulView(group, node, batch, m, n, k)


def _query(found: Attention, scores: MatMulView, values: MatMulView, body: Body) -> None:
    block, low = typed(DeviceBlock, body.block), body.low
    _, m, n, _ = scores.sizes
    m, n, width = (block.bind(k, i64(x)) for k, x in zip("mnw", (m, n, values.n), strict=True))
    dtype = accumulator(found.result.dtype)
    g = block.bind("g", tirx.truncdiv(body.lo, m))
    i = block.bind("i", body.lo - g * m)
    weights = block.shared("weights", THREADS, dtype)
    cells = {name: block.alloc(name, 1, dtype) for name in ("peak", "sum", "result", "score")}
    lowest, zero = const(float("-inf"), dtype), const(0, dtype)

    # If values are wider than the block, the result is computed in parts, with scores recomputed
    # per part.
    with low.loop("part", tirx.truncdiv(width + (THREADS - 1), i64(THREADS))) as part:
        column = block.bind("column", part * THREADS + body.thread)
        for name, start in (("peak", lowest), ("sum", zero), ("result", zero)):
            block.store(cells[name], 0, start)
        with low.loop("c", tirx.truncdiv(n + (THREADS - 1), i64(THREADS))) as c:
            k0 = block.bind("k0", c * THREADS)
            key = block.bind("key", k0 + body.thread)
            block.store(cells["score"], 0, lowest)
            with block.when(key < n), low.scope():
                score = _score(found, scores, body, (g, i, key), dtype)
                block.store(cells["score"], 0, score)
            mine = block.bind("score", cells["score"][i64(0)])
            larger = REDUCERS["relax.max"].combine
            top = fold(body, mine, larger, dtype, THREADS)
            before = block.bind("before", cells["peak"][i64(0)])
            peak = block.bind("peak", larger(before, top))
            # if all keys so far are masked by minus infinity, the maximum counts as 0
            shift = block.bind("shift", tirx.Select(tirx.EQ(peak, lowest), zero, peak))
            factor = block.bind("factor", MATH["exp"](difference(before, shift)))
            weight = block.bind("weight", MATH["exp"](difference(mine, shift)))
            weight = block.bind("weight", tirx.Select(key < n, weight, zero))
            block.store(weights, body.thread, weight)
            total = fold(body, weight, lambda x, y: x + y, dtype, THREADS)
            block.store(cells["peak"], 0, peak)
            block.store(cells["sum"], 0, cells["sum"][i64(0)] * factor + total)
            with block.when(column < width), low.scope():
                block.store(cells["result"], 0, cells["result"][i64(0)] * factor)
                count = block.bind("count", tirx.min(n - k0, i64(THREADS)))
                with low.loop("t", count) as t:
                    value = cast(values.b_at(low, g, k0 + t, column), dtype)
                    low.resolve([value])
                    block.store(cells["result"], 0, cells["result"][i64(0)] + weights[t] * value)
            block.barrier()
        with block.when(column < width), low.scope():
            anchor = found.result
            result = cells["result"][i64(0)] / cells["sum"][i64(0)]
            settled = low.settle("total", cast(result, anchor.dtype))
            low.bind_reader(anchor, lambda at: settled)
            index = values.index(low, g, i, column)
            store_outputs(values.group, body.outputs, low, index, values.flat(g, i, column))
            low.drop_reader(anchor)


def _score(
    found: Attention, view: MatMulView, body: Body, at: tuple[Expr, Expr, Expr], dtype: str
) -> Expr:
    """Return one score after its chain of scales, biases and masks."""
    block, low = body.block, body.low
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
