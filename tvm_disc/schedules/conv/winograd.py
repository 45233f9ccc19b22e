"""The *winograd* template: dense 3x3 convolutions of stride 1 by minimal filtering.

The layout is channels-last. Outputs are divided into tiles of ``m x m``. A task is a block of tiles
and a part of the output channels. The tiles' inputs are transformed into ``[position, tile,
channel]``. For each position, a matmul multiplies them by the transformed weights, one panel of
output channels at a time. The sums of a panel are transformed back before the next panel, and so
stay in the core's caches; the epilogue is applied to the result. Weights are transformed when they
are packed, and read once per block of tiles.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from tvm import tirx

from tvm_disc.errors import WhyNot
from tvm_disc.graph.nodes import Node, static_dim
from tvm_disc.schedules.conv.contraction import channels_last, geometry
from tvm_disc.schedules.conv.cost import filtered_ns
from tvm_disc.schedules.conv.minimal_filter import TAPS, FilteredPanels, MinimalFilter
from tvm_disc.schedules.conv.places import PlaceCounter
from tvm_disc.schedules.conv.window_tile import outside_window
from tvm_disc.schedules.dispatch.cost_model import CostModel
from tvm_disc.schedules.dispatch.sampling import Points, Values, evaluate
from tvm_disc.schedules.dispatch.variant import Knobs
from tvm_disc.schedules.gemm.cost import micro_ns
from tvm_disc.schedules.gemm.micro_kernel import (
    KernelForm,
    MicroKernels,
    bind_opaque,
    call_kernel,
    vload,
)
from tvm_disc.schedules.gemm.partition import EvenBlocks, vector_counts
from tvm_disc.schedules.gemm.tile import GemmTile, default_tile
from tvm_disc.schedules.kernel import Body, Group, Machine, Plan
from tvm_disc.schedules.loops.fallback import store_outputs
from tvm_disc.shape import Solver
from tvm_disc.shape.printing import show
from tvm_disc.tir.builder import const, i64, ramp
from tvm_disc.tir.index import mul, product
from tvm_disc.typing import Buffer, Expr

FAMILY = "winograd"
_DTYPE = "float32"
# fewest input and output channels; with fewer, transforms cost more than they save
_FEWEST_CHANNELS = 16
_MANY_BYTES = 1 << 20  # with this many bytes of weights, tasks divide output channels, too
_FEWEST_ROWS = 4  # fewest register tiles of rows in a block, to amortize reading weights
# Elements of padding between positions, so that the positions of a tile map to different sets of
# the first-level cache.
_GAP = 16


@dataclass(frozen=True)
class WinogradKnobs(Knobs):
    """``outputs``: side of an output tile."""

    outputs: int = 2


@dataclass(frozen=True)
class TileCut:
    """The number of tiles of a task, and the size of its scratch.

    ``sizes`` is (batch, height, width, channels) of the output. ``ins`` is the number of input
    channels.
    """

    filter: MinimalFilter
    tile: GemmTile
    sizes: tuple[Any, Any, Any, int]
    ins: int
    threads: int
    cache_bytes: int

    @property
    def grid(self) -> list[Expr]:
        """Return the number of tiles along height and width."""
        m = self.filter.outputs
        return [tirx.floordiv(i64(d) + (m - 1), m) for d in self.sizes[1:3]]

    @property
    def tiles(self) -> Expr:
        """Return the number of tiles of all images."""
        return product([self.sizes[0], *self.grid])

    @property
    def outs(self) -> int:
        return self.sizes[3]

    @property
    def panels(self) -> int:
        return -(-self.outs // self.tile.n_r)

    @property
    def weight_bytes(self) -> int:
        return 4 * self.filter.places * self.ins * self.outs

    @property
    def parts(self) -> int:
        """Return the number of parts into which the output channels are divided."""
        many = self.weight_bytes >= _MANY_BYTES
        return min(self.threads, self.panels) if many else 1

    @property
    def most(self) -> int:
        """Return the largest number of tiles of a task: transformed inputs fill half the cache."""
        each = 4 * self.filter.places * self.ins
        rows = self.cache_bytes // 2 // each // self.tile.m_r
        return max(rows, _FEWEST_ROWS) * self.tile.m_r

    @property
    def blocks(self) -> Expr:
        """Return the number of blocks of tiles.

        If the channels are not divided, there is a block for each thread, unless tiles are fewer.
        """
        fewest = 1 if self.parts > 1 else self.threads
        cut = tirx.floordiv(self.tiles + (self.most - 1), self.most)
        return cut if fewest == 1 else tirx.max(cut, tirx.min(self.tiles, i64(fewest)))

    @property
    def there(self) -> int:
        """Return the stride between two positions of transformed inputs, in elements."""
        return self.most * self.ins + _GAP

    @property
    def back(self) -> int:
        """Return the stride between two positions of sums, in elements."""
        return self.most * self.tile.n_r + _GAP

    @property
    def scratch(self) -> int:
        return self.filter.places * (self.there + self.back)


def plan_winograd(group: Group, solver: Solver, machine: Machine) -> Plan | WhyNot:
    """Return a plan that uses minimal filtering, or the reason why there is none.

    With few pixels, the plan is slower than others: it reads more bytes of weights.
    """
    node = group.anchor
    assert node is not None
    refused = _no_filter(node) or _refusal(group, node, machine)
    return WhyNot(FAMILY, refused) if refused else _plan(group, node, machine)


def _shape(node: Node) -> tuple[int, ...]:
    return tuple(int(static_dim(d) or 0) for d in node.shape)


def _no_filter(node: Node) -> str | None:
    """Return why a window has no minimal filter; None if it has one."""
    if not node.weighted:
        return "Winograd requires a convolution: this is pooling"
    if len(node.shape) != 4 or not channels_last(node):
        return "Winograd requires a 2-d convolution with the channels last, as in NHWC"
    window, groups = _shape(node.inputs[1])[2:], int(node.attrs["groups"])
    if window != (TAPS, TAPS):
        sizes = "x".join(map(show, node.inputs[1].shape[2:]))
        return f"Winograd requires a 3x3 window: the window is {sizes}"
    if groups != 1:
        return f"Winograd requires one group: there are {groups}"
    return None


def _refusal(group: Group, node: Node, machine: Machine) -> str | None:
    """Return why minimal filtering is not used for a dense 3x3 window; None if it may be used."""
    if not machine.winograd:
        return "Options(winograd=0) disables it"
    (data, weight), geo = node.inputs, geometry(node, 2)
    for name, found in (("stride", geo.strides), ("dilation", geo.dilation)):
        if set(found) != {1}:
            return f"Winograd requires {name} 1: {name} is {'x'.join(map(str, found))}"
    if weight not in group.constants:
        return "Winograd requires constant weights: these are computed, or an input"
    if {data.dtype, weight.dtype, node.dtype} != {_DTYPE}:
        return f"Winograd requires float32: found {data.dtype} x {weight.dtype} -> {node.dtype}"
    outs, ins = _shape(weight)[:2]
    if min(outs, ins) < _FEWEST_CHANNELS or outs % machine.lanes or ins % machine.lanes:
        need = f"at least {_FEWEST_CHANNELS} channels, in multiples of {machine.lanes}"
        return f"Winograd requires {need}: there are {ins} of the input, {outs} of the result"
    return outside_window(group, node)


def _plan(group: Group, node: Node, machine: Machine) -> Plan:
    outs, ins = _shape(node.inputs[1])[:2]
    wide = 8 * machine.lanes
    tile = default_tile(machine.isa, _DTYPE, outs if outs <= wide else math.gcd(outs, wide))
    filtering = MinimalFilter(machine.winograd)
    batch, height, width, _ = node.shape
    near = 4 * machine.memory.weights_bytes
    cut = TileCut(filtering, tile, (batch, height, width, outs), ins, machine.threads, near)

    def emit(body: Body) -> None:
        _Emitter(group, node, body, cut, machine.micro).run()

    return Plan(
        tasks=cut.blocks * cut.parts,
        work=cut.tiles * (2 * filtering.places * ins * outs),
        emit=emit,
        scratch_elems=cut.scratch,
        packed={node.inputs[1]: FilteredPanels(filtering, tile.n_r)},
        packed_dtypes={node.inputs[1]: _DTYPE},
        may_alias=True,
        joins=True,  # several times faster than others on many pixels, and slower on few
        knobs=WinogradKnobs(filtering.outputs),
        cost=partial(winograd_ns, cut),
        features=(cut.tiles,),
        notes={"algorithm": f"Winograd F({filtering.outputs}x{filtering.outputs}, 3x3)"},
    )


def winograd_ns(cut: TileCut, points: Points, model: CostModel) -> Values:
    """Return the nanoseconds of one serial run at each point."""
    tiles = np.asarray(evaluate(cut.tiles, points), np.float64)
    blocks = np.asarray(evaluate(cut.blocks, points), np.float64)
    products = cut.filter.places * micro_ns(
        (tiles, np.float64(cut.outs), np.float64(cut.ins)), cut.tile, model
    )
    vectors = tiles * cut.filter.places * (cut.ins * cut.parts + cut.outs) / cut.tile.lanes
    moved = np.maximum(blocks, 1) * cut.weight_bytes
    return filtered_ns(products, moved, vectors, model) + blocks * model.task_ns


@dataclass(frozen=True)
class _Block:
    """The tiles ``[first, first + count)`` of one task."""

    first: Expr
    count: Expr


class _Emitter:
    """Emits one body. Invariant: ``self.block`` is inside the loop over tasks while emitting."""

    def __init__(
        self,
        group: Group,
        node: Node,
        body: Body,
        cut: TileCut,
        kernels: MicroKernels,
    ) -> None:
        self.group, self.node, self.body, self.cut, self.kernels = group, node, body, cut, kernels
        self.low, self.block = body.low, body.block
        self.filter, self.tile, self.lanes = cut.filter, cut.tile, cut.tile.lanes
        self.data = body.buffers[node.inputs[0]]
        self.weights = body.buffers[node.inputs[1]]
        assert body.scratch is not None
        self.scratch: Buffer = body.scratch
        self.sums = self.filter.places * cut.there  # offset of the sums in scratch
        self.before = geometry(node, 2).padding[:2]

    def run(self) -> None:
        """Emit all tasks of the range.

        Consecutive tasks are blocks of tiles for the same part of the channels.
        """
        block, cut, low = self.block, self.cut, self.low
        self.grid = [bind_opaque(block, "grid", d) for d in cut.grid]
        tiles = bind_opaque(block, "tiles", product([self.node.shape[0], *self.grid]))
        blocks = bind_opaque(block, "blocks", cut.blocks)
        each = tirx.truncdiv(tiles + (blocks - 1), tirx.max(blocks, i64(1)))
        each = bind_opaque(block, "each", each)
        with low.loop("task", self.body.hi - self.body.lo, begin=self.body.lo) as task:
            part: Expr = i64(0)
            if cut.parts > 1:
                part = bind_opaque(block, "part", tirx.truncdiv(task, blocks))
            first = bind_opaque(block, "first", (task - mul(part, blocks)) * each)
            count = tirx.max(tirx.min(each, tiles - first), i64(0))
            span = _Block(first, bind_opaque(block, "count", count))
            self._there(span)
            share = -(-cut.panels // cut.parts)
            panels = tirx.min(i64(share), i64(cut.panels) - mul(part, share))
            with low.loop("p", panels if cut.parts > 1 else cut.panels) as p:
                panel = bind_opaque(block, "panel", p + mul(part, share))
                self._products(span, panel)
                self._back(span, panel)

    # --- inputs ----------------------------------------------------------------------------------

    def _there(self, span: _Block) -> None:
        """Emit the transform of the inputs of all tiles."""
        block, low, m, side = self.block, self.low, self.filter.outputs, self.filter.side
        height, width, ins = (i64(d) for d in self.node.inputs[0].shape[1:])
        counter = PlaceCounter(block, span.first, self.grid)
        with low.loop("t", span.count) as t:
            image, *at = counter.here()
            y, x = (
                bind_opaque(block, "first", a * m - before)
                for a, before in zip(at, self.before, strict=True)
            )
            source = bind_opaque(block, "source", ((image * height + y) * width + x) * ins)
            target = bind_opaque(block, "target", t * self.cut.ins)
            inside = tirx.all(y >= 0, x >= 0, y + side <= height, x + side <= width)
            step = bind_opaque(block, "line", width * ins)
            vectors = self.cut.ins // self.lanes
            inside = block.bind("inside", inside)
            with block.when(inside), low.scope(), low.loop("v", vectors) as v:
                self._tile_there(v, source, target, step, None)
            with block.otherwise(), low.scope():
                rows = [block.bind("row", _within(y + k, height)) for k in range(side)]
                columns = [block.bind("column", _within(x + k, width)) for k in range(side)]
                with low.loop("v", vectors) as v:
                    self._tile_there(v, source, target, step, (rows, columns))
            counter.advance()

    def _tile_there(
        self,
        v: Expr,
        source: Expr,
        target: Expr,
        step: Expr,
        inside: tuple[list[Expr], list[Expr]] | None,
    ) -> None:
        """Emit the transform of one vector of channels of one tile.

        ``inside`` holds the conditions that rows and columns are inside the image; None means that
        all are.
        """
        block, side, lanes = self.block, self.filter.side, self.lanes
        base = bind_opaque(block, "base", source + v * lanes)
        ins = self.cut.ins

        def read(i: int, j: int) -> Expr:
            return vload(self.data, base + step * i + j * ins, lanes)

        if inside is None:
            tile = [[block.bind("d", read(i, j)) for j in range(side)] for i in range(side)]
        else:
            tile = self._partly(read, *inside)
        made = self._both_ways(self.filter.of_input, tile)
        at = bind_opaque(block, "to", target + v * lanes)
        for place, value in enumerate(x for row in made for x in row):
            block.store(self.scratch, ramp(at + place * self.cut.there, lanes), value)

    def _partly(
        self, read: Callable[[int, int], Expr], rows: Sequence[Expr], columns: Sequence[Expr]
    ) -> list[list[Expr]]:
        """Return a tile of inputs; its elements outside the image are zero."""
        block, lanes, side = self.block, self.lanes, range(self.filter.side)
        cells = [[block.alloc("d", lanes, _DTYPE) for _ in side] for _ in side]
        zero = const(0, f"{_DTYPE}x{lanes}")
        for cell in (c for row in cells for c in row):
            block.store(cell, ramp(i64(0), lanes), zero)
        for i in side:
            with block.when(rows[i]):
                for j in side:
                    with block.when(columns[j]):
                        block.store(cells[i][j], ramp(i64(0), lanes), read(i, j))
        return [[vload(cell, 0, lanes) for cell in row] for row in cells]

    # --- matmuls ---------------------------------------------------------------------------------

    def _products(self, span: _Block, panel: Expr) -> None:
        """Emit the matmuls of all positions of a tile, for one panel of output channels."""
        block, low, cut, tile = self.block, self.low, self.cut, self.tile
        blocks = bind_opaque(block, "blocks", tirx.truncdiv(span.count + (tile.m_r - 1), tile.m_r))
        safe = bind_opaque(block, "safe", tirx.max(blocks, i64(1)))
        base = bind_opaque(block, "base_rows", tirx.truncdiv(span.count, safe))
        even = EvenBlocks(base, bind_opaque(block, "extra_rows", span.count - base * safe))
        step = bind_opaque(block, "step", tirx.truncdiv(safe + (tile.n_r - 1), safe))
        vectors = self._vectors(panel)
        counts = (tuple(range(1, tile.m_r + 1)), vector_counts(cut.outs, tile))
        run = self.kernels.dispatcher(tile, _DTYPE, *counts, KernelForm(ahead=True))
        size = cut.ins * tile.n_r
        with low.loop("place", self.filter.places) as place:
            weights = panel * (self.filter.places * size) + place * size
            weights = bind_opaque(block, "weights", weights)
            with low.loop("blk", blocks) as blk:
                row = bind_opaque(block, "row", even.start(blk))
                rows = even.height(blk)
                a = place * cut.there + row * cut.ins
                c = self.sums + place * cut.back + row * tile.n_r
                ahead = weights + size + blk * (cut.ins * step)
                places = [
                    buffer[bind_opaque(block, "at", at)]
                    for buffer, at in (
                        (self.scratch, a),
                        (self.weights, weights),
                        (self.scratch, c),
                        (self.weights, ahead),
                    )
                ]
                sizes = (cut.ins, cut.ins, tile.n_r, tile.n_r, 0, step, rows, vectors)
                call_kernel(block, run, places, sizes)

    def _vectors(self, panel: Expr) -> Expr:
        """Return the number of vectors of a panel."""
        lanes, tile = self.tile.lanes, self.tile
        left = tirx.truncdiv(i64(self.cut.outs) - panel * tile.n_r, i64(lanes))
        return bind_opaque(self.block, "vectors", tirx.min(left, i64(tile.vectors)))

    # --- outputs ---------------------------------------------------------------------------------

    def _back(self, span: _Block, panel: Expr) -> None:
        """Emit the outputs of all tiles, for one panel of channels."""
        block, low, m = self.block, self.low, self.filter.outputs
        height, width = (i64(d) for d in self.node.shape[1:3])
        vectors = self._vectors(panel)
        counter = PlaceCounter(block, span.first, self.grid)
        with low.loop("t", span.count) as t:
            image, *at = counter.here()
            y, x = (bind_opaque(block, "first", a * m) for a in at)
            rows = [block.bind("row", y + k < height) for k in range(m)]
            columns = [block.bind("column", x + k < width) for k in range(m)]
            with low.loop("v", vectors) as v:
                source = self.sums + t * self.tile.n_r + v * self.lanes
                outputs = self._tile_back(bind_opaque(block, "source", source))
                first = panel * self.tile.n_r + v * self.lanes
                channel = bind_opaque(block, "channel", first)
                for i in range(m):
                    with block.when(rows[i]):
                        for j in range(m):
                            with block.when(columns[j]), low.scope():
                                self._store(outputs[i][j], [image, y + i, x + j], channel)
            counter.advance()

    def _tile_back(self, source: Expr) -> list[list[Expr]]:
        """Return the outputs of one tile for one vector of channels, transformed from its sums."""
        side, cut = self.filter.side, self.cut
        tile = [
            [
                self.block.bind(
                    "s", vload(self.scratch, source + (i * side + j) * cut.back, self.lanes)
                )
                for j in range(side)
            ]
            for i in range(side)
        ]
        return self._both_ways(self.filter.of_output, tile)

    def _store(self, value: Expr, pixel: list[Expr], channel: Expr) -> None:
        """Emit the epilogue and stores of one output pixel's channels."""
        node = self.node
        index = [*pixel, ramp(channel, self.lanes)]
        line = pixel[0] * i64(node.shape[1]) + pixel[1]
        flat = mul(line * i64(node.shape[2]) + pixel[2], node.shape[3]) + channel
        store_outputs(self.group, self.body, node, value, index, ramp(flat, self.lanes))

    def _both_ways(
        self, matrix: Sequence[Sequence[Fraction]], tile: Sequence[Sequence[Expr]]
    ) -> list[list[Expr]]:
        """Return ``matrix @ tile @ matrix.T``."""
        columns = [[self._sum(row, column) for row in matrix] for column in zip(*tile, strict=True)]
        lines = list(zip(*columns, strict=True))
        return [[self._sum(row, line) for row in matrix] for line in lines]

    def _sum(self, factors: Sequence[Fraction], values: Sequence[Expr]) -> Expr:
        """Return the sum of values times factors; most factors are 0 or 1."""
        terms = sorted(
            ((f, v) for f, v in zip(factors, values, strict=True) if f),
            key=lambda term: (abs(term[0]) != 1, term[0] < 0),
        )
        (factor, value), *rest = terms
        total = value if factor == 1 else value * self._factor(factor)
        for factor, value in rest:
            if abs(factor) == 1:
                total = total + value if factor > 0 else total - value
            else:
                total = value * self._factor(factor) + total
        return self.block.bind("t", total)

    def _factor(self, factor: Fraction) -> Expr:
        return const(float(factor), f"{_DTYPE}x{self.lanes}")


def _within(at: Expr, extent: Expr) -> Expr:
    return tirx.And(at >= 0, at < extent)


__all__ = ["FAMILY", "TileCut", "WinogradKnobs", "plan_winograd"]
