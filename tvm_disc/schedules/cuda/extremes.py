"""Argmax and argmin: a thread, a warp or a block per element of the result.

A thread keeps the best value and its index; a tree combines the threads. The first of equal values
is selected, and NaN precedes numbers, so that the result equals that of a sequential search.
"""

from __future__ import annotations

from functools import partial
from typing import cast as typed

from tvm import tirx

from tvm_disc.errors import WhyNot
from tvm_disc.graph.axes import reduced_axes
from tvm_disc.graph.nodes import Node, static_dim
from tvm_disc.schedules.cuda.block import DeviceBlock
from tvm_disc.schedules.cuda.cost import Work, waves_ns
from tvm_disc.schedules.cuda.reduce import LONG, THREADS, TOGETHER, ReduceKnobs, strided
from tvm_disc.schedules.dispatch.variant import Grid
from tvm_disc.schedules.elements import cast, is_float
from tvm_disc.schedules.kernel import Body, Group, Machine, Plan
from tvm_disc.schedules.loops.fallback import store_outputs
from tvm_disc.schedules.loops.reducers import ARG_REDUCTIONS, REDUCERS, accumulator
from tvm_disc.shape import Solver
from tvm_disc.tir.builder import i64, is_nan
from tvm_disc.tir.index import product
from tvm_disc.typing import Expr

NOWHERE = 1 << 62


def plan_extremes(group: Group, solver: Solver, machine: Machine) -> list[Plan] | WhyNot:
    """Return plans with 1, 32 or 256 threads per element of the result."""
    node = group.anchor
    if node is None or node.op not in ARG_REDUCTIONS:
        return WhyNot("extremes", "it requires argmax or argmin")
    assert machine.device is not None
    count = product([node.inputs[0].shape[a] for a in reduced_axes(node)])
    tasks, most = product(node.shape), static_dim(count)
    plans = []
    for threads in (1, *TOGETHER):
        if threads > 1 and most is not None and most < LONG:
            continue
        steps = tirx.floordiv(i64(count) + (threads - 1), i64(threads))
        alone = threads == 1
        blocks = tirx.floordiv(tasks + (THREADS - 1), i64(THREADS)) if alone else tasks
        work = Work(blocks, THREADS if alone else threads, steps, 0 if alone else 10)
        plans.append(
            Plan(
                tasks=tasks,
                work=product(node.inputs[0].shape) * 2,
                emit=partial(_search, group, node, count, threads),
                knobs=ReduceKnobs(threads),
                grid=Grid(THREADS) if alone else Grid(threads, shared=True),
                cost=partial(waves_ns, machine.device, group, work),
                features=(count,),
                notes={"positions": "a thread, or a block, for each element"},
            )
        )
    return plans


class Best:
    """The best value and its index among the elements that one thread has read."""

    def __init__(self, body: Body, node: Node) -> None:
        self.body, self.block, self.node = body, typed(DeviceBlock, body.block), node
        self.dtype = accumulator(node.inputs[0].dtype)
        self.best = self.block.alloc("best", 1, self.dtype)
        self.where = self.block.alloc("where", 1, "int64")
        # The initial index is larger than all others, so that any element replaces it.
        self.block.store(self.best, 0, REDUCERS[node.op].identity(self.dtype))
        self.block.store(self.where, 0, i64(NOWHERE))

    def better(self, one: tuple[Expr, Expr], two: tuple[Expr, Expr]) -> Expr:
        """Return whether the second (value, index) replaces the first."""
        (a, p), (b, q) = one, two
        more = b > a if self.node.op == "relax.argmax" else b < a
        better = tirx.Or(more, tirx.And(tirx.EQ(a, b), q < p))
        if not is_float(self.dtype):
            return better
        number = tirx.And(tirx.EQ(a, a), tirx.Or(better, is_nan(b)))
        return tirx.Or(number, tirx.And(tirx.And(is_nan(a), is_nan(b)), q < p))

    def step(self, value: Expr, j: Expr, mask: Expr | None = None) -> None:
        """Emit the comparison of the best value with the element ``value`` at index ``j``."""
        value = self.block.bind("value", value)
        held = self.best[i64(0)], self.where[i64(0)]
        with self.block.when(self.better(held, (value, j))):
            self.block.store(self.best, 0, value)
            self.block.store(self.where, 0, j)

    @property
    def value(self) -> Expr:
        """The index of the best value."""
        return self.block.bind("found", self.where[i64(0)])

    def folded(self, threads: int, apart: int = 1) -> Expr:
        """Emit the combination of the threads' results; return the best index to all threads.

        With ``apart`` > 1, a block runs ``apart`` searches, each by ``threads`` threads; adjacent
        threads belong to different searches.
        """
        block, thread = self.block, self.body.thread
        values = block.shared("values", threads * apart, self.dtype)
        places = block.shared("places", threads * apart, "int64")
        block.store(values, thread, self.best[i64(0)])
        block.store(places, thread, self.where[i64(0)])
        block.barrier()
        half = threads // 2
        while half:
            with block.when(thread < half * apart):
                other = block.bind("other", thread + half * apart)
                one, two = ((values[i], places[i]) for i in (thread, other))
                with block.when(self.better(one, two)):
                    block.store(values, thread, values[other])
                    block.store(places, thread, places[other])
            block.barrier()
            half //= 2
        place = i64(0) if apart == 1 else tirx.truncmod(thread, i64(apart))
        result = block.bind("found", places[place])
        block.barrier()  # all reads must precede the next write to shared memory
        return result


def _search(group: Group, node: Node, count: Expr, threads: int, body: Body) -> None:
    """Emit the search of one element, the combination of threads, and the store."""
    block, low, source = body.block, body.low, node.inputs[0]
    axes, keep = reduced_axes(node), bool(node.attrs["keepdims"])
    with low.scope():
        index = list(low.space.split(body.lo, node.shape))
        low.resolve(index)
        best = Best(body, node)

        def look(k: Expr) -> None:
            parts = iter(low.space.split(k, [source.shape[a] for a in axes]))
            rest = iter(i for a, i in enumerate(index) if not (keep and a in axes))
            at = [next(parts) if a in axes else next(rest) for a in range(len(source.shape))]
            value = cast(low.at(source, at), best.dtype)
            low.resolve([value])
            best.step(value, k)

        if threads == 1:
            with low.loop("k", count) as k:
                look(k)
            _finish(group, body, index, best.value)
            return
        with strided(body, block.bind("count", i64(count)), threads) as k:
            look(k)
        found = best.folded(threads)
        with block.when(tirx.EQ(body.thread, i64(0))), low.scope():
            _finish(group, body, index, found)


def _finish(group: Group, body: Body, index: list[Expr], position: Expr) -> None:
    low, node = body.low, group.anchor
    assert node is not None
    result = low.settle("arg", cast(position, node.dtype))
    store_outputs(group, body, node, result, index, body.lo)


__all__ = ["Best", "plan_extremes"]
