"""Emission of the stages of a row kernel, in which several threads of a block share a row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol, cast

from tvm import tirx

from tvm_disc.graph.nodes import Node
from tvm_disc.schedules.cuda.block import DeviceBlock
from tvm_disc.schedules.cuda.extremes import Best
from tvm_disc.schedules.cuda.reduce import strided
from tvm_disc.schedules.cuda.rows.pairs import Pair, Sum
from tvm_disc.schedules.cuda.vector import Lanes
from tvm_disc.schedules.dispatch.variant import Knobs
from tvm_disc.schedules.kernel import Body
from tvm_disc.schedules.loops.reducers import ARG_REDUCTIONS, finish
from tvm_disc.schedules.lowering import Reader
from tvm_disc.schedules.rows.loops import RowWork, Walk
from tvm_disc.tir.builder import i64, loaded, storage_dtype
from tvm_disc.tir.index import add
from tvm_disc.typing import UNSET, Buffer, Expr


@dataclass(frozen=True)
class RowKnobs(Knobs):
    """Number of threads per row, elements per access, and blocks per row.

    ``held``: accesses that a thread keeps in registers. ``columns``: adjacent rows per block.
    """

    together: int
    lanes: int = 1
    held: int = 0
    parts: int = 1
    columns: int = 1


class Rows(Protocol):
    """The properties of a group that the emitters of rows use.

    Attributes:
        reduced: the reductions.
        rows: number of rows.
        facts: sizes that must be multiples of the number of lanes for vectors along rows; None if
            vectors are impossible.
        column_facts: the same for vectors of adjacent columns.
    """

    reduced: list[Node]
    rows: Expr
    facts: list[Expr] | None
    column_facts: list[Expr] | None

    def held(self) -> list[Node]:
        """Return the operands whose rows can be kept in registers."""

    def reductions(self, stage: int, pairs: dict[Node, Node]) -> list[Node]:
        """Return the reductions of a stage, each followed by its paired second reduction."""

    def work_of(self, knobs: RowKnobs) -> tuple[RowWork, dict[Node, Node]]:
        """Return the stages of a plan, and the pairs of reductions that it computes in one pass."""


@dataclass(frozen=True)
class Place:
    """The position of a thread.

    Attributes:
        number: index among the threads that share the row.
        inside: condition that the row exists; None if it always does.
    """

    number: Expr
    inside: Expr | None = None

    def first(self) -> Expr:
        """Return whether this thread stores the values that exist once per row."""
        first = tirx.EQ(self.number, i64(0))
        return first if self.inside is None else tirx.And(first, self.inside)

    def count(self, count: Expr) -> Expr:
        """Return ``count``, or 0 for a thread whose row does not exist."""
        return count if self.inside is None else tirx.Select(self.inside, count, i64(0))


class Threads(Walk):
    """Emits a row that several threads process together."""

    def __init__(
        self,
        rows: Rows,
        knobs: RowKnobs,
        body: Body,
        at: Place,
        outer: Sequence[Expr],
        tail: Sequence[Expr],
    ) -> None:
        self.rows, self.knobs, self.threads, self.at = rows, knobs, knobs.together, at
        work, self.pairs = rows.work_of(knobs)
        self.arrays: dict[Node, Buffer] = {}
        super().__init__(work, body, outer, tail, 1)
        self.begin: Expr = i64(0)
        self.part: Expr = UNSET
        self.row: Expr = UNSET
        self.count = at.count(self.length)
        self.held: dict[Node, Buffer] = {}
        self.cells: dict[Buffer, tuple[Buffer, Expr]] = {}
        self.lanes: Lanes | None = None
        self.step_number: Expr = i64(0)

    # -- stages ----------------------------------------------------------------------------------

    def emit(self) -> None:
        """Emit all stages; if the row is kept in registers, it is loaded first."""
        if self.knobs.held:
            self._hold()
        super().emit()

    def emit_part(self, stage: int, part: Expr, row: Expr) -> None:
        """Emit one stage for a part of the row; results of earlier stages are in scratch memory."""
        self.part, self.row = part, row
        share = self.block.bind("share", self._share())
        self.begin = self.block.bind("first", part * share)
        self.count = self.block.bind(
            "count", self.at.count(tirx.max(tirx.min(self.length - self.begin, share), i64(0)))
        )
        with self.readers():
            for before in range(stage):
                self._found(before)
            self._stage(stage)
            if stage == self.sched.stages - 1:
                for _ in self.row_values(stage + 1):
                    pass
                with self.block.when(tirx.EQ(part, i64(0))), self.low.scope():
                    self.finish()

    def _found(self, stage: int) -> None:
        """Emit the combination of a stage's partial results, and the per-row values that use it."""
        nodes = self.rows.reductions(stage, self.pairs)
        values = self._accumulators(nodes)
        with self.low.loop("other", self.knobs.parts) as other:
            for acc in values:
                places = [self._place(n, other) for n in acc.nodes]
                assert self.body.scratch is not None
                theirs = [self.block.bind("theirs", self.body.scratch[p]) for p in places]
                acc.merge(theirs, self._elements(other))
        for acc in values:
            for node, value in zip(acc.nodes, acc.values(), strict=True):
                self._bind(node, self.block.bind(node.name, finish(node, value)))
        for node in self.work.stores(stage):
            if node in self.places:
                self._read_by(node, self._kept_reader(node))
        for _ in self.row_values(stage + 1):
            pass

    def _elements(self, part: Expr) -> Expr:
        """Return the number of elements in a part."""
        share = self.block.bind("share", self._share())
        return tirx.max(tirx.min(self.length - part * share, share), i64(0))

    def _share(self) -> Expr:
        """Return the number of elements per part, a multiple of the number of lanes."""
        share = tirx.truncdiv(self.length + (self.knobs.parts - 1), i64(self.knobs.parts))
        lanes = i64(self.knobs.lanes)
        return tirx.truncdiv(share + (lanes - 1), lanes) * lanes

    def _place(self, node: Node, part: Expr) -> Expr:
        """Return the index in scratch memory of a reduction's partial result, for this row."""
        number = self.rows.reduced.index(node)
        rows = i64(self.rows.rows)
        return (number * rows + self.row) * self.knobs.parts + part

    def _stage(self, stage: int) -> None:
        reductions, stores = self.rows.reductions(stage, self.pairs), self.work.stores(stage)
        if reductions or stores:
            for node, value in zip(reductions, self.loops(reductions, stores), strict=True):
                self._bind(node, self.block.bind(node.name, value))
        for node in stores:
            if node in self.places:
                self._read_by(node, self._kept_reader(node))

    def _accumulators(self, nodes: Sequence[Node]) -> list[Any]:
        seconds = set(self.pairs.values())
        made: list[Any] = []
        for node in nodes:
            if node in seconds:
                continue
            second = self.pairs.get(node)
            if node.op in ARG_REDUCTIONS:
                made.append(Best(self.body, node))
            elif second is not None:
                made.append(Pair(self.body, node, second))
            else:
                made.append(Sum(self.body, node))
        return made

    def loops(self, nodes: Sequence[Node], stores: Sequence[Node]) -> list[Expr]:
        """Emit one pass over the row; return the values of the reductions to all threads."""
        accs = self._accumulators(nodes)
        firsts = [n for n in nodes if n not in self.pairs.values()]
        if self.threads == 1:
            with self.low.loop("j", self.length) as j:
                self.step(firsts, accs, stores, j)
            return [finish(n, v) for a in accs for n, v in _values(a)]
        if self.knobs.lanes == 1:
            with strided(self._turn(), self.count, self.threads) as j:
                self.step(firsts, accs, stores, self.block.bind("at", add(self.begin, j)))
        else:
            with self._vectors() as j:
                self._step_lanes(firsts, accs, stores, j)
        found = [(n, v) for a in accs for n, v in self._folded(a)]
        if self.part is not None:
            self._leave(found)
        return [finish(n, v) for n, v in found]

    def _turn(self) -> Body:
        """Return the body with thread numbers that count within a row."""
        return replace(self.body, thread=self.at.number)

    def _folded(self, acc: Any) -> list[tuple[Node, Expr]]:
        if isinstance(acc, Best):
            return [(acc.node, acc.folded(self.threads, self.knobs.columns))]
        found = acc.folded(self.threads, self.knobs.columns, self.part is None)
        return list(zip(acc.nodes, found, strict=True))

    def _leave(self, found: Sequence[tuple[Node, Expr]]) -> None:
        """Emit stores of this part's reductions to scratch memory, by one thread."""
        with self.block.when(self.at.first()), self.low.scope():
            for node, value in found:
                assert self.body.scratch is not None
                self.block.store(self.body.scratch, self._place(node, self.part), value)

    def finish(self) -> None:
        """Emit stores of the outputs that have one element per row, by one thread."""
        if self.threads == 1:
            super().finish()
            return
        if self.part is None:
            # the stores of this row must complete before the next row is read
            cast(DeviceBlock, self.block).barrier()
        with self.block.when(self.at.first()), self.low.scope():
            super().finish()

    # -- lanes -----------------------------------------------------------------------------------

    @contextmanager
    def _vectors(self) -> Iterator[Expr]:
        """Emit a loop over this thread's vector accesses; yield the first element of each."""
        lanes, block = self.knobs.lanes, self.block
        if not self.knobs.held:
            shift = i64(lanes.bit_length() - 1)
            accesses = block.bind("accesses", tirx.shift_right(self.count, shift))
            with strided(self.body, accesses, self.threads) as number:
                yield block.bind("at", add(self.begin, number * lanes))
            return
        with self.low.loop("s", self.knobs.held, kind="unrolled") as step:
            self.step_number = step
            at = block.bind("at", (step * self.threads + self.body.thread) * lanes)
            with block.when(at < self.length), self.low.scope():
                yield at

    def _new_lanes(self, begin: Expr) -> Lanes:
        symbols = self.group.symbols()
        return Lanes(
            self.low, self.knobs.lanes, self.rows.facts or (), [begin, self.begin], symbols
        )

    def _hold(self) -> None:
        """Emit loads of the complete row into registers."""
        lanes, held = self.knobs.lanes, self.rows.held()
        for node in held:
            size = lanes * self.knobs.held
            self.held[node] = self.block.alloc("held", size, str(self.body.buffers[node].dtype))
        with self._vectors() as at:
            room = self._new_lanes(at)
            for node in held:
                begin = self.low.space.join(self._index(at), node.shape)
                self.low.resolve([begin])
                begin = self.block.bind("begin", begin)
                to = self.step_number * lanes
                room.copy(self.held[node], to, self.body.buffers[node], begin)
        for node in held:
            self.low.bind_reader(node, self._held_reader(node))

    def place(self, node: Node, position: int) -> tuple[Buffer, Expr] | None:
        """Return None; if the row is kept in registers, first allocate registers for the node."""
        if self.knobs.held:
            size = self.knobs.lanes * self.knobs.held
            self.arrays[node] = self.block.alloc("kept", size, storage_dtype(node.dtype))
        return None

    def _kept_reader(self, node: Node) -> Reader:
        if node not in self.arrays:
            return super()._kept_reader(node)
        return lambda index: loaded(self.arrays[node][self._number()], node.dtype)

    def _number(self) -> Expr:
        """Return the index of the current element in this thread's registers."""
        assert self.lanes is not None
        return self.step_number * self.knobs.lanes + self.lanes.number

    def _held_reader(self, node: Node) -> Reader:
        return lambda index: loaded(self.held[node][self._number()], node.dtype)

    def _step_lanes(
        self, nodes: Sequence[Node], accs: Sequence[Any], stores: Sequence[Node], j: Expr
    ) -> None:
        """Emit adjacent elements from ``j`` on in order, then vector stores of the results."""
        self.lanes = lanes = self._new_lanes(j)
        self.cells = {}
        buffers = {n: b for n, b in self.body.buffers.items() if n not in self.held}
        with lanes.reading(buffers):
            for lane in lanes.each():
                self.step(nodes, accs, stores, add(j, lane))
        for buffer, (cell, begin) in self.cells.items():
            lanes.copy(buffer, begin, cell, i64(0))
        self.lanes = None

    def _store(self, node: Node, index: Sequence[Expr], value: Expr) -> None:
        if self.lanes is None:
            super()._store(node, index, value)
            return
        if node in self.arrays:
            self.low.store(self.arrays[node], self._number(), value, node.dtype)
            if node not in self.group.outputs:
                return
        buffer = self.body.outputs[self._output_of(node)]
        if buffer not in self.cells:
            begin = self.low.space.join(index[len(index) - len(node.shape) :], node.shape)
            self.low.resolve([begin])
            cell = self.block.alloc("out", self.knobs.lanes, str(buffer.dtype))
            self.cells[buffer] = cell, self.block.bind("begin", begin)
        self.low.store(self.cells[buffer][0], i64(self.lanes.number), value, node.dtype)

    def _output_of(self, node: Node) -> int:
        """Return the index of the output in whose memory a node is stored."""
        slot = self.sched.storage.get(node)
        return self.group.outputs.index(node) if slot is None else slot


def _values(acc: Any) -> list[tuple[Node, Expr]]:
    if isinstance(acc, Best):
        return [(acc.node, acc.value)]
    return list(zip(acc.nodes, acc.values(), strict=True))


__all__ = ["Place", "RowKnobs", "Rows", "Threads"]
