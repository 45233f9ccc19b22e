"""Traversals of the *row* (stitch) template: the loops for the stages of a row.

along    vectors along a contiguous row; the last vector is masked
single   element by element, for values that cannot be computed as vectors
across   short rows: one row per lane, and no fold over lanes
column   the reduced axes are not the last ones: lanes are adjacent columns
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field

from tvm import tirx

from tvm_disc.graph.core_ops import OpClass
from tvm_disc.graph.nodes import Node
from tvm_disc.schedules.elements import cast
from tvm_disc.schedules.kernel import Body, Group
from tvm_disc.schedules.loops.reducers import accumulator
from tvm_disc.schedules.lowering import Reader
from tvm_disc.schedules.rows.accumulate import BLOCK, Accumulator, make_accumulator
from tvm_disc.schedules.rows.stages import RowShape, Schedule, bytes_of
from tvm_disc.shape import Solver
from tvm_disc.tir.builder import (
    STACK_LIMIT_BYTES,
    byte_offset,
    either,
    element_pointer,
    first_lanes,
    i64,
    lane_index,
    ramp,
    storage_dtype,
)
from tvm_disc.tir.index import add, mul, product
from tvm_disc.tir.non_temporal import PastCaches
from tvm_disc.typing import Buffer, Expr, Size

UNROLLED_VECTORS = 4  # number of independent accumulators, which hides the latency of additions
MOST_ROWS = 8
# Largest number of elements of a row group, over all its rows, operands and outputs. They fill at
# most half of the L1 cache.
GROUP_ELEMS = 4096
# distance in elements between a store to an output and the address that is prefetched
WRITE_AHEAD = 512
SCALAR_BLOCK = 64  # number of steps per lane before their sum is added to the compensated sum


@dataclass
class RowWork:
    """The data that all traversals of a group use: its domain, stages and number of lanes.

    Attributes:
        spare: kept nodes that are stored in scratch, as elements of ``scratch_dtype``.
        lent: kept nodes that are stored in an output's memory, or in scratch memory if outputs use
            non-temporal stores. Outputs use them if the domain has at least ``far`` elements.
    """

    group: Group
    domain: RowShape
    sched: Schedule
    lanes: int
    spare: list[Node]
    scratch_dtype: str
    lent: list[Node] = field(default_factory=list)
    far: int = 0

    def reductions(self, stage: int) -> list[Node]:
        """Return the reductions that the loop of a stage computes."""
        nodes = (n for n in self.group.nodes if n.cls is OpClass.REDUCE)
        return [n for n in nodes if self.sched.stage[n] == stage + 1]

    def stores(self, stage: int) -> list[Node]:
        """Return the nodes that the loop of a stage stores: kept nodes, then outputs."""
        sched = self.sched
        outputs = [n for n in self.group.outputs if n not in sched.kept and not sched.per_row[n]]
        return [n for n in (*sched.kept, *outputs) if sched.stage[n] == stage]

    def passes(self) -> int:
        """Return the number of loops along a row."""
        return sum(bool(self.reductions(s) or self.stores(s)) for s in range(self.sched.stages))

    def stores_first(self, stage: int) -> bool:
        """Return whether a stage is the first one that stores nodes."""
        return bool(self.stores(stage)) and not any(self.stores(s) for s in range(stage))

    def as_large(self, nodes: Sequence[Node], solver: Solver) -> list[Node]:
        """Return those of ``nodes`` that have the shape of the domain."""
        return [n for n in nodes if solver.known_same_shape(n.shape, self.domain.full)]

    def written_once(self) -> list[int]:
        """Return the indices of outputs that no loop reads, and whose memory is used by no kept
        node except those of ``lent``.
        """
        sched = self.sched
        taken = {i for n, i in sched.storage.items() if n not in self.lent}
        return [i for i, n in enumerate(self.group.outputs)
                if not sched.per_row[n] and n not in sched.kept and i not in taken]  # fmt: skip

    def guests(self) -> list[Node]:
        """Return the float32 kept nodes that use an output's memory but are no output."""
        kept = (n for n in self.sched.kept if self.sched.storage[n] is not None)
        return [n for n in kept if n not in self.group.outputs and n.dtype == "float32"]

    def streams(self, solver: Solver) -> int:
        """Return the number of operands and outputs with the domain's shape, at least one."""
        return max(1, len(self.as_large((*self.group.params, *self.group.outputs), solver)))


