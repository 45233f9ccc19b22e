"""Rows along an axis that is not the last: a thread processes several adjacent columns.

The stages are those of single columns. A value that exists once per column is kept for each of the
thread's columns; a read returns the value of the current column.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

from tvm_disc.graph.core_ops import OpClass
from tvm_disc.graph.nodes import Node
from tvm_disc.schedules.cuda.block import DeviceBlock
from tvm_disc.schedules.cuda.reduce import strided
from tvm_disc.schedules.cuda.rows.threads import Place, RowKnobs, Rows, Threads
from tvm_disc.schedules.cuda.vector import Lanes
from tvm_disc.schedules.kernel import Body
from tvm_disc.schedules.loops.reducers import finish
from tvm_disc.schedules.rows.loops import Walk
from tvm_disc.tir.builder import i64
from tvm_disc.tir.index import add
from tvm_disc.typing import Expr


class Columns(Threads):
    """Emits the adjacent columns of a thread, one per lane.

    The index of the first column is a multiple of the number of lanes.
    """

    def __init__(
        self,
        rows: Rows,
        knobs: RowKnobs,
        body: Body,
        at: Place,
        outer: Sequence[Expr],
        tail: Sequence[Expr],
    ) -> None:
        super().__init__(rows, knobs, body, at, outer, tail)
        self.head = list(tail[:-1])
        self.base = self.block.bind("column", tail[-1])
        self.lane = 0
        self.found: dict[Node, list[Expr]] = {}

    def _at(self, lane: int, step: Expr) -> None:
        """Set the current column."""
        self.lane, self.tail = lane, [*self.head, add(self.base, step)]

    def _each(self) -> Iterator[int]:
        for lane in range(self.knobs.lanes):
            self._at(lane, i64(lane))
            yield lane

    def _bind_all(self, node: Node, values: Sequence[Expr]) -> None:
        """Bind a node to one value per column."""
        self.found[node] = [self.block.bind(node.name, v) for v in values]
        self._read_by(node, lambda index: self.found[node][self.lane])

    def row_values(self, stage: int) -> Iterator[tuple[Node, Expr]]:
        """Yield the per-column values that a stage needs before its loop."""
        for node in self.group.nodes:
            known = self.sched.per_row[node] and self.sched.stage[node] == stage
            if known and node.cls is not OpClass.REDUCE:
                self._bind_all(node, [self._row_value(node) for _ in self._each()])
                yield node, self.found[node][0]

    def _stage(self, stage: int) -> None:
        reductions, stores = self.rows.reductions(stage, self.pairs), self.work.stores(stage)
        if reductions or stores:
            columns = self._columns(reductions, stores)
            for k, node in enumerate(reductions):
                self._bind_all(node, [values[k] for values in columns])
        for node in stores:
            if node in self.places:
                self._read_by(node, self._kept_reader(node))

    def _columns(self, nodes: Sequence[Node], stores: Sequence[Node]) -> list[list[Expr]]:
        """Emit one pass along the columns; return the values of the reductions, for each column."""
        accs = [self._accumulators(nodes) for _ in self._each()]
        firsts = [n for n in nodes if n not in self.pairs.values()]
        with strided(self._turn(), self.count, self.threads) as j:
            self._step_columns(firsts, accs, stores, self.block.bind("at", j))
        return [[finish(n, v) for a in own for n, v in self._folded(a)] for own in accs]

    def _step_columns(
        self, nodes: Sequence[Node], accs: Sequence[Sequence[Any]], stores: Sequence[Node], j: Expr
    ) -> None:
        symbols = self.group.symbols()
        begins = [self.base]
        self.lanes = lanes = Lanes(
            self.low, self.knobs.lanes, self.rows.column_facts or (), begins, symbols
        )
        self.cells = {}
        with lanes.reading(self.body.buffers):
            for number, lane in enumerate(lanes.each()):
                self._at(number, lane)
                self.step(nodes, accs[number], stores, j)
        for buffer, (cell, begin) in self.cells.items():
            lanes.copy(buffer, begin, cell, i64(0))
        self.lanes = None

    def finish(self) -> None:
        """Emit stores of the outputs that have one element per column."""
        # the stores of these columns must complete before the next columns are read
        cast(DeviceBlock, self.block).barrier()
        with self.block.when(self.at.first()), self.low.scope():
            for _ in self._each():
                Walk.finish(self)


__all__ = ["Columns"]
