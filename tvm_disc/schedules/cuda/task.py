"""A task of a tiled matmul: its place in the result, and the stores of its sums."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol
from typing import cast as typed

from tvm import tirx

from tvm_disc.schedules.cuda.block import DeviceBlock
from tvm_disc.schedules.cuda.epilogue import store_lanes
from tvm_disc.schedules.cuda.vector import Lanes
from tvm_disc.schedules.cuda.views import TileView
from tvm_disc.schedules.elements import cast
from tvm_disc.schedules.gemm.partition import is_one
from tvm_disc.schedules.group import Body
from tvm_disc.schedules.loops.fallback import store_outputs
from tvm_disc.tir.builder import i64
from tvm_disc.tir.index import add, ceil_div
from tvm_disc.typing import Buffer, Expr


class TileSizes(Protocol):
    """The sizes of a tile and of a slice, and the number of blocks per sum."""

    @property
    def m(self) -> int:
        """The number of rows of the result."""

    @property
    def n(self) -> int:
        """The number of columns of the result."""

    @property
    def k(self) -> int:
        """The number of steps of the summed dim in a slice."""

    @property
    def parts(self) -> int:
        """The number of blocks that share a sum."""


class TileTask:
    """Base class of the emitters of one task: its sizes, its place in the result, and its epilogue.

    Attributes:
        on_tensor_cores: whether results are stored by instructions of 16 bytes, and the division by
            a batch size of 1 is omitted. Float32 tiles on sm_80 have too few registers for both.
    """

    on_tensor_cores = False

    def __init__(self, view: TileView, sizes: TileSizes, facts: Sequence[Expr], body: Body) -> None:
        self.view, self.tile, self.facts, self.body = view, sizes, facts, body
        self.block, self.low = typed(DeviceBlock, body.block), body.low
        self.thread = body.thread
        block = self.block
        bound = (block.bind(name, i64(x)) for name, x in zip("gmnk", view.sizes, strict=True))
        self.batch, self.m, self.n, self.k = bound
        self._origin()

    def _origin(self) -> None:
        """Bind a task's batch item, tile, and part of the sum."""
        block, tile = self.block, self.tile
        down, across = (
            block.bind("tiles", ceil_div(x, t)) for x, t in ((self.m, tile.m), (self.n, tile.n))
        )
        along = block.bind("along", tirx.truncdiv(self.body.lo, across))
        self.j0 = block.bind("j0", (self.body.lo - along * across) * tile.n)
        if self.on_tensor_cores and tile.parts == 1 and is_one(self.batch):
            item, self.i0 = i64(0), block.bind("i0", along * tile.m)
        else:
            item = block.bind("item", tirx.truncdiv(along, down))
            self.i0 = block.bind("i0", (along - item * down) * tile.m)
        slices = block.bind("slices", ceil_div(self.k, tile.k))
        self.g, self.part, self.first, self.count = item, i64(0), i64(0), slices
        if tile.parts > 1:
            self.part = block.bind("part", tirx.truncdiv(item, tirx.max(self.batch, i64(1))))
            self.g = block.bind("g", item - self.part * self.batch)
            share = block.bind("share", ceil_div(slices, tile.parts))
            self.first = block.bind("first", self.part * share)
            self.count = block.bind("count", tirx.max(tirx.min(slices - self.first, share), i64(0)))

    def lanes(self, count: int, begins: Sequence[Expr]) -> Lanes:
        """Return lanes for ``count`` adjacent elements, with the facts of the plan."""
        symbols = self.view.group.symbols()
        return Lanes(self.low, count, self.facts, begins, symbols, self.view.packed)

    def store_one(self, i: Expr, j: Expr, total: Expr) -> None:
        """Emit the epilogue and the store of a sum; if blocks share sums, a store to scratch
        memory.
        """
        view, low, anchor = self.view, self.low, self.view.node
        flat = view.flat(self.g, i, j)
        if self.tile.parts > 1:
            assert self.body.scratch is not None
            size = self.batch * self.m * self.n
            self.block.store(self.body.scratch, self.part * size + flat, total)
            return
        total = low.settle("total", cast(total, anchor.dtype))
        index = view.index(low, self.g, i, j)
        store_outputs(view.group, self.body, anchor, total, index, flat)

    def store_adjacent(self, i: Expr, j: Expr, sums: Buffer, at: Expr, count: int) -> None:
        """Emit the epilogue and the stores of ``count`` adjacent sums, from ``sums[at]`` on."""
        view, anchor = self.view, self.view.node
        lanes = self.lanes(count, [j])

        def index(lane: Expr) -> Sequence[Expr]:
            return view.index(self.low, self.g, i, add(j, lane))

        def total(number: int, place: Sequence[Expr]) -> Expr:
            return cast(sums[at + number], anchor.dtype)

        store_lanes(
            view.group,
            self.body,
            lanes,
            index,
            total,
            view.flat(self.g, i, j),
            self.on_tensor_cores,
        )


__all__ = ["TileSizes", "TileTask"]
