"""Code of a tile of a matmul on tensor cores.

    start the copies of the first slices; load the first fragments of slice 0
    for each slice of k:
        start the copy of a later slice to the stage of the previous slice, which is free
        for each 32 bytes of k:
            load the next fragments of A and B; if they belong to the next slice, wait for its copy
            multiply the current fragments, and add the products to sums in registers

A slice of an operand consists of rows of 16-byte chunks: a row per position with chunks along k, or
a row per step of k. Chunk c of row r is stored at ``c ^ swizzle(r)``, so that the eight rows that
one load reads are in different banks. Values out of bounds are 0.

The copies are asynchronous if operands are stored as matrices and aligned (``wide``). Otherwise
threads copy element by element, to one of two stages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from tvm import tirx

from tvm_disc.schedules.cuda.task import TileTask
from tvm_disc.schedules.cuda.tensor.instructions import (
    ADDRESS,
    CHUNK_BYTES,
    FRAGMENT,
    Instructions,
    i32,
    word,
)
from tvm_disc.schedules.cuda.tile import Side, operand
from tvm_disc.schedules.cuda.vector import item_bytes
from tvm_disc.schedules.cuda.views import TileView
from tvm_disc.schedules.dispatch.variant import Knobs
from tvm_disc.schedules.elements import cast
from tvm_disc.schedules.group import Body
from tvm_disc.tir.builder import const, i64, storage_dtype
from tvm_disc.typing import Expr

UNIT = 16  # rows of A, or columns of B, that one load of a warp fills
WARP = 32
SUMS = 4  # sums per thread of a 16 x 8 product
BASE_STAGES = 2  # stages in plans without asynchronous copies


@dataclass(frozen=True)
class TensorKnobs(Knobs):
    """Size of a tile of the result, steps of k per slice, and their distribution.

    Attributes:
        down, across: number of warps along rows and columns.
        stages: number of slices in shared memory.
        parts: number of blocks that share a sum.
        wide: whether copies are asynchronous.
    """

    m: int
    n: int
    k: int
    down: int
    across: int
    stages: int
    parts: int = 1
    wide: bool = False

    @property
    def threads(self) -> int:
        """The number of threads per block."""
        return WARP * self.down * self.across

    @property
    def buffers(self) -> int:
        """The number of stages in shared memory."""
        return self.stages if self.wide else BASE_STAGES


@dataclass(frozen=True)
class TensorPlan:
    """The arguments from which a matmul tile on tensor cores is emitted.

    Attributes:
        places: node and strides of the operands; None if copies are not asynchronous.
        facts: sizes that may be assumed to be multiples of the elements of a chunk.
        stored: number of adjacent results that a thread stores at once.
    """

    view: TileView
    tile: TensorKnobs
    sides: tuple[Side, Side]
    places: tuple[Any, Any] | None
    facts: Sequence[Expr] = ()
    stored: int = 1

    def emit(self, body: Body) -> None:
        """Emit the tile of one task."""
        TensorTile(self, body).emit()


class TileOperand:
    """An operand in shared memory: the copies of a thread, and the fragments of a warp."""

    def __init__(self, tile: TensorTile, side: Side, place: Any, begin: int) -> None:
        name = "a" if side.first else "b"
        self.of, self.side, self.at_global = tile, side, place
        knobs, block = tile.knobs, tile.block
        self.dtype = tile.view.node.inputs[0 if side.first else 1].dtype
        self.size_bytes = item_bytes(self.dtype)
        self.chunk = CHUNK_BYTES // self.size_bytes  # elements per chunk
        self.extent = knobs.m if side.first else knobs.n
        self.origin, self.size = (tile.i0, tile.m) if side.first else (tile.j0, tile.n)
        along, self.rows = knobs.k, self.extent
        if not side.along_k:
            along, self.rows = self.rows, along
        self.chunks = along // self.chunk  # chunks per row
        self.elems = self.rows * along
        self.room_begin = begin  # offset in the tile's shared array, in elements
        base = tile.base + word(begin * self.size_bytes)
        self.base = block.bind(f"{name}_at", base)
        self.units = self.extent // (knobs.down if side.first else knobs.across) // UNIT
        self.words = block.alloc(f"{name}_words", 2 * self.units * FRAGMENT, ADDRESS)
        self.steps = -(-self.rows * self.chunks // knobs.threads)
        self.begins = self._fragment_addresses()
        self.offsets = block.alloc(f"{name}_offsets", self.steps, "int64")
        self.copies = [self._copied(i32(s)) for s in range(self.steps)] if knobs.wide else []

    # -- positions of chunks ---------------------------------------------------------------------

    def _swizzled(self, row: Expr, chunk: Expr) -> Expr:
        """Return the position of a chunk in its row, permuted to avoid bank conflicts."""
        if self.chunks < 2:
            return chunk
        mask, period = min(self.chunks, 8) - 1, 8
        if self.size_bytes == 4 and not self.side.along_k:
            # A load reads single words of four rows, and in each row two chunks.
            mask, period = mask >> 1, 4
        shift = (period // (mask + 1)).bit_length() - 1
        turn = tirx.bitwise_and(tirx.shift_right(row, i32(shift)), i32(mask))
        if period == 4:
            turn = turn * i32(2)
        return tirx.bitwise_xor(chunk, turn)

    def _bytes(self, row: Expr, chunk: Expr) -> Expr:
        """Return the offset in bytes of a chunk in its stage."""
        return (row * i32(self.chunks) + self._swizzled(row, chunk)) * i32(CHUNK_BYTES)

    def _chunk_of(self, step: Expr) -> tuple[Expr, Expr]:
        """Return (row, chunk) of a step of this thread's copies."""
        number = self.of.t + step * i32(self.of.knobs.threads)
        row = tirx.truncdiv(number, i32(self.chunks))
        return row, number - row * i32(self.chunks)

    # -- asynchronous copies ---------------------------------------------------------------------

    def _copied(self, step: Expr) -> tuple[Expr, Expr]:
        """Return what a copy step has in common in all slices.

        This is the shared address in stage 0, and the number of steps of k that are in bounds. The
        step's offset in the operand is in ``offsets``, and increases with each slice.
        """
        tile, place, along_k = self.of, self.at_global, self.side.along_k
        block = tile.block
        row, chunk = (block.bind("row", x) for x in self._chunk_of(step))
        to = block.bind("to", self.base + word(self._bytes(row, chunk)))
        wide, first = (tirx.Cast("int64", x) for x in (row, chunk * i32(self.chunk)))
        x, kk = (wide, first) if along_k else (first, wide)
        at = block.bind("x", self.origin + x)
        begin = block.bind("kk", tile.first * tile.knobs.k + kk)
        stride, k_stride = (place.stride, 1) if along_k else (1, place.k_stride)
        offset = self._begin() + at * i64(stride) + begin * i64(k_stride)
        block.store(self.offsets, tirx.Cast("int64", step), offset)
        return to, block.bind("left", tirx.Select(at < self.size, tile.k - begin, i64(0)))

    def _begin(self) -> Expr:
        """Return the offset of the first element of the batch item."""
        tile, zero = self.of, i64(0)
        found = tile.low.locate(
            lambda: operand(tile.view, tile.low, self.side, tile.g, (zero, zero), zero)
        )
        assert found is not None
        return tile.low.settle("begin", found[1])

    def copy(self, begin: Expr, stage: Expr) -> None:
        """Start the copies of the slice that begins at step ``begin`` of this task's part of k."""
        tile, block = self.of, self.of.block
        source = tile.body.buffers[self.at_global.node]
        k_stride = i64(1) if self.side.along_k else i64(self.at_global.k_stride)
        apart = block.bind("apart", k_stride * tile.knobs.k)
        shift = block.bind("shift", self._shift(stage))
        for number, (to, left) in enumerate(self.copies):
            step = i64(number)
            with self._mine(i32(number)):
                tile.calls.copy(to + shift, source, self.offsets[step], begin < left)
            block.store(self.offsets, step, self.offsets[step] + apart)

    def _shift(self, stage: Expr) -> Expr:
        """Return the offset in bytes of a stage."""
        return word(stage) * word(self.elems * self.size_bytes)

    @contextmanager
    def _mine(self, step: Expr) -> Iterator[None]:
        """Restrict a copy step to the threads that have a chunk in it."""
        count, threads = self.rows * self.chunks, self.of.knobs.threads
        mine = self.of.t + step * i32(threads) < i32(count)
        with nullcontext() if count % threads == 0 else self.of.block.when(mine):
            yield

    # -- copies element by element ---------------------------------------------------------------

    def put(self, first: Expr, stage: Expr) -> None:
        """Copy the slice that begins at step ``first`` of k, element by element."""
        tile, block, low = self.of, self.of.block, self.of.low
        with (
            low.loop("step", self.steps, kind="unrolled") as step,
            self._mine(tirx.Cast("int32", step)),
        ):
            row, chunk = self._chunk_of(tirx.Cast("int32", step))
            row, chunk = block.bind("row", row), block.bind("chunk", chunk)
            begin = row * i32(self.chunks) + self._swizzled(row, chunk)
            begin = tirx.Cast("int64", begin) * self.chunk + self.room_begin
            begin = block.bind("begin", stage * self.elems + begin)
            with low.loop("lane", self.chunk, kind="unrolled") as lane:
                wide = tirx.Cast("int64", row)
                along = tirx.Cast("int64", chunk) * self.chunk + lane
                x, kk = (wide, along) if self.side.along_k else (along, wide)
                at, kk = block.bind("at", self.origin + x), block.bind("kk", first + kk)
                with block.when(tirx.And(at < self.size, kk < tile.k)), low.scope():
                    value = operand(tile.view, low, self.side, tile.g, (at, kk), i64(0))
                    low.store(tile.room, begin + lane, cast(value, self.dtype), self.dtype)
                with block.otherwise():
                    block.store(tile.room, begin + lane, const(0, storage_dtype(self.dtype)))

    # -- fragments -------------------------------------------------------------------------------

    def _halves(self) -> tuple[Expr, Expr]:
        """Return the half of a unit, and the half of 32 bytes along k, that a thread addresses."""
        lane = self.of.lane
        near = tirx.bitwise_and(tirx.shift_right(lane, i32(3)), i32(1))
        far = tirx.shift_right(lane, i32(4))
        return (near, far) if self.side.first else (far, near)

    @property
    def _first(self) -> Expr:
        """The first row or column of the warp."""
        return self.of.warp_row if self.side.first else self.of.warp_column

    @property
    def single(self) -> bool:
        """Whether fragments are loaded word by word: loads transpose 16-bit elements only."""
        return self.size_bytes == 4 and not self.side.along_k

    def _fragment_addresses(self) -> list[Expr]:
        """Bind the base addresses of fragments; the others are at constant distances.

        If chunks are along k, there is one per 32 bytes of k, else one per unit.
        """
        if self.single:
            return []
        block, lane = self.of.block, self.of.lane
        half, half_k = self._halves()
        inner = tirx.bitwise_and(lane, i32(7))
        found = []
        if self.side.along_k:
            row = block.bind("row", self._first + half * i32(8) + inner)
            for ks in range(self.of.k_steps):
                found.append(self._bytes(row, i32(2 * ks) + half_k))
        else:
            row = block.bind("row", half_k * i32(8) + inner)
            first = tirx.shift_right(self._first, i32(3)) + half
            for unit in range(self.units):
                found.append(self._bytes(row, first + i32(2 * unit)))
        return [block.bind("fragment", self.base + word(x)) for x in found]

    def load(self, ks: int, half: int, stage: Expr) -> None:
        """Load the fragments of 32 bytes along k into one half of the registers."""
        tile = self.of
        shift = self.of.block.bind("shift", self._shift(stage))
        row_bytes = self.chunks * CHUNK_BYTES
        for unit in range(self.units):
            begin = i64((half * self.units + unit) * FRAGMENT)
            if self.single:
                self._load_words(ks, unit, begin, stage)
            elif self.side.along_k:
                at = self.begins[ks] + word(unit * UNIT * row_bytes)
                tile.calls.load(self.words, begin, at + shift, transposed=False)
            else:
                at = self.begins[unit] + word(ks * UNIT * row_bytes)
                tile.calls.load(self.words, begin, at + shift, transposed=True)
            if self.size_bytes == 4:
                tile.calls.round(self.words, begin)

    def _load_words(self, ks: int, unit: int, begin: Expr, stage: Expr) -> None:
        lane, block = self.of.lane, self.of.block
        for q in range(FRAGMENT):
            near, far = q & 1, q >> 1
            half, half_k = (near, far) if self.side.first else (far, near)
            kk = tirx.bitwise_and(lane, i32(3)) + i32(8 * ks + 4 * half_k)
            x = self._first + tirx.shift_right(lane, i32(2)) + i32(unit * UNIT + 8 * half)
            chunk = self._swizzled(kk, tirx.shift_right(x, i32(2)))
            at = (kk * i32(self.chunks) + chunk) * i32(4) + tirx.bitwise_and(x, i32(3))
            at = stage * i32(self.elems) + at + i32(self.room_begin)
            value = self.of.room[tirx.Cast("int64", at)]
            block.store(self.words, begin + q, tirx.reinterpret(ADDRESS, value))


