"""Panels of the im2col matrix, filled by vectors.

The columns of a panel are cut in runs, a run being the part of it that lies in one row of output
pixels. A run of one tap is, for every input channel, the same few vectors of an input row: which
lanes lie inside the input is a mask, found once for all channels, so that padding costs no copy
and no test per element. A stride of two reads two vectors and keeps every other lane.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, TypeAlias

from tvm import tirx

from tvm_disc.relay_passes.graph import Node, static_dim
from tvm_disc.schedules.emit import Block, Buffer, const, first_lanes, i64, masked_load
from tvm_disc.schedules.gemm_micro import bind_opaque, vstore
from tvm_disc.schedules.gemm_pack import cast
from tvm_disc.schedules.index import add, mul, product
from tvm_disc.schedules.lowering import Lowering
from tvm_disc.schedules.windows import geometry

Expr: TypeAlias = Any

_MOST_STRIDE = 2


@dataclass(frozen=True)
class Panel:
    """Where columns ``[j0, j0 + columns)`` of image ``g`` go: row k at ``at + k * width``."""

    g: Expr
    j0: Expr
    columns: Expr
    buffer: Buffer
    at: Expr
    width: int
    lanes: int
    dtype: str


def can_fill(node: Node) -> bool:
    """Whether :func:`fill_panel` knows the stride of a convolution."""
    rank = len(node.shape) - 2
    return geometry(node, rank).strides[-1] <= _MOST_STRIDE


def fill_panel(node: Node, low: Lowering, block: Block, source: Buffer, panel: Panel) -> None:
    """Fill all rows of a panel from the compact input ``source``."""
    _clear_last(node, block, panel)
    width = tirx.max(i64(node.shape[-1]), i64(1))
    cells = [block.alloc(n, 1, "int64") for n in ("filled_at", "line_at", "start_at")]
    filled_at, line_at, start_at = cells
    block.store(filled_at, 0, i64(0))
    line = bind_opaque(block, "line", tirx.floordiv(i64(panel.j0), width))
    block.store(line_at, 0, line)
    block.store(start_at, 0, i64(panel.j0) - line * width)
    with block.loop_while(filled_at[i64(0)] < i64(panel.columns)), low.scope():
        row = block.bind("row", line_at[i64(0)])
        start = block.bind("start", start_at[i64(0)])
        filled = block.bind("filled", filled_at[i64(0)])
        run = bind_opaque(block, "run", tirx.min(width - start, i64(panel.columns) - filled))
        where = list(low.space.split(row, node.shape[2:-1])) if len(node.shape) > 3 else []
        low.resolve(where)
        _fill_run(node, block, source, panel, (where, start, filled, run))
        block.store(filled_at, 0, filled + run)
        block.store(line_at, 0, row + 1)
        block.store(start_at, 0, i64(0))


def _clear_last(node: Node, block: Block, panel: Panel) -> None:
    """Zero the lanes beyond the last column: whatever lies there takes part in products."""
    rows = product(node.inputs[1].shape[1:])
    whole = bind_opaque(block, "whole", tirx.truncdiv(i64(panel.columns), i64(panel.lanes)))
    done = whole * panel.lanes
    with block.when(done < i64(panel.columns)), block.loop("zk", rows) as k:
        zero = const(0, f"{panel.dtype}x{panel.lanes}")
        vstore(block, panel.buffer, panel.at + k * panel.width + done, panel.lanes, zero)


def _fill_run(
    node: Node,
    block: Block,
    source: Buffer,
    panel: Panel,
    run: tuple[Sequence[Expr], Expr, Expr, Expr],
) -> None:
    """All taps and channels of one run: (position of the line, first pixel, column, length)."""
    data, weight = node.inputs
    rank = len(node.shape) - 2
    geo = geometry(node, rank)
    where, start, filled, length = run
    channels, *taps = literal_dims(weight.shape[1:])
    extents = data.shape[2:]
    with ExitStack() as stack:
        k = [stack.enter_context(block.loop(f"tap{d}", taps[d])) for d in range(rank)]
        inside: Expr = tirx.IntImm("bool", 1)
        line: Expr = i64(panel.g) * i64(channels)
        for d in range(rank - 1):
            at = add(mul(where[d], geo.strides[d]), mul(k[d], geo.dilation[d])) - geo.padding[d]
            at = bind_opaque(block, "at", at)
            inside = tirx.And(inside, tirx.And(at >= 0, at < i64(extents[d])))
            line = line * i64(extents[d]) + at
        first = mul(start, geo.strides[-1]) + mul(k[-1], geo.dilation[-1]) - geo.padding[rank - 1]
        first = bind_opaque(block, "first", first)
        limit = bind_opaque(block, "limit", tirx.Select(inside, i64(extents[-1]), i64(0)))
        base = bind_opaque(block, "base", line * i64(extents[-1]) + first)
        plane = bind_opaque(block, "plane", product(extents))
        tap = _position(k, taps)
        to = bind_opaque(block, "to", panel.at + tap * panel.width + filled)
        step = math.prod(taps) * panel.width
        vectors = tirx.truncdiv(length + (panel.lanes - 1), i64(panel.lanes))
        with block.loop("v", vectors) as v:
            _fill_vector(
                block,
                panel,
                (source, base, plane, to, step),
                (v, first, limit, length),
                (geo.strides[-1], channels),
            )


def _fill_vector(
    block: Block,
    panel: Panel,
    place: tuple[Buffer, Expr, Expr, Expr, int],
    part: tuple[Expr, Expr, Expr, Expr],
    counts: tuple[int, int],
) -> None:
    """One vector of a run, for every channel."""
    source, base, plane, to, step = place
    v, first, limit, length = part
    stride, channels = counts
    lanes = panel.lanes
    skip = bind_opaque(block, "skip", v * (lanes * stride))
    position = bind_opaque(block, "position", first + skip)
    masks = []
    for s in range(stride):
        ahead = position + s * lanes
        below = first_lanes(tirx.max(i64(0) - ahead, i64(0)), lanes)
        upto = first_lanes(tirx.max(limit - ahead, i64(0)), lanes)
        masks.append(block.bind("inside", tirx.And(upto, tirx.Not(below))))
    keep = block.bind("keep", first_lanes(length - v * lanes, lanes))
    with block.loop("c", channels) as c:
        at = base + c * plane + skip
        loads = [masked_load(source, at + s * lanes, m) for s, m in enumerate(masks)]
        value = loads[0]
        if stride > 1:
            picks = [tirx.IntImm("int32", lane * stride) for lane in range(lanes)]
            value = tirx.Shuffle(loads, picks)
        value = cast(value, panel.dtype, lanes)
        block.masked_store(panel.buffer, to + c * step + v * lanes, value, keep)


def literal_dims(dims: Sequence[Any]) -> list[int]:
    """Dims that are known to be literals."""
    known = [static_dim(d) for d in dims]
    return [d for d in known if d is not None]


def _position(index: Sequence[Expr], dims: Sequence[Any]) -> Expr:
    """Row-major position of ``index`` in literal ``dims``."""
    result: Expr = i64(0)
    for i, d in zip(index, dims, strict=True):
        result = result * int(d) + i
    return result
