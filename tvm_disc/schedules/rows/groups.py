"""Groups of rows: each stage runs over several rows, and their per-row values are one vector.

For a single row, the stages form a dependency chain: a fold over the lanes of a register, a
division or a square root, then a loop that waits for the result. Here, every stage runs over all
rows of a group before the next stage begins. A reduction leaves one register per row. A tree of
shuffles reduces these registers to one vector with a lane per row, and the values that depend on
the results are computed for all rows at once. The loops along rows are then independent.

    for row of group: cells[row] = max of x, lane by lane      values[rows] = folded cells
    for row of group: cells[row] = sum of exp(x - values[row]) ...
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

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
    OnStack,
    RowWork,
    Walk,
    group_scratch,
    padded,
    rows_of_group,
)
from tvm_disc.schedules.rows.short import AtOnce, whole_registers
from tvm_disc.schedules.rows.stages import bytes_of
from tvm_disc.tir.builder import (
    LINE_BYTES,
    STACK_LIMIT_BYTES,
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
from tvm_disc.typing import Buffer, Expr


class RowGroups:
    """Emits the rows of a body in groups.

    If ``at_once``, the per-row values of all rows of a group are computed as one vector, otherwise
    row by row.
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
        self.known: list[Node] = []  # nodes whose per-row values have been computed, in order
        # the partial results of each row's reduction, a register per row
        self.cells: dict[Node, Buffer] = {}
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
        # A group may have fewer rows, but the fold reads the cells of all.
        empty = tirx.Broadcast(REDUCERS[node.op].identity(dtype), lanes)
        for k in range(self.most):
            self.block.store(cells, ramp(i64(k * lanes), lanes), empty)
        self.cells[node] = cells

    def emit(self, short: Sequence[int] = ()) -> None:
        """Emit rows ``[lo, hi)``.

        For each number in ``short``, there is a body for rows of at most that number of elements;
        if row lengths are multiples of a register, of exactly that number.
        """
        if not short:
            self._all_rows(0)
            return
        length = i64(product(self.work.domain.inner))
        with self.block.when(self._fits(length, short[0])), self.low.scope():
            self._all_rows(short[0])
        with self.block.otherwise(), self.low.scope():
            self.emit(short[1:])

    def _fits(self, length: Expr, reach: int) -> Expr:
        """Return the condition that rows of this length use the body for ``reach`` elements.

        Empty rows are excluded, since masked lanes read the first element.
        """
        if self.whole:
            return length == reach
        if self.low.solver.known_le(1, length):
            return length <= reach
        return tirx.And(length > 0, length <= reach)

    def _all_rows(self, reach: int) -> None:
        """Emit rows ``[lo, hi)`` of at most ``reach`` elements; with 0, of any length."""
        block, low, body = self.block, self.low, self.body
        self.reach = reach
        length = tirx.max(product(self.work.domain.inner), i64(1))
        share = GROUP_ELEMS // self.work.streams(low.solver)
        fit = tirx.min(tirx.truncdiv(i64(share), length), i64(self.most))
        step = block.number("together", tirx.max(fit, i64(1)))
        ahead = block.number("ahead", step * length)
        groups = tirx.truncdiv(body.hi - body.lo + (step - 1), step)
        self.past = None if reach else self._past_caches(length)
        self.stack = self._stack(length, share)
        with low.loop("g", groups) as g:
            first = block.number("first", body.lo + g * step)
            count = block.number("count", tirx.min(body.hi - first, step))
            for stage in range(self.sched.stages):
                self._loops(first, count, stage, ahead)
                self._row_values(first, count, stage)
        if self.past is not None:
            self.past.end()

    def _past_caches(self, length: Expr) -> PastCaches | None:
        """Return non-temporal stores for outputs of the domain's shape that are not read again.

        None if the outputs are too small, or if the target has no such stores.
        """
        work, full = self.work, self.work.domain.full
        large = work.as_large(work.group.outputs, self.low.solver)
        buffers = [self.body.outputs[i] for i in work.written_once()
                   if work.group.outputs[i] in large]  # fmt: skip
        width = work.lanes * UNROLLED_VECTORS
        return PastCaches.of(self.block, buffers, (product(full), length), width, work.far)

    def _stack(self, length: Expr, share: int) -> OnStack | None:
        """Allocate stack memory for kept values of rows that end with a masked vector.

        None if there are no such rows or values. Rows so long that ``most`` rows exceed ``share``
        elements are not on the stack: few of their vectors are masked, and the copy takes space in
        the first-level cache.
        """
        guests = self.work.guests()
        if not guests or self.whole or self.low.solver.known_eq(length, self.reach):
            return None
        lanes = self.work.lanes
        elems = self.most * self.reach or share + self.most * lanes
        buffers = {}
        for node in guests:
            memory = self.block.stack("kept", elems * bytes_of(node.dtype), LINE_BYTES)
            buffers[node] = self.block.declare("kept", memory.data, node.dtype)
        if self.reach:
            return OnStack(buffers, i64(self.reach))
        stride = self.block.number("stride", padded(length, lanes))
        return OnStack(buffers, stride, tirx.And(length <= share // self.most, stride > length))

    def _loops(self, first: Expr, count: Expr, stage: int, ahead: Expr) -> None:
        """Emit the loop of a stage along each row of the group."""
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
            return Along(self.work, self.body, outer, k, self.past, self.stack)
        walk = AtOnce(self.work, self.body, outer, k, stack=self.stack)
        walk.reach, walk.whole = self.reach, self.whole
        return walk

    def _leave(self, node: Node, acc: Accumulator, k: Expr) -> None:
        """Emit the stores of a row's partial results, or of its result if the node has no cells."""
        if node in self.cells:
            lanes = self.work.lanes
            at = ramp(k * lanes, lanes)
            self.block.store(self.cells[node], at, acc.cells[ramp(i64(0), lanes)])
        else:
            self._put(node, k, acc.total())

    def _row_values(self, first: Expr, count: Expr, stage: int) -> None:
        """Emit the per-row values that are known after a stage; after the last one, the outputs."""
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
        """Yield the rows of the group, and their positions in :attr:`values`.

        If ``at_once``, rows and positions are one vector, otherwise they are scalars in a loop.
        """
        if not self.at_once:
            with self.low.loop("k", count) as k:
                yield self.block.bind("r", first + k), k
            return
        mask = first_lanes(count, self.most)
        with self.low.scope(), self.low.masked(mask):
            yield ramp(first, self.most), ramp(i64(0), self.most)

    def _fold(self, node: Node) -> None:
        """Emit the reduction of a node's cells to one value per row."""
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
    """Emits the per-row values, for a vector of rows or for a single row."""

    def place(self, node: Node, position: int) -> None:
        """Return None: per-row code stores no kept values, which have an element per position."""


__all__ = ["RowGroups", "group_scratch", "rows_of_group"]
