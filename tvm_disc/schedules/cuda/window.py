"""Pooling and depthwise convolution: a thread computes a strip of adjacent pixels.

    for each row of taps inside the image:
        load the pixels of that row that the strip's windows cover, once, into registers
        combine, for every pixel of the strip, the loaded pixels in its window

In NHWC, adjacent threads compute adjacent channels, and a thread may compute several.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any

from tvm import tirx

from tvm_disc.errors import WhyNot
from tvm_disc.graph.nodes import Node, static_dim
from tvm_disc.schedules.conv.contraction import (
    channel,
    channels_last,
    contraction,
    geometry,
    place,
    spatial,
)
from tvm_disc.schedules.cuda.block import DeviceBlock
from tvm_disc.schedules.cuda.cost import Work, waves_ns
from tvm_disc.schedules.cuda.epilogue import plain_epilogue, store_lanes
from tvm_disc.schedules.cuda.reduce import finish, plan_contraction
from tvm_disc.schedules.cuda.vector import (
    ALIGNED,
    MOST_FACTS,
    Lanes,
    distinct,
    lanes_of_operand,
    multiple_need,
    stand_in,
)
from tvm_disc.schedules.dispatch.variant import Grid, Knobs, Need
from tvm_disc.schedules.elements import cast
from tvm_disc.schedules.kernel import Body, Group, Machine, Plan
from tvm_disc.schedules.lowering import Lowering
from tvm_disc.shape import Solver
from tvm_disc.tir.builder import i64, index_var
from tvm_disc.tir.index import IndexSpace, add, mul, product
from tvm_disc.typing import Buffer, Expr

THREADS = 128
STRIP = 4
MOST_PIXELS = 32  # most pixels of a row in a thread's registers


@dataclass(frozen=True)
class WindowKnobs(Knobs):
    """Pixels per thread, and channels per thread."""

    strip: int
    lanes: int = 1


def plan_window(group: Group, solver: Solver, machine: Machine) -> list[Plan] | WhyNot:
    """Return contraction plans, and a plan with strips of pixels."""
    node = group.anchor
    if node is None or not _has_windows(node):
        return WhyNot("window", "it requires pooling or a depthwise convolution")
    if any(static_dim(t) is None for t in _taps(node)):
        return WhyNot("window", "it requires a constant window size")
    strips = _Strips(group, node, solver, machine)
    if strips.pixels > MOST_PIXELS:
        return WhyNot(
            "window",
            f"a thread would need {strips.pixels} pixels of a row in registers: the limit is "
            f"{MOST_PIXELS}",
        )
    others = plan_contraction(group, solver, machine)
    assert isinstance(others, list)
    return [*others, strips.plan()]


def _has_windows(node: Node) -> bool:
    if not node.op.startswith("relax.nn.conv"):
        return "_pool" in node.op and node.op.startswith("relax.nn.")
    data, weight = node.inputs
    channels = static_dim(channel(node, data.shape))
    one = static_dim(weight.shape[1]) == 1 and channels == static_dim(weight.shape[0])
    return one and channels == int(node.attrs["groups"])


def _taps(node: Node) -> list[object]:
    """Return the extents of the window."""
    if node.op.startswith("relax.nn.conv"):
        return list(node.inputs[1].shape[2:])
    return [i64(e) for e in contraction(node).extents]


class _Strips:
    """Builds the plans of one group."""

    def __init__(self, group: Group, node: Node, solver: Solver, machine: Machine) -> None:
        assert machine.device is not None
        self.group, self.node, self.solver, self.device = group, node, solver, machine.device
        self.spec, self.last = contraction(node), channels_last(node)
        self.taps = [static_dim(t) or 1 for t in _taps(node)]
        self.rank = len(self.taps)
        self.geometry = geometry(node, self.rank)
        self.stride, self.dilation = self.geometry.strides[-1], self.geometry.dilation[-1]
        self.pixels = (STRIP - 1) * self.stride + (self.taps[-1] - 1) * self.dilation + 1
        self.data = node.inputs[0]
        self.weight = node.inputs[1] if len(node.inputs) > 1 else None
        self.lanes = lanes_of_operand(group, self.data)
        self.facts = self._facts() if self.last and plain_epilogue(group, solver) else None

    def dims(self, lanes: int) -> list[Any]:
        """Return the extents of the tasks, in the memory order of the result."""
        *rows, width = spatial(self.node, self.node.shape)
        strips = tirx.floordiv(i64(width) + (STRIP - 1), i64(STRIP))
        channels = i64(channel(self.node, self.node.shape))
        if lanes > 1:
            channels = tirx.floordiv(channels, i64(lanes))
        return place(self.node, self.node.shape[0], channels, [*rows, strips])

    def plan(self) -> Plan:
        """Return a plan without needs; in its ``wide`` plan, a thread computes several channels."""
        plan = self._plan(WindowKnobs(STRIP), ())
        if self.facts is None:
            return plan
        needs = (*(multiple_need(f, self.lanes) for f in self.facts), ALIGNED)
        wide = self._plan(WindowKnobs(STRIP, self.lanes), needs)
        notes = {"lanes": f"{self.lanes} if {', '.join(n.text for n in needs)}"}
        return replace(plan, wide=wide, notes=notes)

    def _plan(self, knobs: WindowKnobs, needs: tuple[Need, ...]) -> Plan:
        tasks = product(self.dims(knobs.lanes))
        lines = product(self.taps[:-1])
        blocks = tirx.floordiv(tasks + (THREADS - 1), i64(THREADS))
        busy = self.device.costs.load
        work = Work(blocks, THREADS, mul(lines, self.pixels), busy=busy)
        return Plan(
            tasks=tasks,
            work=product([*self.node.shape, *self.taps]) * 2,
            emit=partial(self._emit, knobs),
            knobs=knobs,
            needs=needs,
            grid=Grid(THREADS),
            cost=partial(waves_ns, self.device, self.group, work),
            features=(tasks,),
        )

    def _facts(self) -> list[Expr] | None:
        """Return the sizes that must be multiples of the number of lanes for vectors of channels.

        None if these are impossible.
        """
        space = IndexSpace(lambda a, b: bool(self.solver.known_eq(a, b)))
        low = Lowering(DeviceBlock(), space, self.solver)
        at = index_var("channel")
        lanes = Lanes(low, self.lanes, (), [at], self.group.symbols())
        where = [index_var("n"), *(index_var("x") for _ in self.taps), add(at, lanes.lane)]
        with lanes.reading({n: stand_in(n) for n in self.group.params}):
            low.resolve([low.at(self.data, where)])
        edge = lanes.facts(i64(channel(self.node, self.node.shape)))
        facts = distinct([*lanes.wanted, *(edge or ())])
        usable = lanes.together and not lanes.single and edge is not None
        return facts if usable and len(facts) <= MOST_FACTS else None

    # -- the strip of a thread -------------------------------------------------------------------

    def _emit(self, knobs: WindowKnobs, body: Body) -> None:
        block, low, lanes = body.block, body.low, knobs.lanes
        with low.scope():
            index = list(low.space.split(body.lo, self.dims(lanes)))
            low.resolve(index)
            *rows, strip = spatial(self.node, index)
            begin = block.bind("begin", mul(strip, STRIP))
            channels = block.bind("channel", mul(channel(self.node, index), lanes))
            acc = block.alloc("acc", STRIP * lanes, self.spec.dtype)
            with low.loop("a", STRIP * lanes, kind="unrolled") as a:
                block.store(acc, a, self.spec.reducer.identity(self.spec.dtype))
            with ExitStack() as stack:
                taps = [
                    i64(0) if t == 1 else stack.enter_context(low.loop(f"t{d}", t))
                    for d, t in enumerate(self.taps[:-1])
                ]
                inside, source = self._line(rows, taps)
                source = [block.bind("line", p) for p in source]
                if inside is not None:
                    stack.enter_context(block.when(inside))
                    stack.enter_context(low.scope())
                self._take_line(knobs, body, acc, (index[0], channels), source, taps, begin)
            self._store(knobs, body, acc, (index[0], channels), rows, begin)

    def _line(self, rows: Sequence[Expr], taps: Sequence[Expr]) -> tuple[Expr | None, list[Expr]]:
        """Return the bounds check of a row of taps, and its position in the image."""
        extents = spatial(self.node, self.data.shape)
        source, tests = [], list[Expr]()
        for d, (row, tap) in enumerate(zip(rows, taps, strict=True)):
            at = add(mul(row, self.geometry.strides[d]), mul(tap, self.geometry.dilation[d]))
            at = add(at, -self.geometry.padding[d])
            source.append(at)
            tests += [at >= 0, at < i64(extents[d])]
        return (reduce(tirx.And, tests) if tests else None), source

    def _take_line(
        self,
        knobs: WindowKnobs,
        body: Body,
        acc: Buffer,
        head: tuple[Expr, Expr],
        source: Sequence[Expr],
        taps: Sequence[Expr],
        begin: Expr,
    ) -> None:
        block, low, lanes, spec = body.block, body.low, knobs.lanes, self.spec
        line = block.alloc("pixels", self.pixels * lanes, spec.dtype)
        outside = spec.reducer.identity(spec.dtype)
        extent = i64(spatial(self.node, self.data.shape)[-1])
        first = block.bind("first", mul(begin, self.stride) - self.geometry.padding[self.rank - 1])
        with low.loop("p", self.pixels, kind="unrolled") as p:
            at = block.bind("x", first + p)
            for lane in range(lanes):
                block.store(line, p * lanes + lane, outside)
            with block.when(tirx.And(at >= 0, at < extent)), low.scope():
                where = place(self.node, head[0], head[1], [*source, at])
                for number, value in self._values(knobs, body, self.data, where, head[1]):
                    block.store(line, p * lanes + number, value)
        with low.loop("tap", self.taps[-1], kind="unrolled") as tap:
            weights = block.alloc("weights", lanes, spec.dtype)
            if self.weight is not None:
                for lane in range(lanes):
                    index = [add(head[1], lane), i64(0), *taps, tap]
                    value = cast(low.at(self.weight, index), spec.dtype)
                    low.resolve([value])
                    block.store(weights, lane, value)
            with (
                low.loop("s", STRIP, kind="unrolled") as s,
                low.loop("lane", lanes, kind="unrolled") as lane,
            ):
                value = line[(s * self.stride + tap * self.dilation) * lanes + lane]
                if self.weight is not None:
                    value = value * weights[lane]
                cell = s * lanes + lane
                block.store(acc, cell, spec.reducer.combine(acc[cell], value))

    def _values(
        self, knobs: WindowKnobs, body: Body, node: Node, where: Sequence[Expr], begin: Expr
    ) -> list[tuple[int, Expr]]:
        """Return (lane, value) of adjacent channels of a node."""
        low = body.low
        lanes = Lanes(low, knobs.lanes, self.facts or (), [begin], self.group.symbols())
        found = []
        with lanes.reading(body.buffers):
            for number, lane in enumerate(lanes.each()):
                at = list(where)
                at[-1 if self.last else 1] = add(begin, lane)
                value = low.settle("value", cast(low.at(node, at), self.spec.dtype))
                found.append((number, value))
        return found

    def _store(
        self,
        knobs: WindowKnobs,
        body: Body,
        acc: Buffer,
        head: tuple[Expr, Expr],
        rows: Sequence[Expr],
        begin: Expr,
    ) -> None:
        block, low, lanes = body.block, body.low, knobs.lanes
        width = i64(spatial(self.node, self.node.shape)[-1])
        with low.loop("s", STRIP, kind="unrolled") as s:
            x = block.bind("x", begin + s)
            with block.when(x < width), low.scope():
                index = place(self.node, head[0], head[1], [*rows, x])
                flat = low.space.join(index, self.node.shape)
                low.resolve([flat])
                flat = block.bind("flat", flat)
                if lanes == 1:
                    value = block.bind("sum", acc[s])
                    finish(self.group, self.spec, replace(body, lo=flat), index, value)
                    return
                room = Lanes(low, lanes, self.facts or (), [head[1], flat], self.group.symbols())

                def at(lane: Expr, index: Sequence[Expr] = index) -> Sequence[Expr]:
                    return [*index[:-1], add(index[-1], lane)]

                def total(number: int, place: Sequence[Expr], s: Expr = s) -> Expr:
                    return self.spec.finish(low, place, acc[s * lanes + number])

                store_lanes(self.group, body, room, at, total, flat)


__all__ = ["plan_window"]
