"""The *row* (stitch) template: any chain of reductions and element-wise work over one row.

Values are sorted into stages: a reduction's result is known one stage after its operand. Each
stage is one loop over the row that feeds all reductions of that stage; results that later stages
need are recomputed when cheap and kept in the row's buffer otherwise, which is the output's own
row where its dtype allows. This is the block composition of FusionStitching (Zheng et al. 2020)
and DISC's stitch fusion, on a CPU: the row stays in the first-level cache.

    softmax: max | exp -> row, sum | row / sum
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import tvm
from tvm import tirx

from tvm_disc.relay_passes.axes import reduced_axes
from tvm_disc.relay_passes.graph import Node, is_one
from tvm_disc.relay_passes.core_ops import OpClass
from tvm_disc.schedules.elements import cast, is_float
from tvm_disc.schedules.emit import Block, Buffer, byte_offset, i64, ramp, same_lanes
from tvm_disc.schedules.index import add, mul, product
from tvm_disc.schedules.kernel import Body, Group, Machine, Plan
from tvm_disc.schedules.reducers import REDUCERS, accumulator, finish
from tvm_disc.shape import Solver

Expr: TypeAlias = Any

KEEP_COST = 4  # operations above which a value is kept rather than computed again
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
UNROLLED_VECTORS = 4  # independent accumulators hide the latency of the addition


@dataclass
class RowShape:
    """The domain ``outer x inner`` of a row group."""

    outer: tuple[Any, ...]
    inner: tuple[Any, ...]
    full: tuple[Any, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.full = (*self.outer, *self.inner)


@dataclass
class Schedule:
    """Which stage computes what.

    Attributes:
        stage: the loop in which a node can first be computed.
        per_row: whether a node has one value per row.
        kept: nodes stored during their stage for later ones.
    """

    stage: dict[Node, int]
    per_row: dict[Node, bool]
    kept: list[Node]
    stages: int


def row_domain(group: Group) -> RowShape:
    """The domain, read off any reduction of the group."""
    node = next(n for n in group.nodes if n.cls is OpClass.REDUCE)
    shape = node.inputs[0].shape
    rank = min(reduced_axes(node), default=len(shape))
    return RowShape(tuple(shape[:rank]), tuple(shape[rank:]))


def schedule_stages(group: Group) -> Schedule:
    """Assign stages, in one pass over the nodes."""
    stage: dict[Node, int] = {}
    per_row: dict[Node, bool] = {}
    cost: dict[Node, int] = {}
    domain = row_domain(group)
    for node in group.nodes:
        own = max((stage.get(x, 0) for x in node.inputs), default=0)
        reduces = node.cls is OpClass.REDUCE
        stage[node] = own + 1 if reduces else own
        per_row[node] = reduces or _one_per_row(node, domain, per_row)
        cost[node] = sum(cost.get(x, 1) for x in node.inputs if not per_row.get(x, False)) + (
            node.row.cost if node.row else 0
        )
        if reduces:
            cost[node] = 0
    last = _last_use(group, stage, per_row)
    kept = [
        n
        for n in group.nodes
        if not per_row[n]
        and last.get(n, 0) > stage[n]
        and cost[n] >= KEEP_COST
        and _same_elements(n, domain)
    ]
    return Schedule(stage, per_row, kept, max(stage.values(), default=0) + 1)


def _same_elements(node: Node, domain: RowShape) -> bool:
    return len(node.shape) == len(domain.full)


def _one_per_row(node: Node, domain: RowShape, per_row: dict[Node, bool]) -> bool:
    inside = [x for x in node.inputs if x in per_row]
    follows = any(per_row[x] for x in inside) and all(
        per_row[x] or all(is_one(d) for d in x.shape) for x in inside
    )
    return follows and _is_row_shape(node, domain)


def _is_row_shape(node: Node, domain: RowShape) -> bool:
    if len(node.shape) == len(domain.full):
        return all(is_one(d) for d in node.shape[len(domain.outer) :])
    return len(node.shape) <= len(domain.outer)


def _last_use(group: Group, stage: dict[Node, int], per_row: dict[Node, bool]) -> dict[Node, int]:
    """The last loop that evaluates a node, through the chain of recomputed users."""
    last: dict[Node, int] = {}
    for node in reversed(group.nodes):
        mine = last.get(node, 0)
        if node in group.outputs:
            mine = max(mine, stage[node])
        if node.cls is OpClass.REDUCE:
            mine = stage[node] - 1
        last[node] = max(last.get(node, 0), mine) if node.cls is not OpClass.REDUCE else mine
        for x in node.inputs:
            last[x] = max(last.get(x, 0), last[node])
    return last


def plan_rows(group: Group, solver: Solver, machine: Machine) -> Plan:
    """One task per row."""
    domain = row_domain(group)
    sched = schedule_stages(group)
    storage = _assign_storage(group, sched, domain)
    length = product(domain.inner)
    extra = [n for n in sched.kept if storage[n] is None]
    cost = sum(n.row.cost for n in group.nodes if n.row is not None)
    width_bytes = max((_bytes(n.dtype) for n in extra), default=4)

    def emit(body: Body) -> None:
        with body.low.loop("r", body.hi - body.lo, begin=body.lo) as r:
            _Row(group, domain, sched, storage, machine, body, r).emit()

    return Plan(
        tasks=product(domain.outer),
        work=product(domain.full) * cost,
        emit=emit,
        scratch_elems=mul(length, len(extra)) if extra else 0,
        scratch_dtype="float64" if width_bytes == 8 else "float32",
        notes={"stages": str(sched.stages), "kept": ", ".join(n.name for n in sched.kept) or "-"},
    )


def _bytes(dtype: str) -> int:
    return max(1, int(tvm.DataType(dtype).bits) // 8)


def _assign_storage(group: Group, sched: Schedule, domain: RowShape) -> dict[Node, int | None]:
    """The output whose row a kept node may live in, or None for scratch."""
    storage: dict[Node, int | None] = {}
    free = [
        i
        for i, out in enumerate(group.outputs)
        if not sched.per_row.get(out, True)
        and sched.stage[out] == sched.stages - 1
        and out not in sched.kept
    ]
    for node in sched.kept:
        slot = next(
            (i for i in free if _bytes(group.outputs[i].dtype) == _bytes(node.dtype)
             and group.outputs[i].dtype == node.dtype),
            None,
        )
        if node in group.outputs:
            slot = group.outputs.index(node)
        elif slot is not None:
            free.remove(slot)
        storage[node] = slot
    return storage


class _Row:
    """Emits the stages of one row."""

    def __init__(
        self,
        group: Group,
        domain: RowShape,
        sched: Schedule,
        storage: dict[Node, int | None],
        machine: Machine,
        body: Body,
        row: Expr,
    ) -> None:
        self.group, self.domain, self.sched, self.storage = group, domain, sched, storage
        self.body, self.low, self.block = body, body.low, body.block
        self.row = row
        self.length = self.block.bind("len", product(domain.inner))
        self.base = self.block.bind("base", mul(row, self.length))
        self.outer = self.low.space.split(row, domain.outer)
        self.lanes = machine.lanes
        self._place_kept()

    def _place_kept(self) -> None:
        spare = 0
        self.place: dict[Node, tuple[Buffer, Expr]] = {}
        for node in self.sched.kept:
            slot = self.storage[node]
            if slot is not None:
                self.place[node] = (self.body.outputs[slot], self.base)
            else:
                offset = self.block.bind("keep", mul(self.length, spare))
                data = byte_offset(
                    self.body.scratch.data, offset * _bytes(self._spare_dtype()), node.dtype
                )
                buffer = self.block.declare(f"kept{spare}", self.block.bind("kp", data), node.dtype)
                self.place[node] = (buffer, i64(0))
                spare += 1

    def _spare_dtype(self) -> str:
        return "float64" if any(_bytes(n.dtype) == 8 for n in self.sched.kept) else "float32"

    def emit(self) -> None:
        """All stages in order, then the values that exist once per row."""
        for stage in range(self.sched.stages):
            self._stage(stage)
        self._row_outputs()

    def _stage(self, stage: int) -> None:
        reductions = [
            n
            for n in self.group.nodes
            if n.cls is OpClass.REDUCE and self.sched.stage[n] == stage + 1
        ]
        stores = self._stores(stage)
        if reductions:
            self._reduce(reductions, stores)
        elif stores:
            self._map(stores)
        for node, _, _ in stores:
            if node in self.place:
                self._read_back(node)

    def _stores(self, stage: int) -> list[tuple[Node, Buffer, Expr]]:
        stores = [
            (n, *self.place[n]) for n in self.sched.kept if self.sched.stage[n] == stage
        ]
        for node, buffer in zip(self.group.outputs, self.body.outputs, strict=True):
            if node not in self.place and not self.sched.per_row[node]:
                if self.sched.stage[node] == stage:
                    stores.append((node, buffer, self.base))
        return stores

    def _read_back(self, node: Node) -> None:
        buffer, base = self.place[node]
        inner = len(self.domain.outer)

        def read(index: Sequence[Expr]) -> Expr:
            at = self.low.space.join(index[inner:], self.domain.inner)
            return self.low.load(buffer, add(base, at), node.dtype)

        self.low.bind_reader(node, read)

    def _index(self, j: Expr) -> list[Expr]:
        return [*self.outer, *self.low.space.split(j, self.domain.inner)]

    def _value(self, node: Node, j: Expr) -> Expr:
        return self.low.at(node, self._index(j)[-len(node.shape) :])

    def _map(self, stores: list[tuple[Node, Buffer, Expr]]) -> None:
        with self.low.loop("j", self.length) as j:
            self._emit_stores(stores, j)

    def _emit_stores(self, stores: list[tuple[Node, Buffer, Expr]], j: Expr) -> None:
        for node, buffer, base in stores:
            self.low.store(buffer, add(base, j), self._value(node, j), node.dtype)

    def _reduce(self, nodes: list[Node], stores: list[tuple[Node, Buffer, Expr]]) -> None:
        wide = self.lanes * UNROLLED_VECTORS
        scalars = [self._scalar(n) for n in nodes]
        done: Expr = i64(0)
        if self._vectorizable(nodes, stores):
            for width in (wide, self.lanes):
                done = self._vector_part(nodes, scalars, stores, done, width)
        with self.low.loop("jt", self.length - done, begin=done) as j:
            self._emit_stores(stores, j)
            for node, cell in zip(nodes, scalars, strict=True):
                value = self._operand(node, j)
                self.block.store(cell, 0, REDUCERS[node.op].combine(cell[i64(0)], value))
        for node, cell in zip(nodes, scalars, strict=True):
            value = self.block.bind(node.name, finish(node, cell[i64(0)]))
            self.low.bind_reader(node, lambda index, value=value: value)

    def _scalar(self, node: Node) -> Buffer:
        dtype = accumulator(node.inputs[0].dtype)
        cell = self.block.alloc("acc", 1, dtype)
        self.block.store(cell, 0, REDUCERS[node.op].identity(dtype))
        return cell

    def _operand(self, node: Node, j: Expr) -> Expr:
        value = cast(self._value(node.inputs[0], j), accumulator(node.inputs[0].dtype))
        self.low.resolve([value])
        return value

    def _vectorizable(self, nodes: list[Node], stores: list[tuple[Node, Buffer, Expr]]) -> bool:
        return all(is_float(n.inputs[0].dtype) for n in nodes) and all(
            n.cls in LANEWISE or n.op in LANEWISE_MOVES for n in self.group.nodes
        )

    def _vector_part(
        self,
        nodes: list[Node],
        scalars: list[Buffer],
        stores: list[tuple[Node, Buffer, Expr]],
        begin: Expr,
        width: int,
    ) -> Expr:
        """Whole vectors of ``width`` elements from ``begin`` on; returns where they end."""
        count = self.block.bind("blocks", tirx.floordiv(self.length - begin, i64(width)))
        with self.block.when(count > 0):
            accs = [self._vector_accumulator(n, width) for n in nodes]
            with self.low.loop("jo", count) as jo:
                start = self.block.bind("start", add(begin, mul(jo, width)))
                j, lanes = ramp(start, width), ramp(i64(0), width)
                self._emit_stores(stores, j)
                for node, acc in zip(nodes, accs, strict=True):
                    old, value = same_lanes(acc[lanes], self._operand(node, j))
                    self.block.store(acc, lanes, REDUCERS[node.op].combine(old, value))
            for node, acc, cell in zip(nodes, accs, scalars, strict=True):
                total = fold(self.block, acc, width, REDUCERS[node.op].combine)
                self.block.store(cell, 0, REDUCERS[node.op].combine(cell[i64(0)], total))
        return self.block.bind("end", begin + count * width)

    def _vector_accumulator(self, node: Node, width: int) -> Buffer:
        dtype = accumulator(node.inputs[0].dtype)
        acc = self.block.alloc("vacc", width, dtype)
        identity = tirx.Broadcast(REDUCERS[node.op].identity(dtype), width)
        self.block.store(acc, ramp(i64(0), width), identity)
        return acc

    def _row_outputs(self) -> None:
        for node, buffer in zip(self.group.outputs, self.body.outputs, strict=True):
            if self.sched.per_row[node]:
                index = list(self.outer)
                index += [i64(0)] * (len(node.shape) - len(index))
                self.low.store(buffer, self.row, self.low.at(node, index), node.dtype)


def fold(block: Block, acc: Buffer, width: int, combine: Any) -> Expr:
    """Combine the ``width`` lanes of ``acc`` (a power of two) by halving."""
    while width > 1:
        width //= 2
        if width >= 4:
            low, high = ramp(i64(0), width), ramp(i64(width), width)
            block.store(acc, low, combine(acc[low], acc[high]))
        else:
            for k in range(width):
                block.store(acc, k, combine(acc[i64(k)], acc[i64(k + width)]))
    return acc[i64(0)]
