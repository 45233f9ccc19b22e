"""Walks of the *row* (stitch) template: how the stages of one row become loops.

    along    vectors lie along a contiguous row; the last one is masked
    across   rows of a few elements: one row per lane, nothing is folded
    column   the reduced axes are not the last: lanes are neighbouring columns

Rows are independent, but each is a chain: a fold, then a loop that needs its result. Several short
rows are therefore walked together, stage by stage, so that one row's fold runs beside the next
row's loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

from tvm import tirx

from tvm_disc.relay_passes.core_ops import OpClass
from tvm_disc.relay_passes.graph import Node
from tvm_disc.schedules.accumulate import BLOCK, Accumulator, make_accumulator
from tvm_disc.schedules.elements import cast
from tvm_disc.schedules.emit import (
    Buffer,
    byte_offset,
    first_lanes,
    i64,
    lane_index,
    ramp,
    storage_dtype,
)
from tvm_disc.schedules.index import add, mul, product
from tvm_disc.schedules.kernel import Body, Group
from tvm_disc.schedules.lowering import Reader
from tvm_disc.schedules.reducers import accumulator
from tvm_disc.schedules.row_stages import RowShape, Schedule, bytes_of

Expr: TypeAlias = Any

UNROLLED_VECTORS = 4  # independent accumulators hide the latency of the addition
SMALL_ROW = 8  # rows of fewer elements are walked across
SCALAR_BLOCK = 64  # steps of one lane before the compensated level


@dataclass
class RowWork:
    """What the walks of one group share: the group, its domain and stages, and the vectors.

    ``spare`` are the kept nodes that lie in scratch, as elements of ``scratch_dtype``.
    """

    group: Group
    domain: RowShape
    sched: Schedule
    lanes: int
    spare: list[Node]
    scratch_dtype: str


class Walk:
    """Emits the stages of one row, or of one row in every lane."""

    def __init__(
        self,
        work: RowWork,
        body: Body,
        outer: Sequence[Expr],
        tail: Sequence[Expr],
        width: int,
        slot: int = 0,
    ) -> None:
        self.work, self.body, self.slot = work, body, slot
        self.group, self.domain, self.sched = work.group, work.domain, work.sched
        self.low, self.block = body.low, body.block
        self.outer, self.tail, self.width = list(outer), list(tail), width
        self.length_of_row = product(self.domain.inner)
        self.length = self.block.bind("len", self.length_of_row)
        self.places: dict[Node, tuple[Buffer, Expr] | None] = {}
        self.bound: dict[Node, Reader] = {}
        for k, node in enumerate(self.sched.kept):
            self.places[node] = self.place(node, k)

    def emit(self) -> None:
        """All stages in order, then the values that exist once per row."""
        emit_together([self])

    @contextmanager
    def readers(self) -> Iterator[None]:
        """Nodes are read as this row has them."""
        for node, reader in self.bound.items():
            self.low.bind_reader(node, reader)
        try:
            yield
        finally:
            for node in self.bound:
                self.low.drop_reader(node)

    def stage(self, stage: int) -> None:
        """One loop over the row, and the values per row that it makes known."""
        self._stage(stage)
        self._row_values(stage + 1)

    def known(self, nodes: Sequence[Node], values: Sequence[Expr]) -> None:
        """Reductions whose values are known: what follows from them, and the outputs."""
        for node, value in zip(nodes, values, strict=True):
            self._bind(node, self.block.bind(node.name, value))
        self._row_values(1)
        self.finish()
        for node in self.bound:
            self.low.drop_reader(node)

    def finish(self) -> None:
        """Store the outputs that exist once per row."""
        for node, buffer in zip(self.group.outputs, self.body.outputs, strict=True):
            if self.sched.per_row[node]:
                index = self._row_index(node)
                offset = self.low.space.join(index, node.shape)
                self.low.store(buffer, offset, self.low.at(node, index), node.dtype)

    def _stage(self, stage: int) -> None:
        reductions = [
            n
            for n in self.group.nodes
            if n.cls is OpClass.REDUCE and self.sched.stage[n] == stage + 1
        ]
        stores = [n for n in self.sched.kept if self.sched.stage[n] == stage]
        stores += [
            n
            for n in self.group.outputs
            if n not in self.places and not self.sched.per_row[n] and self.sched.stage[n] == stage
        ]
        if reductions or stores:
            for node, value in zip(reductions, self.loops(reductions, stores), strict=True):
                self._bind(node, self.block.bind(node.name, value))
        for node in stores:
            if node in self.places:
                self._read_back(node)

    def _bind(self, node: Node, value: Expr) -> None:
        self._read_by(node, lambda index: value)

    def _read_by(self, node: Node, reader: Reader) -> None:
        self.low.bind_reader(node, reader)
        self.bound[node] = reader

    def _row_values(self, stage: int) -> None:
        """Values per row that are known from ``stage`` on are computed once, before its loop."""
        for node in self.group.nodes:
            if self.sched.per_row[node] and self.sched.stage[node] == stage:
                if node.cls is OpClass.REDUCE:
                    continue
                source = node.inputs[0]
                if node.cls is OpClass.VIEW and self.low.has_reader(source):
                    index = self._row_index(source)
                    self._bind(node, self.low.at(source, index))
                else:
                    self._bind(node, self.low.at(node, self._row_index(node)))

    def _row_index(self, node: Node) -> list[Expr]:
        middle = len(node.shape) - len(self.outer) - len(self.tail)
        index = [*self.outer, *[i64(0)] * max(middle, 0), *self.tail]
        return index[len(index) - len(node.shape) :]

    def _index(self, j: Expr) -> list[Expr]:
        return [*self.outer, *self.low.space.split(j, self.domain.inner), *self.tail]

    # -- kept values ---------------------------------------------------------------------------

    def place(self, node: Node, position: int) -> tuple[Buffer, Expr] | None:
        """Buffer and offset of a node kept outside the outputs, None for an output's place."""
        if self.sched.storage[node] is not None:
            return None
        k = self.work.spare.index(node)
        offset = mul(self.keep_size(), self.slot * len(self.work.spare) + k)
        size_bytes = bytes_of(self.work.scratch_dtype)
        assert self.body.scratch is not None
        data = byte_offset(self.body.scratch.data, offset * size_bytes, node.dtype)
        buffer = self.block.declare(f"kept{k}", self.block.bind("keep", data), node.dtype)
        return buffer, i64(0)

    def keep_size(self) -> Expr:
        """Elements of scratch for one kept node."""
        return self.length

    def keep_at(self, j: Expr) -> Expr:
        """Where the value at ``j`` lies in the scratch of its node."""
        return j

    def _kept_offset(self, node: Node, index: Sequence[Expr]) -> tuple[Buffer, Expr]:
        place = self.places[node]
        if place is None:
            slot = self.sched.storage[node]
            assert slot is not None
            return self.body.outputs[slot], self.low.space.join(index, node.shape)
        begin, end = len(self.outer), len(self.outer) + len(self.domain.inner)
        j = self.low.space.join(index[begin:end], self.domain.inner)
        return place[0], add(place[1], self.keep_at(j))

    def _read_back(self, node: Node) -> None:
        def read(index: Sequence[Expr]) -> Expr:
            return self.low.load(*self._kept_offset(node, index), node.dtype)

        self._read_by(node, read)

    # -- one position --------------------------------------------------------------------------

    def step(
        self, nodes: Sequence[Node], accs: Sequence[Accumulator], stores: Sequence[Node], j: Expr
    ) -> None:
        """Feed the accumulators and store, for the vector or element at ``j``."""
        index = self._index(j)
        operands = [self._operand(n, index) for n in nodes]
        # A kept value may lie where an output goes: everything is read before it is written.
        values = [self.low.at(n, index[len(index) - len(n.shape) :]) for n in stores]
        for node, value in zip(stores, values, strict=True):
            self._store(node, index, value)
        for acc, value in zip(accs, operands, strict=True):
            acc.step(value, j, self.low.mask)

    def _operand(self, node: Node, index: Sequence[Expr]) -> Expr:
        source = node.inputs[0]
        value = cast(self.low.at(source, list(index)), accumulator(source.dtype))
        self.low.resolve([value])
        return value

    def _store(self, node: Node, index: Sequence[Expr], value: Expr) -> None:
        if node in self.places:
            self.low.store(*self._kept_offset(node, index), value, node.dtype)
        if node not in self.places or (
            node in self.group.outputs and self.places[node] is not None
        ):
            buffer = self.body.outputs[self.group.outputs.index(node)]
            at = index[len(index) - len(node.shape) :]
            self.low.store(buffer, self.low.space.join(at, node.shape), value, node.dtype)

    def loops(self, nodes: Sequence[Node], stores: Sequence[Node]) -> list[Expr]:
        """One pass over the row; the values of the reductions."""
        raise NotImplementedError

    def _lane_loops(self, nodes: Sequence[Node], stores: Sequence[Node]) -> list[Expr]:
        """A row in every lane: element after element, nothing to fold."""
        chunks = tirx.floordiv(self.length + (SCALAR_BLOCK - 1), i64(SCALAR_BLOCK))
        chunks = self.block.bind("chunks", chunks)
        accs = [make_accumulator(self.block, n, self.width, chunks) for n in nodes]
        if not any(a.two_level for a in accs):
            with self.low.loop("j", self.length) as j:
                self.step(nodes, accs, stores, j)
            return [a.lanes() for a in accs]
        with self.low.loop("jc", chunks) as c:
            first = self.block.bind("first", c * SCALAR_BLOCK)
            count = tirx.min(self.length - first, i64(SCALAR_BLOCK))
            with self.low.loop("j", count, begin=first) as j:
                self.step(nodes, accs, stores, j)
            for acc in accs:
                acc.close_block()
        for acc in accs:
            acc.close()
        return [a.lanes() for a in accs]


