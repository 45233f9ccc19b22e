"""Channels-last convolutions as GEMMs: rows are pixels, columns are channels.

The result has the layout of a matmul's result. A convolution of one tap reads the input as a
matrix without a copy. With more taps, a row of A is the window of one output pixel. The template
copies one block of rows and of K at a time from contiguous pieces; a piece contains the taps in one
row of an image with all their channels (im2row; an indirect convolution, Dukhan 2019, would use
pointers instead). Pixels outside the image are zero, or the zero point of a quantized input.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from tvm import tirx

from tvm_disc.graph.nodes import Node, static_dim, zero_point
from tvm_disc.schedules.conv.contraction import geometry, read_inside
from tvm_disc.schedules.conv.places import PlaceCounter
from tvm_disc.schedules.gemm.integer import NumbersOfA
from tvm_disc.schedules.gemm.layouts import PanelsOfB, QuadsOfB
from tvm_disc.schedules.gemm.micro_kernel import bind_opaque, vload, vstore
from tvm_disc.schedules.gemm.pack import cast, copy_contiguous
from tvm_disc.schedules.gemm.partition import GemmSpec
from tvm_disc.schedules.gemm.view import exact_dot
from tvm_disc.schedules.group import Body, Group
from tvm_disc.schedules.lowering import Lowering
from tvm_disc.schedules.packing import Array, Form, Packing
from tvm_disc.target.dots import DOTS
from tvm_disc.tir.builder import Block, const, i64
from tvm_disc.tir.index import add, mul, product
from tvm_disc.typing import Buffer, Expr, Size

_FEW_PIECES = 8  # the loop over the pieces of a pixel is unrolled up to this number
_SHORT = 8  # the copy of a piece is unrolled up to this many vectors


@dataclass(frozen=True)
class FilterPanels:
    """Layout of weights ``w[out, in / groups, taps...]``: for each group, the matrix ``[K, out /
    groups]`` as panels.

    K runs over the taps, then the input channels. ``panels`` is the layout of each matrix.
    """

    panels: PanelsOfB | QuadsOfB
    groups: int

    def form(self, shape: tuple[int, ...], dtype: str) -> Form:
        """Return the shape and element type of packed weights."""
        outs, depth = shape[0] // self.groups, math.prod(shape[1:])
        (panels, *rest), kept = self.panels.form((depth, outs), dtype)
        return (self.groups * panels, *rest), kept

    def write(self, array: Array, out: Array) -> None:
        """Pack weights into ``out``, which is zero-initialized."""
        outs, panels = len(array) // self.groups, len(out) // self.groups
        for g in range(self.groups):
            own = array[g * outs : (g + 1) * outs].reshape(outs, array.shape[1], -1)
            matrix = own.transpose(2, 1, 0).reshape(-1, outs)
            self.panels.write(matrix, out[g * panels : (g + 1) * panels])


@dataclass
class PixelView:
    """Index maps of out[pixel, channel] = sum over (taps, in) of window[pixel, (taps, in)] *
    weight.

    The batch of the GEMM is the groups of channels. The shape of the weights must be literal.
    """

    group: Group
    node: Node
    dots: tuple[str, ...] = ()
    operands: ClassVar[tuple[str, str]] = ("input", "weights")

    def __post_init__(self) -> None:
        shape = [static_dim(d) for d in self.node.inputs[1].shape]
        outs, self.channels, *taps = (int(d or 0) for d in shape)
        self.taps = tuple(taps)
        self.groups = int(self.node.attrs["groups"])
        self.all_outs, self.outs = outs, outs // self.groups
        self.dot, self.data, self.zero = self._bytes() or ("", self.node.inputs[0], 0)

    def _bytes(self) -> tuple[str, Node, int] | None:
        """Return (dot instruction, its input of bytes, zero point of the input), or None."""
        data, weight = self.node.inputs
        found = zero_point(data) if data in self.group.nodes else None
        numbers, zero = found or (data, 0)
        dot = exact_dot(numbers.dtype, weight.dtype, self.dots)
        whole = numbers in self.group.params and weight in self.group.constants
        return (dot, numbers, zero) if dot and whole and self.groups == 1 else None

    @property
    def numbers(self) -> NumbersOfA | None:
        """Return the form of A for a dot instruction; None if there is no dot instruction."""
        return NumbersOfA(self.data.dtype, DOTS[self.dot].per) if self.dot else None

    @property
    def outside(self) -> int:
        """Return the value of elements of A outside of the image."""
        return self.zero + (self.numbers.added if self.numbers else 0)

    @property
    def sizes(self) -> tuple[Size, Size, Size, Size]:
        rows = product(self.node.shape[:-1])
        return i64(self.groups), rows, i64(self.outs), i64(math.prod(self.taps) * self.channels)

    @property
    def run(self) -> int:
        """Return the number of taps of the last axis that are contiguous with their channels."""
        together = self.groups == 1 and geometry(self.node, len(self.taps)).dilation[-1] == 1
        return self.taps[-1] if together else 1

    @property
    def row_stride(self) -> Size:
        return self.all_outs

    def refined(self, spec: GemmSpec) -> GemmSpec:
        if self.dot:
            return replace(spec, dot=self.dot, dtype=self.data.dtype)
        return replace(spec, b=replace(spec.b, matrices=int(self.groups == 1)))

    def fills(self, body: Body) -> dict[str, Callable[..., None]]:
        data = body.buffers.get(self.data)
        return {} if data is None else {"A": RowPieces(self, data).fill}

    def starts_aligned(self, lanes: int) -> bool:
        return True

    def index(self, low: Lowering, g: Expr, i: Expr, j: Expr) -> list[Expr]:
        """Return the output index of element (g, i, j)."""
        return [*low.space.split(i, self.node.shape[:-1]), self._column(g, j)]

    def flat(self, g: Expr, i: Expr, j: Expr) -> Expr:
        """Return the row-major offset of element (g, i, j)."""
        return add(mul(i64(i), self.all_outs), self._column(g, j))

    def _column(self, g: Expr, j: Expr) -> Expr:
        return j if self.groups == 1 else add(mul(i64(g), self.outs), j)

    def _channel(self, g: Expr, c: Expr) -> Expr:
        return c if self.groups == 1 else add(mul(i64(g), self.channels), c)

    def a_at(self, low: Lowering, g: Expr, i: Expr, k: Expr) -> Expr:
        """Return element (i, k) of A of group ``g``; with ``dot``, the byte as it is in memory."""
        data = self.data
        image, *at = low.space.split(i, self.node.shape[:-1])
        *taps, c = low.space.split(k, [*map(i64, self.taps), i64(self.channels)])
        geo = geometry(self.node, len(self.taps))
        where, inside = geo.source(data.shape[1:-1], at, taps)
        source = [image, *where, self._channel(g, c)]
        return read_inside(low, data, source, inside, tirx.const(self.zero, data.dtype))

    def b_at(self, low: Lowering, g: Expr, k: Expr, j: Expr) -> Expr:
        """Return element (k, j) of the weights of group ``g``."""
        *taps, c = low.space.split(k, [*map(i64, self.taps), i64(self.channels)])
        return low.at(self.node.inputs[1], [self._column(g, j), c, *taps])

    def packed(self, tile: Any) -> dict[str, tuple[Node, Packing]]:
        """Return constant weights packed as panels."""
        weight = self.node.inputs[1]
        if weight not in self.group.constants:
            return {}
        panels: PanelsOfB | QuadsOfB = PanelsOfB(tile.n_r, tile.lanes)
        if self.numbers is not None:
            panels = QuadsOfB(tile.n_r, tile.lanes, self.numbers.per, self.outside)
        return {"B": (weight, FilterPanels(panels, self.groups))}


@dataclass(frozen=True)
class RowPieces:
    """The window of one output pixel, as contiguous pieces of the compact input ``data``.

    A piece is ``view.run`` taps of the last axis, each with the channels of a group. ``outer`` is
    the number of pieces along each axis of taps.
    """

    view: PixelView
    data: Buffer

    @property
    def outer(self) -> tuple[int, ...]:
        """Return the number of pieces along each axis of taps."""
        *lead, last = self.view.taps
        return (*lead, last // self.view.run)

    def fill(
        self,
        block: Block,
        g: Expr,
        i_rows: tuple[Size, Size],
        k_block: tuple[Size, Size],
        target: tuple[Buffer, Size, Size, str, int],
    ) -> None:
        """Fill ``target`` with rows ``(first, count)`` and columns ``(first, count)`` of A.

        ``target`` is (buffer, offset, row stride, dtype, lanes).
        """
        row0, rows = i_rows
        places = self.view.node.shape[1:-1]
        counter = PlaceCounter(block, row0, places)
        with block.loop("i", rows) as i:
            image, *at = counter.here()
            to = bind_opaque(block, "to", target[1] + i * target[2])
            self._row(block, g, (image, at), k_block, (target[0], to, *target[3:]))
            counter.advance()

    def _row(
        self,
        block: Block,
        g: Expr,
        pixel: tuple[Size, Sequence[Size]],
        k_block: tuple[Size, Size],
        target: tuple[Buffer, Size, str, int],
    ) -> None:
        """Emit columns ``k_block``, as (first, count), of the row of A of one pixel."""
        k0, depth = k_block
        length, pieces = self.view.run * self.view.channels, math.prod(self.outer)
        if static_dim(k0) == 0 and static_dim(depth) == length * pieces:
            # If the block covers all of K, the columns of the pieces are known, and a loop over a
            # few pieces is unrolled.
            span = (i64(0), i64(length))
            if pieces <= _FEW_PIECES:
                for number in range(pieces):
                    start = i64(number * length)
                    self._piece(block, g, pixel, i64(number), (start, *span), target)
                return
            with block.loop("piece", pieces) as piece:
                start = bind_opaque(block, "start", piece * length)
                self._piece(block, g, pixel, piece, (start, *span), target)
            return
        first = bind_opaque(block, "first_piece", tirx.truncdiv(k0, i64(length)))
        last = tirx.truncdiv(k0 + depth + (length - 1), i64(length))
        with block.loop("piece", last - first, begin=first) as piece:
            start = bind_opaque(block, "start", piece * length - k0)
            begin = bind_opaque(block, "begin", tirx.max(i64(0) - start, i64(0)))
            end = bind_opaque(block, "end", tirx.min(depth - start, i64(length)))
            self._piece(block, g, pixel, piece, (start, begin, end), target)

    def _piece(
        self,
        block: Block,
        g: Expr,
        pixel: tuple[Size, Sequence[Size]],
        piece: Size,
        span: tuple[Size, Size, Size],
        target: tuple[Buffer, Size, str, int],
    ) -> None:
        """Emit elements ``[begin, end)`` of a piece whose element 0 is column ``start``."""
        view, (image, at) = self.view, pixel
        geo = geometry(view.node, len(view.taps))
        extents = view.node.inputs[0].shape[1:-1]
        start, begin, end = span
        taps = self._taps(block, piece)
        line: Size = image
        inside: Expr = tirx.IntImm("bool", 1)
        for d in range(len(taps) - 1):
            where = at[d] * geo.strides[d] + (mul(taps[d], geo.dilation[d]) - geo.padding[d])
            where = bind_opaque(block, "where", where)
            if geo.padding[d] or geo.padding[d + len(taps)]:
                inside = tirx.And(inside, tirx.And(where >= 0, where < i64(extents[d])))
            line = line * i64(extents[d]) + where
        last = mul(at[-1], geo.strides[-1]) + (
            mul(taps[-1] if view.run == 1 else i64(0), geo.dilation[-1])
            - geo.padding[len(taps) - 1]
        )
        last = bind_opaque(block, "last", last)
        width = view.channels * view.groups
        source = bind_opaque(block, "source", (line * i64(extents[-1]) + last) * width)
        if view.groups > 1:
            source = bind_opaque(block, "source", source + g * view.channels)
        buffer, to, dtype, lanes = target
        to = bind_opaque(block, "piece_to", to + start)
        low, high = begin, end
        if geo.padding[len(taps) - 1] or geo.padding[-1]:
            outside = tirx.max(i64(0) - last, i64(0)) * view.channels
            reach = tirx.min(i64(extents[-1]) - last, i64(view.run)) * view.channels
            low = bind_opaque(block, "low", tirx.min(tirx.max(outside, begin), end))
            high = bind_opaque(block, "high", tirx.max(tirx.min(reach, end), low))
        if any(geo.padding[d] or geo.padding[d + len(taps)] for d in range(len(taps) - 1)):
            high = bind_opaque(block, "high", tirx.Select(inside, high, low))
        length = static_dim(end) if static_dim(begin) == 0 else None
        short = length is not None and length <= _SHORT * lanes
        if short and length is not None:
            whole = tirx.EQ(high - low, i64(length))
            with block.when(whole):
                self._copy_short(block, source, (buffer, to, dtype, lanes), length)
        with block.otherwise() if short else nullcontext():
            self._zero(block, buffer, to, (begin, low), dtype)
            copy_contiguous(
                block,
                bind_opaque(block, "copied", high - low),
                lanes,
                lambda e, w: self._load(source + low + e, dtype, w),
                (buffer, to + low, dtype),
            )
            self._zero(block, buffer, to, (high, end), dtype)

    def _copy_short(
        self, block: Block, source: Expr, target: tuple[Buffer, Size, str, int], length: int
    ) -> None:
        """Emit the copy of a piece of a few vectors; the last one may overlap the previous."""
        buffer, to, dtype, lanes = target
        width = lanes
        while width > length:
            width //= 2
        starts = [*range(0, length - width, width), length - width]
        for at in starts:
            vstore(block, buffer, to + at, width, self._load(source + at, dtype, width))

    def _load(self, at: Expr, dtype: str, lanes: int) -> Expr:
        """Return ``lanes`` elements of the input, converted to elements of A."""
        value, numbers = vload(self.data, at, lanes), self.view.numbers
        return cast(value, dtype, lanes) if numbers is None else numbers.of(value, lanes)

    def _taps(self, block: Block, piece: Size) -> list[Expr]:
        """Return the first tap of a piece along each axis."""
        taps: list[Expr] = []
        for size in reversed(self.outer):
            if size == 1:
                taps.insert(0, i64(0))
                continue
            rest = bind_opaque(block, "rest", tirx.truncdiv(piece, i64(size)))
            taps.insert(0, piece - rest * size)
            piece = rest
        return taps

    def _zero(
        self, block: Block, buffer: Buffer, to: Expr, span: tuple[Size, Size], dtype: str
    ) -> None:
        with block.loop("z", span[1] - span[0], begin=span[0]) as z:
            block.store(buffer, to + z, const(self.view.outside, dtype))
