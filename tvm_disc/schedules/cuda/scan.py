"""Cumulative sums and products along an axis.

A row is a slice along the axis. A thread, a block, or several blocks compute a row.

A block processes 256 elements at a time: it adds to each element those at distance 1, 2, 4...
(Hillis & Steele, 1986), and then the total of all previous elements. If several blocks share a row,
a first kernel computes the totals of the parts, and each block starts from the total of the
previous parts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias
from typing import cast as typed

from tvm import tirx

from tvm_disc.errors import WhyNot
from tvm_disc.graph.nodes import Node
from tvm_disc.schedules.cuda.block import DeviceBlock
from tvm_disc.schedules.cuda.cost import Work, passes_ns, waves_ns
from tvm_disc.schedules.cuda.reduce import SPREAD, fold, strided
from tvm_disc.schedules.dispatch.variant import Grid, Knobs, Pass
from tvm_disc.schedules.elements import cast
from tvm_disc.schedules.kernel import Body, Group, Machine, Plan
from tvm_disc.schedules.opaque.scatter import SCANS, plan_scatter
from tvm_disc.shape import Solver
from tvm_disc.tir.builder import const, i64
from tvm_disc.tir.index import mul, product
from tvm_disc.typing import Buffer, Expr

Combine: TypeAlias = Callable[[Expr, Expr], Expr]

THREADS = 256
PART = 4096  # elements of a part, if several blocks share a row


@dataclass(frozen=True)
class ScanKnobs(Knobs):
    """Whether a thread, a block or several blocks compute a row."""

    by: str = "thread"


def plan_scan(group: Group, solver: Solver, machine: Machine) -> list[Plan] | WhyNot:
    """Return plans with a thread, a block, or several blocks per row."""
    node = group.anchor or group.nodes[-1]
    if node.op not in SCANS:
        return WhyNot("scan", f"it requires a scan such as cumsum: found {node.op}")
    plain = plan_scatter(group, solver, machine)
    assert machine.device is not None and isinstance(plain, Plan)
    lines = _Lines(node)
    rows, length = lines.rows, lines.length
    ns = partial(waves_ns, machine.device, group)
    alone = Work(tirx.floordiv(rows + (THREADS - 1), i64(THREADS)), THREADS, length, 0, SPREAD)
    steps = tirx.floordiv(length + (THREADS - 1), i64(THREADS))
    parts = tirx.floordiv(length + (PART - 1), i64(PART))
    block = Work(rows, THREADS, steps, steps * 18)
    shares = Work(mul(rows, parts), THREADS, i64(PART // THREADS), 18 * (PART // THREADS))
    sums = Work(rows, 1, parts)
    shared = Grid(THREADS, shared=True)
    return [
        replace(plain, knobs=ScanKnobs(), cost=partial(ns, alone), features=(length,)),
        Plan(
            tasks=rows,
            work=plain.work,
            emit=lines.whole,
            knobs=ScanKnobs("block"),
            grid=shared,
            cost=partial(ns, block),
            features=(length,),
            notes={"scan": "256 elements at a time; long lines by several blocks"},
        ),
        Plan(
            tasks=rows,
            work=plain.work,
            emit=lines.whole,
            knobs=ScanKnobs("blocks"),
            scratch_elems=mul(rows, parts),
            scratch_dtype=node.dtype,
            cost=partial(passes_ns, machine.device, group, ((shares, 2), (sums, 1))),
            features=(length,),
            passes=(
                Pass(mul(rows, parts), lines.part, shared),
                Pass(rows, lines.parts_before, Grid(32)),
                Pass(mul(rows, parts), lines.rest, shared),
            ),
        ),
    ]


class _Lines:
    """The rows of a tensor: the slices along the axis of a scan."""

    def __init__(self, node: Node) -> None:
        self.node, source = node, node.inputs[0]
        axis = node.attrs["axis"]
        self.axis = 0 if axis is None else int(axis) % len(source.shape)
        self.outer = [d for a, d in enumerate(source.shape) if a != self.axis]
        self.rows, self.length = product(self.outer), i64(source.shape[self.axis])
        identity, self.combine = SCANS[node.op]
        self.identity = const(identity, node.dtype)

    def _element(self, body: Body, row: Expr, k: Expr) -> tuple[Expr, Expr]:
        """Return the value of element ``k`` of a row, and the offset of its result."""
        low, source = body.low, self.node.inputs[0]
        head = list(low.space.split(row, self.outer))
        index = [*head[: self.axis], k, *head[self.axis :]]
        value = cast(low.at(source, index), self.node.dtype)
        at = low.space.join(index, source.shape)
        low.resolve([value, at])
        return value, at

    def _scan(self, body: Body, row: Expr, bounds: tuple[Expr, Expr], before: Expr) -> None:
        """Emit the results of a range of a row; ``before`` is the total of earlier elements."""
        block, (begin, end) = body.block, bounds
        carry = block.alloc("carry", 1, self.node.dtype)
        block.store(carry, 0, before)
        steps = block.bind("steps", tirx.truncdiv(end - begin + (THREADS - 1), i64(THREADS)))
        with body.low.loop("step", steps) as step:
            k = block.bind("k", begin + step * THREADS + body.thread)
            mine = block.alloc("mine", 1, self.node.dtype)
            block.store(mine, 0, self.identity)
            with block.when(k < end), body.low.scope():
                block.store(mine, 0, self._element(body, row, k)[0])
            so_far = block.bind("before", carry[i64(0)])
            own, others, all_ = scanned(body, mine, self.combine, self.identity)
            with block.when(k < end), body.low.scope():
                result = self.combine(so_far, others if self.node.attrs["exclusive"] else own)
                at = self._element(body, row, k)[1]
                body.low.store(body.outputs[0], at, result, self.node.dtype)
            block.store(carry, 0, self.combine(so_far, all_))

    def whole(self, body: Body) -> None:
        """Emit the results of a complete row."""
        self._scan(body, body.lo, (i64(0), self.length), self.identity)

    def _bounds(self, body: Body) -> tuple[Expr, Expr, Expr]:
        block = body.block
        parts = block.bind("parts", tirx.floordiv(self.length + (PART - 1), i64(PART)))
        row = block.bind("row", tirx.truncdiv(body.lo, parts))
        begin = block.bind("begin", (body.lo - row * parts) * PART)
        return row, begin, block.bind("end", tirx.min(begin + PART, self.length))

    def part(self, body: Body) -> None:
        """Emit the store of the total of a part of a row."""
        block = body.block
        assert body.scratch is not None
        row, begin, end = self._bounds(body)
        acc = block.alloc("acc", 1, self.node.dtype)
        block.store(acc, 0, self.identity)
        with strided(body, end - begin, THREADS) as j, body.low.scope():
            value, _ = self._element(body, row, begin + j)
            block.store(acc, 0, self.combine(acc[i64(0)], value))
        whole = fold(body, acc[i64(0)], self.combine, self.node.dtype, THREADS)
        with block.when(tirx.EQ(body.thread, i64(0))):
            block.store(body.scratch, body.lo, whole)

    def parts_before(self, body: Body) -> None:
        """Emit the exclusive prefix totals of the parts of a row; a thread computes a row."""
        block, scratch = body.block, body.scratch
        assert scratch is not None
        parts = block.bind("parts", tirx.floordiv(self.length + (PART - 1), i64(PART)))
        running_totals(body, scratch, body.lo * parts, parts, self.identity, self.combine)

    def rest(self, body: Body) -> None:
        """Emit the results of a part, from the total of the previous parts on."""
        assert body.scratch is not None
        row, begin, end = self._bounds(body)
        self._scan(body, row, (begin, end), body.block.bind("before", body.scratch[body.lo]))


def running_totals(
    body: Body, room: Buffer, begin: Expr, count: Expr, identity: Expr, combine: Combine
) -> Expr:
    """Emit exclusive prefix totals of ``count`` numbers, in place; return the total of all."""
    block = body.block
    total = block.alloc("total", 1, room.dtype)
    block.store(total, 0, identity)
    with body.low.loop("part", count) as p:
        before = block.bind("before", total[i64(0)])
        block.store(total, 0, combine(before, room[begin + p]))
        block.store(room, begin + p, before)
    return total[i64(0)]


def scanned(body: Body, value: Buffer, combine: Combine, identity: Expr) -> tuple[Expr, Expr, Expr]:
    """Emit a scan of one value per thread of a block.

    Return the inclusive and the exclusive prefix of the thread, and the total.
    """
    block = typed(DeviceBlock, body.block)
    room = block.shared("line", THREADS, value.dtype)
    block.store(room, body.thread, value[i64(0)])
    block.barrier()
    apart = 1
    while apart < THREADS:
        near = block.alloc("near", 1, value.dtype)
        block.store(near, 0, identity)
        with block.when(body.thread >= apart):
            block.store(near, 0, room[body.thread - apart])
        block.barrier()
        block.store(room, body.thread, combine(near[i64(0)], room[body.thread]))
        block.barrier()
        apart *= 2
    own = block.bind("own", room[body.thread])
    others = block.alloc("others", 1, value.dtype)
    block.store(others, 0, identity)
    with block.when(body.thread > 0):
        block.store(others, 0, room[body.thread - 1])
    all_ = block.bind("all", room[i64(THREADS - 1)])
    block.barrier()  # shared memory is reused
    return own, block.bind("others", others[i64(0)]), all_


__all__ = ["PART", "THREADS", "plan_scan", "running_totals", "scanned"]