class Along(Walk):
    """Vectors along the row: wide blocks, then single vectors, masked where the row may end in
    part of one; ``width`` 0 for single elements."""

    def loops(self, nodes: Sequence[Node], stores: Sequence[Node]) -> list[Expr]:
        if not self.width:
            self.width = 1
            values = self._lane_loops(nodes, stores)
            self.width = 0
            return values
        wide = self.width * UNROLLED_VECTORS
        blocks = self.block.bind("blocks", tirx.floordiv(self.length, i64(wide)))
        chunks = self.block.bind("chunks", tirx.floordiv(blocks + (BLOCK - 1), i64(BLOCK)))
        accs = [make_accumulator(self.block, n, self.width, chunks) for n in nodes]
        if nodes:
            self._reduce_blocks(nodes, accs, stores, blocks, chunks)
        else:
            with self.low.loop("jo", blocks) as jo:
                self.step((), (), stores, ramp(self.block.bind("at", jo * wide), wide))
        whole = self.low.whole_vectors(self.length_of_row, self.width, UNROLLED_VECTORS)
        if whole != wide:
            done = self.block.bind("done", blocks * wide)
            self._rest(nodes, accs, stores, done, masked=not whole)
        return [a.total() for a in accs]

    def _reduce_blocks(
        self,
        nodes: Sequence[Node],
        accs: Sequence[Accumulator],
        stores: Sequence[Node],
        blocks: Expr,
        chunks: Expr,
    ) -> None:
        wide = self.width * UNROLLED_VECTORS
        with self.low.loop("jc", chunks) as c:
            parts = [make_accumulator(self.block, n, wide) for n in nodes]
            first = self.block.bind("first", c * BLOCK)
            with self.low.loop("jo", tirx.min(blocks - first, i64(BLOCK))) as jo:
                at = self.block.bind("at", (first + jo) * wide)
                self.step(nodes, parts, stores, ramp(at, wide))
            for acc, part in zip(accs, parts, strict=True):
                acc.absorb(part)
        for acc in accs:
            acc.close()

    def _rest(
        self,
        nodes: Sequence[Node],
        accs: Sequence[Accumulator],
        stores: Sequence[Node],
        done: Expr,
        masked: bool,
    ) -> None:
        count = tirx.floordiv(self.length - done + (self.width - 1), i64(self.width))
        with self.low.loop("jt", count) as jt:
            at = self.block.bind("at", done + jt * self.width)
            left = self.block.bind("rest", self.length - at) if masked else None
            mask = None if left is None else first_lanes(left, self.width)
            with self.low.masked(mask):
                self.step(nodes, accs, stores, ramp(at, self.width))


