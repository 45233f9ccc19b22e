"""Contractions of any kind: reductions, matmuls and windows, element by element.

One or several threads compute the sum for one element of the anchor. They apply the operators that
follow, and store the result. The knobs are:

    together   number of threads per element; adjacent threads read adjacent terms of the sum
    columns    number of adjacent elements per block, if adjacent reads are along the result
    parts      number of blocks per element; a second kernel adds up their partial sums
    lanes      number of elements per read: terms of the sum if several threads share
               an element, otherwise elements of the result

Terms are added in a fixed order, so that results do not change between calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

from tvm import tirx

from tvm_disc.errors import WhyNot
from tvm_disc.graph.axes import reduced_axes
from tvm_disc.graph.core_ops import OpClass
from tvm_disc.graph.nodes import Node, static_dim
from tvm_disc.schedules.conv.contraction import Contraction, contraction
from tvm_disc.schedules.cuda.block import DeviceBlock
from tvm_disc.schedules.cuda.cost import Work, passes_ns
from tvm_disc.schedules.cuda.epilogue import plain_epilogue, store_lanes
from tvm_disc.schedules.cuda.vector import (
    ALIGNED,
    MOST_FACTS,
    Lanes,
    distinct,
    lanes_of_operand,
    multiple_need,
    stand_in,
)
from tvm_disc.schedules.dispatch.variant import Grid, Knobs, Need, Pass
from tvm_disc.schedules.kernel import Body, Group, Machine, Plan
from tvm_disc.schedules.loops.fallback import store_outputs
from tvm_disc.schedules.loops.reducers import ARG_REDUCTIONS
from tvm_disc.schedules.lowering import Lowering
from tvm_disc.shape import Solver
from tvm_disc.tir.builder import i64, index_var
from tvm_disc.tir.index import IndexSpace, add, ceil_div, mul, product
from tvm_disc.typing import Buffer, Expr

THREADS = 256
# shortest sums for which several threads, or several blocks, compute an element
LONG, LONGER = 64, 4096
PARTS = 64
TOGETHER = (32, 256)
# factor on the memory traffic of uncoalesced reads
SPREAD = 8.0


@dataclass(frozen=True)
class ReduceKnobs(Knobs):
    """Threads per element, elements per block, blocks per element, and elements per read."""

    together: int = 1
    columns: int = 1
    parts: int = 1
    lanes: int = 1

    @property
    def along_result(self) -> bool:
        """Whether adjacent reads are along the result rather than along the sum."""
        return self.together == 1 or self.columns > 1

    def with_lanes(self, lanes: int) -> ReduceKnobs:
        """Return the knobs with vector reads; a block computes as many elements as before."""
        if self.columns == 1:
            return replace(self, lanes=lanes)
        columns, together = self.columns // lanes, self.together * lanes
        return replace(self, lanes=lanes, columns=columns, together=together)


ALL = (
    ReduceKnobs(),
    *(ReduceKnobs(threads) for threads in TOGETHER),
    ReduceKnobs(8, columns=32),
    ReduceKnobs(256, parts=PARTS),
    ReduceKnobs(8, columns=32, parts=PARTS),
)


def plan_contraction(group: Group, solver: Solver, machine: Machine) -> list[Plan] | WhyNot:
    """Return plans with a thread per element, and for long sums with several threads or blocks."""
    anchor = group.anchor
    if anchor is None or anchor.op in ARG_REDUCTIONS:
        return WhyNot("contraction", "it requires a sum: argmax and argmin return positions")
    made = _Contractions(group, anchor, solver, machine)
    most = static_dim(product(made.spec.extents))
    return [
        made.plan(knobs)
        for knobs in ALL
        if most is None or most >= (LONG if knobs.parts == 1 else LONGER) or knobs.together == 1
    ]


class _Contractions:
    """Builds the plans of one group."""

    def __init__(self, group: Group, anchor: Node, solver: Solver, machine: Machine) -> None:
        assert machine.device is not None
        self.group, self.anchor, self.solver = group, anchor, solver
        self.device, self.spec = machine.device, contraction(anchor)
        self.lanes = lanes_of_operand(group, anchor)
        self.facts = {along: self._facts(along) for along in (True, False)}
        self.plain = plain_epilogue(group, solver)

    def plan(self, knobs: ReduceKnobs) -> Plan:
        """Return a plan without needs; its ``wide`` plan, if any, uses vector reads."""
        plan = self._plan(knobs, ())
        facts = self.facts[knobs.along_result]
        if facts is None or (knobs.along_result and knobs.parts == 1 and not self.plain):
            return plan
        needs = (*(multiple_need(f, self.lanes) for f in facts), ALIGNED)
        wide = self._plan(knobs.with_lanes(self.lanes), needs)
        notes = {"lanes": f"{self.lanes} if {', '.join(n.text for n in needs)}", **plan.notes}
        return replace(plan, wide=wide, notes=notes)

    def _facts(self, along_result: bool) -> list[Expr] | None:
        """Return the sizes that must be multiples of the number of lanes for vector reads.

        None if most reads are not of adjacent elements.
        """
        dims = self.anchor.shape if along_result else self.spec.extents
        if not dims:
            return None
        space = IndexSpace(lambda a, b: bool(self.solver.known_eq(a, b)))
        low = Lowering(DeviceBlock(), space, self.solver)
        at = index_var("at")
        lanes = Lanes(low, self.lanes, (), [at], self.group.symbols())
        index: list[Expr] = [index_var(f"o{d}") for d in range(len(self.anchor.shape))]
        k: list[Expr] = [index_var(f"k{d}") for d in range(len(self.spec.extents))]
        (index if along_result else k)[-1] = add(at, lanes.lane)
        with lanes.reading({n: stand_in(n) for n in self.group.params}):
            low.resolve([self.spec.element(low, index, k)])
        if any(low.space.depends_on(v, lanes.lane) for v in low.defined):
            return None
        edge = lanes.facts(i64(dims[-1]))
        few = not lanes.together or lanes.together < lanes.single
        facts = distinct([*lanes.wanted, *(edge or ())])
        return None if few or edge is None or len(facts) > MOST_FACTS else facts

    def _plan(self, knobs: ReduceKnobs, needs: tuple[Need, ...]) -> Plan:
        spec, anchor = self.spec, self.anchor
        count, total = product(spec.extents), product(anchor.shape)
        of_result = knobs.lanes if knobs.along_result else 1
        of_sum = knobs.lanes // of_result
        elements = ceil_div(total, of_result)
        emit = partial(_Sum(self, knobs).emit)
        passes: tuple[Pass, ...] = ()
        if knobs.together == 1:
            tasks, grid, blocks = elements, Grid(THREADS), ceil_div(elements, THREADS)
        else:
            tasks = blocks = mul(ceil_div(elements, knobs.columns), knobs.parts)
            grid = Grid(knobs.together * knobs.columns, shared=True)
        along, across = _spread(anchor)
        memory = across if knobs.together > 1 and knobs.columns == 1 else along
        steps = ceil_div(count, knobs.together * knobs.parts * of_sum)
        barriers = 0 if knobs.together == 1 else 3
        loads = 1 if anchor.cls is OpClass.REDUCE else 2
        costs = self.device.costs
        busy = loads * costs.load * memory
        slow = memory if knobs.together > 1 else min(memory, costs.next_in_sector)
        waits = ceil_div(steps, costs.loads_at_once) * int(slow)
        works = [(Work(blocks, grid.threads, steps, barriers, memory, busy, waits), 1)]
        if knobs.parts > 1:
            works.append((Work(ceil_div(total, THREADS), THREADS, i64(knobs.parts)), 1))
            rest = partial(add_parts, self.group, spec, knobs)
            passes = (Pass(tasks, emit, grid), Pass(total, rest))
        return Plan(
            tasks=tasks,
            work=product([*anchor.shape, *spec.extents]) * 2,
            emit=emit,
            scratch_elems=mul(total, knobs.parts) if passes else 0,
            scratch_dtype=spec.dtype if passes else "float32",
            knobs=knobs,
            needs=needs,
            grid=grid,
            cost=partial(passes_ns, self.device, self.group, tuple(works)),
            features=(count, total),
            passes=passes,
            notes={"sums": "a thread, a block, or blocks for each element"},
        )


def _spread(anchor: Node) -> tuple[float, float]:
    """Return factors on the memory traffic of a reduction or matmul.

    The first is for adjacent threads along the result, the second for adjacent threads along the
    sum.
    """
    if anchor.cls is OpClass.REDUCE:
        inner = len(anchor.inputs[0].shape) - 1 in reduced_axes(anchor)
        return (SPREAD, 1.0) if inner else (1.0, SPREAD)
    if anchor.cls is OpClass.DOT:
        turned = anchor.inputs[1].op == "relax.permute_dims"
        return (SPREAD, 1.0) if turned else (1.0, SPREAD)
    return 1.0, 1.0


class _Sum:
    """Emits the work of one thread: sums of one or several elements, or a share of a sum."""

    def __init__(self, of: _Contractions, knobs: ReduceKnobs) -> None:
        self.of, self.knobs = of, knobs
        self.group, self.spec, self.anchor = of.group, of.spec, of.anchor
        self.wide = knobs.lanes if knobs.along_result else 1

    def emit(self, body: Body) -> None:
        """Emit the task of a thread or of a block."""
        with body.low.scope():
            if self.knobs.together == 1:
                self._alone(body)
            else:
                self._together(body)

    def _alone(self, body: Body) -> None:
        flat = body.block.bind("flat", mul(body.lo, self.wide))
        index = list(body.low.space.split(flat, self.anchor.shape))
        body.low.resolve(index)
        acc = self._accumulators(body)
        with ExitStack() as stack:
            k = [
                i64(0) if static_dim(e) == 1 else stack.enter_context(body.low.loop(f"k{d}", e))
                for d, e in enumerate(self.spec.extents)
            ]
            self._add(body, acc, index, k)
        values = [body.block.bind("sum", acc[i64(v)]) for v in range(self.wide)]
        self._finish(body, index, values, flat)

    def _together(self, body: Body) -> None:
        block, low, knobs = body.block, body.low, self.knobs
        columns = knobs.columns
        total = block.bind("elements", product(self.anchor.shape))
        part, tile = i64(0), body.lo
        if knobs.parts > 1:
            tiles = block.bind("tiles", ceil_div(total, columns * self.wide))
            part = block.bind("part", tirx.truncdiv(body.lo, tiles))
            tile = block.bind("tile", body.lo - part * tiles)
        number = block.bind("number", tirx.truncdiv(body.thread, i64(columns)))
        column = tile * columns + (body.thread - number * columns)
        flat = block.bind("flat", mul(column, self.wide))
        of_sum = knobs.lanes // self.wide
        # A thread adds ``of_sum`` adjacent terms per step.
        count = block.bind("count", tirx.truncdiv(product(self.spec.extents), i64(of_sum)))
        share = tirx.truncdiv(count + (knobs.parts - 1), i64(knobs.parts))
        begin = block.bind("begin", part * share)
        mine = block.bind("share", tirx.max(tirx.min(count - begin, share), i64(0)))
        acc = self._accumulators(body)
        inside = flat < total
        with block.when(inside) if columns > 1 else nullcontext(), low.scope():
            index = list(low.space.split(flat, self.anchor.shape))
            low.resolve(index)
            with strided(replace(body, thread=number), mine, knobs.together) as j:
                k = list(low.space.split(mul(begin + j, of_sum), self.spec.extents))
                low.resolve(k)
                self._add(body, acc, index, k)
        values = [block.bind("mine", acc[i64(v)]) for v in range(self.wide)]
        whole = fold_all(body, values, self._combine, self.spec.dtype, knobs.together, columns)
        with block.when(tirx.And(tirx.EQ(number, i64(0)), inside)), low.scope():
            if knobs.parts > 1:
                assert body.scratch is not None
                for v, value in enumerate(whole):
                    block.store(body.scratch, part * total + (flat + v), value)
                return
            index = list(low.space.split(flat, self.anchor.shape))
            low.resolve(index)
            self._finish(body, index, whole, flat)

    def _combine(self, a: Sequence[Expr], b: Sequence[Expr]) -> list[Expr]:
        return [self.spec.reducer.combine(x, y) for x, y in zip(a, b, strict=True)]

    def _accumulators(self, body: Body) -> Buffer:
        acc = body.block.alloc("acc", self.wide, self.spec.dtype)
        for v in range(self.wide):
            body.block.store(acc, v, self.spec.reducer.identity(self.spec.dtype))
        return acc

    def _lanes(self, body: Body, begins: Sequence[Expr]) -> Lanes:
        facts = self.of.facts[self.knobs.along_result] or ()
        return Lanes(body.low, self.knobs.lanes, facts, begins, self.group.symbols())

    def _add(self, body: Body, acc: Buffer, index: Sequence[Expr], k: Sequence[Expr]) -> None:
        """Emit one step: one term, or one term per lane."""
        low, reducer, along = body.low, self.spec.reducer, self.knobs.along_result
        if self.knobs.lanes == 1:
            value = self.spec.element(low, index, k)
            low.resolve([value])
            body.block.store(acc, 0, reducer.combine(acc[i64(0)], value))
            return
        last = body.block.bind("last", index[-1] if along else k[-1])
        with low.scope():
            lanes = self._lanes(body, [last])
            with lanes.reading(body.buffers):
                for number, lane in enumerate(lanes.each()):
                    at = [*(index if along else k)[:-1], add(last, lane)]
                    value = self.spec.element(low, *((at, k) if along else (index, at)))
                    low.resolve([value])
                    cell = i64(number if along else 0)
                    body.block.store(acc, cell, reducer.combine(acc[cell], value))

    def _finish(self, body: Body, index: list[Expr], values: Sequence[Expr], flat: Expr) -> None:
        """Emit the operators that follow the anchor, and the store of their results."""
        if self.wide == 1:
            finish(self.group, self.spec, replace(body, lo=flat), index, values[0])
            return
        last = body.block.bind("last", index[-1])
        lanes = self._lanes(body, [last, flat])

        def place(lane: Expr) -> Sequence[Expr]:
            return [*index[:-1], add(last, lane)]

        def total(number: int, at: Sequence[Expr]) -> Expr:
            return self.spec.finish(body.low, at, values[number])

        store_lanes(self.group, body, lanes, place, total, flat)


def add_parts(group: Group, spec: Contraction, knobs: ReduceKnobs, body: Body) -> None:
    """Emit the sum of the partial sums of all blocks, and the operators that follow."""
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
    """Emit the operators that follow the anchor at an index, and the store of their results."""
    anchor, low = group.anchor, body.low
    assert anchor is not None
    result = low.settle("total", spec.finish(low, index, value))
    store_outputs(group, body, anchor, result, index, body.lo)


def strided(body: Body, count: Expr, threads: int) -> _Strided:
    """Return a loop, as a context, in which ``threads`` threads share ``count`` steps.

    The context's value is the step, from the thread's number on with stride ``threads``.
    """
    return _Strided(body, count, threads)


class _Strided:
    def __init__(self, body: Body, count: Expr, threads: int) -> None:
        self.body, self.threads = body, threads
        mine = tirx.max(count - body.thread + (threads - 1), i64(0))
        self.loop = body.low.loop("s", body.block.bind("mine", tirx.truncdiv(mine, i64(threads))))

    def __enter__(self) -> Expr:
        step = self.loop.__enter__()
        return self.body.block.bind("j", step * self.threads + self.body.thread)

    def __exit__(self, *error: Any) -> object:
        return self.loop.__exit__(*error)


def fold(
    body: Body,
    value: Expr,
    combine: Callable[[Expr, Expr], Expr],
    dtype: str,
    threads: int,
    apart: int = 1,
) -> Expr:
    """Emit the combination of a value per thread, in a fixed order; all threads get the result.

    With ``apart`` > 1, there are ``apart`` combinations, each of ``threads`` threads; adjacent
    threads belong to different ones.
    """
    (whole,) = fold_all(body, (value,), lambda a, b: (combine(a[0], b[0]),), dtype, threads, apart)
    return whole


NEAR = 16  # number of values that a thread combines sequentially in the second step


def fold_all(
    body: Body,
    values: Sequence[Expr],
    combine: Callable[[Sequence[Expr], Sequence[Expr]], Sequence[Expr]],
    dtype: str,
    threads: int,
    apart: int = 1,
) -> list[Expr]:
    """Emit :func:`fold` for several values per thread that are combined jointly.

    Sixteen threads combine the values of all threads; then every thread combines these sixteen
    results. This takes at most three barriers.
    """
    block = cast(DeviceBlock, body.block)
    rooms = [block.shared("parts", threads * apart, dtype) for _ in values]
    for room, value in zip(rooms, values, strict=True):
        block.store(room, body.thread, value)
    block.barrier()

    def chain(place: Expr, count: int, stride: int) -> list[Expr]:
        cells = [block.alloc("whole", 1, dtype) for _ in rooms]
        for cell, room in zip(cells, rooms, strict=True):
            block.store(cell, 0, room[place])
        with body.low.loop("other", count - 1, begin=1) as k:
            theirs = [block.bind("theirs", room[place + k * stride]) for room in rooms]
            mine = [block.bind("mine", cell[i64(0)]) for cell in cells]
            for cell, result in zip(cells, combine(mine, theirs), strict=True):
                block.store(cell, 0, result)
        return [block.bind("whole", cell[i64(0)]) for cell in cells]

    left = min(threads, NEAR)
    if threads > NEAR:
        with block.when(body.thread < NEAR * apart), body.low.scope():
            sums = chain(body.thread, threads // NEAR, NEAR * apart)
            for room, value in zip(rooms, sums, strict=True):
                block.store(room, body.thread, value)
        block.barrier()
    place = i64(0) if apart == 1 else block.bind("place", tirx.truncmod(body.thread, i64(apart)))
    found = chain(place, left, apart)
    block.barrier()  # all reads must precede the next write to shared memory
    return found


__all__ = ["ReduceKnobs", "add_parts", "finish", "fold", "fold_all", "plan_contraction", "strided"]
