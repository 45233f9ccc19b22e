"""Attention in tiles of queries and keys (Dao et al., FlashAttention, 2022).

    copy the queries of the tile to shared memory
    for each tile of keys:
        copy the keys; scores = queries x keys, in registers
        maximum of each row, combined in shared memory
        weights = exp(scores - maximum), stored over the keys; rescale sums and results
        copy the values; results += weights x values, in registers

A thread computes the same rows of scores and of results. Each thread keeps its own sums of weights;
they are added up at the end. Keys are loaded into registers while the previous tile is multiplied,
values while weights are computed; loading values earlier would need more registers than are
available to three concurrent blocks of 128 threads. Shared memory has three regions: queries; keys,
then weights; maxima, then values. Queries, keys and weights are stored transposed, with the row
innermost, so that a thread loads a chunk of four rows at once. Chunks are permuted
(:func:`_turned`), so that the stores of a warp go to different banks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast as typed

from tvm import tirx

from tvm_disc.graph.nodes import Node, static_dim
from tvm_disc.schedules.cuda.attention.parts import (
    Core,
    exponential,
    quotient,
    shift_of,
    store_part,
    store_result,
    store_sums,
)
from tvm_disc.schedules.cuda.block import DeviceBlock
from tvm_disc.schedules.cuda.epilogue import store_lanes
from tvm_disc.schedules.cuda.vector import Lanes, move
from tvm_disc.schedules.dispatch.variant import Knobs
from tvm_disc.schedules.elements import cast
from tvm_disc.schedules.group import Body
from tvm_disc.schedules.lowering import Lowering
from tvm_disc.tir.builder import const, i64
from tvm_disc.tir.index import add, ceil_div
from tvm_disc.typing import UNSET, Buffer, Expr, Size

CHUNK = 4  # values that a thread loads from shared memory at once
UNROLLED = 8  # steps of a matmul between two tests of the loop condition
# most elements that a thread loads one by one while the previous tile is multiplied
MOST_AHEAD = 32


@dataclass(frozen=True)
class FlashKnobs(Knobs):
    """Queries and keys per tile, and rows and columns of scores per thread.

    ``parts``: blocks that share the keys of a query. ``wide``: whether copies move several
    elements at once.
    """

    queries: int
    keys: int
    rows: int
    columns: int
    parts: int = 1
    wide: bool = False

    @property
    def across(self) -> int:
        """The number of threads that share a row."""
        return self.keys // self.columns

    @property
    def threads(self) -> int:
        """The number of threads per block."""
        return self.queries // self.rows * self.across

    def width(self, values: int) -> int:
        """Return the number of result columns per thread: 1, 2 or a multiple of 4."""
        each = -(-values // self.across)
        return each if each < 3 else -(-each // CHUNK) * CHUNK

    def room(self, depth: int, values: int) -> tuple[int, int, int]:
        """Return the number of elements of each region of shared memory."""
        padded = self.width(values) * self.across
        return (
            self.queries * depth,
            self.keys * max(depth, self.queries),
            max(self.across * self.queries, self.keys * padded),
        )


@dataclass(frozen=True)
class Operand:
    """Queries, keys or values; a copy reads ``lanes`` adjacent elements of a row at once.

    ``read`` returns element (row, position) of batch item g.
    """

    name: str
    read: Callable[[Lowering, Expr, Expr, Expr], Expr]
    node: Node
    rows: Size
    length: int
    lanes: int = 1


def operands_of(core: Core) -> tuple[Operand, Operand, Operand] | str:
    """Return queries, keys and values as rows, or a text why they cannot be tiled."""
    scores, values = core.scores, core.values
    depth, width = static_dim(scores.k), static_dim(values.n)
    if not depth or not width:
        return "the size of a head is not known"
    return (
        Operand("q", scores.a_at, scores.node.inputs[0], scores.m, depth),
        Operand(
            "k",
            lambda low, g, row, at: scores.b_at(low, g, at, row),
            scores.node.inputs[1],
            scores.n,
            depth,
        ),
        Operand("v", values.b_at, values.node.inputs[1], scores.n, width),
    )


@dataclass(frozen=True)
class FlashPlan:
    """The arguments from which an attention in tiles is emitted.

    Attributes:
        operands: queries, keys and values, in the form in which they are copied.
        facts: expressions that may be assumed to be multiples of the number of lanes of a copy.
        wide_store: whether the result is stored in vectors.
    """

    core: Core
    knobs: FlashKnobs
    operands: tuple[Operand, Operand, Operand]
    facts: Sequence[Expr] = ()
    wide_store: bool = False

    def emit(self, body: Body) -> None:
        """Emit the tile of one task."""
        _Flash(self, body).emit()


def _turned(chunk: Expr, number: Expr, extent: int) -> Expr:
    """Return the position of a chunk in row ``number`` of a shared array.

    Rows have ``extent`` elements. Chunks are permuted so that the stores of a warp go to different
    banks.
    """
    turns = min(8, extent // CHUNK)
    return tirx.bitwise_xor(chunk, tirx.bitwise_and(i64(number), i64(turns - 1)))


def _halved(value: Expr, divisor: int) -> Expr:
    """Return the quotient of a nonnegative value by a power of two."""
    return tirx.shift_right(i64(value), i64(divisor.bit_length() - 1))


class _Copy:
    """The copies of an operand's rows to shared memory by one thread."""

    def __init__(self, of: _Flash, operand: Operand, extent: int) -> None:
        self.of, self.operand, self.extent = of, operand, extent
        self.along = operand.length // operand.lanes
        self.chunks = extent * self.along
        self.steps = -(-self.chunks // of.knobs.threads)
        # With many single elements, the addresses would not fit registers: load just before the
        # stores.
        self.late = operand.lanes == 1 and self.steps > MOST_AHEAD
        staged = 1 if self.late else self.steps * operand.lanes
        self.stage = of.block.alloc(f"{operand.name}_next", staged, of.dtype)
        self.origin: Expr = UNSET
        self.major: Expr = UNSET
        self.minor: Expr = UNSET
        if of.knobs.threads % self.along == 0 and self.chunks % of.knobs.threads == 0:
            self.major = of.block.bind("major", tirx.truncdiv(of.thread, i64(self.along)))
            at = (of.thread - self.major * self.along) * operand.lanes
            self.minor = of.block.bind("minor", at)

    def _each(self, emit: Callable[[Expr, Expr, Expr], None]) -> None:
        """Emit ``emit(step, row in the tile, position)`` for each step of the thread.

        If the copy is late, elements pass through one register, and ``step`` is always 0.
        """
        of, threads, lanes = self.of, self.of.knobs.threads, self.operand.lanes
        kind = "serial" if self.late else "unrolled"
        with of.low.loop("copy", self.steps, kind=kind) as step:
            staged = i64(0) if self.late else step
            if self.major is not None:
                emit(staged, add(self.major, step * (threads // self.along)), self.minor)
                return
            number = of.block.bind("number", step * threads + of.thread)
            with of.block.when(number < self.chunks), of.low.scope():
                row = of.block.bind("row", tirx.truncdiv(number, i64(self.along)))
                emit(staged, row, of.block.bind("at", (number - row * self.along) * lanes))

    def fetch(self, origin: Expr) -> None:
        """Emit loads of the rows from ``origin`` on into registers; 0 for rows out of bounds.

        If the copy is late, nothing is loaded here; the stores load each element first.
        """
        self.origin = origin
        if not self.late:
            self._each(self._load)

    def _load(self, step: Expr, row: Expr, at: Expr) -> None:
        of, operand = self.of, self.operand
        here = of.block.bind("here", self.origin + row)
        for number in range(operand.lanes):
            of.block.store(self.stage, step * operand.lanes + number, const(0, of.dtype))
        with of.block.when(here < operand.rows), of.low.scope():
            lanes = of.lanes(operand.lanes, [at])
            with lanes.reading(of.body.buffers):
                for number, lane in enumerate(lanes.each()):
                    value = operand.read(of.low, of.g, here, add(at, lane))
                    value = of.low.settle(operand.name, cast(value, of.dtype))
                    of.block.store(self.stage, step * operand.lanes + number, value)

    def _each_loaded(self, store: Callable[[Expr, Expr, Expr], None]) -> None:
        """Emit ``store`` for each step; if the copy is late, preceded by the load of the step."""

        def both(step: Expr, row: Expr, at: Expr) -> None:
            self._load(step, row, at)
            store(step, row, at)

        self._each(both if self.late else store)

    def put(self, room: Buffer) -> None:
        """Emit stores of the loaded rows, transposed: the row index is innermost."""
        of, lanes = self.of, self.operand.lanes

        def store(step: Expr, row: Expr, at: Expr) -> None:
            chunk = _turned(_halved(row, CHUNK), _halved(at, lanes), self.extent)
            place = chunk * CHUNK + tirx.bitwise_and(row, i64(CHUNK - 1))
            for lane in range(lanes):
                value = self.stage[step * lanes + lane]
                of.block.store(room, (at + lane) * self.extent + place, value)

        self._each_loaded(store)

    def put_rows(self, room: Buffer, length: int) -> None:
        """Emit stores of the loaded rows, not transposed; rows are ``length`` elements apart."""
        lanes = self.operand.lanes

        def store(step: Expr, row: Expr, at: Expr) -> None:
            chunk = row * (length // lanes) + _halved(at, lanes)
            self.of.move(room, chunk * lanes, self.stage, step * lanes, lanes)

        self._each_loaded(store)


class _Flash:
    """Emits the computation of one tile of queries."""

    def __init__(self, plan: FlashPlan, body: Body) -> None:
        self.plan, self.core, self.knobs, self.body = plan, plan.core, plan.knobs, body
        self.block, self.low, self.thread = typed(DeviceBlock, body.block), body.low, body.thread
        self.dtype = plan.core.dtype
        block, knobs = self.block, self.knobs
        batch, m, n, _ = plan.core.scores.sizes
        sizes = zip("bmn", (batch, m, n), strict=True)
        self.batch, self.m, self.n = (block.bind(name, i64(size)) for name, size in sizes)
        self.depth, self.values = (plan.operands[k].length for k in (0, 2))
        self.width = knobs.width(self.values)
        self._origin()
        self.row = block.bind("row", tirx.truncdiv(self.thread, i64(knobs.across)))
        self.column = block.bind("column", self.thread - self.row * knobs.across)
        self.down = knobs.queries // knobs.rows
        names = ("queries", "keys", "values")
        rooms = zip(names, knobs.room(self.depth, self.values), strict=True)
        self.rooms = [block.shared(name, size, self.dtype) for name, size in rooms]
        extents = (knobs.queries, knobs.keys, knobs.keys)
        self.copies = [_Copy(self, o, e) for o, e in zip(plan.operands, extents, strict=True)]
        self.scores = block.alloc("scores", knobs.rows * knobs.columns, self.dtype)
        self.result = block.alloc("result", knobs.rows * self.width, self.dtype)
        self.peaks, self.sums = (
            block.alloc(name, knobs.rows, self.dtype) for name in ("peaks", "sums")
        )

    def _origin(self) -> None:
        """Bind a task's batch item, first query and range of keys."""
        block, knobs, low = self.block, self.knobs, self.low
        tiles = block.bind("tiles", ceil_div(self.m, i64(knobs.queries)))
        item = block.bind("item", tirx.truncdiv(self.body.lo, tiles))
        self.i0 = block.bind("i0", (self.body.lo - item * tiles) * knobs.queries)
        count = block.bind("count", ceil_div(self.n, i64(knobs.keys)))
        self.g, self.part, self.first, self.count = item, i64(0), i64(0), count
        if knobs.parts > 1:
            self.part = block.bind("part", tirx.truncdiv(item, self.batch))
            self.g = block.bind("g", item - self.part * self.batch)
            share = block.bind("share", ceil_div(count, i64(knobs.parts)))
            self.first = block.bind("first", self.part * share)
            self.count = block.bind("mine", tirx.max(tirx.min(count - self.first, share), i64(0)))
        core = self.core
        self.lead = low.space.split(self.g, core.found.masked.shape[:-2])
        for dims in (core.scores.node.shape[:-2], core.scores.batch, core.values.batch):
            low.resolve(low.space.split(self.g, dims) if dims else ())
        low.resolve(self.lead)

    def lanes(self, count: int, begins: Sequence[Expr]) -> Lanes:
        """Return lanes for ``count`` adjacent elements, with the facts of the plan."""
        symbols = self.core.values.group.symbols()
        return Lanes(self.low, count, self.plan.facts, begins, symbols)

    def emit(self) -> None:
        """Emit the loop over tiles of keys, then the stores."""
        block, low, knobs = self.block, self.low, self.knobs
        queries, keys, values = self.copies
        lowest, zero = const(float("-inf"), self.dtype), const(0, self.dtype)
        starts = ((self.peaks, lowest), (self.sums, zero), (self.result, zero))
        for cells, start in starts:
            with low.loop("s", int(cells.shape[0]), kind="unrolled") as s:
                block.store(cells, s, start)
        with block.when(self.count > 0), low.scope():
            if not keys.late:
                keys.fetch(self.first * knobs.keys)
            queries.fetch(self.i0)
            queries.put(self.rooms[0])
        with low.loop("c", self.count) as c:
            k0 = block.bind("k0", (self.first + c) * knobs.keys)
            if keys.late:
                keys.fetch(k0)
            keys.put(self.rooms[1])
            block.barrier()
            self._score(k0)
            self._weigh(lambda: None if values.late else values.fetch(k0))
            block.barrier()
            if values.late:
                values.fetch(k0)
            values.put_rows(self.rooms[2], self.width * knobs.across)
            block.barrier()
            if not keys.late:
                with block.when(c + 1 < self.count), low.scope():
                    keys.fetch(k0 + knobs.keys)
            self._add_values()
            block.barrier()
        self._store()

    # -- a tile of keys --------------------------------------------------------------------------

    def _score(self, k0: Expr) -> None:
        """Emit the scores of the tile, after the scales, biases and masks that follow them."""
        block, low, knobs, core = self.block, self.low, self.knobs, self.core
        with low.loop("s", knobs.rows * knobs.columns, kind="unrolled") as s:
            block.store(self.scores, s, const(0, self.dtype))
        lanes = [self.plan.operands[k].lanes for k in (0, 1)]

        def load(d: Expr, left: Buffer, right: Buffer) -> None:
            lines = d * (knobs.queries // CHUNK)
            self._take(left, self.rooms[0], lines, self._rows(_halved(d, lanes[0])))
            at = [
                _turned(self.column + q * knobs.across, _halved(d, lanes[1]), knobs.keys)
                for q in range(knobs.columns // CHUNK)
            ]
            self._take(right, self.rooms[1], d * (knobs.keys // CHUNK), at)

        self._multiply(self.depth, load, self.scores, knobs.columns)
        found = core.found
        with (
            low.loop("c", knobs.columns, kind="unrolled") as c,
            low.loop("r", knobs.rows, kind="unrolled") as r,
        ):
            i = block.bind("i", tirx.min(self._query(r), self.m - 1))
            wanted = block.bind("key", k0 + self._key(c))
            j = block.bind("j", tirx.min(wanted, self.n - 1))
            at = c * knobs.rows + r
            dot = low.settle("dot", cast(self.scores[at], found.scores.dtype))
            low.bind_reader(found.scores, partial(_same, dot))
            value = low.at(found.masked, [*self.lead, i, j])
            value = low.settle("masked", cast(value, self.dtype))
            low.drop_reader(found.scores)
            lowest = const(float("-inf"), self.dtype)
            block.store(self.scores, at, tirx.Select(wanted < self.n, value, lowest))

    def _weigh(self, ahead: Callable[[], None]) -> None:
        """Emit the maxima of rows, the weights, and the rescaling of sums and results.

        ``ahead`` emits loads whose latency this computation hides.
        """
        block, low, knobs = self.block, self.low, self.knobs
        tops = block.alloc("tops", knobs.rows, self.dtype)
        with low.loop("r", knobs.rows, kind="unrolled") as r:
            block.store(tops, r, self.scores[r])
            for c in range(1, knobs.columns):
                block.store(tops, r, tirx.max(tops[r], self.scores[c * knobs.rows + r]))
        self._across(tops, tirx.max, ahead)
        with low.loop("r", knobs.rows, kind="unrolled") as r:
            before = block.bind("before", self.peaks[r])
            peak = block.bind("peak", tirx.max(before, tops[r]))
            shift = block.bind("shift", shift_of(peak, self.dtype))
            factor = block.bind("factor", exponential(before, shift))
            block.store(self.peaks, r, peak)
            block.store(self.sums, r, self.sums[r] * factor)
            with low.loop("c", knobs.columns, kind="unrolled") as c:
                at = c * knobs.rows + r
                weight = block.bind("weight", exponential(self.scores[at], shift))
                block.store(self.scores, at, weight)
                block.store(self.sums, r, self.sums[r] + weight)
            with low.loop("e", self.width, kind="unrolled") as e:
                block.store(self.result, self._cell(r, e), self.result[self._cell(r, e)] * factor)
        with low.loop("c", knobs.columns, kind="unrolled") as c:
            key = self._key(c)
            for q, chunk in enumerate(self._rows(_halved(key, CHUNK))):
                at = (key * (knobs.queries // CHUNK) + chunk) * CHUNK
                self.move(self.rooms[1], at, self.scores, c * knobs.rows + q * CHUNK, CHUNK)

    def _across(
        self,
        cells: Buffer,
        combine: Callable[[Expr, Expr], Expr],
        ahead: Callable[[], None] = lambda: None,
    ) -> None:
        """Combine a value per row over the threads that share the row, in a fixed order."""
        block, low, knobs = self.block, self.low, self.knobs
        room, lines = self.rooms[2], knobs.queries // CHUNK
        for q, chunk in enumerate(self._rows(self.column)):
            self.move(room, (self.column * lines + chunk) * CHUNK, cells, i64(q * CHUNK), CHUNK)
        block.barrier()
        ahead()
        theirs = block.alloc("theirs", knobs.rows, self.dtype)
        self._take(cells, room, i64(0), self._rows(i64(0)))
        with low.loop("t", knobs.across - 1, begin=1, kind="unrolled") as t:
            self._take(theirs, room, t * lines, self._rows(t))
            with low.loop("r", knobs.rows, kind="unrolled") as r:
                block.store(cells, r, combine(cells[r], theirs[r]))

    def _add_values(self) -> None:
        """Emit the matmul of the weights and the values of the tile."""
        knobs, chunk = self.knobs, min(CHUNK, self.width)

        def load(key: Expr, left: Buffer, right: Buffer) -> None:
            lines = key * (knobs.queries // CHUNK)
            self._take(left, self.rooms[1], lines, self._rows(_halved(key, CHUNK)))
            for q in range(self.width // chunk):
                at = key * (self.width * knobs.across // chunk) + self.column + q * knobs.across
                self.move(right, i64(q * chunk), self.rooms[2], at * chunk, chunk)

        self._multiply(knobs.keys, load, self.result, self.width)

    def _multiply(
        self, steps: int, load: Callable[[Expr, Buffer, Buffer], None], sums: Buffer, columns: int
    ) -> None:
        """Emit a matmul; ``load`` emits the loads of a thread's operands for one step."""
        block, low, rows = self.block, self.low, self.knobs.rows
        few = next(u for u in (UNROLLED, 4, 2, 1) if steps % u == 0)
        with (
            low.loop("outer", steps // few) as outer,
            low.loop("inner", few, kind="unrolled") as inner,
        ):
            left = block.alloc("left", rows, self.dtype)
            right = block.alloc("right", columns, self.dtype)
            load(block.bind("at", outer * few + inner), left, right)
            with (
                low.loop("c", columns, kind="unrolled") as c,
                low.loop("r", rows, kind="unrolled") as r,
            ):
                at = c * rows + r
                block.store(sums, at, sums[at] + left[r] * right[c])

    # -- indices ---------------------------------------------------------------------------------

    def _rows(self, number: Expr) -> list[Expr]:
        """Return the chunks that hold the thread's rows, in row ``number`` of a shared array."""
        each = range(self.knobs.rows // CHUNK)
        return [_turned(self.row + q * self.down, number, self.knobs.queries) for q in each]

    def _take(self, to: Buffer, room: Buffer, line: Expr, chunks: Sequence[Expr]) -> None:
        """Emit loads of chunks of a row of a shared array.

        Args:
            line: the index of the row's first chunk.
        """
        for q, chunk in enumerate(chunks):
            self.move(to, i64(q * CHUNK), room, (line + chunk) * CHUNK, CHUNK)

    def move(self, to: Buffer, at: Expr, source: Buffer, begin: Expr, count: int) -> None:
        """Emit a copy of ``count`` elements between arrays; offsets are multiples of ``count``."""
        move(self.block, self.dtype, to, at, source, begin, count)

    def _query(self, r: Expr) -> Expr:
        """Return the index of the query of a thread's row ``r``."""
        return self.i0 + self._spread(r, self.row, self.down)

    def _key(self, c: Expr) -> Expr:
        """Return the index in the tile of the key of a thread's column ``c``."""
        return self._spread(c, self.column, self.knobs.across)

    def _spread(self, number: Expr, thread: Expr, apart: int) -> Expr:
        chunk = _halved(number, CHUNK) * apart + thread
        return chunk * CHUNK + tirx.bitwise_and(i64(number), i64(CHUNK - 1))

    def _cell(self, r: Expr, e: Expr) -> Expr:
        return e * self.knobs.rows + r

    # -- results ---------------------------------------------------------------------------------

    def _store(self) -> None:
        """Emit the reduction of the sums of weights, and the stores of the (partial) result."""
        block, low, knobs = self.block, self.low, self.knobs
        self._across(self.sums, lambda a, b: a + b)
        block.barrier()  # shared memory is reused by the next task
        chunk = min(CHUNK, self.width)
        with low.loop("r", knobs.rows, kind="unrolled") as r:
            i = block.bind("i", self._query(r))
            with block.when(i < self.m), low.scope():
                if knobs.parts > 1:
                    with block.when(tirx.EQ(self.column, i64(0))):
                        at = (self.part, self.g * self.m + i)
                        peak, total = self.peaks[r], self.sums[r]
                        store_sums(self.core, self.body, knobs.parts, at, peak, total)
                with low.loop("q", self.width // chunk, kind="unrolled") as q:
                    x = block.bind("x", (q * knobs.across + self.column) * chunk)
                    self._store_chunk(r, i, q * chunk, x, chunk)

    def _store_chunk(self, r: Expr, i: Expr, e: Expr, x: Expr, chunk: int) -> None:
        """Emit the stores of ``chunk`` adjacent columns from ``x`` on.

        Args:
            e: the index of the first column among the thread's columns.
        """
        block, low, core = self.block, self.low, self.core
        inside = x < self.values
        if self.plan.wide_store and chunk == CHUNK:
            with block.when(inside), low.scope():
                self._store_lanes(r, i, e, x)
            return
        with low.loop("v", chunk, kind="unrolled") as v:
            column = block.bind("d", x + v)
            with block.when(column < self.values), low.scope():
                value = self.result[self._cell(r, e + v)]
                if self.knobs.parts > 1:
                    flat = core.values.flat(self.g, i, column)
                    store_part(core, self.body, self.part, flat, value)
                else:
                    value = quotient(core, value, self.sums[r])
                    store_result(core, self.body, (self.g, i, column), value)

    def _store_lanes(self, r: Expr, i: Expr, e: Expr, x: Expr) -> None:
        view, anchor = self.core.values, self.core.found.result

        def index(lane: Expr) -> Sequence[Expr]:
            return view.index(self.low, self.g, i, add(x, lane))

        def total(number: int, place: Sequence[Expr]) -> Expr:
            value = self.result[self._cell(r, e + number)]
            return cast(quotient(self.core, value, self.sums[r]), anchor.dtype)

        lanes = self.lanes(CHUNK, [x])
        store_lanes(view.group, self.body, lanes, index, total, view.flat(self.g, i, x))


def _same(value: Expr, index: Sequence[Expr]) -> Expr:
    return value


__all__ = ["FlashKnobs", "FlashPlan", "Operand", "operands_of"]
