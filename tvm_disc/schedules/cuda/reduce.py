"""One contraction of any kind: reductions, products and windows, element by element.

A thread, or a block of them, adds up what one element of the anchor needs, and stores it through
the operators that follow. A block adds in a fixed order: results do not change between calls.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, cast

from tvm import tirx

from tvm_disc.errors import WhyNot
from tvm_disc.graph.nodes import static_dim
from tvm_disc.schedules.conv.contraction import Contraction, contraction
from tvm_disc.schedules.cuda.block import DeviceBlock
from tvm_disc.schedules.cuda.cost import Work, waves_ns
from tvm_disc.schedules.dispatch.variant import Grid, Knobs
from tvm_disc.schedules.kernel import Body, Group, Machine, Plan
from tvm_disc.schedules.loops.fallback import store_outputs
from tvm_disc.schedules.loops.reducers import ARG_REDUCTIONS
from tvm_disc.shape import Solver
from tvm_disc.tir.builder import i64
from tvm_disc.tir.index import product

Expr: TypeAlias = Any

THREADS = 256
# Threads that add up one element together, and at least so many steps of one alone.
TOGETHER = (32, 256)
LONG = 64


@dataclass(frozen=True)
class ReduceKnobs(Knobs):
    """Threads for one element."""

    together: int = 1


def plan_contraction(group: Group, solver: Solver, machine: Machine) -> list[Plan] | WhyNot:
    """A thread for each element; where much is added up, a block for each."""
    anchor = group.anchor
    if anchor is None or anchor.op in ARG_REDUCTIONS:
        return WhyNot("contraction", "positions of extremes are found in order")
    assert machine.device is not None
    spec = contraction(anchor)
    tasks, count = product(anchor.shape), product(spec.extents)
    plans = [
        Plan(
            tasks=tasks,
            work=product([*anchor.shape, *spec.extents]) * 2,
            emit=partial(_alone, group, spec),
            knobs=ReduceKnobs(),
            grid=Grid(THREADS),
            cost=partial(
                waves_ns,
                machine.device,
                group,
                Work(tirx.floordiv(tasks + (THREADS - 1), i64(THREADS)), THREADS, count),
            ),
            features=(count,),
            notes={"sums": "a thread, or a block, for each element"},
        )
    ]
    most = static_dim(count)
    if most is None or most >= LONG:
        plans += [_shared_plan(group, spec, threads, machine) for threads in TOGETHER]
    return plans


def _shared_plan(group: Group, spec: Contraction, threads: int, machine: Machine) -> Plan:
    anchor, count = group.anchor, product(spec.extents)
    assert anchor is not None and machine.device is not None
    steps = tirx.floordiv(count + (threads - 1), i64(threads))
    work = Work(product(anchor.shape), threads, steps, threads.bit_length())
    return Plan(
        tasks=product(anchor.shape),
        work=product([*anchor.shape, *spec.extents]) * 2,
        emit=partial(_together, group, spec, threads),
        knobs=ReduceKnobs(threads),
        grid=Grid(threads, shared=True),
        cost=partial(waves_ns, machine.device, group, work),
        features=(count,),
    )


def _alone(group: Group, spec: Contraction, body: Body) -> None:
    assert group.anchor is not None
    block, low = body.block, body.low
    with low.scope():
        index = list(low.space.split(body.lo, group.anchor.shape))
        acc = block.alloc("acc", 1, spec.dtype)
        block.store(acc, 0, spec.reducer.identity(spec.dtype))
        with ExitStack() as stack:
            k = [
                i64(0) if static_dim(e) == 1 else stack.enter_context(low.loop(f"k{d}", e))
                for d, e in enumerate(spec.extents)
            ]
            value = spec.element(low, index, k)
            low.resolve([value])
            block.store(acc, 0, spec.reducer.combine(acc[i64(0)], value))
        finish(group, spec, body, index, block.bind("sum", acc[i64(0)]))


def _together(group: Group, spec: Contraction, threads: int, body: Body) -> None:
    assert group.anchor is not None
    block, low = body.block, body.low
    count = block.bind("count", product(spec.extents))
    with low.scope():
        index = list(low.space.split(body.lo, group.anchor.shape))
        low.resolve(index)
        acc = block.alloc("acc", 1, spec.dtype)
        block.store(acc, 0, spec.reducer.identity(spec.dtype))
        with strided(body, count, threads) as j:
            k = list(low.space.split(j, spec.extents))
            value = spec.element(low, index, k)
            low.resolve([value])
            block.store(acc, 0, spec.reducer.combine(acc[i64(0)], value))
        total = fold(body, acc[i64(0)], spec.reducer.combine, spec.dtype, threads)
        with block.when(tirx.EQ(body.thread, i64(0))), low.scope():
            finish(group, spec, body, index, total)


def finish(group: Group, spec: Contraction, body: Body, index: list[Expr], value: Expr) -> None:
    """Store the anchor's element through its consumers."""
    anchor, low = group.anchor, body.low
    assert anchor is not None
    result = low.settle("total", spec.finish(low, index, value))
    low.bind_reader(anchor, lambda at: result)
    store_outputs(group, body.outputs, low, index, body.lo)
    low.drop_reader(anchor)


def strided(body: Body, count: Expr, threads: int) -> Any:
    """A loop in which the threads of a block take ``count`` steps in turn; gives the step."""
    return _Strided(body, count, threads)


class _Strided:
    def __init__(self, body: Body, count: Expr, threads: int) -> None:
        self.body, self.threads = body, threads
        mine = tirx.max(count - body.thread + (threads - 1), i64(0))
        self.loop = body.low.loop("s", body.block.bind("mine", tirx.truncdiv(mine, i64(threads))))

    def __enter__(self) -> Expr:
        step = self.loop.__enter__()
        return self.body.block.bind("j", step * self.threads + self.body.thread)

    def __exit__(self, *error: Any) -> Any:
        return self.loop.__exit__(*error)


def fold(
    body: Body, value: Expr, combine: Callable[[Expr, Expr], Expr], dtype: str, threads: int
) -> Expr:
    """What the threads of a block have, combined in the order of a tree; all of them get it."""
    block = cast(DeviceBlock, body.block)
    room = block.shared("parts", threads, dtype)
    block.store(room, body.thread, value)
    block.barrier()
    half = threads // 2
    while half:
        with block.when(body.thread < half):
            mine = block.bind("mine", room[body.thread])
            other = block.bind("other", room[body.thread + half])
            block.store(room, body.thread, combine(mine, other))
        block.barrier()
        half //= 2
    result = block.bind("all", room[i64(0)])
    block.barrier()  # before the memory is written again
    return result


__all__ = ["finish", "fold", "plan_contraction", "strided"]