def rows_of_group(work: RowWork) -> int:
    """Return the largest number of rows of a group; a register must hold one value per row."""
    return min(MOST_ROWS, work.lanes)


def most_across(lanes: int, node: Node) -> int:
    """Return the largest length of rows whose kept values fit the stack, with one row per lane."""
    return STACK_LIMIT_BYTES // (lanes * bytes_of(node.dtype))


def group_scratch(work: RowWork, length: Expr) -> Expr:
    """Return the elements of scratch memory that one kept value takes for all rows of a group."""
    short = tirx.min(i64(length) * rows_of_group(work), i64(GROUP_ELEMS))
    return tirx.max(i64(length), short)


@dataclass(frozen=True)
class OnStack:
    """Stack memory for kept values of the rows of a group, which otherwise use an output's memory.

    In an output's memory, the masked store at the end of a row overlaps the load at the start of
    the next row, and the processor cannot forward the store to the load. On the stack, rows begin
    ``stride`` elements apart, and no vector spans two rows.

    Attributes:
        buffers: a buffer for each kept node that may be on the stack.
        used: the run-time condition that values are on the stack; None: always.
    """

    buffers: Mapping[Node, Buffer]
    stride: Expr
    used: Expr | None = None


def padded(length: Expr, lanes: int) -> Expr:
    """Return a row length rounded up to complete vectors."""
    return tirx.bitwise_and(length + (lanes - 1), i64(-lanes))


