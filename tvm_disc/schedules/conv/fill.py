"""Filling of im2col panels with vector loads and stores.

The columns of a panel are divided into runs. A run contains the columns that are adjacent pixels of
one output row of one image. For each tap and input channel, the run is copied from a contiguous
part of an input row. Masks select the lanes inside the input. They are computed once for all
channels, so padding requires no copy of the input and no test per element. With a stride of two,
two vectors are read and every other lane is kept. For a pointwise convolution, a whole image is
treated as one row.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from typing import Any

from tvm import tirx

from tvm_disc.graph.nodes import Node, static_dim
from tvm_disc.schedules.conv.contraction import WindowGeometry, geometry
from tvm_disc.schedules.gemm.micro_kernel import bind_opaque, vstore
from tvm_disc.schedules.gemm.pack import cast
from tvm_disc.schedules.lowering import Lowering
from tvm_disc.tir.builder import Block, const, first_lanes, i64, masked_load
from tvm_disc.tir.index import add, mul, product
from tvm_disc.typing import Buffer, Expr, Size

_MOST_STRIDE = 2


def can_fill(node: Node) -> bool:
    """Return whether :class:`PanelFill` supports the stride of a convolution."""
    rank = len(node.shape) - 2
    return geometry(node, rank).strides[-1] <= _MOST_STRIDE


def literal_dims(dims: Sequence[Expr]) -> list[int]:
    """Return the literal dims as Python ints; others are omitted."""
    known = [static_dim(d) for d in dims]
    return [d for d in known if d is not None]


@dataclass(frozen=True)
class Panel:
    """The destination of the columns: row k of the block of channels is at ``at + k * width``.

    ``vectors`` is the number of vectors in a row of the widest panel.
    """

    columns: Expr
    buffer: Buffer
    at: Size
    width: Size
    vectors: int
    lanes: int
    dtype: str


@dataclass(frozen=True)
class Source:
    """The compact input of a convolution: its spatial dims, those of the result, and the taps.

    ``lead`` is the number of outer rows of taps if a panel may skip rows of taps at either end; the
    rows of a panel are then ordered by row of taps, then by channel. If ``lead`` is 1, they are
    ordered by channel first.
    """

    data: Buffer
    groups: int
    channels: int
    extents: tuple[Any, ...]
    pixels: tuple[Any, ...]
    taps: tuple[int, ...]
    window: WindowGeometry
    lead: int = 1

    @staticmethod
    def of(node: Node, data: Buffer, groups: int, lead: int) -> Source:
        """Return the input of a convolution; for a pointwise one, spatial dims are merged."""
        rank = len(node.shape) - 2
        geo = geometry(node, rank)
        channels, *taps = literal_dims(node.inputs[1].shape[1:])
        extents, pixels = tuple(node.inputs[0].shape[2:]), tuple(node.shape[2:])
        plain = all(t == 1 for t in taps) and all(s == 1 for s in geo.strides)
        if plain and not any(geo.padding):
            one = (product(extents),)
            geo = WindowGeometry((1,), (0, 0), (1,))
            return Source(data, groups, channels, one, one, (1,), geo)
        return Source(data, groups, channels, extents, pixels, tuple(taps), geo, lead)

    @property
    def dense(self) -> bool:
        """Return whether a column is one input pixel: one tap and no padding."""
        return len(self.taps) == 1 and self.taps[0] == 1 and not any(self.window.padding)

    @property
    def inner(self) -> int:
        """Return the number of taps in each outer row of taps."""
        return math.prod(self.taps) // self.lead

    @property
    def plane(self) -> Expr:
        """Return the number of elements of one channel of one image."""
        return product(self.extents)


class PanelFill:
    """Emits code that fills one panel for the outer rows of taps ``taps``, as (first, count)."""

    def __init__(
        self, source: Source, low: Lowering, block: Block, panel: Panel, taps: tuple[Size, Size]
    ) -> None:
        self.source, self.low, self.b, self.panel, self.taps = source, low, block, panel, taps

    def emit(
        self,
        place: tuple[Size, Size],
        group: Size,
        channels: tuple[Size, Size],
        lines: tuple[Size, Size],
    ) -> None:
        """Emit the panel rows of ``channels``, given as (first, count).

        The first column is the pixel ``place``, given as (image, pixel). The following columns are
        pixels in the rows ``lines``, as [begin, end), of that image and of the next ones.
        """
        b, source, panel = self.b, self.source, self.panel
        image, pixel = place
        self._clear_last(channels[1])
        width = bind_opaque(b, "width", tirx.max(i64(source.pixels[-1]), i64(1)))
        first_line, end_line = (bind_opaque(b, "end_line", line) for line in lines)
        names = ("filled_at", "image_at", "line_at", "start_at")
        filled_at, image_at, line_at, start_at = cells = [b.alloc(n, 1, "int64") for n in names]
        line = i64(0)
        if len(source.pixels) > 1:
            line = bind_opaque(b, "line", tirx.truncdiv(i64(pixel), width))
        for cell, value in zip(cells, (i64(0), image, line, pixel - line * width), strict=True):
            b.store(cell, 0, value)
        zero = i64(0)
        with b.loop_while(filled_at[zero] < panel.columns), self.low.scope():
            image, row = b.bind("image", image_at[zero]), b.bind("row", line_at[zero])
            start, filled = b.bind("start", start_at[zero]), b.bind("filled", filled_at[zero])
            run = bind_opaque(b, "run", tirx.min(width - start, panel.columns - filled))
            where = list(self.low.space.split(row, source.pixels[:-1]))
            self.low.resolve(where)
            lead = bind_opaque(b, "lead", add(mul(image, source.groups), group))
            lead = bind_opaque(b, "lead", lead * source.channels + channels[0])
            self._run(lead, (where, start, filled, run), channels[1])
            last = bind_opaque(b, "last", tirx.Select(row + 1 >= end_line, i64(1), i64(0)))
            b.store(filled_at, 0, filled + run)
            b.store(image_at, 0, image + last)
            b.store(line_at, 0, tirx.Select(last > 0, first_line, row + 1))
            b.store(start_at, 0, zero)

    def _clear_last(self, channels: Size) -> None:
        """Emit stores of zeros to the last vector of each row if it is partial.

        Kernels read its lanes after the last column. The stores of the columns follow.
        """
        b, panel = self.b, self.panel
        rows = channels * self.source.inner * self.taps[1]
        whole = bind_opaque(b, "whole", tirx.truncdiv(i64(panel.columns), i64(panel.lanes)))
        done = whole * panel.lanes
        with b.when(done < i64(panel.columns)), b.loop("zk", rows) as k:
            zero = const(0, f"{panel.dtype}x{panel.lanes}")
            vstore(b, panel.buffer, panel.at + k * panel.width + done, panel.lanes, zero)

    def _run(
        self, lead: Expr, run: tuple[Sequence[Size], Size, Size, Size], channels: Size
    ) -> None:
        """Emit all taps and channels of a run: (index of its output row, first pixel in the row,
        first column in the panel, length).
        """
        b, source, panel = self.b, self.source, self.panel
        where, start, filled, length = run
        geo, rank = source.window, len(source.taps)
        extents: list[Size] = [*source.taps]
        begins: list[Size] = [i64(0)] * rank
        if source.lead > 1:
            extents[0], begins[0] = self.taps[1], self.taps[0]
        with ExitStack() as stack:
            k = [stack.enter_context(b.loop(f"tap{d}", extents[d], begins[d])) for d in range(rank)]
            inside: Expr = tirx.IntImm("bool", 1)
            line: Expr = lead
            for d in range(rank - 1):
                at = add(mul(where[d], geo.strides[d]), mul(k[d], geo.dilation[d]))
                at = bind_opaque(b, "at", at - geo.padding[d])
                inside = tirx.And(inside, tirx.And(at >= 0, at < i64(source.extents[d])))
                line = line * i64(source.extents[d]) + at
            first = add(mul(start, geo.strides[-1]), mul(k[-1], geo.dilation[-1]))
            first = bind_opaque(b, "first", first - geo.padding[rank - 1])
            extent = i64(source.extents[-1])
            limit = bind_opaque(b, "limit", tirx.Select(inside, extent, i64(0)))
            base = bind_opaque(b, "base", line * extent + first)
            tap = self._first_row(k, channels)
            place, part = (base, tap, filled), (first, limit, length)
            vectors = bind_opaque(
                b, "vectors", tirx.truncdiv(length + (panel.lanes - 1), i64(panel.lanes))
            )
            most = panel.vectors
            each: AbstractContextManager[None] = nullcontext()
            # with a stride, each vector has several masks, too many for the mask registers
            if geo.strides[-1] == 1 and most > 1:
                with b.when(vectors == most):  # one pass over each input row
                    every = [i64(v) for v in range(most)]
                    self._vectors(every, place, part, channels, most * panel.lanes)
                each = b.otherwise()
            with each, b.loop("v", vectors) as v:
                self._vectors([v], place, part, channels, panel.width)

    def _vectors(
        self,
        vectors: list[Expr],
        place: tuple[Size, Size, Size],
        part: tuple[Size, Size, Size],
        channels: Size,
        width: Size,
    ) -> None:
        """Emit vectors of a run for every channel; ``width`` is the panel's row stride."""
        b, source, panel = self.b, self.source, self.panel
        base, tap, filled = place
        to = bind_opaque(b, "to", panel.at + tap * width + filled)
        lanes, stride = panel.lanes, source.window.strides[-1]
        masks = [self._masks(v, part) for v in vectors]
        plane = bind_opaque(b, "plane", source.plane)
        step = bind_opaque(b, "step", i64(source.inner * width))
        picks = [tirx.IntImm("int32", lane * stride) for lane in range(lanes)]
        with b.loop("c", channels) as c:
            at, put = base + c * plane, to + c * step
            for v, (inside, keep) in zip(vectors, masks, strict=True):
                begin = at + v * (lanes * stride)
                loads = [masked_load(source.data, begin + s * lanes, m)
                         for s, m in enumerate(inside)]  # fmt: skip
                value = loads[0] if stride == 1 else tirx.Shuffle(loads, picks)
                value = cast(value, panel.dtype, lanes)
                b.masked_store(panel.buffer, put + v * lanes, value, keep)

    def _first_row(self, k: Sequence[Expr], channels: Size) -> Expr:
        """Return the panel row of tap ``k`` of the first channel."""
        source = self.source
        if source.lead == 1:
            return _position(k, source.taps)
        before = (k[0] - self.taps[0]) * channels * source.inner
        return bind_opaque(self.b, "tap_row", before + _position(k[1:], source.taps[1:]))

    def _masks(self, v: Expr, part: tuple[Size, Size, Size]) -> tuple[list[Expr], Expr]:
        """Return the masks of vector ``v``.

        Returns:
            One mask for each load, with the lanes that are inside the input; and the mask of the
            store, with the lanes that are inside the run.
        """
        b, lanes = self.b, self.panel.lanes
        first, limit, length = part
        position = bind_opaque(b, "position", first + v * (lanes * self.source.window.strides[-1]))
        inside = []
        for s in range(self.source.window.strides[-1]):
            ahead = position + s * lanes
            below = first_lanes(tirx.max(i64(0) - ahead, i64(0)), lanes)
            upto = first_lanes(tirx.max(limit - ahead, i64(0)), lanes)
            inside.append(b.bind("inside", tirx.And(upto, tirx.Not(below))))
        return inside, b.bind("keep", first_lanes(length - v * lanes, lanes))


def _position(index: Sequence[Expr], dims: Sequence[Any]) -> Expr:
    """Return the row-major position of ``index`` in literal ``dims``."""
    result: Expr = i64(0)
    for i, d in zip(index, dims, strict=True):
        result = result * int(d) + i
    return result
