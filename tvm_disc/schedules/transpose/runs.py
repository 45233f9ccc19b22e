"""Transposes with square tiles of full registers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

import tvm
from tvm import tirx

from tvm_disc.graph.axes import permutation
from tvm_disc.graph.nodes import Node
from tvm_disc.schedules.group import Body
from tvm_disc.schedules.transpose.tiles import TileRows, transposed
from tvm_disc.schedules.transpose.work import TransposeWork, part_of
from tvm_disc.tir.builder import LINE_BYTES, base_address, element_pointer, i64, prefetch, ramp
from tvm_disc.tir.index import mul, product
from tvm_disc.tir.llvm_ops import fence, has_native
from tvm_disc.tir.llvm_ops import stream as stream_store
from tvm_disc.typing import Buffer, Expr, Size

Place: TypeAlias = "tuple[Expr, ...]"  # (along the operand's rows, along the result's)

RUN_TILES = 16  # consecutive tiles of a task; they read adjacent cache lines of the same rows
FETCH_TILES = 2  # prefetch distance in tiles


class TileSide(NamedTuple):
    """Tiles along a side of ``size`` elements; the first one begins at ``-before``."""

    size: Expr
    before: Expr
    tiles: Expr


class TileSpan(NamedTuple):
    """The tiles ``[first, first + count)``."""

    first: Expr
    count: Expr  # type: ignore[assignment]


def moved_kinds(work: TransposeWork) -> set[str]:
    """Return the dtypes of the moved values and of the results."""
    return {n.dtype for n in (*work.group.outputs, *work.moves)}


def fill_lines(kinds: Iterable[str]) -> bool:
    """Return whether tiles can be as wide as a cache line: all elements have 32 bits."""
    return all(tvm.DataType(k).bits == 32 for k in kinds)


def tile_side(work: TransposeWork, lanes: int) -> int:
    """Return the elements of a tile's side: a register of ``lanes`` lanes, or, if all elements have
    32 bits, a cache line if that is longer.
    """
    return max(lanes, LINE_BYTES // 4) if fill_lines(moved_kinds(work)) else lanes


class TileRuns:
    """Emits tiles of whole registers, in runs along the operand's rows or the result's.

    Runs follow the result's rows if these are longer and the machine's ``run_tiles`` is set. A
    tile is as wide as a register; tiles of 32-bit elements are at least as wide as a cache line.

    If all rows of the result begin at the same offset in a cache line, tiles are aligned to lines,
    and the first tile would begin before the row. Tiles are aligned to lines of the operand under
    the same condition, because lines would otherwise be loaded twice. The first and the last tile
    of a row are shifted inside, and may overlap the next or previous tile.

    Conditions are integers 0 and 1 here. Divisions truncate, since all operands are non-negative;
    for floor division, TVM emits more code.
    """

    def __init__(self, work: TransposeWork, body: Body, lanes: int) -> None:
        self.work, self.body, self.lanes = work, body, lanes
        self.memory = work.machine.memory
        block = body.block
        size_a = block.number("na", product(work.a_dims))
        size_b = block.number("nb", product(work.b_dims))
        kinds = moved_kinds(work)
        self.lines, self.side = fill_lines(kinds), tile_side(work, lanes)
        # Non-temporal stores need registers of float32 that fill a cache line.
        fills = self.side == self.lanes and has_native(self.side)
        self.may_stream = kinds == {"float32"} and fills
        self.streams, before_a, before_b = i64(0), i64(0), i64(0)
        if self.lines:
            odd = self._odd(size_b)
            if self.may_stream:
                self.streams = block.number("streams", self._streams(odd))
            before_b = self._before(body.outputs[0], size_b, odd, self.streams)
            source = work.moves[0].inputs[0]
            if source in body.buffers:
                odd = self._odd(size_a)
                before_a = self._before(body.buffers[source], size_a, odd, i64(0))
        self.turned = i64(0)  # 1 if runs follow the result's rows
        self.a, self.b = self._side("ta", size_a, before_a), self._side("tb", size_b, before_b)

    def _side(self, name: str, size: Expr, before: Expr) -> TileSide:
        count = tirx.truncdiv(size + (before + self.side - 1), i64(self.side))
        return TileSide(size, before, self.body.block.number(name, count))

    def _bytes(self) -> Expr:
        """Return the bytes of the outputs, whose elements have four bytes."""
        return product(self.work.domain) * (4 * len(self.work.group.outputs))

    def _odd(self, size: Expr) -> Expr:
        """Return 0 if rows of ``size`` elements begin at equal offsets in cache lines."""
        return self.body.block.number("odd", tirx.bitwise_and(size, i64(self.side - 1)))

    def _before(self, buffer: Buffer, size: Expr, odd: Expr, always: Expr) -> Expr:
        """Return the number of elements from the start of a cache line to the start of a row.

        The result is 0 if rows start at different offsets (``odd`` is not 0), or if rows are short
        and ``always`` is 0.
        """
        address = tirx.truncdiv(base_address(buffer), i64(4))
        many = tirx.truncdiv(size, i64(self.side * RUN_TILES)) + always
        alike = tirx.min(many, i64(1)) * (1 - tirx.min(odd, i64(1)))
        before = tirx.bitwise_and(address, i64(self.side - 1)) * alike
        return self.body.block.number("before", before)

    def _streams(self, odd: Expr) -> Expr:
        """Return 1 if the outputs are written with non-temporal stores, otherwise 0.

        They must be large, and all of their rows must have the same alignment.
        """
        first, *others = (base_address(b) for b in self.body.outputs)
        for address in others:
            apart = tirx.bitwise_and(tirx.bitwise_xor(address, first), i64(LINE_BYTES - 1))
            odd = tirx.bitwise_or(odd, apart)
        odd = tirx.bitwise_or(odd, tirx.bitwise_and(first, i64(3)))
        times = tirx.truncdiv(self._bytes(), i64(self.memory.stream_bytes))
        times = self.body.block.number("times", times)
        return tirx.min(times, i64(1)) * (1 - tirx.min(odd, i64(1)))

    def emit(self) -> None:
        """Emit the runs that belong to the body's range of tasks."""
        block, low, work, a, b = self.body.block, self.body.low, self.work, self.a, self.b
        across, along = self._run_of()
        runs = block.number("runs", tirx.truncdiv(a.tiles + (across - 1), across))
        rows = block.number("rows", tirx.truncdiv(b.tiles + (along - 1), along))
        body = part_of(self.body, work.tasks(), mul(product(work.outer_dims()), runs * rows))
        with low.loop("t", body.hi - body.lo, begin=body.lo) as t:
            o = block.number("o", tirx.truncdiv(t, runs * rows))
            run, row = self._order(block.number("rest", t - o * (runs * rows)), runs, rows)
            first_a = block.number("first", run * across)
            first_b = block.number("first", row * along)
            count_a = block.number("count", tirx.min(a.tiles - first_a, across))
            count_b = block.number("count", tirx.min(b.tiles - first_b, along))
            outer = low.space.split(o, work.outer_dims())
            self._pieces(outer, TileSpan(first_a, count_a), TileSpan(first_b, count_b))
        if self.may_stream:
            block.eval(fence())

    def _run_of(self) -> tuple[Expr, Expr]:
        """Return (tiles of a run along the operand's rows, tiles along the result's rows).

        One of them is 1.
        """
        number, most = self.body.block.number, self.memory.run_tiles
        if most == 0:
            whole = self.streams * (self.a.tiles - RUN_TILES)
            return number("across", RUN_TILES + whole), i64(1)
        longer = tirx.min(tirx.truncdiv(self.b.tiles, self.a.tiles), i64(1))
        self.turned = number("turned", longer)
        across = number("across", RUN_TILES - self.turned * (RUN_TILES - 1))
        return across, number("along", 1 + self.turned * (most - 1))

    def _order(self, number: Expr, runs: Expr, rows: Expr) -> tuple[Expr, Expr]:
        """Return the position of run ``number``: (run in a row of tiles, row of tiles).

        Consecutive runs continue along the operand's rows. If ``run_tiles`` is 0, consecutive runs
        are in adjacent rows of tiles.
        """
        bind = self.body.block.number
        if self.memory.run_tiles == 0:
            run = bind("run", tirx.truncdiv(number, rows))
            return run, bind("row", number - run * rows)
        row = bind("row", tirx.truncdiv(number, runs))
        return bind("run", number - row * runs), row

    def _inside(self, tile: Expr, side: TileSide) -> Expr:
        """Return the first element of a tile, shifted inside the side."""
        at = tirx.max(tile * self.side - side.before, i64(0))
        most = side.size - self.side
        if self.side > self.lanes:
            most = tirx.max(most, i64(0))
        return self.body.block.number("at", tirx.min(at, most))

    def _pieces(self, outer: Sequence[Expr], a: TileSpan, b: TileSpan) -> None:
        """Emit a run in three pieces: the first tile, those in the middle, and the last tile.

        The first and the last tile may be shifted.
        """
        block, low = self.body.block, self.body.low
        side, tiles = TileSide(*self._chosen(self.a, self.b)), TileSpan(*self._chosen(a, b))
        line = self._chosen((b.first,), (a.first,))[0]
        there = self._inside(line, TileSide(*self._chosen(self.b, self.a)))
        begin = block.number("begin", tirx.max(tiles.first, tirx.min(side.before, i64(1))))
        whole = tirx.truncdiv(side.size + side.before, i64(self.side))
        last = block.number("last", tiles.first + tiles.count)
        end = block.number("end", tirx.min(last, whole))
        before, behind = (tirx.min(n, i64(1)) for n in (begin - tiles.first, last - end))
        with low.loop("piece", before + 1 + behind, begin=1 - before) as piece:
            edge, after = tirx.EQ(piece, i64(0)), tirx.EQ(piece, i64(2))
            first: Expr = tirx.Select(edge, tiles.first, tirx.Select(after, end, begin))
            stop = tirx.Select(edge, begin, tirx.Select(after, last, end))
            first = block.number("first", first)
            count = block.number("count", stop - first)
            here = self._inside(first, side)
            at = (*self._chosen((here, there), (there, here)),)
            if not self.may_stream:
                self._tiles(outer, at, count, False)
                return
            tile_b = self._chosen((line,), (first,))[0]
            lined = tirx.EQ(tile_b * self.side - self.b.before, at[1])
            with block.when(tirx.And(self.streams > 0, lined)), low.scope():
                self._tiles(outer, at, count, True)
            with block.otherwise(), low.scope():
                self._tiles(outer, at, count, False)

    def _chosen(self, few: Sequence[Size], many: Sequence[Size]) -> list[Expr]:
        """Return the numbers ``many`` if runs follow the result's rows, otherwise ``few``."""
        number = self.body.block.number
        return [number("one", x + self.turned * (y - x)) for x, y in zip(few, many, strict=True)]

    def _prefetches(self) -> bool:
        """Return whether lines of a large operand are prefetched."""
        return self.may_stream and self.memory.run_tiles == 0

    def _tiles(self, outer: Sequence[Expr], at: Place, count: Expr, stream: bool) -> None:
        """Emit ``count`` tiles; the first one begins at ``at``."""
        block, low, side = self.body.block, self.body.low, self.side
        step_a, step_b = self._chosen((side, 0), (0, side))
        with low.loop("i", count) as i:
            a, b = block.number("a", at[0] + i * step_a), block.number("b", at[1] + i * step_b)
            if self._prefetches():
                with block.when(self._bytes() >= self.memory.prefetch_bytes), low.scope():
                    self._fetch_next(outer, a, b)
            self._tile(outer, a, b, stream)

    def _tile(self, outer: Sequence[Expr], a: Expr, b: Expr, stream: bool) -> None:
        """Emit a tile as squares of ``lanes`` registers."""
        block, low, lanes = self.body.block, self.body.low, self.lanes
        if self.side == lanes:
            self._square(outer, a, b, stream)
            return
        # If the side is shorter than a tile, the last registers overlap the previous ones.
        with low.loop("ra", self.side // lanes) as ra, low.loop("rb", self.side // lanes) as rb:
            more_a = tirx.min(ra * lanes, self.a.size - lanes)
            more_b = tirx.min(rb * lanes, self.b.size - lanes)
            at_a, at_b = block.number("a", a + more_a), block.number("b", b + more_b)
            self._square(outer, at_a, at_b, stream)

    def _fetch_next(self, outer: Sequence[Expr], a: Expr, b: Expr) -> None:
        """Emit prefetches for a later tile of the run.

        Without them, each row of the tile would cost the latency of memory.
        """
        for move in self.work.moves:
            if move.inputs[0] in self.body.buffers:
                lines = self._operand_lines(move, outer, a + FETCH_TILES * self.side, b)
                for k in range(self.lanes):
                    self.body.block.eval(prefetch(*lines.row(k), to_write=False))

    def _square(self, outer: Sequence[Expr], a: Expr, b: Expr, stream: bool) -> None:
        """Emit the transposition of a square: ``lanes`` registers of ``lanes`` elements."""
        low, lanes, work, block = self.body.low, self.lanes, self.work, self.body.block
        columns = {m: transposed(block, self._rows(m, outer, a, b)) for m in work.moves}
        places = [self._result_lines(k, outer, a, b) for k in range(len(work.group.outputs))]
        for k in range(lanes):
            with low.scope():
                index = work.index(self.body, outer, a + k, ramp(b, lanes))
                values = work.values(self.body, {m: columns[m][k] for m in work.moves}, index)
                for node, lines, value in zip(work.group.outputs, places, values, strict=True):
                    buffer, at = lines.row(k)
                    if stream:
                        low.resolve([value])
                        block.eval(stream_store(value, element_pointer(buffer, at)))
                    else:
                        low.store(buffer, ramp(at, lanes), value, node.dtype)

    def _rows(self, move: Node, outer: Sequence[Expr], a: Expr, b: Expr) -> list[Expr]:
        """Return the rows of a tile of a permutation's operand."""
        low, lanes, work = self.body.low, self.lanes, self.work
        if move.inputs[0] not in self.body.buffers:
            at = ramp(a, lanes)
            return [low.at(move, work.index(self.body, outer, at, b + k)) for k in range(lanes)]
        found, lines = [], self._operand_lines(move, outer, a, b)
        for buffer, at in map(lines.row, range(lanes)):
            value = low.load(buffer, ramp(at, lanes), move.dtype)
            found.append(self.body.block.bind("row", value))
        return found

    # -- locations of rows ----------------------------------------------------------------------

    def _operand_lines(self, move: Node, outer: Sequence[Expr], a: Expr, b: Expr) -> TileRows:
        start, apart = self._operand(move, outer, a, b)
        buffer = self.body.buffers[move.inputs[0]]
        return TileRows.of(self.body.block, buffer, start, apart, self.lanes)

    def _result_lines(self, number: int, outer: Sequence[Expr], a: Expr, b: Expr) -> TileRows:
        start, apart = self._result(self.work.group.outputs[number], outer, a, b)
        return TileRows.of(self.body.block, self.body.outputs[number], start, apart, self.lanes)

    def _operand(self, move: Node, outer: Sequence[Expr], a: Expr, b: Expr) -> tuple[Expr, Expr]:
        """Return the offset of a tile in a permutation's operand, and the row stride."""
        source, axes = move.inputs[0], permutation(move)
        index = self.work.index(self.body, outer, a, b)
        back = [index[axes.index(d)] for d in range(len(index))]
        below = source.shape[axes[self.work.b_run[1] - 1] + 1 :]
        return self._place(source, back, below)

    def _result(self, node: Node, outer: Sequence[Expr], a: Expr, b: Expr) -> tuple[Expr, Expr]:
        """Return the offset of a tile in an output, and the row stride."""
        index = self.work.index(self.body, outer, a, b)
        return self._place(node, index, self.work.domain[self.work.a_run[1] :])

    def _place(self, node: Node, index: list[Expr], below: Sequence[object]) -> tuple[Expr, Expr]:
        low, number = self.body.low, self.body.block.number
        start = low.space.join(index, node.shape)
        low.resolve([start])
        return number("start", start), number("apart", product(below))


__all__ = ["TileRuns"]
