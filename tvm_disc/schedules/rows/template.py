"""The *row* (stitch) template: any chain of reductions and element-wise operators over one row.

The stages of :mod:`tvm_disc.schedules.rows.stages` become loops over one row, which stays in the
first-level cache between them. Values that a later stage reads are kept in an output's memory or in
scratch memory. This is the block composition of FusionStitching (Zheng et al. 2020) and DISC's
stitch fusion, on a CPU. The loops are emitted by :mod:`tvm_disc.schedules.rows.loops`.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, replace

from tvm import tirx

from tvm_disc.errors import Unsupported
from tvm_disc.graph.core_ops import OpClass
from tvm_disc.graph.nodes import Node
from tvm_disc.relay.kernel_ops import PACK, UNPACK
from tvm_disc.schedules.dispatch.variant import Knobs, Need
from tvm_disc.schedules.elements import is_float
from tvm_disc.schedules.kernel import Body, Group, Machine, Plan
from tvm_disc.schedules.lowering import Lowering, is_contiguous
from tvm_disc.schedules.rows.groups import RowGroups
from tvm_disc.schedules.rows.loops import (
    UNROLLED_VECTORS,
    Across,
    Column,
    RowWork,
    Single,
    group_scratch,
    most_across,
)
from tvm_disc.schedules.rows.panels import Panels, takes_panels
from tvm_disc.schedules.rows.short import short_widths
from tvm_disc.schedules.rows.stages import RowShape, bytes_of, row_domain, schedule_stages
from tvm_disc.shape import Solver
from tvm_disc.tir.builder import Block, first_lanes, i64, index_var, lanes_of, pointer, ramp, view
from tvm_disc.tir.index import IndexSpace, at_least_one, ceil_div, mul, product
from tvm_disc.tir.llvm_ops import streams
from tvm_disc.tir.non_temporal import far_elems
from tvm_disc.typing import Buffer, Expr

# Operators that can be evaluated for a vector of positions, since they have no guarded loads.
LANEWISE = (OpClass.ELEMWISE, OpClass.REDUCE, OpClass.VIEW)
LANEWISE_MOVES = (
    "relax.broadcast_to",
    "relax.permute_dims",
    "relax.strided_slice",
    "relax.take",
    "relax.full",
    "relax.arange",
    UNPACK,
    PACK,
)
# Lanes after the end of a row hold zeros, by which an integer must not be divided.
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


@dataclass(frozen=True)
class AcrossKnobs(Knobs):
    """The number of rows that are computed at once, one per lane."""

    rows_at_once: int


def plan_rows(group: Group, solver: Solver, machine: Machine) -> list[Plan]:
    """Return plans with a task per row, per block of short rows, or per block of columns."""
    sched = schedule_stages(group, solver, machine.model.keep_ops)
    spare = [n for n in sched.kept if sched.storage[n] is None]
    dtype = "float64" if any(bytes_of(n.dtype) == 8 for n in spare) else "float32"
    work = RowWork(group, row_domain(group), sched, machine.lanes, spare, dtype)
    far = far_elems(machine.memory.far_bytes, work.streams(solver))
    rows = _Rows(replace(work, lent=_lent(work, machine, far), far=far), solver)
    if work.domain.tail and rows.vectorizable() and takes_panels(work):
        return [rows.panels(machine.threads)]
    if work.domain.tail:
        return [rows.columns()]
    return [rows.along(), *([rows.across()] if rows.may_be_short() else [])]


def _lent(work: RowWork, machine: Machine, far: int) -> list[Node]:
    """Return the kept nodes that use an output's memory if outputs do not use non-temporal stores.

    [] if outputs never use non-temporal stores.
    """
    size = product(work.domain.full)
    small = isinstance(size, tirx.IntImm) and int(size.value) < far
    if work.domain.tail or small or not streams(machine.isa, machine.lanes * UNROLLED_VECTORS):
        return []
    return work.guests()


def is_vectorizable(group: Group, but: Container[Node] = ()) -> bool:
    """Return whether all nodes can be computed for a vector of positions, some after the row's end.

    ``but``: nodes that the caller computes by other code.
    """
    return are_vectorizable(group.nodes, but)


def are_vectorizable(nodes: Iterable[Node], but: Container[Node] = ()) -> bool:
    """Return whether these nodes can be computed as vectors; see :func:`is_vectorizable`."""
    return all(
        (n.cls in LANEWISE or n.op in LANEWISE_MOVES or n in but)
        and (is_float(n.dtype) or n.op not in _DIVISIONS)
        and not (n.op in _COMPARISONS and not is_float(n.inputs[0].dtype))
        for n in nodes
    )


@dataclass
class _Rows:
    """Builds the plans of a row group."""

    work: RowWork
    solver: Solver

    @property
    def group(self) -> Group:
        return self.work.group

    @property
    def domain(self) -> RowShape:
        return self.work.domain

    def vectorizable(self) -> bool:
        """Return whether the whole group can be computed as vectors: :func:`is_vectorizable`."""
        return is_vectorizable(self.group)

    # -- plans ---------------------------------------------------------------------------------

    @property
    def cost(self) -> int:
        """The number of plain operations per element."""
        return sum(n.row.cost for n in self.group.nodes if n.row is not None)

    def _plan(self, tasks: Expr, emit: Callable[[Body], None], walk: str) -> Plan:
        """Return a plan of ``tasks`` tasks; ``walk`` names the traversal in ``explain``."""
        kept = self.work.sched.kept
        return Plan(
            tasks=tasks,
            work=product(self.domain.full) * self.cost,
            emit=emit,
            scratch_dtype=self.work.scratch_dtype,
            notes={
                "passes over a row": str(self.work.passes()),
                "stored between passes": ", ".join(
                    f"result of {n.op.removeprefix('relax.')}" for n in kept
                )
                or "none",
                "traversal": walk if self.vectorizable() else f"{walk}, one element at a time",
            },
        )

    def along(self) -> Plan:
        """Return the plan that computes rows as vectors along the row, in groups of rows."""
        work, domain = self.work, self.domain
        length, tasks = product(domain.inner), product(domain.outer)
        each = group_scratch(work, length)
        scratch = mul(each, len(work.spare))
        if work.lent:
            large = i64(product(domain.full)) >= work.far
            scratch = scratch + tirx.Select(large, each * len(work.lent), i64(0))
        return replace(
            self._plan(tasks, self.emit_rows, "rows"),
            scratch_elems=scratch if work.spare or work.lent else 0,
            steps=i64(0),
            loops=tasks * work.passes(),
        )

    def across(self) -> Plan:
        """Return the plan that computes blocks of rows, one per lane.

        The kept values of a row must fit the stack.
        """
        lanes, count = self.work.lanes, i64(product(self.domain.outer))
        length, most = i64(product(self.domain.inner)), self.most_across()
        needs = (
            Need(f"there are {lanes} rows", count >= lanes),
            Need(f"rows have at most {most} elements", length <= most),
        )
        blocks = ceil_div(count, lanes)
        return replace(
            self._plan(blocks, self.emit_across, "rows, one per lane"),
            knobs=AcrossKnobs(lanes),
            needs=needs,
            features=(length,),
            strided=product(self.domain.full) * self._strided(),
        )

    def _strided(self) -> int:
        """Return the number of strided accesses per element in the code with one row per lane."""
        body, offsets = _dry_body(self.group, self.solver), list[Expr]()
        body.low.on_load = offsets.append
        self._across(body, index_var("r"))
        loads = sum(lanes_of(at) > 1 and not is_contiguous(at) for at in offsets)
        return loads + len(self.work.as_large(self.group.outputs, self.solver))

    def most_across(self) -> int:
        """Return the largest length of rows for the plan in which each lane computes one.

        It is at most the number of lanes.
        """
        lanes = self.work.lanes
        return min([lanes, *(most_across(lanes, n) for n in self.work.sched.kept)])

    def panels(self, threads: int) -> Plan:
        """Return the plan that computes panels of columns."""
        panels = Panels(self.work, threads)
        plan = self._plan(panels.tasks(), panels.emit, "panels of columns")
        return replace(plan, scratch_elems=i64(panels.scratch_elems()))

    def columns(self) -> Plan:
        """Return the plan that computes blocks of adjacent columns."""
        spare, width = self.work.spare, self.work.lanes * UNROLLED_VECTORS
        tasks = mul(product(self.domain.outer), self.column_blocks(width))
        scratch = mul(mul(product(self.domain.inner), len(spare)), width)
        plan = self._plan(tasks, self.emit_columns, "columns")
        return replace(plan, scratch_elems=scratch if spare or self.work.lent else 0)

    # -- code ----------------------------------------------------------------------------------

    def may_be_short(self) -> bool:
        """Return whether rows may be short, and one row per lane requires no vector divisions."""
        length = product(self.domain.inner)
        if not self.vectorizable() or self.solver.known_lt(self.most_across(), length):
            return False
        body = _dry_body(self.group, self.solver)
        self._across(body, index_var("r"))
        return not any(lanes_of(v) > 1 for v in body.low.defined)

    def emit_across(self, body: Body) -> None:
        """Emit blocks ``[lo, hi)`` of rows."""
        block, lanes = body.block, self.work.lanes
        rows = block.bind("rows", i64(product(self.domain.outer)))
        with body.low.loop("t", body.hi - body.lo, begin=body.lo) as t:
            # The last block overlaps with the previous one, so some rows may be computed twice.
            self._across(body, block.bind("first", tirx.min(t * lanes, rows - lanes)))

    def emit_rows(self, body: Body) -> None:
        """Emit rows ``[lo, hi)``."""
        if self.vectorizable():
            short = short_widths(self.work, self.solver)
            RowGroups(self.work, body, self.values_at_once()).emit(short)
            return
        with body.low.loop("r", body.hi - body.lo, begin=body.lo) as r:
            outer = body.low.space.split(r, self.domain.outer)
            Single(self.work, body, outer, (), 1).emit()

    def values_at_once(self) -> bool:
        """Return whether several rows' per-row values can be a vector, without vector divisions."""
        body = _dry_body(self.group, self.solver)
        try:
            RowGroups(self.work, body, True).emit()
        except Unsupported:  # the rows of an output are not consecutive
            return False
        return not any(lanes_of(v) > 1 for v in body.low.defined)

    def _across(self, body: Body, first: Expr) -> None:
        with body.low.scope():
            rows = ramp(first, self.work.lanes)
            outer = body.low.space.split(rows, self.domain.outer)
            Across(self.work, body, outer, (), self.work.lanes).emit()

    def column_blocks(self, width: int) -> Expr:
        """Return the number of blocks of ``width`` columns."""
        return ceil_div(product(self.domain.tail), width)

    def emit_columns(self, body: Body) -> None:
        """Emit blocks ``[lo, hi)`` of columns; the last block of each outer index is masked."""
        block, low = body.block, body.low
        lanes = self.work.lanes
        width = lanes * UNROLLED_VECTORS
        size = block.bind("columns", product(self.domain.tail))
        blocks = block.bind("blocks", at_least_one(self.column_blocks(width)))
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
                low.loop("p", ceil_div(size - begin, lanes)) as p,
            ):
                start = block.bind("start", begin + p * lanes)
                with low.masked(first_lanes(block.bind("rest", size - start), lanes)):
                    self._column(body, outer, start, lanes)

    def _column(self, body: Body, outer: Sequence[Expr], start: Expr, width: int) -> None:
        at = ramp(start, width) if width > 1 else start
        Column(self.work, body, outer, body.low.space.split(at, self.domain.tail), width).emit()


def _dry_body(group: Group, solver: Solver) -> Body:
    """Return a body with placeholder buffers, in which emitted code can be analyzed."""
    block, space = Block(), IndexSpace(lambda a, b: bool(solver.known_eq(a, b)))
    low = Lowering(block, space, solver)
    make: Callable[[Node], Buffer] = lambda n: view("x", pointer("x", n.dtype), n.dtype)  # noqa: E731
    buffers = {param: make(param) for param in group.params}
    for param, buffer in buffers.items():
        low.bind_buffer(param, buffer)
    outputs = [make(n) for n in group.outputs]
    scratch = view("tmp", pointer("tmp", "float32"), "float32")
    return Body(block, low, buffers, outputs, scratch, index_var("lo"), index_var("hi"))
