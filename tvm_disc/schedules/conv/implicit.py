"""Convolutions as implicit GEMMs: rows are output channels, columns are output pixels.

Only the panels of the im2col matrix that a task reads exist at a time. A panel row is filled run by
run, where a run contains the columns in one row of output pixels. The part of a run inside the
input is copied with the convolution's stride, and the rest is set to zero. No pixel needs a
division or a test.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

from tvm import tirx

from tvm_disc.graph.nodes import Node, static_dim
from tvm_disc.schedules.conv.contraction import geometry, read_inside
from tvm_disc.schedules.conv.fill import can_fill, literal_dims
from tvm_disc.schedules.conv.macro_kernel import ConvWeights
from tvm_disc.schedules.conv.window import valid_range
from tvm_disc.schedules.conv.zones import lead_taps
from tvm_disc.schedules.gemm.layouts import RowsOfA
from tvm_disc.schedules.gemm.pack import cast
from tvm_disc.schedules.gemm.partition import GemmSpec
from tvm_disc.schedules.group import Body, Group
from tvm_disc.schedules.loops.reducers import accumulator
from tvm_disc.schedules.lowering import Lowering
from tvm_disc.schedules.packing import Packing
from tvm_disc.tir.builder import Block, const, i64
from tvm_disc.tir.index import add, mul, product
from tvm_disc.typing import Buffer, Expr, Size


@dataclass
class ConvView:
    """Index maps of out[n, oc, pixel] = sum over (ic, taps) of weight[oc, (ic, taps)] * window.

    The batch of the GEMM is (image, group). The channels of one group are adjacent, in input and
    output.
    """

    group: Group
    node: Node
    operands: ClassVar[tuple[str, str]] = ("weights", "input")

    @property
    def sizes(self) -> tuple[Size, Size, Size, Size]:
        weight = self.node.inputs[1]
        pixels, batch = product(self.node.shape[2:]), mul(self.node.shape[0], self.groups)
        channels = i64(literal_dims([weight.shape[0]])[0] // self.groups)
        return batch, channels, pixels, product(weight.shape[1:])

    @property
    def row_stride(self) -> Size:
        return self.sizes[2]

    @property
    def groups(self) -> int:
        """Return the number of channel groups."""
        return int(self.node.attrs["groups"])

    def refined(self, spec: GemmSpec) -> GemmSpec:
        return replace(spec, a=replace(spec.a, matrices=self.groups))

    def fills(self, body: Body) -> dict[str, Callable[..., None]]:
        def fill(
            block: Block, g: Size, k: Size, span: tuple[Size, Size], target: tuple[Buffer, Size]
        ) -> None:
            with body.low.inside(block):
                self._fill(body.low, (i64(g), i64(k)), span, target)

        return {"B": fill}

    def starts_aligned(self, lanes: int) -> bool:
        """Return whether rows of the image consist of full vectors.

        If they do not, a panel that spans several images may start anywhere in an image.
        """
        row = static_dim(self.node.shape[-1])
        return row is not None and row % lanes == 0

    def _split(self, g: Expr, channel: Expr, per_group: Size) -> tuple[Expr, Expr]:
        """Return (image, channel in the image) of ``channel`` in batch item ``g``."""
        if self.groups == 1:
            return g, channel
        image = tirx.floordiv(i64(g), i64(self.groups))
        return image, add(mul(g - image * self.groups, per_group), channel)

    def index(self, low: Lowering, g: Expr, i: Expr, j: Expr) -> list[Expr]:
        image, channel = self._split(g, i, self.sizes[1])
        return [image, channel, *low.space.split(j, self.node.shape[2:])]

    def flat(self, g: Expr, i: Expr, j: Expr) -> Expr:
        _, channels, pixels, _ = self.sizes
        return add((i64(g) * i64(channels) + i) * i64(pixels), j)

    def a_at(self, low: Lowering, g: Expr, i: Expr, k: Expr) -> Expr:
        weight = self.node.inputs[1]
        _, channel = self._split(g, i, self.sizes[1])
        return low.at(weight, [channel, *low.space.split(k, weight.shape[1:])])

    def b_at(self, low: Lowering, g: Expr, k: Expr, j: Expr) -> Expr:
        """Return element (k, j) of the im2col matrix of batch item ``g``, an image and group."""
        data, weight = self.node.inputs
        rank = len(data.shape) - 2
        channel, *taps = low.space.split(k, weight.shape[1:])
        at = low.space.split(j, self.node.shape[2:])
        where, inside = geometry(self.node, rank).source(data.shape[2:], at, taps)
        source = [*self._split(g, channel, weight.shape[1]), *where]
        return read_inside(low, data, source, inside, tirx.const(0, data.dtype))

    def packed(self, tile: object) -> dict[str, tuple[Node, Packing]]:
        del tile
        weight = self.node.inputs[1]
        if weight not in self.group.constants:
            return {}
        return {"A": (weight, RowsOfA(accumulator(self.node.dtype)))}

    def weights(self, dtype: str) -> dict[Node, Packing] | None:
        """Return how :class:`.macro_kernel.ConvBody` packs its weights; None if it cannot be used.

        The result is empty if the weights are read unpacked. The body requires a stride that
        :func:`.fill.can_fill` accepts, an input that is not computed in the group, and non-empty
        weights that are constant or of type ``dtype`` in memory.
        """
        data, weight = self.node.inputs
        if data not in self.group.params or not can_fill(self.node):
            return None
        if 0 in literal_dims(weight.shape):
            return None
        if weight in self.group.constants:
            lead = lead_taps(self.node)
            return {weight: ConvWeights(self.groups, dtype, lead)}
        return {} if weight in self.group.params and weight.dtype == dtype else None

    def _fill(
        self,
        low: Lowering,
        row_of: tuple[Expr, Expr],
        span: tuple[Size, Size],
        into: tuple[Buffer, Size],
    ) -> None:
        """Write the columns ``span``, (first, count), of row k of the im2col matrix of item g.

        ``row_of`` is (g, k), and ``into`` the buffer and the offset of the first column.
        """
        block, (g, k), (j0, columns), (target, at) = low.block, row_of, span, into
        rank = len(self.node.shape) - 2
        width = i64(self.node.shape[-1])
        weight = self.node.inputs[1]
        index = low.space.split(k, weight.shape[1:])
        low.resolve(index)
        channel, *taps = index
        done, line = block.alloc("done", 1, "int64"), block.alloc("line", 1, "int64")
        start = block.alloc("start", 1, "int64")
        safe = tirx.max(width, i64(1))
        block.store(done, 0, i64(0))
        block.store(line, 0, tirx.floordiv(i64(j0), safe))
        block.store(start, 0, tirx.floormod(i64(j0), safe))
        first, last = valid_range(self.node, taps[-1], rank)
        first, last = block.bind("first", first), block.bind("last", last)
        with block.loop_while(done[i64(0)] < i64(columns)), low.scope():
            row = block.bind("row", line[i64(0)])
            ow = block.bind("ow", start[i64(0)])
            filled = block.bind("filled", done[i64(0)])
            run = block.bind("run", tirx.min(width - ow, i64(columns) - filled))
            where = [*low.space.split(row, self.node.shape[2:-1])] if rank > 1 else []
            inside, source = self._line(low, where, taps)
            a, z = tirx.max(first, ow), tirx.min(last, ow + run)
            a = block.bind("a", tirx.Select(inside, tirx.min(a, ow + run), ow + run))
            z = block.bind("z", tirx.max(tirx.Select(inside, z, a), a))
            base = block.bind("base", i64(at) + filled - ow)
            self._zero(block, target, base, ow, a)
            with low.loop("x", z - a, begin=a) as x:
                stride, shift = self._last(taps[-1])
                position = add(mul(x, stride), shift)
                lead = self._split(g, channel, weight.shape[1])
                value = low.at(self.node.inputs[0], [*lead, *source, position])
                low.resolve([value])
                block.store(target, base + x, cast(value, str(target.dtype)))
            self._zero(block, target, base, z, ow + run)
            block.store(done, 0, filled + run)
            block.store(line, 0, row + 1)
            block.store(start, 0, i64(0))

    def _zero(self, block: Block, target: Buffer, base: Expr, begin: Expr, end: Expr) -> None:
        with block.loop("o", end - begin, begin=begin) as o:
            block.store(target, base + o, const(0, str(target.dtype)))

    def _last(self, tap: Expr) -> tuple[int, Expr]:
        geo = geometry(self.node, len(self.node.shape) - 2)
        last = len(geo.strides) - 1
        return geo.strides[last], mul(tap, geo.dilation[last]) - geo.padding[last]

    def _line(self, low: Lowering, where: list[Expr], taps: list[Expr]) -> tuple[Expr, list[Expr]]:
        """Return whether a row of taps is inside the input, and its leading spatial indices."""
        data = self.node.inputs[0]
        geo = geometry(self.node, len(self.node.shape) - 2)
        inside: Expr = tirx.IntImm("bool", 1)
        source: list[Expr] = []
        for d, position in enumerate(where):
            at = add(mul(position, geo.strides[d]), mul(taps[d], geo.dilation[d])) - geo.padding[d]
            at = low.settle("line", at)
            source.append(at)
            inside = tirx.And(inside, tirx.And(at >= 0, at < i64(data.shape[2 + d])))
        return low.settle("inside", inside), source
