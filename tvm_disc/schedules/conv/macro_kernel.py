"""The body of a convolution as an implicit GEMM: output channels times output pixels.

A task is a group of row blocks (output channels) times a group of panels (output pixels) of one
item. An item is one group of channels of one image. For small images, an item is one group of
channels of all images, so that not every image ends in a panel of few columns. The im2col matrix
exists for one block of input channels at a time. The panels of that block stay in the second-level
cache while every row block of weights is read once; sums stay in scratch between blocks. Weights
are packed in the order in which they are read, and each kernel call prefetches a part of the next
call's weights. If all weights of a task fit into the cache beside a panel, each panel is instead
filled and multiplied before the next one is filled, and calls prefetch the input of the next panel.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial

import numpy as np
from tvm import tirx

from tvm_disc.graph.nodes import Node, static_dim
from tvm_disc.schedules.conv.fill import Panel, PanelFill, Source
from tvm_disc.schedules.conv.tail import Tail, tail_columns
from tvm_disc.schedules.conv.zones import Places, lead_taps, more_panels, tails
from tvm_disc.schedules.gemm.layouts import packed_row_elems
from tvm_disc.schedules.gemm.macro_kernel import Stores, store_row
from tvm_disc.schedules.gemm.micro_kernel import KernelForm, MicroKernels
from tvm_disc.schedules.gemm.partition import EvenBlocks, bind_size, cdiv, div, known, least, most
from tvm_disc.schedules.gemm.tile import GemmTile
from tvm_disc.schedules.group import Body
from tvm_disc.schedules.packing import Array, Form
from tvm_disc.tir.builder import call, either, i64, prefetch
from tvm_disc.tir.index import add, mul, product
from tvm_disc.typing import Buffer, Expr, Size

_DEPTH = 512  # rows of the im2col matrix that exist at a time
_SMALL_IMAGE = 512  # a panel may contain pixels of several images with fewer pixels
_ROW_BLOCKS = 5  # largest ratio of the row blocks of a task to those of a matmul's task
_LEAST_BLOCKS = 4  # fewest row blocks of a task; with fewer, filling panels costs too much


def depth_of(channels: int, taps: int) -> int:
    """Return the number of input channels in a block of the im2col matrix; blocks are balanced."""
    turns = -(-channels // max(1, _DEPTH // taps))
    return -(-channels // turns)


@dataclass(frozen=True)
class ConvWeights:
    """Layout of weights: ``w[out, in / groups, taps...]`` as ``[group, block of in, out / groups,
    row]``.

    A row holds the channels and taps of a block, zero padded to an odd number of cache lines. If
    panels may skip rows of taps, the row is ordered by its ``lead`` outer rows of taps first.
    """

    groups: int
    dtype: str
    lead: int

    def form(self, shape: tuple[int, ...], dtype: str) -> Form:
        """Return the shape and element type of packed weights."""
        del dtype
        channels, taps = shape[1], math.prod(shape[2:])
        per = depth_of(channels, taps)
        row = packed_row_elems(per * taps, np.dtype(self.dtype).itemsize)
        return (self.groups, -(-channels // per), shape[0] // self.groups, row), self.dtype

    def write(self, array: Array, out: Array) -> None:
        """Pack weights into ``out``, which is zero-initialized."""
        channels, taps = array.shape[1], math.prod(array.shape[2:])
        per, outs = depth_of(channels, taps), out.shape[2]
        source = array.reshape(self.groups, outs, channels, self.lead, taps // self.lead)
        for k in range(out.shape[1]):
            part = source[:, :, k * per : (k + 1) * per].swapaxes(2, 3).reshape(*out.shape[::2], -1)
            out[:, k, :, : part.shape[2]] = part


@dataclass(frozen=True)
class ConvShape:
    """Sizes of a convolution. Sizes of the weights are ints and count one group of channels.

    ``lead`` is the number of outer rows of taps, or 1 if panels skip none; see :mod:`.zones`.
    """

    groups: int
    outs: int
    channels: int
    taps: int
    images: Expr
    pixels: Expr
    rows: Expr
    lead: int

    @staticmethod
    def of(node: Node, groups: int, packed: bool) -> ConvShape:
        """Return the sizes of a convolution with weights of a literal shape."""
        outs, channels, *taps = (int(static_dim(d) or 0) for d in node.inputs[1].shape)
        images, pixels, rows = node.shape[0], product(node.shape[2:]), node.shape[2]
        lead = lead_taps(node) if packed else 1
        size = (outs // groups, channels, math.prod(taps), images, pixels, rows, lead)
        return ConvShape(groups, *size)

    @property
    def depth(self) -> int:
        """Return the number of rows of the im2col matrix."""
        return self.channels * self.taps

    @property
    def known_columns(self) -> int | None:
        """Return the number of columns of one item, or None if the image's size is not known.

        An item of small images contains the pixels of all images. If the number of images is not
        known at compile time, the pixels of one image are counted.
        """
        images, pixels = known(self.images), known(self.pixels)
        if not isinstance(pixels, int):
            return None
        if isinstance(images, int) and pixels < _SMALL_IMAGE:
            return pixels * max(images, 1)
        return pixels


class ConvCut:
    """The division of the work into tasks; ``keep`` binds a non-literal size.

    If the weights of a task have at most ``near_bytes`` bytes, they stay in the core's cache beside
    a panel.
    """

    def __init__(
        self,
        shape: ConvShape,
        tile: GemmTile,
        itemsize: int,
        threads: int,
        near_bytes: int,
        keep: Callable[[str, Size], Size] = lambda _name, value: value,
    ) -> None:
        self.per = depth_of(shape.channels, shape.taps)
        self.k_blocks = -(-shape.channels // self.per)
        self.depth = self.per * shape.taps
        self.row = packed_row_elems(self.depth, itemsize)
        self.blocks = -(-shape.outs // tile.m_r)
        self.base_rows, self.extra_rows = divmod(shape.outs, self.blocks)
        groups_m = -(-self.blocks // (tile.m_blocks * _ROW_BLOCKS))
        most_blocks = -(-self.blocks // groups_m)
        near = most_blocks * tile.m_r * self.row * itemsize <= near_bytes
        self.one_by_one = self.k_blocks == 1 and near
        # Sizes of the task grid at run time.
        images, pixels = known(shape.images), known(shape.pixels)
        if isinstance(images, int) and images == 1:
            self.shared: Size = 1
        elif isinstance(images, int) and isinstance(pixels, int):
            self.shared = images if pixels < _SMALL_IMAGE else 1
        else:
            small = i64(pixels) < _SMALL_IMAGE
            self.shared = keep("shared", tirx.Select(small, tirx.max(i64(images), i64(1)), i64(1)))
        self.columns = keep("columns", mul(pixels, self.shared))
        self.items = keep("items", div(images, self.shared) * shape.groups)
        self.panels = keep("panels", cdiv(self.columns, tile.n_r))
        self.groups_n = keep("groups_n", cdiv(self.panels, tile.n_panels))
        added = more_panels(shape.lead, shape.rows)
        self.per_n = keep("per_n", cdiv(self.panels + added, most(self.groups_n, 1)))
        # With too few columns to give every thread a task, rows are divided further.
        wanted = cdiv(threads, most(self.items * self.groups_n, 1))
        finest = -(-self.blocks // _LEAST_BLOCKS)
        self.groups_m = keep("groups_m", most(groups_m, least(wanted, finest)))
        self.per_m = keep("per_m", cdiv(self.blocks, self.groups_m))
        # Scratch holds sums, then panels. A panel has no more vectors than its columns need.
        vectors = cdiv(self.columns, tile.lanes) * tile.lanes
        self.width = keep("width", least(vectors, tile.n_r))
        self.tile_elems = keep("tile_elems", self.width * tile.m_r)
        held = 1 if self.k_blocks == 1 else self.per_m * self.per_n
        self.panels_at = keep("panels_at", cdiv(self.tile_elems * held, 16) * 16)
        self.panel_elems = self.depth * tile.n_r
        across = self.width
        if not self.one_by_one:
            across = least(vectors + added * (2 * tile.n_r), self.per_n * tile.n_r)
        columns = None if isinstance(added, int) and added else known(self.columns)
        self.tail = tail_columns(tile, self.base_rows, columns)
        self.tail_at = keep("tail_at", self.panels_at + cdiv(across * self.depth, 16) * 16)
        rest = self.columns - div(self.columns, tile.n_r) * tile.n_r
        narrow = tails(self.tail, rest, shape.lead, shape.rows)
        self.elems = self.tail_at + Tail.elems(self.tail, narrow, self.depth, tile, itemsize)

    @property
    def tasks(self) -> Size:
        """Return the number of independent tasks."""
        return self.items * self.groups_n * self.groups_m


@dataclass
class ConvOperands:
    """The buffers of a convolution, and the functions that emit the stores of finished sums.

    ``weights`` has the layout :class:`ConvWeights` if ``packed``, otherwise that of the operator.
    The emitted code writes ``writes`` and reads ``reads``, which have the layout of the result.
    """

    node: Node
    data: Buffer
    weights: Buffer
    packed: bool
    store: Stores
    writes: list[Buffer]
    reads: list[Buffer]


class ConvBody:
    """Emits the tasks of one convolution into ``body``."""

    def __init__(
        self,
        operands: ConvOperands,
        shape: ConvShape,
        tile: GemmTile,
        cut: Callable[[Callable[[str, Size], Size]], ConvCut],
        dtype: str,
        kernels: MicroKernels,
        body: Body,
    ) -> None:
        assert body.scratch is not None
        self.ops, self.shape, self.tile, self.dtype = operands, shape, tile, dtype
        self.kernels, self.low, self.scratch = kernels, body.low, body.scratch
        block = self.b = body.block
        self._bind = partial(bind_size, block)
        self.cut = cut(self._bind)
        self.source = Source.of(operands.node, operands.data, shape.groups, shape.lead)
        grid = (self.cut.shared, self.cut.columns, self.cut.panels)
        of_all = {"rows": self.cut.base_rows}
        self.places = Places(block, self._bind, self.source, tile, self.cut.tail, grid, of_all)
        self.tail = Tail(block, kernels, tile, dtype, self.cut, self.scratch)

    def emit(self, lo: Expr, hi: Expr) -> None:
        """Emit all tasks of the range."""
        b, cut, places = self.b, self.cut, self.places
        per = self._bind("panels_per", cdiv(places.panels, most(cut.groups_n, 1)))
        with b.loop("task", hi - lo, lo) as task:
            rest = self._bind("rest", div(task, cut.groups_m))
            gm = self._bind("gm", task - rest * cut.groups_m)
            item = self._bind("item", div(rest, cut.groups_n))
            panel0 = self._bind("panel0", (rest - item * cut.groups_n) * per)
            panels = self._bind("n_panels", least(per, places.panels - panel0))
            first = self._bind("first_block", gm * cut.per_m)
            blocks = self._bind("n_blocks", least(cut.per_m, cut.blocks - first))
            self.image: Size = item
            self.group: Size = i64(0)
            if self.shape.groups > 1:
                self.image = self._bind("image", div(item, self.shape.groups))
                self.group = self._bind("group", item - self.image * self.shape.groups)
            places.locate(panel0, panels, self.image)
            if cut.one_by_one:
                with b.loop("p", panels) as p:
                    self._fill(p, i64(0), i64(0))
                    with b.loop("blk", blocks) as blk:
                        self._tile(p, (first, blk, blocks), i64(0))
                return
            with b.loop("kb", cut.k_blocks) as kb:
                with b.loop("p", panels) as p:
                    self._fill(p, p * cut.panel_elems, kb)
                with b.loop("blk", blocks) as blk, b.loop("p", panels) as p:
                    self._tile(p, (first, blk, blocks), kb)

    # --- panels -----------------------------------------------------------------------------

    def _vectors(self, columns: Expr) -> Size:
        return self._bind("vectors", cdiv(columns, self.tile.lanes))

    def _channels(self, kb: Expr) -> tuple[Size, Size]:
        """Return the first channel of K block ``kb``, and the number of channels."""
        first = self._bind("first_channel", kb * self.cut.per)
        if self.shape.channels % self.cut.per == 0:
            return first, i64(self.cut.per)
        return first, self._bind("n_channels", least(self.cut.per, self.shape.channels - first))

    def _fill(self, slot: Expr, at: Expr, kb: Expr) -> None:
        """Emit code that fills one panel for K block ``kb``, at offset ``at`` of the panels."""
        cut, tile, places = self.cut, self.tile, self.places
        channels, taps = self._channels(kb), places.taps(slot)
        columns = places.columns(slot)
        target = Panel(
            columns=columns,
            buffer=self.scratch,
            at=self._bind("fill_at", at + cut.panels_at),
            width=self._bind("panel_width", self._vectors(columns) * tile.lanes),
            vectors=tile.vectors,
            lanes=tile.lanes,
            dtype=self.dtype,
        )
        fill = PanelFill(self.source, self.low, self.b, target, taps)
        place = (places.image(slot), places.pixel(slot))
        fill.emit(place, self.group, channels, places.lines(slot))
        if cut.tail:
            with self.b.when(columns <= cut.tail):
                depth = self._bind("tail_depth", channels[1] * self.source.inner * taps[1])
                self.tail.take(slot - places.rank(slot), target.at, depth)

    # --- register tiles ----------------------------------------------------------------------

    def _tile(self, slot: Expr, block_at: tuple[Size, Size, Size], kb: Expr) -> None:
        """Emit the product of one row block and one panel, for one K block."""
        b, cut, tile, places = self.b, self.cut, self.tile, self.places
        first, blk, _ = block_at
        r = self._bind("r", first + blk)
        i0 = self._bind("i0", EvenBlocks(cut.base_rows, cut.extra_rows).start(r))
        # Load the number of rows from memory. If LLVM knew it, it would unroll the epilogue over
        # all rows and keep an address for each row between register tiles.
        in_memory = EvenBlocks(places.of_all("rows", slot), cut.extra_rows)
        rows = self._bind("rows", in_memory.height(r))
        columns = places.columns(slot)
        line = self._bind("tap_line", self._channels(kb)[1] * self.source.inner)
        first_tap, taps = places.taps(slot)
        depth = self._bind("depth", line * taps)
        sums: Size = i64(0)
        if cut.k_blocks > 1:
            sums = self._bind("sums", (blk * cut.per_n + slot) * cut.tile_elems)
        held = i64(0) if cut.one_by_one else slot
        b_at = self._bind("b_at", cut.panels_at + held * cut.panel_elems)
        a_at, lda = self._weights(i0, kb)
        ahead, step = self._ahead(slot, block_at, (a_at, lda, rows), depth)
        a_at = self._bind("a_at", a_at + first_tap * line)
        form = KernelForm(ahead=True, tight=True)
        counts = (cut.base_rows, cut.base_rows + 1) if cut.extra_rows else (cut.base_rows,)
        vectors = tuple(range(1, tile.vectors + 1))
        run = self.kernels.dispatcher(tile, self.dtype, counts, vectors, form)
        operands = (self.ops.weights[a_at], self.scratch[b_at], self.scratch[sums])
        with b.when(kb == cut.k_blocks - 1) if cut.k_blocks > 1 else nullcontext():
            self._fetch(slot, (i0, rows), columns)
        sizes = (depth, lda, tile.n_r, cut.width, kb, step, rows, self._vectors(columns))
        with b.when(columns > cut.tail) if cut.tail else nullcontext():
            b.eval(call(run, *map(tirx.address_of, operands), ahead, *map(i64, sizes)))
        if cut.tail:
            with b.when(columns <= cut.tail):
                weights = (self.ops.weights, a_at, lda)
                number = slot - places.rank(slot)
                self.tail.multiply(number, weights, rows, depth, (sums, kb))
        if cut.k_blocks == 1:
            self._finish(slot, (i0, rows), columns, sums)
            return
        with b.when(kb == cut.k_blocks - 1):
            self._finish(slot, (i0, rows), columns, sums)

    def _weights(self, i0: Size, kb: Expr) -> tuple[Size, int]:
        """Return the offset of row ``i0`` of a K block, and the row stride."""
        cut, shape = self.cut, self.shape
        if self.ops.packed:
            at = ((self.group * cut.k_blocks + kb) * shape.outs + i0) * cut.row
            return self._bind("a_at", at), cut.row
        at = (self.group * shape.outs + i0) * shape.depth + kb * cut.depth
        return self._bind("a_at", at), shape.depth

    def _ahead(
        self,
        slot: Expr,
        block_at: tuple[Size, Size, Size],
        strip: tuple[Size, int, Size],
        depth: Size,
    ) -> tuple[Expr, Size]:
        """Return the address to prefetch at the first K step, and the stride between steps."""
        at, lda, rows = strip
        source, weights, places = self.source, self.ops.weights, self.places
        if not self.cut.one_by_one or not source.dense:
            # Prefetch the weights of the next row block; each panel prefetches a part.
            size = self._bind("strip", rows * lda)
            share = self._bind("share", cdiv(size, places.wide))
            step = self._bind("step", div(share + depth, most(depth, 1)))
            start = self._bind("ahead", at + size + places.rank(slot) * share)
            return tirx.address_of(weights[start]), step
        # Prefetch for the next panel. Row block n prefetches cache line n of every channel of the
        # input. Later row blocks prefetch rows of the epilogue's buffers, one per K step.
        _, blk, _ = block_at
        line = max(1, 64 // np.dtype(str(self.ops.data.dtype)).itemsize)
        n_r, channels, outs = self.tile.n_r, self.shape.channels, self.shape.outs
        image, pixel = places.image(slot), places.pixel(slot)
        item = self._bind("item", image * self.shape.groups + self.group)
        lines = n_r // line
        mine = self._bind("mine", tirx.Select(blk <= lines, i64(1), i64(0)))
        plane = source.plane
        at = item * channels * plane + pixel + n_r + mine * blk * line
        address, step = tirx.address_of(self.ops.data[self._bind("ahead", at)]), mine * plane
        # The buffers are prefetched only if a panel is at least one cache line wide.
        chunks = -(-outs // channels) if lines and channels <= outs else 0
        beside = [x for x in (*self.ops.writes, *self.ops.reads) if x.dtype == self.ops.data.dtype]
        for number, buffer in enumerate(beside if chunks else ()):
            job = self._bind("job", blk - (lines + 1 + number * lines * chunks))
            chunk = self._bind("chunk", div(job, lines))
            row = item * outs + chunk * channels
            at = row * plane + pixel + n_r + (job - chunk * lines) * line
            other = tirx.address_of(buffer[self._bind("ahead", at)])
            here = tirx.all(job >= 0, job < lines * chunks)
            address = either(here, other, address)
            step = tirx.Select(here, plane, step)
        return address, self._bind("step", step)

    # --- results ----------------------------------------------------------------------------

    def _fetch(self, slot: Expr, i_rows: tuple[Size, Size], columns: Expr) -> None:
        """Emit prefetches of the buffers that the epilogue reads and writes; their rows are on
        different pages.

        If a panel contains pixels of several images, only those of the first image are prefetched;
        small images are probably in cache.
        """
        b, tile, (i0, rows) = self.b, self.tile, i_rows
        image, pixel = self.places.image(slot), self.places.pixel(slot)
        g = self._bind("g", add(mul(image, self.shape.groups), self.group))
        last = self._bind("last", i64(columns) - 1)
        with b.loop("fi", rows) as fi:
            i = self._bind("i", i0 + fi)
            row = self._bind("row", (g * self.shape.outs + i) * i64(self.shape.pixels) + pixel)
            for e in (*range(0, tile.n_r, tile.lanes), last):
                for buffers, to_write in ((self.ops.writes, True), (self.ops.reads, False)):
                    for buffer in buffers:
                        b.eval(prefetch(buffer, row + e, to_write))

    def _finish(self, slot: Expr, i_rows: tuple[Size, Size], columns: Expr, sums: Size) -> None:
        """Emit the stores of one register tile, image by image."""
        b = self.b
        image, pixel = self.places.image(slot), self.places.pixel(slot)
        begin, end = self.places.bounds(slot)
        if isinstance(self.cut.shared, int) and self.cut.shared == 1:
            self._finish_image(image, pixel, i_rows, (i64(0), columns), sums)
            return
        names = ("done_at", "image_at", "pixel_at")
        done_at, image_at, pixel_at = (b.alloc(n, 1, "int64") for n in names)
        for cell, value in ((done_at, i64(0)), (image_at, image), (pixel_at, pixel)):
            b.store(cell, 0, value)
        zero = i64(0)
        with b.loop_while(done_at[zero] < columns), self.low.scope():
            done, image = b.bind("done", done_at[zero]), b.bind("image", image_at[zero])
            pixel = b.bind("pixel", pixel_at[zero])
            size = self._bind("size", tirx.min(columns - done, end - pixel))
            self._finish_image(image, pixel, i_rows, (done, size), sums)
            b.store(done_at, 0, done + size)
            b.store(image_at, 0, image + 1)
            b.store(pixel_at, 0, begin)

    def _finish_image(
        self,
        image: Expr,
        pixel: Expr,
        i_rows: tuple[Size, Size],
        run: tuple[Size, Size],
        sums: Size,
    ) -> None:
        """Emit the stores of columns ``run``, as (first, count), adjacent in one image."""
        b, (i0, rows), (begin, count) = self.b, i_rows, run
        g = self._bind("g", add(mul(image, self.shape.groups), self.group))
        with b.loop("ei", rows) as ei:
            i = self._bind("i", i0 + ei)
            row = (self.scratch, self._bind("sum_row", sums + ei * self.cut.width + begin))
            store_row(b, self.ops.store, (g, i, pixel), row, count, self.tile.lanes, count)
