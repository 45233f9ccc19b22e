"""Reductions and element-wise work over a row: a thread, a warp or a block for each row.

The stages are those of the processor's template (``schedules/rows/stages.py``). The threads of a
block walk along a row in turn, so that neighbours read neighbours, and fold what they have; what a
later stage reads again lies where an output will, or is computed again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, cast

from tvm import tirx

from tvm_disc.graph.nodes import Node, static_dim
from tvm_disc.schedules.cuda.block import DeviceBlock
from tvm_disc.schedules.cuda.cost import Work, waves_ns
from tvm_disc.schedules.cuda.extremes import Best
from tvm_disc.schedules.cuda.reduce import fold, strided
from tvm_disc.schedules.dispatch.variant import Grid, Knobs
from tvm_disc.schedules.kernel import Body, Group, Machine, Plan
from tvm_disc.schedules.loops.reducers import (
    ARG_REDUCTIONS,
    REDUCERS,
    accumulator,
    finish,
)
from tvm_disc.schedules.rows.loops import RowWork, Walk
from tvm_disc.schedules.rows.stages import Schedule, row_domain, schedule_stages
from tvm_disc.shape import Solver
from tvm_disc.tir.builder import Buffer, i64
from tvm_disc.tir.index import product

Expr: TypeAlias = Any

# Threads of a row; alone, a thread has a row and a block many.
TOGETHER = (1, 32, 256)
ALONE = 128


@dataclass(frozen=True)
class RowKnobs(Knobs):
    """Threads for one row."""

    together: int


def plan_row(group: Group, solver: Solver, machine: Machine) -> list[Plan]:
    """A thread, a warp or a block for each row, by the length of the row."""
    assert machine.device is not None
    domain, sched = row_domain(group), _recomputed(schedule_stages(group, solver))
    work = RowWork(group, domain, sched, 1, [], "float32")
    rows = product([*domain.outer, *domain.tail])
    length = product(domain.inner)
    known = static_dim(length)
    plans = []
    for threads in sorted(TOGETHER, key=lambda t: t != 32):
        if known is not None and threads > 32 and known <= 64:
            continue
        per = tirx.floordiv(length + (threads - 1), i64(threads)) * sched.stages
        alone = threads == 1
        blocks = tirx.floordiv(rows + (ALONE - 1), i64(ALONE)) if alone else rows
        barriers = 0 if alone else threads.bit_length() * len(group.nodes)
        plans.append(
            Plan(
                tasks=rows,
                work=product(domain.full) * 8,
                emit=partial(_row, work, threads),
                knobs=RowKnobs(threads),
                grid=Grid(ALONE) if alone else Grid(threads, shared=True),
                cost=partial(
                    waves_ns,
                    machine.device,
                    group,
                    Work(blocks, ALONE if alone else threads, per, barriers),
                ),
                features=(length,),
                notes={"stages": str(sched.stages), "threads": "by the length of a row"},
            )
        )
    return plans


def _recomputed(sched: Schedule) -> Schedule:
    """The stages with nothing kept but in the outputs: there is no memory for a row per block."""
    sched.kept = [n for n in sched.kept if sched.storage[n] is not None]
    return sched


def _row(work: RowWork, threads: int, body: Body) -> None:
    domain = work.domain
    with body.low.scope():
        index = body.low.space.split(body.lo, (*domain.outer, *domain.tail))
        body.low.resolve(index)
        split = len(domain.outer)
        _Threads(work, body, index[:split], index[split:], threads).emit()


class _Threads(Walk):
    """A row that several threads walk along in turn."""

    def __init__(
        self,
        work: RowWork,
        body: Body,
        outer: Sequence[Expr],
        tail: Sequence[Expr],
        threads: int,
    ) -> None:
        super().__init__(work, body, outer, tail, 1)
        self.threads = threads

    def loops(self, nodes: Sequence[Node], stores: Sequence[Node]) -> list[Expr]:
        """One pass over the row; the values of the reductions, which all threads get."""
        accs = [Best(self.body, n) if n.op in ARG_REDUCTIONS else _Sum(self.body, n) for n in nodes]
        if self.threads == 1:
            with self.low.loop("j", self.length) as j:
                self.step(nodes, cast(Any, accs), stores, j)
            return [finish(n, a.value) for n, a in zip(nodes, accs, strict=True)]
        with strided(self.body, self.length, self.threads) as j:
            self.step(nodes, cast(Any, accs), stores, j)
        return [finish(n, a.folded(self.threads)) for n, a in zip(nodes, accs, strict=True)]

    def finish(self) -> None:
        """Store the outputs that exist once per row, by one of the threads."""
        if self.threads == 1:
            super().finish()
            return
        cast(DeviceBlock, self.block).barrier()  # stores of this row before reads of the next
        with self.block.when(tirx.EQ(self.body.thread, i64(0))), self.low.scope():
            super().finish()


class _Sum:
    """What one thread adds up for a reduction."""

    def __init__(self, body: Body, node: Node) -> None:
        self.body, self.block = body, body.block
        self.dtype = accumulator(node.inputs[0].dtype)
        self.reducer = REDUCERS[node.op]
        self.combine = self.reducer.combine
        self.cell: Buffer = self.block.alloc(node.name, 1, self.dtype)
        self.block.store(self.cell, 0, self.reducer.identity(self.dtype))

    def step(self, value: Expr, j: Expr, mask: Expr) -> None:
        """Take one element more."""
        self.block.store(self.cell, 0, self.combine(self.cell[i64(0)], value))

    @property
    def value(self) -> Expr:
        """The sum so far."""
        return self.block.bind("part", self.cell[i64(0)])

    def folded(self, threads: int) -> Expr:
        """The sum of all threads, which all of them get."""
        return fold(self.body, self.value, self.combine, self.dtype, threads)
