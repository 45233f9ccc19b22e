"""Reductions and element-wise work over rows: a thread, a warp, a block or blocks per row.

The stages are those of the CPU template (``schedules/rows/stages.py``). The threads of a block
iterate over a row with the number of threads as stride, so that adjacent threads read adjacent
elements. Then they combine their values.

    threads  one element at a time; a value that a later stage reads is stored in an output's
             memory, or recomputed
    columns  if the reduced axes are not the last: a warp processes adjacent rows, whose elements
             are adjacent in memory, and the warps of a block share them
    lanes    as threads, with accesses of 16 bytes
    held     as lanes, with the row kept in registers, so that memory is read once
    parts    blocks that share a row, with a kernel per stage: partial results are in scratch
             memory, and all blocks of the next stage combine them in the same order

A maximum and the sum of exponentials that uses it are computed in one stage (Milakov and
Gimelshein 2018), as are a mean and the mean square around it (Welford 1962): see ``pairs.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from tvm import tirx

from tvm_disc.graph.core_ops import OpClass
from tvm_disc.graph.nodes import Node, static_dim
from tvm_disc.schedules.cuda.block import DeviceBlock
from tvm_disc.schedules.cuda.cost import Work, passes_ns, waves_ns
from tvm_disc.schedules.cuda.reduce import plan_contraction
from tvm_disc.schedules.cuda.rows.columns import Columns
from tvm_disc.schedules.cuda.rows.pairs import find_pairs
from tvm_disc.schedules.cuda.rows.threads import Place, RowKnobs, Threads
from tvm_disc.schedules.cuda.vector import (
    ALIGNED,
    MOST_FACTS,
    Lanes,
    distinct,
    item_bytes,
    lanes_of_nodes,
    multiple_need,
    stand_in,
)
from tvm_disc.schedules.dispatch.variant import Grid, Need, Pass
from tvm_disc.schedules.kernel import Body, Group, Machine, Plan
from tvm_disc.schedules.loops.reducers import ARG_REDUCTIONS, accumulator
from tvm_disc.schedules.lowering import Lowering
from tvm_disc.schedules.rows.loops import RowWork
from tvm_disc.schedules.rows.stages import row_domain, schedule_stages
from tvm_disc.shape import Solver
from tvm_disc.tir.builder import const, i64, index_var
from tvm_disc.tir.index import IndexSpace, add, ceil_div, mul, product
from tvm_disc.typing import Expr

# threads per block if each thread processes one row
ALONE = 128
# estimated factor on memory traffic if adjacent threads read different rows
APART = 2.0
HELD = 4  # vector accesses per thread and operand, if rows are kept in registers
MOST_HELD = 3  # most operands and values kept in registers
# longest row for which a block is too large, and shortest row for several blocks
SHORT, LONG = 64, 8192
SECTOR = 8  # number of 4-byte elements in the smallest memory transaction


ALL = (
    RowKnobs(32),
    RowKnobs(1),
    RowKnobs(256),
    RowKnobs(256, parts=32),
    RowKnobs(8, columns=32),
    RowKnobs(8, parts=32, columns=32),
)
COLUMN_THREADS = 256  # threads per block in plans with columns


def plan_row(group: Group, solver: Solver, machine: Machine) -> list[Plan]:
    """Return plans with a thread, a warp, a block or several blocks per row.

    Plans that do not suit the possible row lengths are omitted. A single reduction over axes that
    are not the last also gets contraction plans, which support vector reads along the result.
    """
    rows = _Rows(group, solver, machine)
    plans = [rows.plan(knobs) for knobs in ALL if rows.fits(knobs)]
    if rows.is_plain():
        alone = replace(group, anchor=rows.reduced[0])
        sums = plan_contraction(alone, solver, machine)
        if isinstance(sums, list):
            shared = [p for p in sums if p.grid is not None and p.grid.shared]
            plans += [replace(p, family="contraction") for p in shared]
    return plans


class _Rows:
    """Builds the plans of one group."""

    def __init__(self, group: Group, solver: Solver, machine: Machine) -> None:
        assert machine.device is not None
        self.group, self.solver, self.device = group, solver, machine.device
        self.domain = row_domain(group)
        whole = schedule_stages(group, solver)
        self.pairs = find_pairs(group, whole)
        seconds = {n.inputs[0] for n in self.pairs.values()}
        # A value is kept only if an output's memory can hold it; blocks have no scratch row.
        kept = [n for n in whole.kept if whole.storage[n] is not None and n not in seconds]
        self.held_work = RowWork(group, self.domain, whole, 1, [], "float32")
        self.work = replace(self.held_work, sched=replace(whole, kept=kept))
        self.rows = product([*self.domain.outer, *self.domain.tail])
        self.length = product(self.domain.inner)
        self.lanes = lanes_of_nodes(self._large(), len(group.nodes))
        self.reduced = [n for n in group.nodes if n.cls is OpClass.REDUCE]
        types = {accumulator(n.inputs[0].dtype) for n in self.reduced}
        extremes = any(n.op in ARG_REDUCTIONS for n in self.reduced)
        self.can_share = len(types) == 1 and not extremes
        self.dtype = next(iter(types))
        self.facts, self.column_facts = self._facts(False), self._facts(True)

    def _large(self) -> list[Node]:
        """Return the operands and results that have the shape of the domain, or the first result
        if none has.
        """
        own = (*self.group.params, *self.group.outputs)
        return self.work.as_large(own, self.solver) or [self.group.outputs[0]]

    def fits(self, knobs: RowKnobs) -> bool:
        """Return whether the knobs suit the possible row lengths of the group."""
        known, columns = static_dim(self.length), static_dim(product(self.domain.tail))
        if knobs.columns > 1 and not self.domain.tail:
            return False
        apart = self.domain.tail and knobs.columns == 1 and knobs.together > 1
        if apart and columns is not None and columns >= SECTOR:
            # Adjacent elements of a row are far apart: most of each memory transaction would be
            # wasted.
            return False
        if knobs.parts > 1:
            return self.can_share and (known is None or known >= LONG)
        return known is None or knobs.together <= 32 or known > SHORT

    def is_plain(self) -> bool:
        """Return whether one reduction over axes that are not the last determines all results.

        The results follow from the reduction by element-wise operators.
        """
        if not self.domain.tail or len(self.reduced) != 1:
            return False
        [node] = self.reduced
        after = self.group.nodes[self.group.nodes.index(node) + 1 :]
        plain = all(n.cls is OpClass.ELEMWISE for n in after)
        shapes = [n.shape for n in (*after, *self.group.outputs)]
        return plain and all(self.solver.known_same_shape(s, node.shape) for s in shapes)

    def plan(self, knobs: RowKnobs) -> Plan:
        """Return a plan without needs.

        Its ``wide`` plans use vector accesses, and may also keep rows in registers.
        """
        plain = self._plan(knobs, ())
        facts = self.column_facts if knobs.columns > 1 else self.facts
        if facts is None or knobs.together == 1 or (knobs.columns > 1 and knobs.parts > 1):
            return plain
        needs = (*(multiple_need(f, self.lanes) for f in facts), ALIGNED)
        wide = self._plan(self._with_lanes(knobs), needs)
        held = self.held()
        held_most = len(held) + len(self.held_work.sched.kept) <= MOST_HELD
        if knobs.parts == 1 and knobs.columns == 1 and held and held_most:
            room = knobs.together * self.lanes * HELD
            short = Need(f"length <= {room}", i64(self.length) <= room)
            all_held = replace(knobs, lanes=self.lanes, held=HELD)
            wide.wide = self._plan(all_held, (*needs, short))
        notes = {**plain.notes, "lanes": f"{self.lanes} if {', '.join(n.text for n in needs)}"}
        return replace(plain, wide=wide, notes=notes)

    def _with_lanes(self, knobs: RowKnobs) -> RowKnobs:
        """Return the knobs with vector accesses; a block processes as many columns as before."""
        if knobs.columns == 1:
            return replace(knobs, lanes=self.lanes)
        columns, together = knobs.columns // self.lanes, knobs.together * self.lanes
        return replace(knobs, lanes=self.lanes, columns=columns, together=together)

    def held(self) -> list[Node]:
        """Return the operands whose rows can be kept in registers.

        All reads of these must be at the row's own index.
        """
        plain = all(n.cls in (OpClass.ELEMWISE, OpClass.REDUCE) for n in self.group.nodes)
        return self.work.as_large(self.group.params, self.solver) if plain else []

    def _facts(self, columns: bool) -> list[Expr] | None:
        """Return the sizes that must be multiples of the number of lanes for vector accesses.

        None if too few reads are vectors.

        Args:
            columns: whether lanes are adjacent columns; otherwise adjacent elements of a row.
        """
        if columns != bool(self.domain.tail) or any(n.op in ARG_REDUCTIONS for n in self.reduced):
            return None
        # the shared memory of ``fold``; a pair of reductions is combined as up to three values
        folded = 1.5 * COLUMN_THREADS * self.lanes * len(self.reduced) * item_bytes(self.dtype)
        if columns and folded > self.device.shared_bytes:
            return None
        space = IndexSpace(lambda a, b: bool(self.solver.known_eq(a, b)))
        low = Lowering(DeviceBlock(), space, self.solver)
        for node in self.reduced:
            low.bind_reader(node, partial(_one, node.dtype))
        j, at = index_var("j"), index_var("at")
        lanes = Lanes(low, self.lanes, (), [at if columns else j], self.group.symbols())
        outer = low.space.split(index_var("row"), self.domain.outer)
        along = low.space.split(j if columns else add(j, lanes.lane), self.domain.inner)
        index = [*outer, *along]
        if columns:
            head = low.space.split(index_var("head"), self.domain.tail[:-1])
            index += [*head, add(at, lanes.lane)]
        size = self.domain.tail[-1] if columns else self.length
        large = [n for n in self.group.nodes if not self.work.sched.per_row[n]]
        with lanes.reading({n: stand_in(n) for n in self.group.params}):
            for node in (*large, *(n.inputs[0] for n in self.reduced)):
                if self.solver.known_same_shape(node.shape, self.domain.full):
                    low.resolve([low.at(node, index)])
        if any(low.space.depends_on(v, lanes.lane) for v in low.defined):
            return None
        facts = distinct([*lanes.wanted, *(lanes.facts(i64(size)) or ())])
        few = lanes.together < max(1, lanes.single) or len(facts) > MOST_FACTS
        whole = lanes.facts(i64(size)) is not None
        return None if few or not whole else facts

    def _plan(self, knobs: RowKnobs, needs: tuple[Need, ...]) -> Plan:
        threads, sched = knobs.together, self.work.sched
        alone = threads == 1
        apart = threads * knobs.parts
        per = tirx.floordiv(self.length + (apart - 1), i64(apart))
        blocks = ceil_div(self.rows, ALONE) if alone else self.rows
        tiles = self.rows
        if knobs.columns > 1:
            tile = knobs.columns * knobs.lanes
            tiles = blocks = ceil_div(self.rows, tile)
        blocks = mul(blocks, knobs.parts)
        emit = partial(_row, self, knobs)
        barriers = 0 if alone else 3 * len(self.reduced)
        grid = Grid(ALONE) if alone else Grid(threads * knobs.columns, shared=True)
        plan = Plan(
            tasks=tiles,
            work=product(self.domain.full) * 8,
            emit=partial(emit, 0),
            knobs=knobs,
            grid=grid,
            needs=needs,
            features=(self.length, self.rows),
            notes={"stages": str(sched.stages), "threads": "by the length of a row"},
        )
        spread = self._spread(knobs)
        waits = ceil_div(i64(per), self.device.costs.row_loads_at_once)
        steps, stages = per * sched.stages, i64(sched.stages)
        work = Work(blocks, grid.threads, steps, barriers, spread, waits=mul(waits, stages))
        if knobs.parts == 1:
            plan.cost = partial(waves_ns, self.device, self.group, work)
            return plan
        done = [s for s in range(sched.stages) if self._is_done(s)]
        one = Work(blocks, grid.threads, per + knobs.parts, barriers, spread, waits=waits)
        plan.tasks = mul(tiles, knobs.parts)
        plan.passes = tuple(Pass(plan.tasks, partial(emit, s), grid) for s in done)
        plan.scratch_elems = mul(self.rows, knobs.parts * max(1, len(self.reduced)))
        plan.scratch_dtype = self.dtype
        plan.cost = partial(passes_ns, self.device, self.group, tuple((one, 1) for _ in done))
        return plan

    def _spread(self, knobs: RowKnobs) -> Expr | float:
        """Return the factor by which uncoalesced accesses increase memory traffic."""
        if not self.domain.tail:
            return APART if knobs.together == 1 else 1.0
        near = tirx.max(tirx.min(i64(product(self.domain.tail)), i64(SECTOR)), i64(1))
        along_row = knobs.together > 1 and knobs.columns == 1
        return near if along_row else tirx.floordiv(i64(SECTOR) + near - 1, near)

    def _is_done(self, stage: int) -> bool:
        """Return whether a stage needs a kernel; the last one always does, to store the results."""
        last = stage == self.work.sched.stages - 1
        return last or bool(self.reductions(stage, self.pairs) or self.work.stores(stage))

    def work_of(self, knobs: RowKnobs) -> tuple[RowWork, dict[Node, Node]]:
        """Return the stages of a plan, and the pairs of reductions that it computes in one pass.

        If the row is kept in registers, there are no pairs, because another pass reads no memory.
        """
        return (self.held_work, {}) if knobs.held else (self.work, self.pairs)

    def reductions(self, stage: int, pairs: dict[Node, Node]) -> list[Node]:
        """Return the reductions of a stage, each followed by its paired second reduction."""
        found = [n for n in self.work.reductions(stage) if n not in pairs.values()]
        return [m for n in found for m in (n, pairs.get(n)) if m is not None]


def _row(rows: _Rows, knobs: RowKnobs, stage: int, body: Body) -> None:
    domain, block, low = rows.domain, body.block, body.low
    with low.scope():
        task, part = body.lo, None
        if knobs.parts > 1:
            task = block.bind("row", tirx.truncdiv(body.lo, i64(knobs.parts)))
            part = block.bind("part", body.lo - task * knobs.parts)
        place = Place(body.thread)
        if knobs.columns > 1:
            task, place = _column(rows, knobs, body, task)
        index = low.space.split(task, (*domain.outer, *domain.tail))
        low.resolve(index)
        split = len(domain.outer)
        kind = Columns if knobs.columns > 1 and knobs.lanes > 1 else Threads
        walk = kind(rows, knobs, body, place, index[:split], index[split:])
        if part is None:
            walk.emit()
        else:
            walk.emit_part(stage, part, task)


def _column(rows: _Rows, knobs: RowKnobs, body: Body, tile: Expr) -> tuple[Expr, Place]:
    """Return the row of a thread, or the first of several rows, and the thread's place in it.

    Threads beyond the last row get the last one, with ``inside`` false.
    """
    block, columns = body.block, knobs.columns
    total = block.bind("rows", i64(rows.rows))
    number = block.bind("number", tirx.truncdiv(body.thread, i64(columns)))
    column = tile * columns + (body.thread - number * columns)
    row = block.bind("row", mul(column, knobs.lanes))
    place = Place(number, block.bind("inside", row < total))
    return block.bind("mine", tirx.min(row, total - knobs.lanes)), place


def _one(dtype: str, index: Sequence[Expr]) -> Expr:
    return const(1, dtype)
