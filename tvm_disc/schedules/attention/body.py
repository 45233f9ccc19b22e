"""Statements of an attention task: copies, two matmuls, and the softmax between them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from tvm import tirx

from tvm_disc.schedules.attention.mask_skip import HiddenKeys, spread
from tvm_disc.schedules.attention.ragged import RaggedAttention, RaggedTasks
from tvm_disc.schedules.attention.sizes import KEYS_IN_PLACE, AttentionEmitter
from tvm_disc.schedules.attention.softmax import SoftmaxRows
from tvm_disc.schedules.gemm.epilogue import Epilogue
from tvm_disc.schedules.gemm.inner import inner_function, tile_height, tile_rows
from tvm_disc.schedules.gemm.micro_kernel import (
    PLAIN,
    KernelForm,
    MicroKernels,
    call_kernel,
    splat,
    vload,
    vstore,
)
from tvm_disc.schedules.gemm.pack import cast, copy_contiguous, copy_row, transpose_into
from tvm_disc.schedules.gemm.partition import (
    EvenBlocks,
    bind_size,
    cdiv,
    div,
    is_one,
    least,
    most,
    vector_counts,
)
from tvm_disc.schedules.gemm.tile import GemmTile
from tvm_disc.tir.builder import const, first_lanes, i64, is_nan, lanes_of
from tvm_disc.typing import Buffer, Expr, Size

Panel: TypeAlias = Callable[[Expr, Size], tuple[Buffer, Expr, Size]]
Place: TypeAlias = Callable[[Size], tuple[Buffer, Expr, Size, Size]]
Element: TypeAlias = Callable[[Size, Size, Expr], Expr]  # (g, row, element) to a value


@dataclass(frozen=True)
class Operand:
    """Functions that read Q, K or V.

    ``at(g, row, e)`` is element ``e`` of a row (a query, key or value), or a vector along ``e``.
    ``place``, if given, returns the buffer, the offset of row 0, the row stride and the element
    stride for ``g``. The operand is then read in place.

    ``factor``, if given, is the place of an array with one factor per row. The elements at
    ``place`` lack this factor: the body multiplies scores (for K) or weights (for V) by it.
    """

    at: Element
    place: Place | None
    factor: Place | None


@dataclass
class AttentionBody(AttentionEmitter):
    """Emits the tasks of one attention; ``operands`` are Q, K and V."""

    operands: tuple[Operand, Operand, Operand]
    store: Epilogue
    kernels: MicroKernels
    ragged: RaggedAttention | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.queries, self.keys, self.values = self.operands
        self._bind = partial(bind_size, self.b)
        shared = (self.spec, self.tile, self.found, self.body, self.sizes, self.row_of)
        self.rows = SoftmaxRows(*shared)
        # Scores in a narrower type may overflow, so there is no bound for them.
        factor = spread(self.found) if self.found.scores.dtype == self.dtype else None
        self.hidden: HiddenKeys | None = None
        if factor is not None and self.inner is not True:
            self.hidden = HiddenKeys(*shared, factor, self.inner)

    @property
    def inner(self) -> bool | Expr:
        """Return whether inner products read the keys in place: a bool or a run-time condition."""
        numbers = self.body.algorithms
        if len(numbers) == 1:
            return numbers[0] == KEYS_IN_PLACE
        return i64(self.body.algorithm) == KEYS_IN_PLACE

    def emit(self) -> None:
        """Emit the loop over tasks."""
        low, z = self.low, self.sizes
        lo, hi = self.body.lo, self.body.hi
        if self.ragged is not None and self.ragged.queries is not None:
            self._ragged_tasks(self.ragged)
            return
        with low.loop("task", hi - lo, begin=lo) as task, ExitStack() as stack:
            g = self._bind("g", div(task, z.q_blocks))
            block = self._bind("q_block", task - g * z.q_blocks)
            if self.ragged is not None:
                tasks = RaggedTasks(self.ragged, self.body, z, self._bind)
                stack.enter_context(tasks.item(self._bind("item", div(g, self.ragged.heads))))
            self._copy_item(g, tirx.any(tirx.EQ(task, lo), tirx.EQ(block, i64(0))))
            self._block(g, *z.block(block, self._bind))

    def _ragged_tasks(self, ragged: RaggedAttention) -> None:
        """Emit the loop over tasks whose queries are packed rows of several items."""
        b, low, z = self.b, self.low, self.sizes
        lo, hi = self.body.lo, self.body.hi
        tasks = RaggedTasks(ragged, self.body, z, self._bind)
        held = b.alloc("held", 1, "int64")  # the matrix whose K and V are in scratch
        b.store(held, 0, i64(-1))
        with low.loop("task", hi - lo, begin=lo) as task:
            head = self._bind("head", div(task, z.q_blocks))
            block = self._bind("q_block", task - head * z.q_blocks)
            with tasks.segments(*z.block(block, self._bind)) as (item, i0, rows):
                g = self._bind("g", item * ragged.heads + head)
                self._copy_item(g, tirx.NE(held[i64(0)], g))
                b.store(held, 0, g)
                self._block(g, i0, rows)

    def _copy_item(self, g: Size, first: Expr) -> None:
        """Emit the copies of K and V of matrix ``g`` under the condition ``first``."""
        with self.b.when(first), self.low.scope():
            if self.inner is not True:
                with self.b.when(tirx.Not(self.inner)), self.low.scope():
                    self._copy_keys(g)
            with self.b.when(tirx.Not(self._values_in_place(g))), self.low.scope():
                self._copy_values(g)
            self._copy_factors(self.keys, g, self.sizes.k_factors_at)
            self._copy_factors(self.values, g, self.sizes.v_factors_at)
            if self.hidden is not None:
                self.hidden.item()

    def _block(self, g: Size, i0: Size, rows: Size) -> None:
        """Emit the attention of queries ``[i0, i0 + rows)`` of matrix ``g``."""
        low, z = self.low, self.sizes
        self._copy_queries(g, i0, rows)
        begin, end, blocks = i64(0), i64(z.n), z.k_blocks
        if self.hidden is not None:
            begin, end = self.hidden.span(g, i0, rows)
            blocks = self._bind("blocks", most(cdiv(end - begin, most(z.keys, 1)), 1))
        with low.loop("kb", blocks) as kb:
            k0 = self._bind("k0", begin + kb * z.keys)
            keys = self._bind("keys", least(z.keys, end - k0))
            self._product_of_keys(g, rows, k0, keys)
            self.rows.emit(g, (i0, rows), (kb, k0, keys))
            self._product_of_values(g, rows, (kb, k0, keys))
        self._finish(g, i0, rows)

    # -- copies --------------------------------------------------------------------------------

    def _copy_keys(self, g: Size) -> None:
        """Emit the copy of K to panels ``[depth, n_r]``; a column is a key."""
        b, z, tile = self.b, self.sizes, self.tile.scores
        with self.low.loop("p", z.k_panels) as p:
            j0 = self._bind("j0", p * tile.n_r)
            columns = self._bind("columns", least(tile.n_r, z.n - j0))
            to = self._bind("to", z.k_at + p * (tile.n_r * z.depth))
            place = None if self.keys.place is None else self.keys.place(g)
            out = (self.scratch, to, tile.n_r, self.dtype)
            if place is not None and is_one(place[3]):
                buffer, base, step, _ = place
                start = self._bind("from", base + j0 * step)
                source = (buffer, lambda r: start + r * step)
                transpose_into(b, source, columns, i64(z.depth), out, tile.lanes)
            elif place is not None and is_one(place[2]):
                buffer, base, _, step = place
                with self.low.loop("d", z.depth) as d:
                    at = self._bind("at", base + j0 + d * step)
                    self._copy_row(buffer, at, to + d * tile.n_r, columns)
            else:
                self._copy_evaluated(g, j0, columns, out)

    def _copy_row(self, buffer: Buffer, at: Size, to: Size, elems: Size) -> None:
        out = (self.scratch, self._bind("row_to", to), self.dtype)
        copy_row(self.b, elems, self.lanes, (buffer, at), out, pad=True)

    def _copy_evaluated(
        self, g: Size, first: Size, columns: Size, out: tuple[Buffer, Size, int, str]
    ) -> None:
        """Emit the copy of computed keys: ``lanes`` keys are evaluated, then transposed."""
        z, lanes, to = self.sizes, self.lanes, out[1]
        with self.low.loop("group", cdiv(columns, lanes)) as group:
            skip = self._bind("skip", group * lanes)
            count = self._bind("count", least(lanes, columns - skip))
            with self.low.loop("r", count) as r:
                line = self._bind("line", z.stage_at + r * z.q_row)
                key = self._bind("key", first + skip + r)
                self._copy_along(self.keys, g, key, (i64(0), i64(z.depth)), line)
            source = (self.scratch, lambda r: z.stage_at + r * z.q_row)
            place = (out[0], self._bind("place", to + skip), *out[2:])
            transpose_into(self.b, source, count, i64(z.depth), place, lanes)

    def _copy_values(self, g: Size) -> None:
        """Emit the copy of V to panels ``[n, n_r]``."""
        z, tile = self.sizes, self.tile.values
        with self.low.loop("p", z.v_panels) as p:
            j0 = self._bind("j0", p * tile.n_r)
            columns = self._bind("columns", least(tile.n_r, z.width - j0))
            to = self._bind("to", z.v_at + p * (tile.n_r * z.n))
            with self.low.loop("k", z.n) as k:
                self._copy_along(self.values, g, k, (j0, columns), to + k * tile.n_r)

    def _copy_factors(self, operand: Operand, g: Size, to: Size) -> None:
        """Emit the copy of the factors of all rows, if the operand has factors."""
        if operand.factor is None:
            return
        buffer, base, step, _ = operand.factor(g)

        def load(e: Expr, width: int) -> Expr:
            at = i64(base + e * step)
            return buffer[at] if width == 1 else buffer[tirx.Ramp(at, i64(step), width)]

        out = (self.scratch, to, self.dtype)
        copy_contiguous(self.b, i64(self.sizes.n), self.lanes, load, out, pad=True)

    def _copy_queries(self, g: Size, i0: Size, rows: Size) -> None:
        z = self.sizes
        with self.low.loop("i", rows) as i:
            to = self._bind("to", z.q_at + i * z.q_row)
            row = self._bind("row", i0 + i)
            self._divide(g, row)
            self._copy_along(self.queries, g, row, (i64(0), i64(z.depth)), to)

    def _divide(self, g: Size, row: Size) -> None:
        """Emit the divisions that split a row into (head, query), once for all its vectors."""
        if self.spec.shared > 1:
            self.low.resolve(self.row_of(i64(g))(i64(row)))

    def _copy_along(
        self, source: Operand, g: Size, row: Size, span: tuple[Size, Size], to: Size
    ) -> None:
        """Emit the copy of elements ``[start, start + count)`` of a row to whole vectors at
        ``to``.
        """
        b, low, lanes = self.b, self.low, self.lanes
        start, count = span
        place = None if source.place is None else source.place(g)
        if place is not None and is_one(place[3]):
            at = self._bind("at", place[1] + row * place[2] + start)
            self._copy_row(place[0], at, to, count)
            return
        whole = self._bind("whole", div(count, lanes))
        with low.loop("v", whole) as v:
            e = self._bind("e", v * lanes)
            value = self._element(source, g, row, start + e, lanes)
            vstore(b, self.scratch, to + e, lanes, value)
        done = self._bind("done", whole * lanes)
        with b.when(done < count), low.scope():
            mask = first_lanes(b.bind("left", count - done), lanes)
            with low.masked(mask):
                value = self._element(source, g, row, start + done, lanes)
                zero = splat(const(0, self.dtype), lanes)
                vstore(b, self.scratch, to + done, lanes, tirx.Select(mask, value, zero))

    def _element(self, source: Operand, g: Size, row: Size, e: Size, lanes: int) -> Expr:
        value = source.at(g, row, self.low.space.aligned(self._bind("from", e), lanes))
        self.low.resolve([value])
        value = cast(value, self.dtype, lanes_of(value))
        # If a row has one element, reading it at a vector of indices returns a scalar.
        return self.b.bind("value", splat(value, lanes) if lanes_of(value) == 1 else value)

    # -- matmuls -------------------------------------------------------------------------------

    def _tiles(self, rows: Size, tile: GemmTile) -> Any:
        """Return the number of row tiles, and a function that returns (first row, height) of one.

        The tiles have nearly equal heights.
        """
        blocks = self._bind("blocks", cdiv(rows, tile.m_r))
        base = self._bind("base", div(rows, most(blocks, 1)))
        even = EvenBlocks(base, self._bind("extra", rows - base * blocks))

        def tile_at(t: Expr) -> tuple[Size, Size]:
            return self._bind("first", even.start(t)), self._bind("height", even.height(t))

        return blocks, tile_at

    def _narrow(self, place: Any) -> bool:
        """Return whether the kernel must widen an operand."""
        return str(place[0].dtype) != self.dtype

    def _values_in_place(self, g: Size) -> Expr:
        """Return the condition that values are read in place.

        Their rows must be contiguous and consist of complete vectors. In addition, there must be
        only one block of queries, or, unless the kernel widens the values, the rows must be close
        together. Values are copied if masked keys are searched, because the search reads the copy.
        """
        z, place = self.sizes, self._place(self.values, g)
        ragged = not isinstance(z.width, int) or z.width % self.lanes
        if place is None or not is_one(place[3]) or ragged:
            return const(False, "bool")
        fits = i64(z.m) <= self.tile.queries
        if not self._narrow(place):
            fits = tirx.any(i64(place[2]) <= 2 * self.tile.values.n_r, fits)
        return fits if self.hidden is None else tirx.all(fits, tirx.Not(self.hidden.worth))

    def _place(self, operand: Operand, g: Size = 0) -> Any:
        return None if operand.place is None else operand.place(i64(g))

    def _dispatcher(
        self, tile: GemmTile, columns: Size | None = None, form: KernelForm = PLAIN
    ) -> object:
        """Return the dispatcher for kernels of all heights and the widths that ``columns`` need."""
        counts = (tuple(range(1, tile.m_r + 1)), vector_counts(columns, tile))
        return self.kernels.dispatcher(tile, self.dtype, *counts, form)

    def _product_of_keys(self, g: Size, rows: Size, k0: Size, keys: Size) -> None:
        """Emit S = Q K^T for one block of keys."""
        if self.inner is False:
            self._product_of_panels(rows, k0, keys)
        elif self.inner is True:
            self._inner_products(self._place(self.keys, g), rows, k0, keys)
        else:
            with self.b.when(self.inner), self.low.scope():
                self._inner_products(self._place(self.keys, g), rows, k0, keys)
            with self.b.otherwise(), self.low.scope():
                self._product_of_panels(rows, k0, keys)

    def _inner_products(self, place: Any, rows: Size, k0: Size, keys: Size) -> None:
        """Emit inner products of all rows and keys in place; the last tile overlaps the previous.

        If there are fewer keys than a tile has columns, each key is computed in a separate tile,
        all of whose columns hold this key.
        """
        z, lanes, dtype = self.sizes, self.lanes, self.dtype
        height = tile_height(self._bind, rows, most(keys, lanes), lanes)
        buffer, base, step, _ = place
        how = (self.tile.ahead, str(buffer.dtype))
        start = self._bind("start", base + k0 * step)
        for tall in tile_rows(lanes, odd=True):
            wide = lanes // tall
            many = i64(keys) >= wide
            turn = self._bind("turn", tirx.Select(many, i64(wide), i64(1)))
            apart = self._bind("apart", tirx.Select(many, i64(step), i64(0)))
            run = inner_function(self.kernels, dtype, lanes, tall, *how)
            with (
                self.b.when(height == tall),
                self.low.loop("jt", cdiv(keys, turn)) as jt,
                self.low.loop("it", cdiv(rows, tall)) as it,
            ):
                j = self._bind("j", tirx.min(jt * turn, keys - turn))
                i = self._bind("i", tirx.min(it * tall, rows - tall))
                at = (self.scratch[z.q_at + i * z.q_row], buffer[start + j * step],
                      self.scratch[z.s_at + i * z.s_row + j])  # fmt: skip
                call_kernel(self.b, run, at, (z.depth, z.q_row, apart, z.s_row))

    def _product_of_panels(self, rows: Size, k0: Size, keys: Size) -> None:
        z, tile = self.sizes, self.tile.scores
        run = self._dispatcher(tile)
        blocks, tile_at = self._tiles(rows, tile)
        first_panel = self._bind("first_panel", div(k0, tile.n_r))
        with self.low.loop("p", cdiv(keys, tile.n_r)) as p:
            columns = least(tile.n_r, keys - p * tile.n_r)
            vectors = self._bind("vectors", cdiv(columns, tile.lanes))
            panel = self._bind("panel", z.k_at + (first_panel + p) * (tile.n_r * z.depth))
            with self.low.loop("t", blocks) as t:
                first, height = tile_at(t)
                at = (z.q_at + first * z.q_row, panel, z.s_at + first * z.s_row + p * tile.n_r)
                sizes = (z.depth, z.q_row, tile.n_r, z.s_row, 0, height, vectors)
                call_kernel(self.b, run, [self.scratch[i64(x)] for x in at], sizes)

    def _product_of_values(self, g: Size, rows: Size, block: tuple[Size, Size, Size]) -> None:
        """Emit O += S V for one block of keys."""
        z, n_r = self.sizes, self.tile.values.n_r
        place = self._place(self.values, g)

        def panel(p: Expr, k0: Size) -> tuple[Buffer, Expr, Size]:
            return self.scratch, i64(z.v_at) + (p * z.n + k0) * n_r, n_r

        def in_place(p: Expr, k0: Size) -> tuple[Buffer, Expr, Size]:
            return place[0], place[1] + k0 * place[2] + p * n_r, place[2]

        if place is None:
            self._add_values(rows, block, panel)
            return
        form = KernelForm(b_dtype=str(place[0].dtype)) if self._narrow(place) else PLAIN
        with self.b.when(self._values_in_place(g)), self.low.scope():
            self._add_values(rows, block, in_place, form)
        with self.b.otherwise(), self.low.scope():
            self._add_values(rows, block, panel)

    def _add_values(
        self,
        rows: Size,
        block: tuple[Size, Size, Size],
        source: Panel,
        form: KernelForm = PLAIN,
    ) -> None:
        z, tile = self.sizes, self.tile.values
        kb, k0, keys = block
        run = self._dispatcher(tile, z.width, form)
        blocks, tile_at = self._tiles(rows, tile)
        with self.low.loop("p", z.v_panels) as p:
            columns = least(tile.n_r, z.width - p * tile.n_r)
            vectors = self._bind("vectors", cdiv(columns, tile.lanes))
            buffer, start, ldb = source(p, k0)
            at = self._bind("values_at", start)
            with self.low.loop("t", blocks) as t:
                first, height = tile_at(t)
                rows_at, sums_at = z.s_at + first * z.s_row, z.o_at + first * z.o_row + p * tile.n_r
                places = (self.scratch[rows_at], buffer[at], self.scratch[sums_at])
                sizes = (keys, z.s_row, ldb, z.o_row, kb, height, vectors)
                call_kernel(self.b, run, places, sizes)

    def _finish(self, g: Size, i0: Size, rows: Size) -> None:
        """Emit the division by the sums, and the stores of the rows."""
        b, z, lanes = self.b, self.sizes, self.lanes
        one = const(1, self.dtype)
        with self.low.loop("r", rows) as r:
            peak, total = self.scratch[i64(z.max_at + r)], self.scratch[i64(z.sum_at + r)]
            lowest, nothing = (tirx.FloatImm(self.dtype, float(x)) for x in ("-inf", "nan"))
            share = tirx.if_then_else(peak <= lowest, nothing, one / total)
            if self.found.guard:
                share = b.bind("share", share)
                share = tirx.Select(is_nan(share), const(0, self.dtype), share)
            # Without keys the result is zero, not zero divided by zero.
            scale = b.bind("scale", tirx.if_then_else(i64(z.n) > 0, share, one))
            i = self._bind("i", i0 + r)
            self._divide(g, i)
            at = self._bind("o_at", z.o_at + r * z.o_row)
            whole = self._bind("whole", div(z.width, lanes))
            with self.low.loop("v", whole) as v:
                j = self._bind("j", v * lanes)
                value = vload(self.scratch, at + j, lanes) * splat(scale, lanes)
                if not self.store.vector(b, g, i, j, lanes, b.bind("o", value)):
                    with self.low.loop("e", lanes) as e:
                        self.store.scalar(b, g, i, j + e, self.scratch[at + j + e] * scale)
            rest = self._bind("rest", whole * lanes)
            with self.low.loop("e", z.width - rest) as e:
                j = self._bind("j", rest + e)
                self.store.scalar(b, g, i, j, self.scratch[at + j] * scale)


__all__ = ["AttentionBody", "Operand"]
