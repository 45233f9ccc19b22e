"""Reductions and element-wise work over a row: a thread, a warp, a block or blocks for each row.

The stages are those of the processor's template (``schedules/rows/stages.py``). The threads of a
block walk along a row in turn, so that neighbours read neighbours, and fold what they have.

    threads  element after element; what a later stage reads again lies where an output will, or is
             computed again
    columns  where the reduced axes are not the last: a warp takes neighbouring rows, whose elements
             lie next to each other, and the warps of a block share them
    lanes    16 bytes at a time
    held     the same, with the row in registers: it is read once
    parts    blocks that share a row, and a kernel for each stage: what the blocks have found is in
             scratch memory, and all of those of the next stage add it up in the same order

A maximum and the sum of exponentials that rests on it are found in one stage (Milakov and
Gimelshein 2018), a mean and the mean square around it as well (Welford 1962): see ``pairs.py``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias, cast

from tvm import tirx

from tvm_disc.graph.core_ops import OpClass
from tvm_disc.graph.nodes import Node, static_dim
from tvm_disc.schedules.cuda.block import DeviceBlock
from tvm_disc.schedules.cuda.cost import Work, passes_ns, waves_ns
from tvm_disc.schedules.cuda.extremes import Best
from tvm_disc.schedules.cuda.pairs import Pair, Sum, find_pairs
from tvm_disc.schedules.cuda.reduce import plan_contraction, strided
from tvm_disc.schedules.cuda.vector import (
    ALIGNED,
    MOST_FACTS,
    Lanes,
    distinct,
    lanes_of_nodes,
    multiple_need,
    stand_in,
)
from tvm_disc.schedules.dispatch.variant import Grid, Knobs, Need, Pass
from tvm_disc.schedules.kernel import Body, Group, Machine, Plan
from tvm_disc.schedules.loops.reducers import ARG_REDUCTIONS, accumulator, finish
from tvm_disc.schedules.lowering import Lowering, Reader
from tvm_disc.schedules.rows.loops import RowWork, Walk
from tvm_disc.schedules.rows.stages import row_domain, schedule_stages
from tvm_disc.shape import Solver
from tvm_disc.tir.builder import Buffer, const, i64, index_var, loaded, storage_dtype
from tvm_disc.tir.index import IndexSpace, add, mul, product

Expr: TypeAlias = Any

# A thread alone has a row, and a block many.
ALONE = 128
# A guess: how much more is read where neighbouring threads have rows of their own.
APART = 2.0
HELD = 4  # accesses of a thread to an operand whose row is in registers
MOST_HELD = 3  # operands and values
SHORT, LONG = 64, 8192  # rows that are no work for a block, and those that are some for several
SECTOR = 8  # elements that memory gives at once, whatever is wanted of them


@dataclass(frozen=True)
class RowKnobs(Knobs):
    """Threads for one row, elements that one takes at once, accesses whose values it holds, blocks
    for one row, and rows of a block."""

    together: int
    lanes: int = 1
    held: int = 0
    parts: int = 1
    columns: int = 1


ALL = (
    RowKnobs(32),
    RowKnobs(1),
    RowKnobs(256),
    RowKnobs(256, parts=32),
    RowKnobs(8, columns=32),
    RowKnobs(8, parts=32, columns=32),
)


def plan_row(group: Group, solver: Solver, machine: Machine) -> list[Plan]:
    """A thread, a warp, a block or blocks for each row, by the length of the row; a reduction by
    itself of axes that are not the last also as any contraction, which has lanes there."""
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
    """The plans of one group."""

    def __init__(self, group: Group, solver: Solver, machine: Machine) -> None:
        assert machine.device is not None
        self.group, self.solver, self.device = group, solver, machine.device
        self.domain = row_domain(group)
        whole = schedule_stages(group, solver)
        self.pairs = find_pairs(group, whole)
        seconds = {n.inputs[0] for n in self.pairs.values()}
        # Kept are values that an output's place can hold: there is no memory for a row per block.
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
        self.facts = self._facts()

    def _large(self) -> list[Node]:
        """Operands and results with an element for each of the domain."""
        own = (*self.group.params, *self.group.outputs)
        return self.work.as_large(own, self.solver) or [self.group.outputs[0]]

    def fits(self, knobs: RowKnobs) -> bool:
        """Whether rows may be long enough."""
        known, columns = static_dim(self.length), static_dim(product(self.domain.tail))
        if knobs.columns > 1 and not self.domain.tail:
            return False
        apart = self.domain.tail and knobs.columns == 1 and knobs.together > 1
        if apart and columns is not None and columns >= SECTOR:
            return False  # neighbours along a row lie apart: little of what is read is wanted
        if knobs.parts > 1:
            return self.can_share and (known is None or known >= LONG)
        return known is None or knobs.together <= 32 or known > SHORT

    def is_plain(self) -> bool:
        """Whether all results are elements of one reduction along axes that are not the last."""
        if not self.domain.tail or len(self.reduced) != 1:
            return False
        [node] = self.reduced
        after = self.group.nodes[self.group.nodes.index(node) + 1 :]
        plain = all(n.cls is OpClass.ELEMWISE for n in after)
        shapes = [n.shape for n in (*after, *self.group.outputs)]
        return plain and all(self.solver.known_same_shape(s, node.shape) for s in shapes)

    def plan(self, knobs: RowKnobs) -> Plan:
        """A plan that rests on nothing, with the wider ones that may take its place."""
        plain = self._plan(knobs, ())
        facts = self.facts if knobs.together > 1 else None
        if facts is None:
            return plain
        needs = (*(multiple_need(f, self.lanes) for f in facts), ALIGNED)
        wide = self._plan(replace(knobs, lanes=self.lanes), needs)
        held = self.held()
        held_most = len(held) + len(self.held_work.sched.kept) <= MOST_HELD
        if knobs.parts == 1 and held and held_most:
            room = knobs.together * self.lanes * HELD
            short = Need(f"length <= {room}", i64(self.length) <= room)
            all_held = replace(knobs, lanes=self.lanes, held=HELD)
            wide.wide = self._plan(all_held, (*needs, short))
        notes = {**plain.notes, "lanes": f"{self.lanes} if {', '.join(n.text for n in needs)}"}
        return replace(plain, wide=wide, notes=notes)

    def held(self) -> list[Node]:
        """Operands whose row is worth registers: all reads of them are at the row's positions."""
        plain = all(n.cls in (OpClass.ELEMWISE, OpClass.REDUCE) for n in self.group.nodes)
        return self.work.as_large(self.group.params, self.solver) if plain else []

    def _facts(self) -> list[Expr] | None:
        """The sizes that must be multiples for lanes; None if little is read together."""
        if self.domain.tail or any(n.op in ARG_REDUCTIONS for n in self.reduced):
            return None
        space = IndexSpace(lambda a, b: bool(self.solver.known_eq(a, b)))
        low = Lowering(DeviceBlock(), space, self.solver)
        for node in self.reduced:
            low.bind_reader(node, partial(_one, node.dtype))
        j = index_var("j")
        lanes = Lanes(low, self.lanes, (), [j], self.group.symbols())
        outer = low.space.split(index_var("row"), self.domain.outer)
        index = [*outer, *low.space.split(add(j, lanes.lane), self.domain.inner)]
        large = [n for n in self.group.nodes if not self.work.sched.per_row[n]]
        with lanes.reading({n: stand_in(n) for n in self.group.params}):
            for node in (*large, *(n.inputs[0] for n in self.reduced)):
                if self.solver.known_same_shape(node.shape, self.domain.full):
                    low.resolve([low.at(node, index)])
        if any(low.space.depends_on(v, lanes.lane) for v in low.defined):
            return None
        facts = distinct([*lanes.wanted, *(lanes.facts(i64(self.length)) or ())])
        few = lanes.together < max(1, lanes.single) or len(facts) > MOST_FACTS
        whole = lanes.facts(i64(self.length)) is not None
        return None if few or not whole else facts

    def _plan(self, knobs: RowKnobs, needs: tuple[Need, ...]) -> Plan:
        threads, sched = knobs.together, self.work.sched
        alone = threads == 1
        apart = threads * knobs.parts
        per = tirx.floordiv(self.length + (apart - 1), i64(apart))
        blocks = tirx.floordiv(self.rows + (ALONE - 1), i64(ALONE)) if alone else self.rows
        tiles = self.rows
        if knobs.columns > 1:
            tiles = blocks = tirx.floordiv(self.rows + (knobs.columns - 1), i64(knobs.columns))
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
        work = Work(blocks, grid.threads, per * sched.stages, barriers, spread)
        if knobs.parts == 1:
            plan.cost = partial(waves_ns, self.device, self.group, work)
            return plan
        stages = [s for s in range(sched.stages) if self._is_done(s)]
        one = Work(blocks, grid.threads, per + knobs.parts, barriers, spread)
        plan.tasks = mul(tiles, knobs.parts)
        plan.passes = tuple(Pass(plan.tasks, partial(emit, s), grid) for s in stages)
        plan.scratch_elems = mul(self.rows, knobs.parts * max(1, len(self.reduced)))
        plan.scratch_dtype = self.dtype
        plan.cost = partial(passes_ns, self.device, self.group, tuple((one, 1) for _ in stages))
        return plan

    def _spread(self, knobs: RowKnobs) -> Expr | float:
        """How many times what is wanted is read: of neighbours along a row, or of rows."""
        if not self.domain.tail:
            return APART if knobs.together == 1 else 1.0
        near = tirx.max(tirx.min(i64(product(self.domain.tail)), i64(SECTOR)), i64(1))
        along_row = knobs.together > 1 and knobs.columns == 1
        return near if along_row else tirx.floordiv(i64(SECTOR) + near - 1, near)

    def _is_done(self, stage: int) -> bool:
        """Whether a stage has a kernel: the last one has the results of a row."""
        last = stage == self.work.sched.stages - 1
        return last or bool(self.reductions(stage, self.pairs) or self.work.stores(stage))

    def work_of(self, knobs: RowKnobs) -> tuple[RowWork, dict[Node, Node]]:
        """The stages of a plan, and the pairs that it finds at once: none where a row is held, of
        which another pass takes no memory's time."""
        return (self.held_work, {}) if knobs.held else (self.work, self.pairs)

    def reductions(self, stage: int, pairs: dict[Node, Node]) -> list[Node]:
        """What a stage reduces, with what rests on it and is found beside it."""
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
        walk = _Threads(rows, knobs, body, place, index[:split], index[split:])
        if part is None:
            walk.emit()
        else:
            walk.emit_part(stage, part, task)


