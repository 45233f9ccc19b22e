"""The *channel window* template: channels-last convolution and pooling, without im2col.

A task is a row of outputs, or a part of its channels. A vector holds channels, so no lane is wasted
by padding or strides: a tap is inside the input for all lanes or for none. A register tile is a few
adjacent columns. It reads a tap's weights once for all columns, and an input column once for all
windows that contain it. Rows of taps outside the input are skipped. Columns are tested for the
padding only in tiles that cross an edge.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace

import numpy as np
from tvm import DataType, tirx

from tvm_disc.errors import WhyNot
from tvm_disc.graph.nodes import Node, static_dim
from tvm_disc.schedules.conv.byte_windows import ByteTaps, byte_taps, bytes_read, emit_line
from tvm_disc.schedules.conv.channel_groups import (
    Channels,
    GroupCut,
    GroupVectors,
    Run,
    broadcast,
    cut_of,
)
from tvm_disc.schedules.conv.contraction import (
    columns_read,
    contraction,
    geometry,
    layout_refusal,
    spatial,
)
from tvm_disc.schedules.conv.cost import DirectSums
from tvm_disc.schedules.conv.window_tile import const_of, literal_taps, outside_window, values_of
from tvm_disc.schedules.gemm.micro_kernel import bind_opaque, vload, vstore
from tvm_disc.schedules.gemm.pack import cast
from tvm_disc.schedules.gemm.partition import has_masks
from tvm_disc.schedules.kernel import Body, Group, Machine, Plan
from tvm_disc.schedules.loops.fallback import store_outputs
from tvm_disc.schedules.packing import Array, Form, Packing
from tvm_disc.shape import Solver
from tvm_disc.tir.builder import const, first_lanes, i64, masked_load, ramp
from tvm_disc.tir.index import mul, product
from tvm_disc.typing import Buffer, Expr, Size

# Columns of a tile. Their sums and the weights of a row of taps fill 16 registers. Images are often
# 7 x 2^k columns wide.
_COLUMNS = 7
_MOST_TAPS = 16  # largest number of taps in a row of the window; they are unrolled


@dataclass(frozen=True)
class ChannelVectors:
    """Layout of depthwise weights: ``w[channels, 1, taps...]`` as ``[vector of channels, tap,
    lane]``.

    The last vector is zero padded.
    """

    lanes: int
    dtype: str

    def form(self, shape: tuple[int, ...], dtype: str) -> Form:
        """Return the shape and element type of packed weights."""
        del dtype
        return (-(-shape[0] // self.lanes), math.prod(shape[1:]), self.lanes), self.dtype

    def write(self, array: Array, out: Array) -> None:
        """Pack weights into ``out``."""
        channels = array.shape[0]
        lines = np.zeros((out.shape[0] * self.lanes, out.shape[1]), out.dtype)
        lines[:channels] = array.reshape(channels, -1)
        out[:] = lines.reshape(out.shape[0], self.lanes, -1).swapaxes(1, 2)


def plan_channel_window(group: Group, solver: Solver, machine: Machine) -> Plan | WhyNot:
    """Return a plan with one task per row of outputs and block of channels."""
    node = group.anchor
    assert node is not None
    spec = contraction(node)
    lanes = machine.lanes * 32 // int(DataType(spec.dtype).bits)
    channels = static_dim(node.shape[-1])
    while lanes > machine.lanes and channels is not None and lanes > channels:
        lanes //= 2  # vectors of bytes may be wider than all channels
    form = byte_taps(group, node, lanes, machine.isa.dots)
    data = _data(group, node, form)
    masks = has_masks(machine.lanes * 4, data.dtype)
    cut = cut_of(node, lanes, machine.threads)
    taps, refused = literal_taps(node), _refusal(group, node, data)
    if cut is not None and not refused:
        refused = cut.refusal(taps or [], spec.dtype, machine.lanes * 4)
    if refused or taps is None:
        return WhyNot("channel window", refused or "it requires a window of constant size")
    columns = _columns(static_dim(node.shape[-2]))
    packed = [node.inputs[1]] if node.weighted else []

    def emit(body: Body) -> None:
        emitter = _Emitter(group, node, body, lanes, masks, cut, form)
        emitter.run(machine.memory.prefetch_bytes)

    sums = i64(product([*node.shape, *spec.extents]))
    cost = None if cut is None else _sums(node, cut, taps, columns).ns
    weights: Packing = form or ChannelVectors(lanes, spec.dtype)
    if cut is not None:
        weights = GroupVectors(cut, spec.dtype)

    return Plan(
        tasks=product(node.shape[:-2]) * (cut.blocks if cut else 1),
        work=tirx.floordiv(sums, 2) if cut else sums * 2,
        emit=emit,
        cost=cost,
        packed=dict.fromkeys(packed, weights),
        packed_dtypes=dict.fromkeys(packed, spec.dtype),
        joins_if_small=cut is not None,
        notes={"register tile": f"{columns} columns of {lanes} channels"},
    )


def _data(group: Group, node: Node, form: ByteTaps | None) -> Node:
    """Return the operand that the window reads from memory."""
    return node.inputs[0] if form is None else bytes_read(group, node)[0]


def _sums(node: Node, cut: GroupCut, taps: Sequence[int], columns: int) -> DirectSums:
    vectors, window = cut.vectors, geometry(node, len(taps))
    read = 4 * math.prod(taps) * vectors * cut.lanes * cut.members
    sizes = (vectors, cut.together, cut.members, columns)
    return DirectSums(node.shape[:-1], taps, window, *sizes, read)


# Pairs of (element type of the input, accumulator type).
_TYPES = {(t, t) for t in ("float32", "float64", "int32", "int64")}
_TYPES |= {(t, "int32") for t in ("int8", "uint8", "int16")}
_MAXIMA = _TYPES | {(t, t) for t in ("int8", "uint8", "int16")}


def _refusal(group: Group, node: Node, data: Node) -> str | None:
    taps = literal_taps(node)
    if (reason := layout_refusal(node, last=True)) is not None:
        return reason
    if node.weighted:
        weight = node.inputs[1]
        if None in (static_dim(d) for d in weight.shape[:2]):
            return "it requires a constant number of channels: it is known at run time only"
        if weight not in group.constants:
            return "it requires constant weights: these are computed, or an input"
    if taps is None or taps[-1] > _MOST_TAPS:
        width = "its size is unknown" if taps is None else f"it has {taps[-1]}"
        return f"it requires a window of at most {_MOST_TAPS} columns: {width}"
    sums = contraction(node).dtype
    if (data.dtype, sums) not in (_MAXIMA if "max" in node.op else _TYPES):
        return f"it does not support {values_of(node, data.dtype, sums)}"
    return outside_window(group, node, data)


def _columns(width: int | None) -> int:
    """Return the number of columns of a tile for which the last tile lacks the fewest columns."""
    if width is None:
        return _COLUMNS
    sizes = range(min(4, max(width, 1)), min(_COLUMNS + 1, max(width, 1)) + 1)
    return min(sizes, key=lambda size: (-(-width // size) * size, -size))


@dataclass(frozen=True)
class _Lines:
    """The rows of taps of one row of outputs that are inside the input.

    ``row`` is the number of the row of outputs, and ``lead`` its index in the dims before the last
    two. ``first`` is the first input row of the window along each dim but the last. ``begin`` and
    ``count`` are the taps along these dims that are inside. ``block`` is the block of channels.
    """

    row: Expr
    lead: list[Expr]
    first: list[Expr]
    begin: list[Expr]
    count: list[Expr]
    block: Expr


@dataclass(frozen=True)
class _Tile:
    """Adjacent outputs: the first one, its first input column, and the largest number of outputs.

    ``inside`` means that all taps of all columns are inside the input, and that all columns are
    outputs.
    """

    start: Expr
    first: Expr
    columns: int
    inside: bool


@dataclass
class _Emitter:
    """Emits one body. Invariant: ``self.block`` is inside the loop over rows while emitting."""

    group: Group
    node: Node
    body: Body
    lanes: int
    masks: bool
    cut: GroupCut | None
    form: ByteTaps | None

    def __post_init__(self) -> None:
        node, form = self.node, self.form
        self.data = _data(self.group, node, form)
        self.columns = _columns(static_dim(node.shape[-2]))
        self.low, self.block = self.body.low, self.body.block
        self.rank = len(node.shape) - 2
        self.geo, self.spec = geometry(node, self.rank), contraction(node)
        taps = literal_taps(node)
        assert taps is not None
        self.taps = taps
        # number of vectors of weights for a row of taps, and for a vector of channels
        self.row_vectors = taps[-1] if form is None else form.words
        self.weight_vectors = math.prod(taps) if form is None else form.vectors
        self.extents = [i64(d) for d in spatial(node, self.data.shape)]
        self.channels, self.input_channels = node.shape[-1], self.data.shape[-1]
        self.stride, self.gap = self.geo.strides[-1], self.geo.dilation[-1]

    def run(self, prefetch_bytes: int) -> None:
        """Emit all rows of the range.

        Inputs and results of at least ``prefetch_bytes`` bytes are prefetched one row ahead.
        """
        low, body, node = self.low, self.body, self.node
        self.far_results = self._is_far(node, prefetch_bytes)
        self.far_input = self._is_far(self.data, prefetch_bytes)
        self.vectors = self.block.bind("vectors", tirx.floordiv(i64(self.channels), self.lanes))
        self.rest = self.block.bind("rest", i64(self.channels) - self.vectors * self.lanes)
        # With one channel, its index is a literal 0, which cannot become a vector of indices.
        keep = self.masks and static_dim(self.rest) != 0 and static_dim(self.channels) != 1
        self.keep = self.block.bind("keep", first_lanes(self.rest, self.lanes)) if keep else None
        with low.loop("row", body.hi - body.lo, begin=body.lo) as row:
            block, row = self._block_of(row)
            lead = list(low.space.split(row, node.shape[:-2]))
            low.resolve(lead)
            lines = self._lines(row, lead, block)
            tiles = tirx.floordiv(i64(node.shape[-2]) + (self.columns - 1), i64(self.columns))
            with low.loop("tile", tiles) as tile:
                self._tile(lines, tile)

    def _is_far(self, node: Node, prefetch_bytes: int) -> Expr:
        """Return the condition that a value does not fit in a cache of ``prefetch_bytes`` bytes."""
        size = product(node.shape) * (int(DataType(node.dtype).bits) // 8)
        return self.block.bind("far", bind_opaque(self.block, "bytes", size) >= prefetch_bytes)

    def _block_of(self, task: Expr) -> tuple[Expr, Expr]:
        """Return the block of channels and the row of a task; rows of one block are consecutive
        tasks.
        """
        if self.cut is None or self.cut.blocks == 1:
            return i64(0), task
        rows = bind_opaque(self.block, "rows", product(self.node.shape[:-2]))
        block = bind_opaque(self.block, "block", tirx.truncdiv(task, rows))
        return block, bind_opaque(self.block, "row", task - block * rows)

    def _lines(self, row: Expr, lead: list[Expr], channels: Expr) -> _Lines:
        block, geo = self.block, self.geo
        firsts, begins, counts = [], [], []
        for d in range(self.rank - 1):
            first = bind_opaque(block, "first", lead[1 + d] * geo.strides[d] - geo.padding[d])
            gap = i64(geo.dilation[d])
            begin = tirx.floordiv(tirx.max(i64(0) - first, i64(0)) + (gap - 1), gap)
            end = tirx.floordiv(self.extents[d] - 1 - first, gap) + 1
            begin = bind_opaque(block, "begin", begin)
            count = tirx.max(tirx.min(end, i64(self.taps[d])) - begin, i64(0))
            firsts.append(first)
            begins.append(begin)
            counts.append(bind_opaque(block, "count", count))
        return _Lines(row, lead, firsts, begins, counts, channels)

    def _tile(self, lines: _Lines, tile: Expr) -> None:
        """Emit all channels of one tile."""
        block, low = self.block, self.low
        start = bind_opaque(block, "start", tile * self.columns)
        before = self.geo.padding[self.rank - 1]
        first = bind_opaque(block, "first", start * self.stride - before)
        edge = _Tile(start, first, self.columns, inside=False)
        if self.cut is not None or static_dim(self.vectors) != 0:
            reach = first + (self.columns - 1) * self.stride + (self.taps[-1] - 1) * self.gap
            inside = tirx.And(first >= 0, reach < self.extents[-1])
            inside = tirx.And(inside, start + self.columns <= i64(self.node.shape[-2]))
            with block.when(block.bind("inside", inside)), low.scope():
                self._vectors(lines, _Tile(start, first, self.columns, inside=True))
            with block.otherwise(), low.scope():
                self._edge(lines, edge)
        if self.cut is None and static_dim(self.rest) != 0:
            self._last_channels(lines, edge)

    def _edge(self, lines: _Lines, tile: _Tile) -> None:
        """Emit the vectors of a tile that crosses an edge.

        If the tile has at most half of its columns, a tile of half the width is used.
        """
        block, low, width = self.block, self.low, self.node.shape[-2]
        half = (tile.columns + 1) // 2
        if static_dim(width) is not None:  # the tile size was chosen for this width
            self._vectors(lines, tile)
            return
        with block.when(i64(width) - tile.start <= half), low.scope():
            self._vectors(lines, replace(tile, columns=half))
        with block.otherwise(), low.scope():
            self._vectors(lines, tile)

    def _prefetch_next(self, lines: _Lines, tile: _Tile, first: Expr) -> None:
        """Emit prefetches of data that the tile below this one, in the next row, reads and writes.

        Each tile reads half a cache line in each of several columns, a pattern that hardware
        prefetchers do not follow. Each call therefore prefetches a contiguous part.
        """
        block, shared = self.block, tile.columns * self.lanes
        pixel = (lines.row + 1) * i64(self.node.shape[-2]) + tile.start
        with block.when(self.far_results):
            at = bind_opaque(block, "next", mul(pixel, self.channels) + first * tile.columns)
            block.fetch(self.body.outputs[0], at, shared, to_write=True)
        if self.rank == 1:
            return
        reach = (self.taps[-2] - 1) * self.geo.dilation[-2]
        with block.when(self.far_input):
            for k in range(1, self.geo.strides[-2] + 1):
                line = self._line_at(lines, [*lines.first[:-1], lines.first[-1] + (reach + k)])
                pixel = line * self.extents[-1] + tile.start * self.stride
                begin = mul(pixel, self.input_channels) + first * (tile.columns * self.stride)
                at = bind_opaque(block, "ahead", begin)
                block.fetch(self.body.buffers[self.data], at, shared * self.stride, to_write=False)

    def _line_at(self, lines: _Lines, where: Sequence[Expr]) -> Expr:
        """Return the flattened index of an input row."""
        line = lines.lead[0]
        for extent, at in zip(self.extents, where, strict=False):
            line = line * extent + at
        return line

    def _vectors(self, lines: _Lines, tile: _Tile) -> None:
        """Emit the full vectors of channels; for grouped convolutions, all channels."""
        if self.cut is not None:
            self._blocks(lines, tile, self.cut)
            return
        with self.low.loop("v", self.vectors) as v:
            first = bind_opaque(self.block, "channel", v * self.lanes)
            weights = bind_opaque(self.block, "weights", first * self.weight_vectors)
            if tile.inside:
                self._prefetch_next(lines, tile, first)
            self._sums(lines, tile, Channels(first, weights, self.lanes, inputs=first))

    def _blocks(self, lines: _Lines, tile: _Tile, cut: GroupCut) -> None:
        """Emit the channels of one block; the last block includes the partial vectors."""
        size, blocks = cut.block, cut.blocks
        whole, *rest = cut.runs()
        begin = lines.block * size
        count = tirx.min(i64(whole.count) - begin, i64(size)) if blocks > 1 else i64(whole.count)
        self._groups(lines, tile, whole, (begin, bind_opaque(self.block, "count", count)))
        for run in rest:
            last = self.block.when(tirx.EQ(lines.block, i64(blocks - 1)))
            with last if blocks > 1 else nullcontext(), self.low.scope():
                self._groups(lines, tile, run, (i64(0), i64(run.count)))

    def _groups(self, lines: _Lines, tile: _Tile, run: Run, span: tuple[Size, Size]) -> None:
        """Emit the vectors ``(first, count)`` of a run, which may be partially filled."""
        block, low, cut = self.block, self.low, self.cut
        assert cut is not None
        with low.loop("v", span[1], begin=i64(0)) as v:
            at = cut.channels(block, run, span[0] + v, math.prod(self.taps))
            if tile.inside:
                self._prefetch_next(lines, tile, at.first)
            if at.mask is None or self.masks:
                self._sums(lines, tile, at)
                return
            with low.loop("c", i64(run.filled)) as c:
                self._sums(lines, tile, cut.single(at, c))

    def _last_channels(self, lines: _Lines, tile: _Tile) -> None:
        """Emit the remaining channels as a partial vector, or one by one."""
        block, low = self.block, self.low
        first = bind_opaque(block, "channel", self.vectors * self.lanes)
        weights = bind_opaque(block, "weights", first * self.weight_vectors)
        if self.keep is not None:
            with block.when(self.rest > 0), low.scope():
                self._sums(lines, tile, Channels(first, weights, self.lanes, self.keep, first))
            return
        with low.loop("c", self.rest) as c:
            self._sums(lines, tile, Channels(first + c, weights + c, 1, None, first + c))

    # --- one vector of channels --------------------------------------------------------------

    def _sums(self, lines: _Lines, tile: _Tile, at: Channels) -> None:
        """Emit the sums of one register tile, the epilogue and the stores."""
        block, low, dtype = self.block, self.low, self.spec.dtype
        identity = self.spec.reducer.identity(dtype)
        sums = [block.alloc("sum", at.lanes, dtype) for _ in range(tile.columns)]
        first = const_of(identity, at.lanes)
        if self.form is not None and self.form.outside:
            first = self._first_sums(lines, at, self.form)
        for cell in sums:
            vstore(block, cell, 0, at.lanes, first)
        with ExitStack() as stack:
            taps = [
                stack.enter_context(low.loop(f"k{d}", count, begin=begin))
                for d, (begin, count) in enumerate(zip(lines.begin, lines.count, strict=True))
            ]
            gaps, tap = self.geo.dilation, i64(0)
            where = [f + k * gap for f, k, gap in zip(lines.first, taps, gaps, strict=False)]
            for d, k in enumerate(taps):
                tap = tap * self.taps[d] + k
            pixel = self._line_at(lines, where) * self.extents[-1] + tile.first
            base = bind_opaque(block, "base", mul(pixel, self.input_channels) + at.inputs)
            if self.cut is None:
                self._line(tile, at, base, tap * self.row_vectors, sums)
            else:
                self._grouped_line(tile, at, base, tap * self.taps[-1], sums, self.cut)
        self._results(lines, tile, at, sums)

    def _line(
        self, tile: _Tile, at: Channels, base: Expr, tap: Expr, sums: Sequence[Buffer]
    ) -> None:
        """Emit one line of taps: each input column is added to every window that contains it."""
        weights = self._weights(at.weights + tap * self.lanes, at.lanes)
        if self.form is not None:
            form, steps = self.form, (tile.columns, self.stride, self.gap)

            def number(column: int) -> Expr:
                return self._number(tile, at, base, column, form)

            emit_line(self.block, form, steps, weights, number, sums)
            return

        def load(where: Expr) -> Expr:
            value = cast(self._load(where, at), self.spec.dtype, at.lanes)
            return self.block.bind("x", value)

        self._columns_of(tile, at, base, weights, load, sums)

    def _first_sums(self, lines: _Lines, at: Channels, form: ByteTaps) -> Expr:
        """Return the initial sums that correct for the zero point of the input."""
        buffer = self.body.buffers[self.node.inputs[1]]
        begin = tirx.min(lines.begin[-1], i64(form.taps[0]))  # if no row of taps is inside
        place = at.weights + form.taps[0] * form.words * self.lanes
        before, behind = (
            vload(buffer, bind_opaque(self.block, "sums_at", place + row * self.lanes), at.lanes)
            for row in (begin, begin + lines.count[-1])
        )
        return self.block.bind("first", behind - before)

    def _number(self, tile: _Tile, at: Channels, base: Expr, column: int, form: ByteTaps) -> Expr:
        """Return the elements of an input column as int32; the column may be outside the image."""
        block, where = self.block, base + mul(i64(column), self.input_channels)
        if tile.inside:
            return block.bind("x", form.number(self._load(where, at), at.lanes))
        cell = block.alloc("x", at.lanes, self.spec.dtype)
        outside = const(form.outside, self.spec.dtype)
        vstore(block, cell, 0, at.lanes, const_of(outside, at.lanes))
        with block.when(self._is_inside(tile, column)):
            vstore(block, cell, 0, at.lanes, form.number(self._load(where, at), at.lanes))
        return vload(cell, 0, at.lanes)

    def _grouped_line(
        self,
        tile: _Tile,
        at: Channels,
        base: Expr,
        tap: Expr,
        sums: Sequence[Buffer],
        cut: GroupCut,
    ) -> None:
        """Emit one line of taps, looping over the input channels of a group."""
        buffer, dtype = self.body.buffers[self.data], self.spec.dtype
        first = bind_opaque(self.block, "weights", at.weights + tap * (cut.members * self.lanes))
        with self.low.loop("m", i64(cut.members)) as m:
            weights = self._weights(first + m * (self.taps[-1] * self.lanes), at.lanes)
            member = bind_opaque(self.block, "member", base + m)

            def load(where: Expr) -> Expr:
                return broadcast(self.block, buffer, where, at, cut, dtype)

            self._columns_of(tile, at, member, weights, load, sums)

    def _columns_of(
        self,
        tile: _Tile,
        at: Channels,
        base: Expr,
        weights: Sequence[Expr],
        load: Callable[[Expr], Expr],
        sums: Sequence[Buffer],
    ) -> None:
        block, combine = self.block, self.spec.reducer.combine
        for column, uses in columns_read(tile.columns, self.taps[-1], self.stride, self.gap):
            with nullcontext() if tile.inside else block.when(self._is_inside(tile, column)):
                value = load(base + mul(i64(column), self.input_channels))
                for t, k in uses:
                    tapped = value * weights[k] if weights else value
                    whole = combine(vload(sums[t], 0, at.lanes), tapped)
                    vstore(block, sums[t], 0, at.lanes, whole)

    def _weights(self, at: Expr, lanes: int) -> list[Expr]:
        """Return the weights of one line of taps; none for pooling."""
        if not self.node.weighted:
            return []
        buffer = self.body.buffers[self.node.inputs[1]]
        base = bind_opaque(self.block, "weight_at", at)
        return [
            self.block.bind("w", vload(buffer, base + k * self.lanes, lanes))
            for k in range(self.row_vectors)
        ]

    def _is_inside(self, tile: _Tile, column: int) -> Expr:
        """Return the condition that an input column exists.

        One unsigned comparison suffices: a negative column becomes a large number.
        """
        at, columns = i64(tile.first + column), i64(self.extents[-1])
        if isinstance(at, tirx.IntImm) and at.value < 0:  # has no unsigned literal
            return const(False, "bool")
        return tirx.Cast("uint64", at) < tirx.Cast("uint64", columns)

    def _load(self, where: Expr, at: Channels) -> Expr:
        buffer = self.body.buffers[self.data]
        if at.mask is None:
            return vload(buffer, where, at.lanes)
        return masked_load(buffer, where, at.mask)

    def _results(self, lines: _Lines, tile: _Tile, at: Channels, sums: Sequence[Buffer]) -> None:
        """Emit the epilogue and stores of the columns that exist."""
        block, low, lanes = self.block, self.low, at.lanes
        width = i64(self.node.shape[-2])
        held = block.alloc("held", tile.columns * lanes, self.spec.dtype)
        for t, cell in enumerate(sums):
            vstore(block, held, t * lanes, lanes, vload(cell, 0, lanes))
        count = i64(tile.columns)
        if not tile.inside:
            count = tirx.min(count, width - tile.start)
        with low.loop("t", count) as t, low.masked(at.mask):
            index = [*lines.lead, tile.start + t, at.index]
            pixel = lines.row * width + (tile.start + t)
            value = self.spec.finish(low, index, vload(held, t * lanes, lanes))
            total = low.settle("total", value)
            flat = mul(pixel, self.channels) + at.first
            flat = ramp(flat, lanes) if lanes > 1 else flat
            store_outputs(self.group, self.body, self.node, total, index, flat)


__all__ = ["ChannelVectors", "plan_channel_window"]
