"""Kernels for few columns, whose vectors hold several steps of K per column.

With few columns, most lanes of a vector of columns are unused. These kernels divide the lanes into
``width`` columns times ``fold`` steps of K: lane ``j * fold + t`` holds step t of column j. B is
rearranged into such vectors. ``fold`` elements of a row of A are repeated for all columns, and the
lanes of each column are added at the end. With one column this is an inner product, and a
contiguous B is read in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial

from tvm import tirx

from tvm_disc.schedules.gemm.inner import InPlace, Way, add_inside
from tvm_disc.schedules.gemm.micro_kernel import (
    MicroKernels,
    bind_opaque,
    call_kernel,
    splat,
    vload,
    vstore,
)
from tvm_disc.schedules.gemm.partition import cdiv, least
from tvm_disc.tir.builder import (
    Block,
    KernelFunction,
    call,
    const,
    either,
    first_lanes,
    i64,
    masked_load,
)
from tvm_disc.typing import Buffer, Expr, PrimFunc, Size

ROWS = 8  # rows of a tile: enough independent sums to hide the latency of a multiply-add


def widths(lanes: int) -> tuple[int, ...]:
    """Return the possible widths of a vector in columns, ascending."""
    return tuple(w for w in (1, 2, 4, 8) if w < lanes)


def width_cases(n: Size, lanes: int) -> list[tuple[int, Expr]]:
    """Return the widths that ``n`` columns may need, each with its condition."""
    below, found = 0, []
    for width in widths(lanes):
        if not isinstance(n, int) or below < n <= width:
            found.append((width, tirx.all(i64(n) > below, i64(n) <= width)))
        below = width
    return found


def _picked(value: Expr, lanes: Sequence[int]) -> Expr:
    return tirx.Shuffle([value], [tirx.IntImm("int32", lane) for lane in lanes])


def _repeated(value: Expr, lanes: int, times: int) -> Expr:
    picks = [tirx.IntImm("int32", lane) for lane in range(lanes * times)]
    return tirx.Shuffle([value] * times, picks)


def narrow_kernel(dtype: str, lanes: int, width: int) -> PrimFunc:
    """Return the function of one tile: ``(a, b, c, k, lda, ldc, height, columns)``.

    ``b`` holds one vector for each ``lanes / width`` steps of K. If ``width`` is greater than one,
    the last vector is zero padded. Only ``height`` rows exist; the tile computes the last one
    repeatedly.
    """
    names = ("k", "lda", "ldc", "height", "columns")
    kernel = KernelFunction(dict.fromkeys("abc", dtype), names)
    blk, (a, b, c) = kernel.block, kernel.buffers.values()
    k, lda, ldc, height, columns = kernel.sizes.values()
    fold = lanes // width
    sums = [blk.alloc(f"sum_{i}", lanes, dtype) for i in range(ROWS)]
    column = blk.alloc("column", lanes, dtype)
    rows = [i64(0)] + [bind_opaque(blk, "row", least(i, height - 1)) for i in range(1, ROWS)]
    starts = [bind_opaque(blk, "start", lda * i) for i in rows]
    for s in sums:
        vstore(blk, s, 0, lanes, splat(const(0, dtype), lanes))

    def step(at: Expr, mask: Expr | None) -> None:
        def load(buf: Buffer, where: Expr, elems: int) -> Expr:
            return vload(buf, where, elems) if mask is None else masked_load(buf, where, mask)

        if width == 1:
            vstore(blk, column, 0, lanes, load(b, at, lanes))
        else:
            vstore(blk, column, 0, lanes, vload(b, at * width, lanes))
        for acc, start in zip(sums, starts, strict=True):
            part = load(a, start + at, fold)
            left = part if width == 1 else _repeated(part, fold, width)
            total = left * vload(column, 0, lanes) + vload(acc, 0, lanes)
            vstore(blk, acc, 0, lanes, total)

    whole = blk.bind("whole", tirx.truncdiv(k, i64(fold)))
    with blk.loop("ko", whole) as ko:
        step(ko * fold, None)
    rest = blk.bind("rest", k - whole * fold)
    with blk.when(rest > 0):
        step(whole * fold, first_lanes(rest, fold))
    if width == 1:
        for first in range(0, ROWS, lanes):
            total = add_inside(blk, sums[first : first + lanes], lanes)
            for lane, i in enumerate(rows[first : first + lanes]):
                blk.store(c, ldc * i, _picked(vload(total, 0, lanes), [lane]))
    else:
        mask = first_lanes(columns, width) if width > 2 else None
        for acc, i in zip(sums, rows, strict=True):
            _store_row(blk, (c, ldc * i), (acc, lanes, width), mask)
    return kernel.finish()


def _store_row(
    blk: Block, to: tuple[Buffer, Size], sums: tuple[Buffer, int, int], mask: Expr | None
) -> None:
    """Emit code that adds the lanes of each column, and stores the columns that exist."""
    acc, lanes, width = sums
    length = lanes // width
    while length > 1:
        half = length // 2
        value = vload(acc, 0, width * length)
        low = [j * length + t for j in range(width) for t in range(half)]
        high = [lane + half for lane in low]
        vstore(blk, acc, 0, width * half, _picked(value, low) + _picked(value, high))
        length = half
    total = vload(acc, 0, width)
    if mask is None:
        vstore(blk, *to, width, total)
    else:
        blk.masked_store(*to, total, mask)


@dataclass
class FewColumns(Way):
    """Computes a task of few columns: a vector holds several steps of K for every column."""

    scratch: Buffer

    def _widths(self) -> list[tuple[int, Expr]]:
        return width_cases(self.plan.n, self.tile.lanes)

    def fold(self, g: Size) -> None:
        """Emit the rearrangement of B into scratch, one vector per ``fold`` steps of K."""
        view = self.spec.b.affine
        assert view is not None
        for width, here in self._widths():
            # a single column that is contiguous needs no copy
            apart = i64(view.k_stride) != 1
            with self.b.when(here if width > 1 else tirx.all(here, apart)):
                self._fold(g, width)

    def _fold(self, g: Size, width: int) -> None:
        b, p, view, lanes = self.b, self.plan, self.spec.b.affine, self.tile.lanes
        assert view is not None
        fold = lanes // width
        base = self.bind("b_base", view.base(b, g))
        if width == 1:
            with b.loop("k", p.k) as k:
                b.store(self.scratch, p.b_at + k, view.buffer[base + k * view.k_stride])
            return
        parts = [b.alloc(f"part_{t}", width, self.spec.dtype) for t in range(fold)]
        order = [t * width + j for j in range(width) for t in range(fold)]
        picks = [tirx.IntImm("int32", lane) for lane in order]

        def group(at: Size, steps: Size | None) -> None:
            for t, part in enumerate(parts):
                where = base + (at + t) * view.k_stride
                there = i64(p.n) if steps is None else tirx.Select(steps > t, i64(p.n), i64(0))
                value = masked_load(view.buffer, where, first_lanes(there, width))
                vstore(b, part, 0, width, value)
            together = tirx.Shuffle([vload(part, 0, width) for part in parts], picks)
            vstore(b, self.scratch, p.b_at + at * width, lanes, together)

        whole = self.bind("whole_groups", tirx.truncdiv(i64(p.k), i64(fold)))
        with b.loop("kg", whole) as kg:
            group(self.bind("group_k", kg * fold), None)
        done = self.bind("done_k", whole * fold)
        rest = self.bind("rest_k", i64(p.k) - done)
        with b.when(rest > 0):
            group(done, rest)

    def emit(self, g: Size, row0: Size, rows: Size) -> None:
        """Emit rows ``[row0, row0 + rows)`` times all columns."""
        b, p, spec = self.b, self.plan, self.spec
        views = InPlace(self.spec, b, self.bind, g)
        folded = tirx.address_of(self.scratch[p.b_at])
        for width, chosen in self._widths():
            start = folded
            if width == 1:
                here = tirx.address_of(views.b.buffer[views.bases[1]])
                start = either(i64(views.b.k_stride) == 1, here, folded)
            run = narrow_function(self.kernels, spec.dtype, self.tile.lanes, width)
            with b.when(chosen), b.loop("it", cdiv(rows, ROWS)) as it:
                i = self.bind("i", row0 + it * ROWS)
                a_at, _, c_at = map(tirx.address_of, views.at(i, 0))
                left = least(ROWS, row0 + rows - i)
                sizes = (p.k, views.a.stride, views.out.stride, left, p.n)
                b.eval(call(run, a_at, start, c_at, *map(i64, sizes)))


@dataclass
class Lines(Way):
    """Computes inner products of few rows or columns, one row or column at a time.

    Both operands are contiguous along K.
    """

    def emit(self, g: Size, row0: Size, rows: Size) -> None:
        """Emit rows ``[row0, row0 + rows)`` times all columns."""
        p = self.plan
        self._lines(g, (row0, rows), (i64(0), i64(p.n)), i64(p.n) <= p.m)

    def last(self, g: Size, i_range: tuple[Size, Size]) -> None:
        """Emit rows (first, count) times the last columns."""
        self._lines(g, i_range, (i64(self.plan.wide), i64(self.plan.rest)), None)

    def _lines(
        self,
        g: Size,
        i_range: tuple[Size, Size],
        j_range: tuple[Size, Size],
        along_rows: Expr | None,
    ) -> None:
        """Emit the products of rows and columns, each given as (first, count).

        If the condition ``along_rows`` holds, each call computes several rows of one column,
        otherwise several columns of one row. None means that the condition always holds.
        """
        b, p, spec = self.b, self.plan, self.spec
        (row0, rows), (column0, columns) = i_range, j_range
        views = InPlace(self.spec, b, self.bind, g)
        run = narrow_function(self.kernels, spec.dtype, self.tile.lanes, 1)

        def tile(i: Size, j: Size, by_rows: bool) -> None:
            a_at, b_at, c_at = views.at(i, j)
            if by_rows:
                at, far = (a_at, b_at, c_at), (views.a.stride, views.out.stride)
                left = row0 + rows - i
            else:
                at, far = (b_at, a_at, c_at), (views.b.stride, 1)
                left = column0 + columns - j
            call_kernel(b, run, at, (p.k, *far, least(ROWS, left), 1))

        here = nullcontext() if along_rows is None else b.when(along_rows)
        with here, b.loop("j", columns) as j, b.loop("it", cdiv(rows, ROWS)) as it:
            tile(self.bind("i", row0 + it * ROWS), column0 + j, True)
        if along_rows is None:
            return
        with b.otherwise(), b.loop("i", rows) as i, b.loop("jt", cdiv(columns, ROWS)) as jt:
            tile(row0 + i, self.bind("j", column0 + jt * ROWS), False)


def narrow_function(kernels: MicroKernels, dtype: str, lanes: int, width: int) -> object:
    """Return the module's function for :func:`narrow_kernel`."""
    key = ("narrow", dtype, lanes, width)
    return kernels.add(key, "gemm_narrow", partial(narrow_kernel, dtype, lanes, width))


__all__ = ["FewColumns", "Lines", "widths"]
