"""Grouped convolutions with channels last: how output channels lie in vectors, and their sums.

Groups of a few channels (ResNeXt: 4 to 32, RegNet: 8 to 64) are poor matrix products: to bring the
rows together costs more than to multiply them. Here a vector is of output channels, of one group
or, where a group is narrower than a vector, of several; an input channel is broadcast to the lanes
of its group, and multiplied with a vector of weights for every window that it lies in.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from tvm import tirx

from tvm_disc.graph.nodes import Node, static_dim
from tvm_disc.schedules.gemm.micro_kernel import bind_opaque, vload
from tvm_disc.schedules.gemm.pack import cast
from tvm_disc.schedules.packing import Array, Form
from tvm_disc.tir.builder import Block, Buffer, first_lanes, i64, ramp

Expr: TypeAlias = Any

_MOST_TOGETHER = 4  # groups of a vector: an input channel of each is one load
_WIDEST = 64  # input channels of a group: beyond, rows are brought together for many products


@dataclass(frozen=True)
class Channels:
    """A vector of output channels, and where its weights begin; ``mask`` is of those that exist.

    ``inputs`` is the first input channel that they need, ``groups`` how many groups they are of.
    """

    first: Expr
    weights: Expr
    lanes: int
    mask: Expr = None
    inputs: Expr = None
    groups: int = 1

    @property
    def index(self) -> Expr:
        return ramp(self.first, self.lanes) if self.lanes > 1 else self.first


@dataclass(frozen=True)
class Run:
    """So many vectors alike: ``filled`` lanes of each are channels, of ``groups`` groups."""

    count: int
    filled: int
    groups: int
    split: int  # vectors of a group that are in this run
    begin: int  # its first vector, or the first of each group


@dataclass(frozen=True)
class GroupCut:
    """``groups`` groups of ``members`` input channels and ``outs`` output channels in vectors."""

    groups: int
    members: int
    outs: int
    lanes: int

    @property
    def together(self) -> int:
        """Groups of a vector."""
        return max(1, min(self.lanes // self.outs, _MOST_TOGETHER, self.groups))

    @property
    def each(self) -> int:
        """Vectors of a group, 1 if it is narrower than a vector."""
        return -(-self.outs // self.lanes)

    @property
    def vectors(self) -> int:
        return -(-self.groups // self.together) * self.each

    def runs(self) -> Iterator[Run]:
        """All vectors: those that are filled alike are one loop."""
        if self.each > 1:
            whole, rest = divmod(self.outs, self.lanes)
            yield Run(self.groups * whole, self.lanes, 1, whole, 0)
            if rest:
                yield Run(self.groups, rest, 1, 1, whole)
            return
        whole, rest = divmod(self.groups, self.together)
        yield Run(whole, self.together * self.outs, self.together, 1, 0)
        if rest:
            yield Run(1, rest * self.outs, rest, 1, whole)

    def refusal(self, masks: bool) -> str | None:
        """Why vectors of these groups would gain nothing."""
        if self.members > _WIDEST:
            return "wide groups are matrix products"
        if self.members == 1 or 2 * self.together * self.outs < self.lanes:
            return f"{self.groups} groups of {self.outs} channels leave vectors half empty"
        if not masks and any(r.filled < self.lanes and r.count > 1 for r in self.runs()):
            return f"groups of {self.outs} channels fill no vectors, and there are no masks"
        return None

    def channels(self, block: Block, run: Run, at: Expr, taps: int) -> Channels:
        """The vector number ``at`` of a run; a window has so many ``taps``."""
        if self.each > 1:
            group = bind_opaque(block, "group", tirx.floordiv(at, run.split))
            vector = group * self.each + (at - group * run.split) + run.begin
            first = group * self.outs + (at - group * run.split + run.begin) * self.lanes
        else:
            vector = at + run.begin
            group = vector * self.together
            first = group * self.outs
        return Channels(
            bind_opaque(block, "channel", first),
            bind_opaque(block, "weights", vector * (taps * self.members * self.lanes)),
            self.lanes,
            None if run.filled == self.lanes else first_lanes(i64(run.filled), self.lanes),
            bind_opaque(block, "inputs", group * self.members),
            run.groups,
        )

    def single(self, at: Channels, c: Expr) -> Channels:
        """One channel of a vector, where there are no masks."""
        group = tirx.floordiv(c, self.outs)
        return Channels(at.first + c, at.weights + c, 1, None, at.inputs + group * self.members)


def cut_of(node: Node, lanes: int) -> GroupCut | None:
    """The groups of a convolution with literal channels, None of one that has none."""
    if not node.weighted:
        return None
    outs, members = (static_dim(d) for d in node.inputs[1].shape[:2])
    groups = node.attrs["groups"]
    if outs is None or members is None or groups == 1 or outs == 0 or members == 0:
        return None
    depthwise = members == 1 and outs == groups
    return None if depthwise else GroupCut(groups, members, outs // groups, lanes)


@dataclass(frozen=True)
class GroupVectors:
    """``w[outs, members, taps...]`` as ``[vector, line of taps, member, tap, lane]``, zeros behind."""

    cut: GroupCut
    dtype: str

    def form(self, shape: tuple[int, ...], dtype: str) -> Form:
        """The shape and element type of packed weights."""
        del dtype
        lines, last = math.prod(shape[2:-1]), shape[-1]
        return (self.cut.vectors, lines, self.cut.members, last, self.cut.lanes), self.dtype

    def write(self, array: Array, out: Array) -> None:
        """Pack weights into ``out``, which holds zeros."""
        cut, lines = self.cut, out.shape[1]
        taps = array.reshape(cut.groups, cut.outs, cut.members, lines, -1)
        taps = np.moveaxis(taps, 1, -1)  # [groups, members, lines, taps, outs]
        if cut.each > 1:
            vectors = out.reshape(cut.groups, cut.each, *out.shape[1:])
            for j in range(cut.each):
                part = taps[..., j * cut.lanes : (j + 1) * cut.lanes]
                vectors[:, j, ..., : part.shape[-1]] = part.swapaxes(1, 2)
            return
        for g in range(cut.groups):
            lane = g % cut.together * cut.outs
            out[g // cut.together, ..., lane : lane + cut.outs] = taps[g].swapaxes(0, 1)


def broadcast(
    block: Block, buffer: Buffer, where: Expr, at: Channels, cut: GroupCut, dtype: str
) -> Expr:
    """The input channel at ``where`` of the first group, its like of others in their lanes."""
    parts = []
    for j in range(at.groups):
        value = cast(vload(buffer, where + j * cut.members, 1), dtype, 1)
        parts.append(tirx.Broadcast(value, at.lanes) if at.lanes > 1 else value)
    found = parts[-1]
    for j in reversed(range(at.groups - 1)):
        found = tirx.Select(first_lanes(i64((j + 1) * cut.outs), at.lanes), parts[j], found)
    return block.bind("x", found)


__all__ = ["Channels", "GroupCut", "GroupVectors", "Run", "broadcast", "cut_of"]
