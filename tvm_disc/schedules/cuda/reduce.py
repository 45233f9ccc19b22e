"""One contraction of any kind: reductions, products and windows, element by element.

A thread, or several, add up what one element of the anchor needs, and store it through the
operators that follow:

    together   threads that share an element, next to each other: neighbours along what is added
    columns    elements of a block next to each other, where neighbours are along the result
    parts      blocks that share an element; a second kernel adds up what they have

Sums are added in a fixed order: results do not change between calls.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias, cast

from tvm import tirx

from tvm_disc.errors import WhyNot
from tvm_disc.graph.axes import reduced_axes
from tvm_disc.graph.core_ops import OpClass
from tvm_disc.graph.nodes import Node, static_dim
from tvm_disc.schedules.conv.contraction import Contraction, contraction
from tvm_disc.schedules.cuda.block import DeviceBlock
from tvm_disc.schedules.cuda.cost import LOAD_NS, Work, passes_ns, waves_ns
from tvm_disc.schedules.dispatch.variant import Grid, Knobs, Pass
from tvm_disc.schedules.kernel import Body, Group, Machine, Plan
from tvm_disc.schedules.loops.fallback import store_outputs
from tvm_disc.schedules.loops.reducers import ARG_REDUCTIONS
from tvm_disc.shape import Solver
from tvm_disc.tir.builder import i64
from tvm_disc.tir.index import mul, product

Expr: TypeAlias = Any

THREADS = 256
# Fewer steps than these are not worth threads, or blocks, beside the first.
LONG, LONGER = 64, 4096
PARTS = 64
TOGETHER = (32, 256)
# What a thread reads alone of a line of memory that its neighbours do not want.
SPREAD = 8.0


@dataclass(frozen=True)
class ReduceKnobs(Knobs):
    """Threads for one element, elements of a block, and blocks for one element."""

    together: int = 1
    columns: int = 1
    parts: int = 1


SHARED = (
    *(ReduceKnobs(threads) for threads in TOGETHER),
    ReduceKnobs(8, columns=32),
    ReduceKnobs(256, parts=PARTS),
    ReduceKnobs(8, columns=32, parts=PARTS),
)


def plan_contraction(group: Group, solver: Solver, machine: Machine) -> list[Plan] | WhyNot:
    """A thread for each element; where much is added up, several, or several blocks."""
    anchor = group.anchor
    if anchor is None or anchor.op in ARG_REDUCTIONS:
        return WhyNot("contraction", "positions of extremes are not added up")
    assert machine.device is not None
    spec = contraction(anchor)
    tasks, count = product(anchor.shape), product(spec.extents)
    along, across = _spread(anchor)
    blocks = tirx.floordiv(tasks + (THREADS - 1), i64(THREADS))
    alone = Work(blocks, THREADS, count, memory=along, busy=_busy(anchor))
    plans = [
        Plan(
            tasks=tasks,
            work=product([*anchor.shape, *spec.extents]) * 2,
            emit=partial(_alone, group, spec),
            knobs=ReduceKnobs(),
            grid=Grid(THREADS),
            cost=partial(waves_ns, machine.device, group, alone),
            features=(count, tasks),
            notes={"sums": "a thread, a block, or blocks for each element"},
        )
    ]
    most = static_dim(count)
    for knobs in SHARED:
        least = LONG if knobs.parts == 1 else LONGER
        if most is None or most >= least:
            memory = across if knobs.columns == 1 else along
            plans.append(_shared_plan(group, spec, knobs, machine, memory))
    return plans


def _spread(anchor: Node) -> tuple[float, float]:
    """How much more than its own a thread reads, with neighbours along the result, and along what
    is added up."""
    if anchor.cls is OpClass.REDUCE:
        inner = len(anchor.inputs[0].shape) - 1 in reduced_axes(anchor)
        return (SPREAD, 1.0) if inner else (1.0, SPREAD)
    if anchor.cls is OpClass.DOT:
        turned = anchor.inputs[1].op == "relax.permute_dims"
        return (SPREAD, 1.0) if turned else (1.0, SPREAD)
    return 1.0, 1.0


def _busy(anchor: Node) -> float:
    """Of the pipes of a multiprocessor, a step's loads."""
    return LOAD_NS if anchor.cls is OpClass.REDUCE else 2 * LOAD_NS