class Across(Walk):
    """One short row per lane; kept values lie on the stack, a vector for each position."""

    def place(self, node: Node, position: int) -> tuple[Buffer, Expr] | None:
        return self.block.alloc("short", SMALL_ROW * self.width, storage_dtype(node.dtype)), i64(0)

    def keep_at(self, j: Expr) -> Expr:
        return tirx.Ramp(j * self.width, i64(1), self.width)

    def loops(self, nodes: Sequence[Node], stores: Sequence[Node]) -> list[Expr]:
        accs = [make_accumulator(self.block, n, self.width) for n in nodes]
        with self.low.loop("j", self.length) as j:
            self.step(nodes, accs, stores, j)
        return [a.lanes() for a in accs]


class Column(Walk):
    """A block of neighbouring columns, ``width`` lanes wide."""

    def keep_size(self) -> Expr:
        # Of the widest block: narrower ones use a part.
        return self.length * (self.work.lanes * UNROLLED_VECTORS)

    def keep_at(self, j: Expr) -> Expr:
        return add(j * self.width, lane_index(self.width))

    def loops(self, nodes: Sequence[Node], stores: Sequence[Node]) -> list[Expr]:
        return self._lane_loops(nodes, stores)


def emit_together(walks: Sequence[Walk]) -> None:
    """The stages of several rows, each stage for all rows before the next."""
    for stage in range(walks[0].sched.stages):
        for walk in walks:
            with walk.readers():
                walk.stage(stage)
    for walk in walks:
        with walk.readers():
            walk.finish()


__all__ = [
    "SMALL_ROW",
    "UNROLLED_VECTORS",
    "Across",
    "Along",
    "Column",
    "RowWork",
    "Walk",
    "emit_together",
]