class TensorTile(TileTask):
    """Emits the computation of one tile of the result."""

    on_tensor_cores = True
    operand: type[TileOperand] = TileOperand

    def __init__(self, plan: TensorPlan, body: Body) -> None:
        super().__init__(plan.view, plan.tile, plan.facts, body)
        self.plan, self.knobs = plan, plan.tile
        block, knobs = self.block, self.knobs
        self.calls = Instructions(block)
        self.t = block.bind("t", tirx.Cast("int32", self.thread))
        self.lane = block.bind("lane", tirx.bitwise_and(self.t, i32(WARP - 1)))
        self.warp = block.bind("warp", tirx.shift_right(self.t, i32(5)))
        down = block.bind("down", tirx.truncdiv(self.warp, i32(knobs.across)))
        self.warp_rows, self.warp_columns = knobs.m // knobs.down, knobs.n // knobs.across
        self.warp_row = block.bind("warp_row", down * i32(self.warp_rows))
        across = (self.warp - down * i32(knobs.across)) * i32(self.warp_columns)
        self.warp_column = block.bind("warp_column", across)
        self.dtype = self.view.node.inputs[0].dtype
        self.k_steps = knobs.k * item_bytes(self.dtype) // (2 * CHUNK_BYTES)
        of_a, of_b = (knobs.buffers * knobs.k * x for x in (knobs.m, knobs.n))
        self.room, self.base = self._shared(of_a + of_b)
        places = plan.places or (None, None)
        self.a = self.operand(self, plan.sides[0], places[0], 0)
        self.b = self.operand(self, plan.sides[1], places[1], of_a)
        self.products = self.a.units * 2 * self.b.units
        self.sums = block.alloc("sums", self.products * SUMS, "float32")

    def _shared(self, elements: int) -> tuple[Any, Expr]:
        """Return shared memory for ``elements`` elements of the operands, and its address."""
        room = self.block.shared("room", elements, storage_dtype(self.dtype))
        return room, self.calls.address("room_at", room)

    def emit(self) -> None:
        """Emit the loop over slices, then the stores."""
        with self.low.loop("s", self.products * SUMS, kind="unrolled") as s:
            self.block.store(self.sums, s, const(0, "float32"))
        if self.knobs.wide:
            self._slices_ahead()
        else:
            self._slices()
        self._store()

    def _slices_ahead(self) -> None:
        """Emit the loop over slices, with asynchronous copies of later slices.

        Copies after the last slice write zeros, or data of the next part of k, to stages that are
        not read.
        """
        block, low, ahead = self.block, self.low, self.knobs.stages - 1
        stages = block.alloc("stages", 2, "int32")  # current stage, free stage
        for number in range(ahead):
            self._copies(i64(number * self.knobs.k), i32(number))
        block.store(stages, 0, i32(0))
        block.store(stages, 1, i32(ahead))

        def arrived() -> Expr:
            self.calls.wait(ahead - 1)
            block.barrier()
            return stages[i64(0)]

        self._loads(0, arrived())
        with low.loop("slice", self.count) as number:
            stage = block.bind("stage", stages[i64(0)])
            free = block.bind("free", stages[i64(1)])
            begin = block.bind("begin", (number + ahead) * self.knobs.k)
            self._copies(begin, free)
            block.store(stages, 0, self._next(stage))
            block.store(stages, 1, self._next(free))
            self._multiply(stage, arrived)
        self.calls.wait(0)
        block.barrier()

    def _next(self, stage: Expr) -> Expr:
        """Return the number of the stage that follows ``stage``."""
        return tirx.Select(stage < i32(self.knobs.stages - 1), stage + i32(1), i32(0))

    def _slices(self) -> None:
        """Emit the loop over slices, with copies element by element."""
        block, low = self.block, self.low
        with block.when(self.count > 0), low.scope():
            self._puts(i64(0), i64(0))
        block.barrier()
        with low.loop("slice", self.count) as number:
            later = number + 1
            with block.when(later < self.count), low.scope():
                stage = block.bind("free", tirx.truncmod(later, i64(BASE_STAGES)))
                self._puts(later, stage)
            stage = tirx.Cast("int32", tirx.truncmod(number, i64(BASE_STAGES)))
            stage = block.bind("stage", stage)
            self._loads(0, stage)
            self._multiply(stage, None)
            block.barrier()

    def _puts(self, number: Expr, stage: Expr) -> None:
        """Copy slice ``number`` of this task, of both operands, element by element."""
        begin = self.block.bind("begin", (self.first + number) * self.knobs.k)
        for one in (self.a, self.b):
            one.put(begin, stage)

    def _multiply(self, stage: Expr, arrived: Callable[[], Expr] | None) -> None:
        """Emit the products of a slice whose first fragments are loaded.

        The next fragments are loaded before each product. ``arrived`` emits the wait for the next
        slice and returns its stage. If it is None, the first fragments of the next slice are not
        loaded here.
        """
        for ks in range(self.k_steps):
            if ks + 1 < self.k_steps:
                self._loads(ks + 1, stage)
            elif arrived is not None:
                self._loads(0, arrived())
            self._products(ks % 2)

    def _loads(self, ks: int, stage: Expr) -> None:
        """Load the fragments of step ``ks`` of both operands; even and odd steps alternate."""
        for one in (self.a, self.b):
            one.load(ks, ks % 2, stage)

    def _copies(self, begin: Expr, stage: Expr) -> None:
        """Start the copies of a slice of both operands, as one group."""
        for one in (self.a, self.b):
            one.copy(begin, stage)
        self.calls.commit()

    def _products(self, half: int) -> None:
        """Emit the products of the fragments in one half of the registers."""
        low, columns = self.low, 2 * self.b.units
        with (
            low.loop("u", self.a.units, kind="unrolled") as u,
            low.loop("v", columns, kind="unrolled") as v,
        ):
            a = u * FRAGMENT + half * self.a.units * FRAGMENT
            b = v * 2 + half * self.b.units * FRAGMENT
            s = (u * columns + v) * SUMS
            fragments = (self.a.words, a), (self.b.words, b)
            self.calls.multiply(self.dtype, self.sums, s, *fragments)

    def _store(self) -> None:
        """Emit stores of the sums, 16 rows of a warp at a time.

        In registers, a thread has two adjacent columns of two rows that are 8 apart. Sums are
        exchanged through shared memory, so that a thread gets all adjacent columns of one store.
        """
        block, low = self.block, self.low
        count = self.plan.stored
        values = block.alloc("values", count, "float32")
        warp = block.bind("warp_at", self.base + word(self.warp * i32(UNIT * self._padded * 4)))
        number = self.warp_columns // count  # threads per row
        for unit in range(self.a.units):
            self._exchange(unit, warp)
            with low.loop("pass", UNIT * number // WARP, kind="unrolled") as turn:
                e = tirx.Cast("int32", turn) * i32(WARP) + self.lane
                row = block.bind("row", tirx.truncdiv(e, i32(number)))
                column = block.bind("column", (e - row * i32(number)) * i32(count))
                at = warp + word((row * i32(self._padded) + column) * i32(4))
                self.calls.get(values, at, count)
                row = self.warp_row + row + i32(unit * UNIT)
                i = block.bind("i", self.i0 + tirx.Cast("int64", row))
                j = block.bind("j", self.j0 + tirx.Cast("int64", self.warp_column + column))
                with block.when(tirx.And(i < self.m, j < self.n)), low.scope():
                    if count > 1:
                        self.store_adjacent(i, j, values, i64(0), count)
                    else:
                        self.store_one(i, j, values[i64(0)])
            self.calls.meet()
        block.barrier()

    @property
    def _padded(self) -> int:
        """Length of a row of sums in shared memory, padded to avoid bank conflicts."""
        return self.warp_columns + 8

    def _exchange(self, unit: int, warp: Expr) -> None:
        """Emit the stores of 16 rows of sums to the warp's part of shared memory."""
        row = tirx.shift_right(self.lane, i32(2))
        column = tirx.bitwise_and(self.lane, i32(3)) * i32(2)
        first = self.block.bind("first", warp + word((row * i32(self._padded) + column) * i32(4)))
        for v in range(2 * self.b.units):
            for below in range(2):
                at = first + word((below * 8 * self._padded + v * 8) * 4)
                s = ((unit * 2 * self.b.units + v) * 2 + below) * 2
                self.calls.put(at, self.sums[i64(s)], self.sums[i64(s + 1)])
        self.calls.meet()


__all__ = ["WARP", "TensorKnobs", "TensorPlan", "TensorTile", "TileOperand"]