def _shared_plan(
    group: Group, spec: Contraction, knobs: ReduceKnobs, machine: Machine, memory: float
) -> Plan:
    anchor, count = group.anchor, product(spec.extents)
    assert anchor is not None and machine.device is not None
    total, threads = product(anchor.shape), knobs.together * knobs.columns
    tiles = tirx.floordiv(total + (knobs.columns - 1), i64(knobs.columns))
    apart = knobs.together * knobs.parts
    steps = tirx.floordiv(count + (apart - 1), i64(apart))
    tasks = mul(tiles, knobs.parts)
    barriers = knobs.together.bit_length()
    own = Work(tasks, threads, steps, barriers, memory, _busy(anchor))
    works = [(own, 1)]
    passes: tuple[Pass, ...] = ()
    emit = partial(_together, group, spec, knobs)
    grid = Grid(threads, shared=True)
    if knobs.parts > 1:
        rest = tirx.floordiv(total + (THREADS - 1), i64(THREADS))
        works.append((Work(rest, THREADS, i64(knobs.parts)), 1))
        passes = (Pass(tasks, emit, grid), Pass(total, partial(_rest, group, spec, knobs)))
    return Plan(
        tasks=tasks,
        work=product([*anchor.shape, *spec.extents]) * 2,
        emit=emit,
        scratch_elems=mul(total, knobs.parts) if passes else 0,
        scratch_dtype=spec.dtype if passes else "float32",
        knobs=knobs,
        grid=grid,
        cost=partial(passes_ns, machine.device, group, tuple(works)),
        features=(count, total),
        passes=passes,
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


def _together(group: Group, spec: Contraction, knobs: ReduceKnobs, body: Body) -> None:
    assert group.anchor is not None
    block, low, columns = body.block, body.low, knobs.columns
    total = block.bind("elements", product(group.anchor.shape))
    count = block.bind("count", product(spec.extents))
    part, tile = i64(0), body.lo
    if knobs.parts > 1:
        tiles = block.bind("tiles", tirx.truncdiv(total + (columns - 1), i64(columns)))
        part = block.bind("part", tirx.truncdiv(body.lo, tiles))
        tile = block.bind("tile", body.lo - part * tiles)
    number = block.bind("number", tirx.truncdiv(body.thread, i64(columns)))
    flat = block.bind("flat", tile * columns + (body.thread - number * columns))
    share = tirx.truncdiv(count + (knobs.parts - 1), i64(knobs.parts))
    begin = block.bind("begin", part * share)
    mine = block.bind("share", tirx.max(tirx.min(count - begin, share), i64(0)))
    with low.scope():
        acc = block.alloc("acc", 1, spec.dtype)
        block.store(acc, 0, spec.reducer.identity(spec.dtype))
        inside = flat < total
        with block.when(inside) if columns > 1 else nullcontext(), low.scope():
            index = list(low.space.split(flat, group.anchor.shape))
            low.resolve(index)
            with strided(replace(body, thread=number), mine, knobs.together) as j:
                k = list(low.space.split(begin + j, spec.extents))
                value = spec.element(low, index, k)
                low.resolve([value])
                block.store(acc, 0, spec.reducer.combine(acc[i64(0)], value))
        whole = fold(body, acc[i64(0)], spec.reducer.combine, spec.dtype, knobs.together, columns)
        with block.when(tirx.And(tirx.EQ(number, i64(0)), inside)), low.scope():
            if knobs.parts > 1:
                assert body.scratch is not None
                block.store(body.scratch, part * total + flat, whole)
                return
            index = list(low.space.split(flat, group.anchor.shape))
            low.resolve(index)
            finish(group, spec, replace(body, lo=flat), index, whole)


def _rest(group: Group, spec: Contraction, knobs: ReduceKnobs, body: Body) -> None:
    """Add up what the blocks of one element have."""
    assert group.anchor is not None and body.scratch is not None
    block, low = body.block, body.low
    with low.scope():
        index = list(low.space.split(body.lo, group.anchor.shape))
        acc = block.alloc("acc", 1, spec.dtype)
        block.store(acc, 0, spec.reducer.identity(spec.dtype))
        total = block.bind("elements", product(group.anchor.shape))
        with low.loop("part", knobs.parts) as part:
            value = block.bind("value", body.scratch[part * total + body.lo])
            block.store(acc, 0, spec.reducer.combine(acc[i64(0)], value))
        finish(group, spec, body, index, block.bind("sum", acc[i64(0)]))


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
    body: Body,
    value: Expr,
    combine: Callable[[Expr, Expr], Expr],
    dtype: str,
    threads: int,
    apart: int = 1,
) -> Expr:
    """What the threads of a block have, combined in the order of a tree; all of them get it.

    With ``apart``, so many neighbours have values of their own, each with ``threads`` to combine.
    """
    block = cast(DeviceBlock, body.block)
    room = block.shared("parts", threads * apart, dtype)
    block.store(room, body.thread, value)
    block.barrier()
    half = threads // 2
    while half:
        with block.when(body.thread < half * apart):
            mine = block.bind("mine", room[body.thread])
            other = block.bind("other", room[body.thread + half * apart])
            block.store(room, body.thread, combine(mine, other))
        block.barrier()
        half //= 2
    place = i64(0) if apart == 1 else tirx.truncmod(body.thread, i64(apart))
    result = block.bind("all", room[place])
    block.barrier()  # before the memory is written again
    return result


__all__ = ["finish", "fold", "plan_contraction", "strided"]
