"""Rows in groups: the stages of several rows one after the other, values per row side by side.

A row is a chain: a fold over the lanes of a register, a division or a root, then a loop that waits
for it. Here every stage passes over all rows of a group before the next begins. What a stage
reduces is left as one register for each row; a tree of shuffles folds these registers together,
and what follows from the results is computed for all rows at once. What remains are loops along
rows, independent of one another.

    for row of group: cells[row] = max of x, lane by lane      values[rows] = folded cells
    for row of group: cells[row] = sum of exp(x - values[row]) ...
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

from tvm import tirx

from tvm_disc.graph.core_ops import OpClass
from tvm_disc.graph.nodes import Node
from tvm_disc.schedules.group import Body
from tvm_disc.schedules.loops.reducers import ARG_REDUCTIONS, REDUCERS, accumulator, finish
from tvm_disc.schedules.rows.accumulate import Accumulator, fold_rows
from tvm_disc.schedules.rows.loops import (
    GROUP_ELEMS,
    UNROLLED_VECTORS,
    Along,
    RowWork,
    Walk,
    group_scratch,
    rows_of_group,
)
from tvm_disc.schedules.rows.short import AtOnce, whole_registers
from tvm_disc.schedules.rows.stages import bytes_of
from tvm_disc.tir.builder import (
    STACK_LIMIT_BYTES,
    Buffer,
    first_lanes,
    i64,
    loaded,
    ramp,
    same_lanes,
    storage_dtype,
    stored,
)
from tvm_disc.tir.index import product
from tvm_disc.tir.non_temporal import PastCaches

Expr: TypeAlias = Any


class RowGroups:
    """Walks the rows of a body in groups.

    ``at_once``: whether the values per row are computed for all rows of a group by one vector; else
    for one row after the other.
    """

    def __init__(self, work: RowWork, body: Body, at_once: bool) -> None:
        self.work, self.body, self.at_once = work, body, at_once
        self.block, self.low, self.sched = body.block, body.low, work.sched
        self.most, self.reach = rows_of_group(work), 0
        self.whole = whole_registers(work, body.low.solver)
        self.values: dict[Node, Buffer] = {
            n: self.block.alloc("of_row", self.most, storage_dtype(n.dtype))
            for n in work.group.nodes
            if self.sched.per_row[n]
        }
        self.known: list[Node] = []  # whose values have been computed, in order
        self.cells: dict[Node, Buffer] = {}  # the lanes of each row's reduction
        for node in work.group.nodes:
            if node.cls is OpClass.REDUCE and self._folds(node):
                self._make_cells(node)

    def _folds(self, node: Node) -> bool:
        dtype = accumulator(node.inputs[0].dtype)
        size_bytes = self.most * self.work.lanes * bytes_of(dtype)
        return node.op not in ARG_REDUCTIONS and size_bytes <= STACK_LIMIT_BYTES

    def _make_cells(self, node: Node) -> None:
        dtype, lanes = accumulator(node.inputs[0].dtype), self.work.lanes
        cells = self.block.alloc("cells", self.most * lanes, dtype)
        # A group may have fewer rows, but all are folded.
        empty = tirx.Broadcast(REDUCERS[node.op].identity(dtype), lanes)
        for k in range(self.most):
            self.block.store(cells, ramp(i64(k * lanes), lanes), empty)
        self.cells[node] = cells

    def emit(self, short: Sequence[int] = ()) -> None:
        """Rows ``[lo, hi)``; a body of its own for those of at most each of ``short`` elements, or,
        where rows are whole registers, for those of so many."""
        if not short:
            self._all_rows(0)
            return
        length = i64(product(self.work.domain.inner))
        with self.block.when(self._fits(length, short[0])), self.low.scope():
            self._all_rows(short[0])
        with self.block.otherwise(), self.low.scope():
            self.emit(short[1:])

    def _fits(self, length: Expr, reach: int) -> Expr:
        """Whether a body for rows of so many elements is for rows of this length.

        Lanes that hold no element of a row read one that exists: an empty row has none.
        """
        if self.whole:
            return length == reach
        if self.low.solver.known_le(1, length):
            return length <= reach
        return tirx.And(length > 0, length <= reach)

    def _all_rows(self, reach: int) -> None:
        """Rows ``[lo, hi)`` of at most ``reach`` elements, 0 for any number."""
        block, low, body = self.block, self.low, self.body
        self.reach = reach
        length = tirx.max(product(self.work.domain.inner), i64(1))
        share = GROUP_ELEMS // self.work.streams(low.solver)
        fit = tirx.min(tirx.truncdiv(i64(share), length), i64(self.most))
        step = block.number("together", tirx.max(fit, i64(1)))
        ahead = block.number("ahead", step * length)
        groups = tirx.truncdiv(body.hi - body.lo + (step - 1), step)
        self.past = None if reach else self._past_caches(length)
        with low.loop("g", groups) as g:
            first = block.number("first", body.lo + g * step)
            count = block.number("count", tirx.min(body.hi - first, step))
            for stage in range(self.sched.stages):
                self._loops(first, count, stage, ahead)
                self._row_values(first, count, stage)
        if self.past is not None:
            self.past.end()

    def _past_caches(self, length: Expr) -> PastCaches | None:
        """How outputs of whole rows are stored that are not read again."""
        work, full = self.work, self.work.domain.full
        large = work.as_large(work.group.outputs, self.low.solver)
        buffers = [self.body.outputs[i] for i in work.written_once()
                   if work.group.outputs[i] in large]  # fmt: skip
        width = work.lanes * UNROLLED_VECTORS
        return PastCaches.of(self.block, buffers, (product(full), length), width, work.far)

    def _loops(self, first: Expr, count: Expr, stage: int, ahead: Expr) -> None:
        """A stage's loop over each row of the group."""
        with self.low.loop("k", count) as k:
            row = self.block.bind("r", first + k)
            outer = self.low.space.split(row, self.work.domain.outer)
            walk = self._walk(outer, k)
            walk.recall({n: self._value(n, k) for n in self.known}, stage)
            with walk.readers():
                for node, acc in walk.accumulate(stage, row, ahead):
                    self._leave(node, acc, k)

    def _walk(self, outer: Sequence[Expr], k: Expr) -> Along:
        if not self.reach:
            return Along(self.work, self.body, outer, (), self.work.lanes, k, self.past)
        walk = AtOnce(self.work, self.body, outer, (), self.work.lanes, k)
        walk.reach, walk.whole = self.reach, self.whole
        return walk

    def _leave(self, node: Node, acc: Accumulator, k: Expr) -> None:
        """Keep a row's reduction lane by lane, or where that cannot be, its result."""
        if node in self.cells:
            lanes = self.work.lanes
            at = ramp(k * lanes, lanes)
            self.block.store(self.cells[node], at, acc.cells[ramp(i64(0), lanes)])
        else:
            self._put(node, k, acc.total())

    def _row_values(self, first: Expr, count: Expr, stage: int) -> None:
        """What is known of the rows after a stage; after the last one, the outputs per row."""
        done = self.work.reductions(stage)
        for node in done:
            if node in self.cells:
                self._fold(node)
        self.known += done
        follow = [
            n
            for n in self.values
            if n.cls is not OpClass.REDUCE and self.sched.stage[n] == stage + 1
        ]
        ends = stage == self.sched.stages - 1
        if follow or (ends and any(n in self.values for n in self.work.group.outputs)):
            with self._rows(first, count) as (rows, at):
                outer = self.low.space.split(rows, self.work.domain.outer)
                walk = OfRows(self.work, self.body, outer, (), self.most)
                walk.recall({n: self._value(n, at) for n in self.known}, 0)
                with walk.readers():
                    for node, value in walk.row_values(stage + 1):
                        self._put(node, at, value)
                    if ends:
                        walk.finish()
        self.known = [] if ends else self.known + follow

    @contextmanager
    def _rows(self, first: Expr, count: Expr) -> Iterator[tuple[Expr, Expr]]:
        """The rows of the group and their places in :attr:`values`: a vector, or one by one."""
        if not self.at_once:
            with self.low.loop("k", count) as k:
                yield self.block.bind("r", first + k), k
            return
        mask = first_lanes(count, self.most)
        with self.low.scope(), self.low.masked(mask):
            yield ramp(first, self.most), ramp(i64(0), self.most)

    def _fold(self, node: Node) -> None:
        """One value for each row out of its cells."""
        total = fold_rows(self.block, self.cells[node], self.most, REDUCERS[node.op].combine)
        self._put(node, ramp(i64(0), self.most), finish(node, total))

    def _value(self, node: Node, at: Expr) -> Expr:
        value = loaded(self.values[node][at], node.dtype)
        return value if node.dtype == "bool" else self.block.bind(node.name, value)

    def _put(self, node: Node, at: Expr, value: Expr) -> None:
        at, value = same_lanes(at, stored(value, node.dtype))
        self.low.resolve([value])
        self.block.store(self.values[node], at, value)


class OfRows(Walk):
    """What rows have once, for a vector of rows or one of them."""

    def place(self, node: Node, position: int) -> None:
        """Kept values have no place here: there is one for every element of a row."""


__all__ = ["RowGroups", "group_scratch", "rows_of_group"]
