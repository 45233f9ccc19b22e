"""Direct channels-last convolutions: assignment of output channels to vectors, and their sums.

A vector holds output channels of one group, or of several groups if a group is narrower than a
vector. An input channel is broadcast to the lanes of its group, and multiplied with a vector of
weights for every window that contains it (Zhang, Franchetti and Low, 2018, section 3). Unlike in a
pixel GEMM, the input is not copied first. Rows of taps in the padding are skipped. Groups
of a few channels (ResNeXt, RegNet) are as fast as wide ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from tvm import tirx

from tvm_disc.graph.nodes import Node, static_dim
from tvm_disc.schedules.gemm.micro_kernel import bind_opaque, vload
from tvm_disc.schedules.gemm.pack import cast
from tvm_disc.schedules.gemm.partition import has_masks
from tvm_disc.schedules.packing import Array, Form
from tvm_disc.tir.builder import Block, first_lanes, i64, ramp
from tvm_disc.typing import UNSET, Buffer, Expr

_MOST_TOGETHER = 4  # groups in a vector; each input channel takes one load per group
_MANY_BYTES = 1 << 20  # with this many bytes of weights, tasks divide output channels, too
# With vectors of fewer bytes, dense layers reach 0.6 to 1.1 times the speed of a pixel GEMM: the 7
# sums of a tile are too few for two multiply-adds per cycle.
_WIDE_BYTES = 64
_MOST_SINGLE = 8  # without masks, at most 1/8 of the channels are computed singly


@dataclass(frozen=True)
class Channels:
    """A vector of output channels.

    Attributes:
        first: first output channel.
        weights: offset of its weights.
        mask: the lanes that hold a channel; None means all.
        inputs: first input channel that the vector reads.
        groups: number of channel groups in the vector.
    """

    first: Expr
    weights: Expr
    lanes: int
    mask: Expr | None = None
    inputs: Expr = UNSET
    groups: int = 1

    @property
    def index(self) -> Expr:
        return ramp(self.first, self.lanes) if self.lanes > 1 else self.first


@dataclass(frozen=True)
class Run:
    """``count`` vectors, each with ``filled`` channels of ``groups`` groups."""

    count: int
    filled: int
    groups: int
    split: int  # vectors of a group in this run
    begin: int  # first vector of the run, or of each group


@dataclass(frozen=True)
class GroupCut:
    """Division of the channels into vectors and parts.

    There are ``groups`` groups of ``members`` input and ``outs`` output channels. The channels are
    divided into ``parts`` parts; a task computes one part of one row of outputs.
    """

    groups: int
    members: int
    outs: int
    lanes: int
    parts: int = 1

    @property
    def together(self) -> int:
        """Return the number of groups in a vector."""
        return max(1, min(self.lanes // self.outs, _MOST_TOGETHER, self.groups))

    @property
    def each(self) -> int:
        """Return the number of vectors of a group; 1 if the group is narrower than a vector."""
        return -(-self.outs // self.lanes)

    @property
    def vectors(self) -> int:
        return -(-self.groups // self.together) * self.each

    def runs(self) -> Iterator[Run]:
        """Yield all vectors as runs; the code of each run is one loop."""
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

    def refusal(self, taps: Sequence[int], dtype: str, vector_bytes: int) -> str | None:
        """Return why direct sums are not used for a window ``taps``: a pixel GEMM is at least as
        fast, or the channels do not fit vectors. None if they may be used.

        ``dtype`` is the accumulator's.
        """
        masks = has_masks(vector_bytes, dtype)
        if math.prod(taps) == 1 and self.groups == 1:
            return "for a 1x1 window without groups, pixel gemm is at least as fast"
        if self.groups == 1 and "float" not in dtype:
            return "for integers without groups, pixel gemm is at least as fast"
        if self.groups == 1 and vector_bytes < _WIDE_BYTES:
            return (
                f"without groups, pixel gemm is at least as fast with {vector_bytes}-byte vectors"
            )
        if self.members == 1 or 2 * self.together * self.outs < self.lanes:
            return (
                f"{self.groups} groups with inputs and outputs of {self.members} and {self.outs} "
                "channels are too narrow for vectors"
            )
        single = sum(r.filled * r.count for r in self.runs() if r.filled < self.lanes)
        if not masks and single * _MOST_SINGLE > self.groups * self.outs:
            what = f"groups of {self.outs} channels do not fill vectors"
            return f"{what}, and the processor has no masked vector operations"
        return None

    @property
    def block(self) -> int:
        """Return the largest number of vectors of the first run in a task."""
        return max(1, -(-next(self.runs()).count // self.parts))

    @property
    def blocks(self) -> int:
        """Return the number of tasks into which the channels of a row are divided."""
        return max(1, -(-next(self.runs()).count // self.block))

    def channels(self, block: Block, run: Run, at: Expr, taps: int) -> Channels:
        """Return vector number ``at`` of a run; ``taps`` is the number of taps of the window."""
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
        """Return lane ``c`` of a vector as a vector of one channel, for targets without masks."""
        group = tirx.floordiv(c, self.outs)
        return Channels(at.first + c, at.weights + c, 1, None, at.inputs + group * self.members)


def cut_of(node: Node, lanes: int, threads: int) -> GroupCut | None:
    """Return the division of a convolution's channels; None for pools, depthwise convolutions, and
    weights of an unknown or empty shape.
    """
    if not node.weighted:
        return None
    shape = [static_dim(d) for d in node.inputs[1].shape]
    known = [d for d in shape if d]
    if len(known) < len(shape):
        return None
    (outs, members, *_), groups = known, node.attrs["groups"]
    if members == 1 and outs == groups:
        return None
    parts = threads if 4 * math.prod(known) >= _MANY_BYTES else 1
    return GroupCut(groups, members, outs // groups, lanes, parts)


@dataclass(frozen=True)
class GroupVectors:
    """Layout of grouped weights: ``w[outs, members, taps...]`` as ``[vector, row of taps, member,
    tap, lane]``.

    Partial vectors are zero padded.
    """

    cut: GroupCut
    dtype: str

    def form(self, shape: tuple[int, ...], dtype: str) -> Form:
        """Return the shape and element type of packed weights."""
        del dtype
        lines, last = math.prod(shape[2:-1]), shape[-1]
        return (self.cut.vectors, lines, self.cut.members, last, self.cut.lanes), self.dtype

    def write(self, array: Array, out: Array) -> None:
        """Pack weights into ``out``, which is zero-initialized."""
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
    """Return a vector that holds, in the lanes of each group, one input channel of that group.

    ``where`` is the offset of the first group's channel.
    """
    parts = []
    for j in range(at.groups):
        value = cast(vload(buffer, where + j * cut.members, 1), dtype, 1)
        parts.append(tirx.Broadcast(value, at.lanes) if at.lanes > 1 else value)
    found = parts[-1]
    for j in reversed(range(at.groups - 1)):
        found = tirx.Select(first_lanes(i64((j + 1) * cut.outs), at.lanes), parts[j], found)
    return block.bind("x", found)


__all__ = ["Channels", "GroupCut", "GroupVectors", "Run", "broadcast", "cut_of"]