class Walk:
    """Emits the stages of one row, or of one row per lane."""

    def __init__(
        self,
        work: RowWork,
        body: Body,
        outer: Sequence[Expr],
        tail: Sequence[Expr],
        width: int,
        slot: Size = 0,
        past: PastCaches | None = None,
    ) -> None:
        self.work, self.body, self.slot, self.past = work, body, slot, past
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
        """Emit all stages in order, then the outputs with one value per row."""
        with self.readers():
            for stage in range(self.sched.stages):
                self._stage(stage)
                for _ in self.row_values(stage + 1):
                    pass
            self.finish()

    @contextmanager
    def readers(self) -> Iterator[None]:
        """Bind the readers of this row's nodes within the context."""
        for node, reader in self.bound.items():
            self.low.bind_reader(node, reader)
        try:
            yield
        finally:
            for node in self.bound:
                self.low.drop_reader(node)

    def recall(self, values: Mapping[Node, Expr], stage: int) -> None:
        """Bind the values of earlier stages: per-row values, and readers of kept values."""
        for node, value in values.items():
            self.bound[node] = _constant(value)
        for node in self.sched.kept:
            if self.sched.stage[node] < stage:
                self.bound[node] = self._kept_reader(node)

    def known(self, nodes: Sequence[Node], values: Sequence[Expr]) -> None:
        """Emit the per-row values and outputs that follow from reductions with given ``values``."""
        for node, value in zip(nodes, values, strict=True):
            self._bind(node, self.block.bind(node.name, value))
        for _ in self.row_values(1):
            pass
        self.finish()
        for node in self.bound:
            self.low.drop_reader(node)

    def finish(self) -> None:
        """Emit the stores of outputs that have one value per row."""
        for node, buffer in zip(self.group.outputs, self.body.outputs, strict=True):
            if self.sched.per_row[node]:
                index = self._row_index(node)
                offset = self.low.space.join(index, node.shape)
                self.low.store(buffer, offset, self.low.at(node, index), node.dtype)

    def _stage(self, stage: int) -> None:
        """Emit one loop along the row."""
        reductions, stores = self.work.reductions(stage), self.work.stores(stage)
        if reductions or stores:
            for node, value in zip(reductions, self.loops(reductions, stores), strict=True):
                self._bind(node, self.block.bind(node.name, value))
        for node in stores:
            if node in self.places:
                self._read_by(node, self._kept_reader(node))

    def _bind(self, node: Node, value: Expr) -> None:
        self._read_by(node, _constant(value))

    def _read_by(self, node: Node, reader: Reader) -> None:
        self.low.bind_reader(node, reader)
        self.bound[node] = reader

    def row_values(self, stage: int) -> Iterator[tuple[Node, Expr]]:
        """Emit and yield the per-row values that are first known at ``stage``."""
        for node in self.group.nodes:
            if self.sched.per_row[node] and self.sched.stage[node] == stage:
                if node.cls is OpClass.REDUCE:
                    continue
                value = self._row_value(node)
                self._bind(node, value)
                yield node, value

    def _row_value(self, node: Node) -> Expr:
        """Return the value of a node that has one value per row."""
        source = node.inputs[0]
        if node.cls is OpClass.VIEW and self.low.has_reader(source):
            return self.low.at(source, self._row_index(source))
        return self.low.at(node, self._row_index(node))

    def _row_index(self, node: Node) -> list[Expr]:
        middle = len(node.shape) - len(self.outer) - len(self.tail)
        index = [*self.outer, *[i64(0)] * max(middle, 0), *self.tail]
        return index[len(index) - len(node.shape) :]

    def _index(self, j: Expr) -> list[Expr]:
        return [*self.outer, *self.low.space.split(j, self.domain.inner), *self.tail]

    # -- kept values ---------------------------------------------------------------------------

    def place(self, node: Node, position: int) -> tuple[Buffer, Expr] | None:
        """Return the buffer and offset of a kept node; None if it is in an output's memory."""
        if self.sched.storage[node] is not None:
            return None
        k = self.work.spare.index(node)
        offset = mul(self.keep_size(), self.slot * len(self.work.spare) + k)
        data = self._in_scratch(offset, node.dtype)
        buffer = self.block.declare(f"kept{k}", self.block.bind("keep", data), node.dtype)
        return buffer, i64(0)

    def _in_scratch(self, offset: Expr, dtype: str) -> Expr:
        """Return the address of an element of the scratch memory."""
        assert self.body.scratch is not None
        at = offset * bytes_of(self.work.scratch_dtype)
        return byte_offset(self.body.scratch.data, at, dtype)

    def keep_size(self) -> Expr:
        """Return the elements of scratch memory for one kept node."""
        return self.length

    def keep_at(self, j: Expr) -> Expr:
        """Return the offset of the value at position ``j`` in its node's scratch memory."""
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

    def _kept_reader(self, node: Node) -> Reader:
        def read(index: Sequence[Expr]) -> Expr:
            with self.kept_lanes(node):
                return self.low.load(*self._kept_offset(node, index), node.dtype)

        return read

    def kept_lanes(self, node: Node) -> AbstractContextManager[None]:
        """Return the context in which values of a kept node are stored and loaded."""
        return nullcontext()

    # -- one position --------------------------------------------------------------------------

    def step(
        self, nodes: Sequence[Node], accs: Sequence[Accumulator], stores: Sequence[Node], j: Expr
    ) -> None:
        """Emit one step at ``j``, a vector or an element: the accumulations and the stores."""
        index = self._index(j)
        operands = [self._operand(n, index) for n in nodes]
        # A kept value may share memory with an output, so all loads must precede the stores.
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
            with self.kept_lanes(node):
                self.low.store(*self._kept_offset(node, index), value, node.dtype)
        if node not in self.places or (
            node in self.group.outputs and self.places[node] is not None
        ):
            buffer = self.body.outputs[self.group.outputs.index(node)]
            at = index[len(index) - len(node.shape) :]
            self.low.store(buffer, self.low.space.join(at, node.shape), value, node.dtype)

    def loops(self, nodes: Sequence[Node], stores: Sequence[Node]) -> list[Expr]:
        """Emit one loop along the row, element by element; return the values of the reductions."""
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


