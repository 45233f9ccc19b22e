"""Inner-product kernels: a few rows times a B whose columns are contiguous along K.

One tile computes ``c[i, j] = sum_k a[i, k] * b[j, k]`` for as many (i, j) as a vector has lanes.
Each sum is a vector of partial sums along K. A tree of shuffles then reduces all of these vectors
together. This is faster than transposing B for a few rows, and for more rows if K is long.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from tvm import tirx

from tvm_disc.schedules.gemm.micro_kernel import (
    MicroKernels,
    call_kernel,
    splat,
    vload,
    vstore,
    widened,
)
from tvm_disc.schedules.gemm.partition import GemmPartition, GemmSpec, cdiv
from tvm_disc.schedules.gemm.tile import GemmTile
from tvm_disc.tir.builder import (
    Block,
    KernelFunction,
    const,
    first_lanes,
    i64,
    masked_load,
    prefetch,
)
from tvm_disc.typing import Buffer, Expr, PrimFunc, Size

_TILE_ROWS = (1, 2, 4)
_ODD_ROWS = (3, 5)  # 3 x 5 and 5 x 3 tiles use 15 of 16 lanes
_MANY = 1 << 30


def tile_rows(lanes: int, odd: bool = False) -> tuple[int, ...]:
    """Return the possible heights of tiles; a tile of r rows has ``lanes // r`` columns."""
    rows = sorted((*_TILE_ROWS, *_ODD_ROWS)) if odd and lanes == 16 else _TILE_ROWS
    return tuple(r for r in rows if r <= lanes)


def inner_kernel(
    dtype: str, lanes: int, rows: int, ahead: int = 0, b_dtype: str | None = None
) -> PrimFunc:
    """Return the function of one tile: ``(a, b, c, k, lda, ldb, ldc)``.

    Args:
        ahead: the number of columns by which B is prefetched ahead; 0 disables the prefetch.
        b_dtype: element type of B if narrower; ``uint16`` holds bfloat16 bits.
    """
    columns = lanes // rows
    types = {"a": dtype, "b": b_dtype or dtype, "c": dtype}
    kernel = KernelFunction(types, ("k", "lda", "ldb", "ldc"))
    blk, (a, b, c) = kernel.block, kernel.buffers.values()
    k, lda, ldb, ldc = kernel.sizes.values()
    sums = [blk.alloc(f"sum_{s}", lanes, dtype) for s in range(rows * columns)]
    row = [blk.alloc(f"row_{i}", lanes, dtype) for i in range(rows)]
    column = blk.alloc("column", lanes, dtype)
    for s in sums:
        vstore(blk, s, 0, lanes, splat(const(0, dtype), lanes))

    def step(at: Expr, mask: Expr | None) -> None:
        def load(buf: Buffer, where: Expr) -> Expr:
            value = vload(buf, where, lanes) if mask is None else masked_load(buf, where, mask)
            return widened(value, dtype, lanes)

        for i in range(rows):
            vstore(blk, row[i], 0, lanes, load(a, lda * i + at))
        for j in range(columns):
            vstore(blk, column, 0, lanes, load(b, ldb * j + at))
            if ahead:
                blk.eval(prefetch(b, ldb * (j + ahead) + at, to_write=False, near=False))
            for i in range(rows):
                acc = sums[i * columns + j]
                product = vload(row[i], 0, lanes) * vload(column, 0, lanes)
                vstore(blk, acc, 0, lanes, product + vload(acc, 0, lanes))

    whole = blk.bind("whole", tirx.truncdiv(k, i64(lanes)))
    with blk.loop("kv", whole) as kv:
        step(kv * lanes, None)
    rest = blk.bind("rest", k - whole * lanes)
    with blk.when(rest > 0):
        step(whole * lanes, first_lanes(rest, lanes))
    total = add_inside(blk, [*sums, *sums[: lanes - len(sums)]], lanes)
    mask = None if rows * columns == lanes else first_lanes(i64(columns), lanes)
    for i in range(rows):
        stored = columns if mask is None else lanes
        picks = [tirx.IntImm("int32", min(i * columns + j, lanes - 1)) for j in range(stored)]
        part = vload(total, 0, lanes)
        if columns < lanes:
            part = tirx.Shuffle([part], picks)
        if mask is None:
            vstore(blk, c, ldc * i, columns, part)
        else:
            blk.masked_store(c, ldc * i, part, mask)
    return kernel.finish()


def inner_function(
    kernels: MicroKernels,
    dtype: str,
    lanes: int,
    rows: int,
    ahead: int = 0,
    b_dtype: str | None = None,
) -> object:
    """Return the module's function for :func:`inner_kernel`."""
    args = (dtype, lanes, rows, ahead, b_dtype or dtype)
    return kernels.add(("inner", *args), "gemm_inner", partial(inner_kernel, *args))


