"""Operands of tiles: matmuls, and convolutions as implicit GEMMs.

``i`` are rows of A, ``j`` columns of B, ``k`` is the summed dim, ``g`` the batch item. The position
of one of several adjacent elements is passed as the first one's position and a lane.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from tvm import tirx

from tvm_disc.graph.nodes import Node, static_dim
from tvm_disc.schedules.conv.contraction import geometry, place, spatial
from tvm_disc.schedules.conv.implicit import ConvView
from tvm_disc.schedules.gemm.view import MatMulView
from tvm_disc.schedules.group import Group
from tvm_disc.schedules.lowering import Lowering
from tvm_disc.schedules.packing import Array, Form, Packing
from tvm_disc.tir.builder import const, i64
from tvm_disc.tir.index import add, mul, product
from tvm_disc.typing import Buffer, Expr, Size


class TileView(Protocol):
    """A matmul, or a convolution as an implicit GEMM."""

    @property
    def group(self) -> Group:
        """The group whose anchor is the matmul or convolution."""

    @property
    def node(self) -> Node:
        """The anchor."""

    @property
    def sizes(self) -> tuple[Size, Size, Size, Size]:
        """(batch, m, n, k)."""

    @property
    def packed(self) -> dict[Node, Packing]:
        """The constants that the kernel reads in a packed layout."""

    def a(self, low: Lowering, g: Expr, at: tuple[Expr, Expr], lanes: tuple[Expr, Expr]) -> Expr:
        """Return element (i, k) of A."""

    def b(self, low: Lowering, g: Expr, at: tuple[Expr, Expr], lanes: tuple[Expr, Expr]) -> Expr:
        """Return element (k, j) of B."""

    def along_k(self, lanes: int) -> bool:
        """Return whether elements that are adjacent along k may be adjacent in memory."""

    def index(self, low: Lowering, g: Expr, i: Expr, j: Expr) -> Sequence[Expr]:
        """Return the output index of element (g, i, j)."""

    def flat(self, g: Expr, i: Expr, j: Expr) -> Expr:
        """Return the row-major offset of element (g, i, j)."""

    def pixels(self, low: Lowering, i: Expr, j: Expr) -> Sequence[Expr]:
        """Return the parts of the index of row ``i`` and column ``j`` that do not depend on k."""


@dataclass
class Plain:
    """A matmul, or an NCHW convolution, whose operands are read element by element."""

    view: MatMulView | ConvView

    @property
    def group(self) -> Group:
        return self.view.group

    @property
    def node(self) -> Node:
        return self.view.node

    @property
    def sizes(self) -> tuple[Size, Size, Size, Size]:
        return self.view.sizes

    @property
    def packed(self) -> dict[Node, Packing]:
        return {}

    def a(self, low: Lowering, g: Expr, at: tuple[Expr, Expr], lanes: tuple[Expr, Expr]) -> Expr:
        return self.view.a_at(low, g, add(at[0], lanes[0]), add(at[1], lanes[1]))

    def b(self, low: Lowering, g: Expr, at: tuple[Expr, Expr], lanes: tuple[Expr, Expr]) -> Expr:
        return self.view.b_at(low, g, add(at[0], lanes[0]), add(at[1], lanes[1]))

    def along_k(self, lanes: int) -> bool:
        return True

    def index(self, low: Lowering, g: Expr, i: Expr, j: Expr) -> Sequence[Expr]:
        return self.view.index(low, g, i, j)

    def flat(self, g: Expr, i: Expr, j: Expr) -> Expr:
        return self.view.flat(g, i, j)

    def pixels(self, low: Lowering, i: Expr, j: Expr) -> Sequence[Expr]:
        if isinstance(self.view, MatMulView):
            return ()
        return low.space.split(j, self.node.shape[2:])


@dataclass(frozen=True)
class TapsFirst:
    """Packs ``w[out, in, taps...]`` to ``[group, taps, in, out of a group]``."""

    groups: int

    def form(self, shape: tuple[int, ...], dtype: str) -> Form:
        out, channels, *taps = shape
        return (self.groups, int(np.prod(taps)), channels, out // self.groups), dtype

    def write(self, array: Array, out: Array) -> None:
        groups, taps, channels, each = out.shape
        out[:] = array.reshape(groups, each, channels, taps).transpose(0, 3, 2, 1)


@dataclass
class ChannelsLast:
    """NHWC convolution: out[pixel, oc] = sum over (taps, ic) of window[pixel, (taps, ic)] * weight.

    The rows are the pixels of all images; the batch items are the groups of channels.
    """

    group: Group
    node: Node

    @property
    def groups(self) -> int:
        """Number of channel groups."""
        return int(self.node.attrs["groups"])

    @property
    def sizes(self) -> tuple[Size, Size, Size, Size]:
        weight = self.node.inputs[1]
        channels = (static_dim(weight.shape[0]) or 0) // self.groups
        pixels = product(self.node.shape[:-1])
        return i64(self.groups), pixels, i64(channels), product(weight.shape[1:])

    @property
    def packed(self) -> dict[Node, Packing]:
        weight = self.node.inputs[1]
        return {weight: TapsFirst(self.groups)} if weight in self.group.constants else {}

    def _inner(self) -> tuple[list[Expr], Expr]:
        """Return the extents of the taps, and the number of input channels of a group."""
        weight = self.node.inputs[1]
        return list(weight.shape[2:]), weight.shape[1]

    def along_k(self, lanes: int) -> bool:
        return (static_dim(self._inner()[1]) or 1) % lanes == 0

    def pixels(self, low: Lowering, i: Expr, j: Expr) -> Sequence[Expr]:
        return low.space.split(i, self.node.shape[:-1])

    def a(self, low: Lowering, g: Expr, at: tuple[Expr, Expr], lanes: tuple[Expr, Expr]) -> Expr:
        data, rank = self.node.inputs[0], len(self.node.shape) - 2
        taps, channels = self._inner()
        *tap, channel = low.space.split(at[1], (*taps, channels))
        channel = add(add(mul(g, channels), channel), lanes[1])
        image, *pixel = low.space.split(add(at[0], lanes[0]), self.node.shape[:-1])
        extents = spatial(self.node, data.shape)
        where, inside = geometry(self.node, rank).source(extents, pixel, tap)
        source = place(self.node, image, channel, where)
        if inside is None:
            return low.at(data, source)
        zero = const(0, data.dtype)
        return tirx.if_then_else(inside, low.guarded_at(data, source, inside), zero)

    def b(self, low: Lowering, g: Expr, at: tuple[Expr, Expr], lanes: tuple[Expr, Expr]) -> Expr:
        weight = self.node.inputs[1]
        taps, channels = self._inner()
        _, _, columns, depth = self.sizes
        if self.packed:
            row = add(mul(add(mul(g, depth), add(at[0], lanes[0])), columns), add(at[1], lanes[1]))
            return low.at(weight, [row])
        *tap, channel = low.space.split(at[0], (*taps, channels))
        out = add(mul(g, columns), add(at[1], lanes[1]))
        return low.at(weight, [out, add(channel, lanes[0]), *tap])

    def index(self, low: Lowering, g: Expr, i: Expr, j: Expr) -> Sequence[Expr]:
        channel = add(mul(g, self.sizes[2]), j)
        return [*low.space.split(i, self.node.shape[:-1]), channel]

    def flat(self, g: Expr, i: Expr, j: Expr) -> Expr:
        return add(mul(i, self.node.shape[-1]), add(mul(g, self.sizes[2]), j))


def flat_reader(buffer: Buffer, low: Lowering) -> object:
    """Return a reader of an operand that is indexed by its row-major offset."""
    return lambda index: low.load(buffer, index[0], str(buffer.dtype))


__all__ = ["ChannelsLast", "Plain", "TapsFirst", "TileView", "flat_reader"]