@dataclass(frozen=True)
class Place:
    """Where a thread is.

    Attributes:
        number: among those that share its row.
        inside: whether there is such a row; None if there is.
    """

    number: Expr
    inside: Expr | None = None

    def first(self) -> Expr:
        """Whether it is the one that stores what exists once per row."""
        first = tirx.EQ(self.number, i64(0))
        return first if self.inside is None else tirx.And(first, self.inside)

    def count(self, count: Expr) -> Expr:
        """Of so many elements, those that it and its neighbours look at."""
        return count if self.inside is None else tirx.Select(self.inside, count, i64(0))


def _column(rows: _Rows, knobs: RowKnobs, body: Body, tile: Expr) -> tuple[Expr, Place]:
    """The row of a thread, and its place there; where there is none, the last row."""
    block, columns = body.block, knobs.columns
    total = block.bind("rows", i64(rows.rows))
    number = block.bind("number", tirx.truncdiv(body.thread, i64(columns)))
    row = block.bind("row", tile * columns + (body.thread - number * columns))
    place = Place(number, block.bind("inside", row < total))
    return block.bind("mine", tirx.min(row, total - 1)), place


class _Threads(Walk):
    """A row that several threads walk along in turn."""

    def __init__(
        self,
        rows: _Rows,
        knobs: RowKnobs,
        body: Body,
        at: Place,
        outer: Sequence[Expr],
        tail: Sequence[Expr],
    ) -> None:
        self.rows, self.knobs, self.threads, self.at = rows, knobs, knobs.together, at
        work, self.pairs = rows.work_of(knobs)
        self.rooms: dict[Node, Buffer] = {}
        super().__init__(work, body, outer, tail, 1)
        self.begin, self.part, self.row = i64(0), cast(Any, None), cast(Any, None)
        self.count = at.count(self.length)
        self.held: dict[Node, Buffer] = {}
        self.cells: dict[Buffer, tuple[Buffer, Expr]] = {}
        self.lanes: Lanes | None = None
        self.step_number: Expr = i64(0)

    # -- stages ----------------------------------------------------------------------------------

    def emit(self) -> None:
        """All stages; where the row is held, it is read first."""
        if self.knobs.held:
            self._hold()
        super().emit()

    def emit_part(self, stage: int, part: Expr, row: Expr) -> None:
        """One stage of a part of the row; what those before found is in scratch memory."""
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
        """What the parts of the row have found in a stage, added up, and what follows."""
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
        """How many elements of the row a part has."""
        share = self.block.bind("share", self._share())
        return tirx.max(tirx.min(self.length - part * share, share), i64(0))

    def _share(self) -> Expr:
        """Elements of a part, which begins where an access does."""
        share = tirx.truncdiv(self.length + (self.knobs.parts - 1), i64(self.knobs.parts))
        lanes = i64(self.knobs.lanes)
        return tirx.truncdiv(share + (lanes - 1), lanes) * lanes

    def _place(self, node: Node, part: Expr) -> Expr:
        """Where a part of this row has what it found."""
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
        """One pass over the row; the values of the reductions, which all threads get."""
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
        """Where threads take turns by their number in a row."""
        return replace(self.body, thread=self.at.number)

    def _folded(self, acc: Any) -> list[tuple[Node, Expr]]:
        if isinstance(acc, Best):
            return [(acc.node, acc.folded(self.threads, self.knobs.columns))]
        found = acc.folded(self.threads, self.knobs.columns, self.part is None)
        return list(zip(acc.nodes, found, strict=True))

    def _leave(self, found: Sequence[tuple[Node, Expr]]) -> None:
        """What this part has found, in scratch memory, by one of its threads."""
        with self.block.when(self.at.first()), self.low.scope():
            for node, value in found:
                assert self.body.scratch is not None
                self.block.store(self.body.scratch, self._place(node, self.part), value)

    def finish(self) -> None:
        """Store the outputs that exist once per row, by one of the threads."""
        if self.threads == 1:
            super().finish()
            return
        if self.part is None:
            cast(DeviceBlock, self.block).barrier()  # stores of this row before reads of the next
        with self.block.when(self.at.first()), self.low.scope():
            super().finish()

    # -- lanes -----------------------------------------------------------------------------------

    @contextmanager
    def _vectors(self) -> Iterator[Expr]:
        """Where this thread's accesses begin."""
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
        """Read the row into registers."""
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
        """Where a value is kept: in registers where the row is."""
        if self.knobs.held:
            size = self.knobs.lanes * self.knobs.held
            self.rooms[node] = self.block.alloc("kept", size, storage_dtype(node.dtype))
        return None

    def _kept_reader(self, node: Node) -> Reader:
        if node not in self.rooms:
            return super()._kept_reader(node)
        return lambda index: loaded(self.rooms[node][self._number()], node.dtype)

    def _number(self) -> Expr:
        """Which of the elements that this thread holds is at hand."""
        assert self.lanes is not None
        return self.step_number * self.knobs.lanes + self.lanes.number

    def _held_reader(self, node: Node) -> Reader:
        return lambda index: loaded(self.held[node][self._number()], node.dtype)

    def _step_lanes(
        self, nodes: Sequence[Node], accs: Sequence[Any], stores: Sequence[Node], j: Expr
    ) -> None:
        """Neighbours from ``j`` on, one after the other; what they store is stored together."""
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
        if node in self.rooms:
            self.low.store(self.rooms[node], self._number(), value, node.dtype)
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
        """The number of the output in whose place a node lies."""
        slot = self.sched.storage.get(node)
        return self.group.outputs.index(node) if slot is None else slot


def _one(dtype: str, index: Sequence[Expr]) -> Expr:
    return const(1, dtype)


def _values(acc: Any) -> list[tuple[Node, Expr]]:
    if isinstance(acc, Best):
        return [(acc.node, acc.value)]
    return list(zip(acc.nodes, acc.values(), strict=True))
