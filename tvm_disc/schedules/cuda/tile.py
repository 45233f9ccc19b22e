"""Code of a tile of a matmul, which the threads of a block compute together.

    load slice 0 into registers, store it to shared memory
    for each slice of k:
        load the next slice into registers
        multiply this slice: every thread loads ROWS + COLUMNS values for ROWS x COLUMNS sums
        store the next slice to the other half of shared memory

In shared memory k is the outermost dim, so that a thread loads four values at once. An operand that
is read along k is transposed by the copy; without a swizzle, all stores of a warp would go to few
banks. So position x of step kk is stored at ``x ^ swizzle(kk)``. The swizzle is a multiple of four:
groups of four values stay adjacent, and the stores of a warp go to different banks. Values out of
bounds are 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from tvm import tirx

from tvm_disc.schedules.cuda.task import TileTask
from tvm_disc.schedules.cuda.vector import move
from tvm_disc.schedules.cuda.views import TileView
from tvm_disc.schedules.dispatch.variant import Knobs
from tvm_disc.schedules.elements import cast
from tvm_disc.schedules.group import Body
from tvm_disc.schedules.loops.reducers import accumulator
from tvm_disc.tir.builder import const, i64
from tvm_disc.tir.index import add
from tvm_disc.typing import Buffer, Expr

UNROLLED_COPIES = 8  # most copy steps for which positions are computed before the loop over slices
BANKS = 32


@dataclass(frozen=True)
class TileKnobs(Knobs):
    """Size of a tile of the result, steps of k per slice, and rows and columns per thread.

    ``parts``: blocks that share a sum. ``wide``: whether copies move several elements at once.
    """

    m: int
    n: int
    k: int
    rows: int
    columns: int
    parts: int = 1
    wide: bool = False

    @property
    def threads(self) -> int:
        """The number of threads per block."""
        return self.m // self.rows * (self.n // self.columns)


@dataclass(frozen=True)
class Side:
    """How an operand is copied: ``lanes`` adjacent elements at once, along k or its other dim."""

    first: bool  # whether the operand is A
    along_k: bool
    lanes: int

    def swizzle(self, kk: Expr, extent: int, depth: int) -> Expr:
        """Return the swizzle of step ``kk``, which avoids bank conflicts of transposed stores."""
        if not self.along_k:
            return i64(0)
        chunks = depth // self.lanes
        unit = max(4, BANKS // chunks)
        turn = tirx.truncmod(tirx.truncdiv(kk, i64(self.lanes)), i64(BANKS // unit))
        return tirx.bitwise_and(turn * unit, i64(extent - 1))


@dataclass(frozen=True)
class TilePlan:
    """The arguments from which a matmul tile is emitted.

    ``facts`` are sizes that may be assumed to be multiples of the number of lanes.
    """

    view: TileView
    tile: TileKnobs
    a: Side
    b: Side
    facts: Sequence[Expr] = ()
    wide_store: bool = False

    def emit(self, body: Body) -> None:
        """Emit the tile of one task."""
        _Tile(self, body).emit()


class _Copy:
    """The copies of an operand to shared memory by one thread."""

    def __init__(self, tile: _Tile, side: Side, name: str) -> None:
        self.of, self.side = tile, side
        knobs, block = tile.knobs, tile.block
        self.extent, self.depth = (knobs.m if side.first else knobs.n), knobs.k
        self.origin, self.size = (tile.i0, tile.m) if side.first else (tile.j0, tile.n)
        lanes, threads = side.lanes, knobs.threads
        along = (self.depth if side.along_k else self.extent) // lanes
        self.chunks = self.extent * self.depth // lanes
        self.steps = -(-self.chunks // threads)
        self.apart = threads // along
        self.major = block.bind("major", tirx.truncdiv(tile.thread, i64(along)))
        self.minor = block.bind("minor", (tile.thread - self.major * along) * lanes)
        self.room = block.shared(name, 2 * self.extent * self.depth, tile.dtype)
        self.stage = block.alloc(f"{name}_next", self.steps * lanes, tile.dtype)
        self.places: list[Expr] = []
        if self.steps <= UNROLLED_COPIES:
            self.places = [self._place(i64(s)) for s in range(self.steps)]

    def _place(self, step: Expr) -> Expr:
        """Return the row or column of a copy step; bind index parts that all slices share."""
        tile = self.of
        x, _ = self._within(step)
        at = tile.block.bind("i" if self.side.first else "j", self.origin + x)
        tile.low.resolve(tile.view.pixels(tile.low, at, at) if self.steps else ())
        return at

    def _within(self, step: Expr) -> tuple[Expr, Expr]:
        """Return (row or column, k), relative to the tile, of a copy step's first element."""
        major = add(self.major, step * self.apart)
        return (major, self.minor) if self.side.along_k else (self.minor, major)

    @contextmanager
    def _step(self) -> Iterator[list[tuple[Expr, Expr | None]]]:
        """Yield the copy steps, with their rows or columns if these were computed before."""
        mine = self.of.thread < self.chunks
        with nullcontext() if self.chunks >= self.of.knobs.threads else self.of.block.when(mine):
            if self.places:
                yield [(i64(s), p) for s, p in enumerate(self.places)]
            else:
                with self.of.low.loop("step", self.steps, kind="unrolled") as step:
                    yield [(step, None)]

    def fetch(self, first: Expr) -> None:
        """Emit loads of the slice that begins at step ``first`` of k, into registers."""
        block, low, lanes = self.of.block, self.of.low, self.side.lanes
        with self._step() as steps:
            for step, place in steps:
                with low.scope():
                    at = self._place(step) if place is None else place
                    kk = block.bind("kk", first + self._within(step)[1])
                    for lane in range(lanes):
                        block.store(self.stage, step * lanes + lane, const(0, self.of.dtype))
                    with block.when(tirx.And(at < self.size, kk < self.of.k)), low.scope():
                        self._values(step, at, kk)

    def _values(self, step: Expr, at: Expr, kk: Expr) -> None:
        tile, side = self.of, self.side
        lanes = tile.lanes(side.lanes, [at, kk])
        with lanes.reading(tile.body.buffers):
            for number, lane in enumerate(lanes.each()):
                value = operand(tile.view, tile.low, side, tile.g, (at, kk), lane)
                value = cast(value, tile.dtype)
                tile.low.resolve([value])
                tile.block.store(self.stage, step * side.lanes + number, value)

    def put(self, half: Expr) -> None:
        """Emit stores of the loaded slice to one half of shared memory."""
        block, side, lanes = self.of.block, self.side, self.side.lanes
        with self._step() as steps:
            for step, _ in steps:
                x, kk = self._within(step)
                if not side.along_k:
                    row = (half * self.depth + kk) * (self.extent // lanes)
                    at = row + tirx.truncdiv(x, i64(lanes))
                    self._move(self.room, at * lanes, self.stage, step * lanes, lanes)
                    continue
                x = tirx.bitwise_xor(x, side.swizzle(kk, self.extent, self.depth))
                for lane in range(lanes):
                    at = (half * self.depth + kk + lane) * self.extent + x
                    block.store(self.room, at, self.stage[step * lanes + lane])

    def take(self, to: Buffer, half: Expr, kk: Expr, thread: Expr, count: int) -> None:
        """Emit loads of the ``count`` values of step ``kk`` that a thread multiplies."""
        chunk = min(4, count)
        apart = self.extent // count
        swizzle = self.side.swizzle(kk, self.extent, self.depth)
        row = (half * self.depth + kk) * (self.extent // chunk)
        for q in range(count // chunk):
            at = thread + q * apart
            if self.side.along_k:
                at = tirx.bitwise_xor(at, tirx.truncdiv(swizzle, i64(chunk)))
            self._move(to, i64(q * chunk), self.room, (row + at) * chunk, chunk)

    def _move(self, to: Buffer, at: Expr, source: Buffer, begin: Expr, count: int) -> None:
        move(self.of.block, self.of.dtype, to, at, source, begin, count)


def operand(
    view: TileView, low: Any, side: Side, g: Expr, place: tuple[Expr, Expr], lane: Expr
) -> Expr:
    """Return an element of A or B.

    Args:
        place: (row or column, k) of the first of several adjacent elements.
        lane: index of the element among these.
    """
    at, kk = place
    along, across = (i64(0), lane) if side.along_k else (lane, i64(0))
    if side.first:
        return view.a(low, g, (at, kk), (along, across))
    return view.b(low, g, (kk, at), (across, along))


class _Tile(TileTask):
    """Emits the computation of one tile of the result."""

    def __init__(self, plan: TilePlan, body: Body) -> None:
        super().__init__(plan.view, plan.tile, plan.facts, body)
        self.plan, self.knobs = plan, plan.tile
        self.dtype = accumulator(self.view.node.dtype)
        block, knobs = self.block, self.knobs
        width = knobs.n // knobs.columns
        self.row = block.bind("row", tirx.truncdiv(self.thread, i64(width)))
        self.column = block.bind("column", self.thread - self.row * width)
        self.sums = block.alloc("sums", knobs.rows * knobs.columns, self.dtype)
        self.a, self.b = _Copy(self, plan.a, "a"), _Copy(self, plan.b, "b")

    def emit(self) -> None:
        """Emit the loop over slices, then the stores."""
        block, low, knobs = self.block, self.low, self.knobs
        with low.loop("s", knobs.rows * knobs.columns, kind="unrolled") as s:
            block.store(self.sums, s, const(0, self.dtype))
        with block.when(self.count > 0), low.scope():
            self._each(lambda copy: copy.fetch(self.first * knobs.k))
            self._each(lambda copy: copy.put(i64(0)))
        block.barrier()
        with low.loop("slice", self.count) as number:
            half = block.bind("current", tirx.bitwise_and(number, i64(1)))
            more = number + 1 < self.count
            with block.when(more), low.scope():
                self._each(lambda copy: copy.fetch((self.first + number + 1) * knobs.k))
            self._multiply(half)
            with block.when(more), low.scope():
                self._each(lambda copy: copy.put(1 - half))
            block.barrier()
        self._store()

    def _each(self, do: Callable[[_Copy], None]) -> None:
        for copy in (self.a, self.b):
            do(copy)

    def _multiply(self, half: Expr) -> None:
        block, low, knobs = self.block, self.low, self.knobs
        with low.loop("kk", knobs.k, kind="unrolled") as kk:
            left = block.alloc("left", knobs.rows, self.dtype)
            right = block.alloc("right", knobs.columns, self.dtype)
            self.a.take(left, half, kk, self.row, knobs.rows)
            self.b.take(right, half, kk, self.column, knobs.columns)
            with (
                low.loop("r", knobs.rows, kind="unrolled") as r,
                low.loop("c", knobs.columns, kind="unrolled") as c,
            ):
                s = r * knobs.columns + c
                block.store(self.sums, s, self.sums[s] + left[r] * right[c])

    # -- the sums --------------------------------------------------------------------------------

    def _store(self) -> None:
        """Emit the epilogue and the stores of the sums, or stores of partial sums to scratch
        memory.
        """
        block, low, knobs = self.block, self.low, self.knobs
        chunk_r, chunk_c = min(4, knobs.rows), min(4, knobs.columns)
        step = chunk_c if self.plan.wide_store and knobs.parts == 1 else 1
        with (
            low.loop("r", knobs.rows, kind="unrolled") as r,
            low.loop("c", knobs.columns // step, kind="unrolled") as number,
        ):
            c = number * step
            q = tirx.truncdiv(r, i64(chunk_r))
            x = (q * (knobs.m // knobs.rows) + self.row) * chunk_r + tirx.truncmod(r, i64(chunk_r))
            i = block.bind("i", self.i0 + x)
            q = tirx.truncdiv(c, i64(chunk_c))
            x = (q * (knobs.n // knobs.columns) + self.column) * chunk_c
            j = block.bind("j", self.j0 + x + tirx.truncmod(c, i64(chunk_c)))
            with block.when(tirx.And(i < self.m, j < self.n)), low.scope():
                at = r * knobs.columns + c
                if step > 1:
                    self.store_adjacent(i, j, self.sums, at, step)
                else:
                    self.store_one(i, j, self.sums[at])


__all__ = ["Side", "TileKnobs", "TilePlan", "operand"]
