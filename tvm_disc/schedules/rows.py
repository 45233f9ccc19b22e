"""The *row* (stitch) template: any chain of reductions and element-wise work over one row.

The stages of :mod:`tvm_disc.schedules.row_stages` become loops over one row, which stays in the
first-level cache between them; what a later stage needs again lies in the row of an output or in
scratch. This is the block composition of FusionStitching (Zheng et al. 2020) and DISC's stitch
fusion, on a CPU. Three walks over the same stages:

    along    vectors lie along a contiguous row; the last one is masked
    across   rows of a few elements: one row per lane, nothing is folded
    column   the reduced axes are not the last: lanes are neighbouring columns
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from tvm import tirx

from tvm_disc.relay_passes.core_ops import OpClass
from tvm_disc.relay_passes.graph import Node
from tvm_disc.schedules.accumulate import BLOCK, Accumulator, make_accumulator
from tvm_disc.schedules.elements import cast, is_float
from tvm_disc.schedules.emit import (
    STACK_LIMIT_BYTES,
    Block,
    Buffer,
    byte_offset,
    first_lanes,
    i64,
    index_var,
    lane_index,
    lanes_of,
    pointer,
    ramp,
    storage_dtype,
    view,
)
from tvm_disc.schedules.index import IndexSpace, add, mul, product
from tvm_disc.schedules.kernel import Body, Group, Machine, Plan
from tvm_disc.schedules.lowering import Lowering
from tvm_disc.schedules.reducers import accumulator
from tvm_disc.schedules.row_stages import (
    RowShape,
    Schedule,
    bytes_of,
    row_domain,
    schedule_stages,
)
from tvm_disc.shape import Solver

Expr: TypeAlias = Any

# What can be evaluated for a whole vector of positions: nothing guarded.
LANEWISE = (OpClass.ELEMWISE, OpClass.REDUCE, OpClass.VIEW)
LANEWISE_MOVES = (
    "relax.broadcast_to",
    "relax.permute_dims",
    "relax.strided_slice",
    "relax.take",
    "relax.full",
    "relax.arange",
)
# Lanes past the end hold zeros, by which an integer must not be divided.
_DIVISIONS = ("relax.divide", "relax.floor_divide", "relax.mod", "relax.floor_mod", "relax.power")
# TVM's analyzer takes a comparison of integer vectors for a fact about scalars, and fails.
_COMPARISONS = (
    "relax.equal",
    "relax.not_equal",
    "relax.less",
    "relax.less_equal",
    "relax.greater",
    "relax.greater_equal",
)
UNROLLED_VECTORS = 4  # independent accumulators hide the latency of the addition
SMALL_ROW = 8  # rows of fewer elements are walked across
SCALAR_BLOCK = 64  # steps of one lane before the compensated level


def plan_rows(group: Group, solver: Solver, machine: Machine) -> Plan:
    """One task per row, or per block of neighbouring columns."""
    rows = _Rows(group, row_domain(group), schedule_stages(group, solver), solver, machine)
    cost = sum(n.row.cost for n in group.nodes if n.row is not None)
    width = machine.lanes * UNROLLED_VECTORS
    spare = len(rows.spare())
    length = product(rows.domain.inner)
    if rows.domain.tail:
        tasks = mul(product(rows.domain.outer), rows.column_blocks(width))
        scratch, emit = mul(mul(length, spare), width), rows.emit_columns
        walk = "columns"
    else:
        tasks, scratch, emit = product(rows.domain.outer), mul(length, spare), rows.emit_rows
        walk = "rows, small ones across" if rows.small_rows() else "rows"
    return Plan(
        tasks=tasks,
        work=product(rows.domain.full) * cost,
        emit=emit,
        scratch_elems=scratch if spare else 0,
        scratch_dtype=rows.scratch_dtype(),
        notes={
            "stages": str(rows.sched.stages),
            "kept": ", ".join(n.name for n in rows.sched.kept) or "-",
            "walk": walk if rows.vectorizable() else f"{walk}, one element at a time",
        },
    )


def is_vectorizable(group: Group) -> bool:
    """Whether every value can be computed for a vector of positions, some past the end."""
    return all(
        (n.cls in LANEWISE or n.op in LANEWISE_MOVES)
        and (is_float(n.dtype) or n.op not in _DIVISIONS)
        and not (n.op in _COMPARISONS and not is_float(n.inputs[0].dtype))
        for n in group.nodes
    )


@dataclass
class _Rows:
    """A row group and the walks over it."""

    group: Group
    domain: RowShape
    sched: Schedule
    solver: Solver
    machine: Machine

    def spare(self) -> list[Node]:
        """Kept nodes that need scratch."""
        return [n for n in self.sched.kept if self.sched.storage[n] is None]

    def scratch_dtype(self) -> str:
        """A dtype as wide as the widest kept value."""
        return "float64" if any(bytes_of(n.dtype) == 8 for n in self.spare()) else "float32"

    def vectorizable(self) -> bool:
        """Whether every value can be computed for a vector of positions, some past the end."""
        return is_vectorizable(self.group)

    def small_rows(self) -> bool:
        """Whether short rows can be walked across: one row per lane, without vector divisions."""
        if not self.vectorizable() or any(
            SMALL_ROW * self.machine.lanes * bytes_of(n.dtype) > STACK_LIMIT_BYTES
            for n in self.sched.kept
        ):
            return False
        body = _dry_body(self.group, self.solver)
        self._across(body, index_var("r"))
        return not any(lanes_of(v) > 1 for v in body.low.defined)

    def emit_rows(self, body: Body) -> None:
        """Rows ``[lo, hi)``."""
        block, count = body.block, body.hi - body.lo
        lanes = self.machine.lanes
        if not self.small_rows():
            self._each_row(body)
            return
        few = product(self.domain.inner) < SMALL_ROW
        with (
            block.when(tirx.And(few, count >= lanes)),
            body.low.loop("t", tirx.floordiv(count + (lanes - 1), i64(lanes))) as t,
        ):
            # The last block overlaps the one before: rows may be computed twice.
            first = tirx.min(body.lo + t * lanes, body.hi - lanes)
            self._across(body, block.bind("first", first))
        with block.otherwise():
            self._each_row(body)

    def _each_row(self, body: Body) -> None:
        with body.low.loop("r", body.hi - body.lo, begin=body.lo) as r:
            outer = body.low.space.split(r, self.domain.outer)
            width = self.machine.lanes if self.vectorizable() else 0
            _Along(self, body, outer, (), width).emit()

    def _across(self, body: Body, first: Expr) -> None:
        with body.low.scope():
            rows = ramp(first, self.machine.lanes)
            outer = body.low.space.split(rows, self.domain.outer)
            _Across(self, body, outer, (), self.machine.lanes).emit()

    def column_blocks(self, width: int) -> Expr:
        """Blocks of ``width`` columns in the tail."""
        return tirx.floordiv(product(self.domain.tail) + (width - 1), i64(width))

    def emit_columns(self, body: Body) -> None:
        """Blocks ``[lo, hi)`` of columns; the last of each outer index is masked."""
        block, low = body.block, body.low
        lanes = self.machine.lanes
        width = lanes * UNROLLED_VECTORS
        size = block.bind("columns", product(self.domain.tail))
        blocks = block.bind("blocks", self.column_blocks(width))
        with low.loop("t", body.hi - body.lo, begin=body.lo) as t:
            o = block.bind("o", tirx.floordiv(t, blocks))
            begin = block.bind("begin", (t - o * blocks) * width)
            outer = low.space.split(o, self.domain.outer)
            if not self.vectorizable():
                with low.loop("c", tirx.min(size - begin, i64(width))) as c:
                    self._column(body, outer, begin + c, 1)
                return
            with block.when(begin + width <= size), low.scope():
                self._column(body, outer, begin, width)
            with (
                block.otherwise(),
                low.loop("p", tirx.floordiv(size - begin + (lanes - 1), i64(lanes))) as p,
            ):
                start = block.bind("start", begin + p * lanes)
                with low.masked(first_lanes(block.bind("rest", size - start), lanes)):
                    self._column(body, outer, start, lanes)

    def _column(self, body: Body, outer: Sequence[Expr], start: Expr, width: int) -> None:
        at = ramp(start, width) if width > 1 else start
        _Column(self, body, outer, body.low.space.split(at, self.domain.tail), width).emit()


class _Walk:
    """Emits the stages of one row, or of one row in every lane."""

    def __init__(
        self,
        rows: _Rows,
        body: Body,
        outer: Sequence[Expr],
        tail: Sequence[Expr],
        width: int,
    ) -> None:
        self.rows, self.body = rows, body
        self.group, self.domain, self.sched = rows.group, rows.domain, rows.sched
        self.low, self.block = body.low, body.block
        self.outer, self.tail, self.width = list(outer), list(tail), width
        self.length = self.block.bind("len", product(self.domain.inner))
        self.places: dict[Node, tuple[Buffer, Expr] | None] = {}
        self.bound: list[Node] = []
        for k, node in enumerate(self.sched.kept):
            self.places[node] = self.place(node, k)

    def emit(self) -> None:
        """All stages in order, then the values that exist once per row."""
        for stage in range(self.sched.stages):
            self._stage(stage)
            self._row_values(stage + 1)
        for node, buffer in zip(self.group.outputs, self.body.outputs, strict=True):
            if self.sched.per_row[node]:
                index = self._row_index(node)
                offset = self.low.space.join(index, node.shape)
                self.low.store(buffer, offset, self.low.at(node, index), node.dtype)
        for node in self.bound:
            self.low.drop_reader(node)

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
        self.low.bind_reader(node, lambda index: value)
        self.bound.append(node)

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
        k = self.rows.spare().index(node)
        offset = mul(self.keep_size(), k)
        size_bytes = bytes_of(self.rows.scratch_dtype())
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

        self.low.bind_reader(node, read)
        self.bound.append(node)

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


class _Along(_Walk):
    """Vectors along the row: wide blocks, then masked vectors; ``width`` 0 for single elements."""

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
        self._masked_rest(nodes, accs, stores, self.block.bind("done", blocks * wide))
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

    def _masked_rest(
        self,
        nodes: Sequence[Node],
        accs: Sequence[Accumulator],
        stores: Sequence[Node],
        done: Expr,
    ) -> None:
        count = tirx.floordiv(self.length - done + (self.width - 1), i64(self.width))
        with self.low.loop("jt", count) as jt:
            at = self.block.bind("at", done + jt * self.width)
            mask = first_lanes(self.block.bind("rest", self.length - at), self.width)
            with self.low.masked(mask):
                self.step(nodes, accs, stores, ramp(at, self.width))


class _Across(_Walk):
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


class _Column(_Walk):
    """A block of neighbouring columns, ``width`` lanes wide."""

    def keep_size(self) -> Expr:
        # Of the widest block: narrower ones use a part.
        return self.length * (self.rows.machine.lanes * UNROLLED_VECTORS)

    def keep_at(self, j: Expr) -> Expr:
        return add(j * self.width, lane_index(self.width))

    def loops(self, nodes: Sequence[Node], stores: Sequence[Node]) -> list[Expr]:
        return self._lane_loops(nodes, stores)


def _dry_body(group: Group, solver: Solver) -> Body:
    """A body over stand-in buffers, to see which index arithmetic a walk would need."""
    block, space = Block(), IndexSpace(lambda a, b: bool(solver.known_eq(a, b)))
    low = Lowering(block, space, solver)
    make: Callable[[Node], Buffer] = lambda n: view("x", pointer("x", n.dtype), n.dtype)  # noqa: E731
    for param in group.params:
        low.bind_buffer(param, make(param))
    outputs = [make(n) for n in group.outputs]
    scratch = view("tmp", pointer("tmp", "float32"), "float32")
    return Body(block, low, {}, outputs, scratch, index_var("lo"), index_var("hi"))