def add_inside(blk: Block, sums: Sequence[Buffer], lanes: int) -> Buffer:
    """Reduce each vector in ``sums``; return a buffer whose lane s is the sum of ``sums[s]``.

    Each level adds the two halves of each vector's segments, and merges two vectors into one. A
    single vector is merged with itself. The result is in ``sums[0]``.
    """
    vectors = list(sums)
    length = lanes
    while length > 1:
        vectors = vectors * 2 if len(vectors) == 1 else vectors
        half = length // 2
        starts = [v * lanes + s for v in range(2) for s in range(0, lanes, length)]
        low = [tirx.IntImm("int32", s + e) for s in starts for e in range(half)]
        high = [tirx.IntImm("int32", s + half + e) for s in starts for e in range(half)]
        for first, second in zip(vectors[::2], vectors[1::2], strict=True):
            pair = [vload(first, 0, lanes), vload(second, 0, lanes)]
            vstore(blk, first, 0, lanes, tirx.Shuffle(pair, low) + tirx.Shuffle(pair, high))
        vectors, length = vectors[::2], half
    return vectors[0]


def fitting_tiles(m: Expr, n: Expr, lanes: int) -> Expr:
    """Return the condition that some tile is no larger than m x n."""
    fits = [tirx.all(m >= r, n >= lanes // r) for r in tile_rows(lanes, odd=True)]
    return tirx.any(*fits) if len(fits) > 1 else fits[0]


Bind = Callable[[str, Size], Size]


class InPlace:
    """A, B and the result of batch item ``g``; the caller has checked that all are in place."""

    def __init__(self, spec: GemmSpec, b: Block, bind: Bind, g: Size) -> None:
        a, right, out = spec.a.affine, spec.b.affine, spec.direct
        assert a is not None and right is not None and out is not None
        self.a, self.b, self.out = a, right, out
        self.bases = [bind("base", v.base(b, g)) for v in (a, right, out)]

    def at(self, i: Size, j: Size) -> tuple[Expr, Expr, Expr]:
        """Return the first elements of row ``i`` of A and column ``j`` of B, and result (i, j)."""
        a_base, b_base, c_base = self.bases
        return (
            self.a.buffer[a_base + i * self.a.stride],
            self.b.buffer[b_base + j * self.b.stride],
            self.out.buffer[c_base + i * self.out.stride + j],
        )


@dataclass
class Way:
    """Base class of the special kernels that replace tiles in the task loop of a body.

    ``bind`` binds a non-constant size to a variable.
    """

    b: Block
    bind: Bind
    spec: GemmSpec
    plan: GemmPartition
    tile: GemmTile
    kernels: MicroKernels


def tile_height(bind: Bind, m: Size, n: Size, lanes: int) -> Size:
    """Return the height of tiles that covers m x n with the fewest tiles; 0 if no tile fits."""
    best: Size
    fewest: Size
    best, fewest = i64(0), i64(_MANY)
    for rows in tile_rows(lanes, odd=True):
        columns = lanes // rows
        tiles = bind("tiles", cdiv(m, rows) * cdiv(n, columns))
        fits = tirx.all(i64(m) >= rows, i64(n) >= columns, i64(tiles) <= fewest)
        best, fewest = (
            bind(name, tirx.Select(fits, i64(here), i64(there)))
            for name, here, there in (("height", rows, best), ("fewest", tiles, fewest))
        )
    return best


@dataclass
class InnerProducts(Way):
    """Computes a task as tiles of inner products."""

    def emit(self, g: Size, j_range: tuple[Size, Size]) -> None:
        """Emit the products of all rows and the columns ``j_range``, given as (begin, end)."""
        m = i64(self.plan.m)
        self._tiles(g, (i64(0), m), j_range, self._height(m, self.plan.n))

    def _height(self, m: Size, n: Size) -> Size:
        return tile_height(self.bind, m, n, self.tile.lanes)

    def last(self, g: Size, i_range: tuple[Size, Size]) -> Expr:
        """Emit the products of rows (first, count) and the last columns.

        Return the condition that a tile fits; otherwise the emitted code does nothing.
        """
        p = self.plan
        height = self._height(i_range[1], i64(p.rest))
        self._tiles(g, i_range, (i64(p.wide), i64(p.n)), height)
        return i64(height) > 0

    def _tiles(
        self, g: Size, i_range: tuple[Size, Size], j_range: tuple[Size, Size], height: Size
    ) -> None:
        """Emit the tiles of a range. The last tile in each direction overlaps the previous one."""
        b, lanes = self.b, self.tile.lanes
        (row0, m), (begin, end) = i_range, j_range
        views = InPlace(self.spec, b, self.bind, g)
        sizes = (self.plan.k, views.a.stride, views.b.stride, views.out.stride)
        for rows in tile_rows(lanes, odd=True):
            run = inner_function(self.kernels, self.spec.dtype, lanes, rows)
            columns = lanes // rows
            with (
                b.when(i64(height) == rows),
                b.loop("jt", cdiv(end - begin, columns)) as jt,
                b.loop("it", cdiv(m, rows)) as it,
            ):
                j = self.bind("j", tirx.min(begin + jt * columns, end - columns))
                i = self.bind("i", row0 + tirx.min(it * rows, m - rows))
                call_kernel(b, run, views.at(i, j), sizes)


__all__ = ["InPlace", "InnerProducts", "add_inside", "fitting_tiles", "inner_function"]