class Single(Walk):
    """Emits a row element by element."""


class Along(Walk):
    """Emits a row as vectors: wide blocks, then single vectors, masked if the last may be partial.

    ``past`` emits non-temporal stores of results; None means plain stores. ``stack`` may hold kept
    values.
    """

    def __init__(
        self,
        work: RowWork,
        body: Body,
        outer: Sequence[Expr],
        slot: Size = 0,
        past: PastCaches | None = None,
        stack: OnStack | None = None,
    ) -> None:
        self.stack = stack
        super().__init__(work, body, outer, (), work.lanes, slot, past)

    def place(self, node: Node, position: int) -> tuple[Buffer, Expr] | None:
        near, lent = self._in_stack(node), self.past is not None and node in self.work.lent
        if near is not None and self._always_in_stack(node):
            return near
        if near is None and not lent:
            return super().place(node, position)
        data = self._in_output(node)
        if lent:
            assert self.past is not None
            data = either(self.past.chosen, self._lent_memory(node), data)
        if near is not None:
            assert self.stack is not None and self.stack.used is not None
            data = either(self.stack.used, element_pointer(*near), data)
        data = self.block.bind("keep", data)
        return self.block.declare(f"kept{position}", data, node.dtype), i64(0)

    def _in_stack(self, node: Node) -> tuple[Buffer, Expr] | None:
        """Return the buffer and offset of a row of a kept node on the stack, or None."""
        if self.stack is None or node not in self.stack.buffers:
            return None
        return self.stack.buffers[node], mul(self.stack.stride, self.slot)

    def _always_in_stack(self, node: Node) -> bool:
        stack = self.stack
        return stack is not None and node in stack.buffers and stack.used is None

    def _in_output(self, node: Node) -> Expr:
        """Return the address of a row of a kept node in an output's memory."""
        output = self.sched.storage[node]
        assert output is not None
        start = self.low.space.join(self._index(i64(0)), node.shape)
        self.low.resolve([start])
        return element_pointer(self.body.outputs[output], start)

    def _lent_memory(self, node: Node) -> Expr:
        """Return the address of a row of a kept node in scratch memory."""
        number = self.work.lent.index(node)
        before = group_scratch(self.work, self.length) * len(self.work.spare)
        offset = before + mul(self.length, self.slot * len(self.work.lent) + number)
        return self._in_scratch(offset, node.dtype)

    def kept_lanes(self, node: Node) -> AbstractContextManager[None]:
        # A row on the stack has complete vectors.
        return self.low.masked(None) if self._always_in_stack(node) else nullcontext()

    def accumulate(self, stage: int, row: Expr, ahead: Expr) -> list[tuple[Node, Accumulator]]:
        """Emit the loop of a stage along row ``row``; return its reductions and their accumulators.

        Some loops also prefetch the operands at ``ahead`` elements after the current position.
        """
        nodes, stores = self.work.reductions(stage), self.work.stores(stage)
        if not nodes and not stores:
            return []
        self._fetch_in(stage, self.block.bind("start", mul(row, self.length)), ahead)
        wide = self.width * UNROLLED_VECTORS
        blocks = self.block.bind("blocks", tirx.floordiv(self.length, i64(wide)))
        chunks = self.block.bind("chunks", tirx.floordiv(blocks + (BLOCK - 1), i64(BLOCK)))
        accs = [self._accumulator(n, self.width, chunks) for n in nodes]
        self.low.past = self.past
        if nodes:
            self._reduce_blocks(nodes, accs, stores, blocks, chunks)
        else:
            with self.low.loop("jo", blocks) as jo:
                self._wide_step((), (), stores, self.block.bind("at", jo * wide))
        self.low.past = None
        whole = self.low.whole_vectors(self.length_of_row, self.width, UNROLLED_VECTORS)
        if whole != wide:
            done = self.block.bind("done", blocks * wide)
            self._rest(nodes, accs, stores, done, masked=not whole)
        return list(zip(nodes, accs, strict=True))

    def _accumulator(self, node: Node, width: int, chunks: Expr | None = None) -> Accumulator:
        over_nan = node in self.sched.over_nan
        return make_accumulator(self.block, node, width, chunks, over_nan)

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
            parts = [self._accumulator(n, wide) for n in nodes]
            first = self.block.bind("first", c * BLOCK)
            with self.low.loop("jo", tirx.min(blocks - first, i64(BLOCK))) as jo:
                at = self.block.bind("at", (first + jo) * wide)
                self._wide_step(nodes, parts, stores, at)
            for acc, part in zip(accs, parts, strict=True):
                acc.absorb(part)
        for acc in accs:
            acc.close()

    def _fetch_in(self, stage: int, start: Expr, ahead: Expr) -> None:
        """Set the prefetches of the loop along the row that begins at offset ``start``.

        Stage 1 prefetches the operands of later rows, which stage 0 will read. The first stage that
        stores prefetches the outputs.
        """
        self.lines: list[tuple[Buffer, Expr, bool]] = []
        if stage == 1:
            for node in self.work.as_large(self.group.params, self.low.solver):
                self.lines.append((self.body.buffers[node], start + ahead, False))
        if self.work.stores_first(stage):
            places = dict(zip(self.group.outputs, self.body.outputs, strict=True))
            for node in self.work.as_large(self.group.outputs, self.low.solver):
                self.lines.append((places[node], start + WRITE_AHEAD, True))

    def _wide_step(
        self, nodes: Sequence[Node], accs: Sequence[Accumulator], stores: Sequence[Node], at: Expr
    ) -> None:
        wide = self.width * UNROLLED_VECTORS
        for buffer, start, to_write in self.lines:
            near_lines: AbstractContextManager[None] = nullcontext()
            if to_write and self.past is not None and self.past.takes(buffer, wide):
                near_lines = self.block.when(tirx.Not(self.past.chosen))
            with near_lines:
                # Operands are prefetched to the second-level cache only: in the first level, a
                # later row would evict the current one.
                self.block.fetch(buffer, start + at, wide, to_write, near=to_write)
        self.step(nodes, accs, stores, ramp(at, wide))

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
    """Emits short rows, one per lane; kept values are on the stack, a vector for each position."""

    def place(self, node: Node, position: int) -> tuple[Buffer, Expr] | None:
        most = most_across(self.work.lanes, node)
        return self.block.alloc("short", most * self.width, storage_dtype(node.dtype)), i64(0)

    def keep_at(self, j: Expr) -> Expr:
        return tirx.Ramp(j * self.width, i64(1), self.width)

    def loops(self, nodes: Sequence[Node], stores: Sequence[Node]) -> list[Expr]:
        accs = [make_accumulator(self.block, n, self.width) for n in nodes]
        with self.low.loop("j", self.length) as j:
            self.step(nodes, accs, stores, j)
        return [a.lanes() for a in accs]


class Column(Walk):
    """Emits a block of ``width`` adjacent columns, one per lane."""

    def keep_size(self) -> Expr:
        # the size for the widest block; narrower blocks use a part
        return self.length * (self.work.lanes * UNROLLED_VECTORS)

    def keep_at(self, j: Expr) -> Expr:
        return add(j * self.width, lane_index(self.width))


def _constant(value: Expr) -> Reader:
    return lambda index: value


__all__ = [
    "UNROLLED_VECTORS",
    "Across",
    "Along",
    "Column",
    "OnStack",
    "RowWork",
    "Single",
    "Walk",
    "most_across",
]
