"""The *window tile* template: depthwise convolution and pooling, one vector of outputs at a time.

A task is one plane: one channel of one image. A vector of outputs stays in a register while the
taps of the window are added. A tap reads one vector of the input. With a stride of two, it reads
two vectors and keeps every other lane. Masks exclude lanes outside the input. They depend on the
column only, and most columns need none.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from tvm import DataType, tirx

from tvm_disc.errors import WhyNot
from tvm_disc.graph.core_ops import OpClass
from tvm_disc.graph.nodes import Node, static_dim
from tvm_disc.schedules.conv.contraction import contraction, geometry, layout_refusal
from tvm_disc.schedules.gemm.micro_kernel import bind_opaque, splat, vload, vstore
from tvm_disc.schedules.gemm.pack import cast
from tvm_disc.schedules.gemm.partition import has_masks
from tvm_disc.schedules.kernel import Body, Group, Machine, Plan
from tvm_disc.schedules.loops.fallback import store_outputs
from tvm_disc.schedules.scalars import is_float
from tvm_disc.shape import Solver
from tvm_disc.shape.printing import show
from tvm_disc.tir.builder import const, dtype_of, first_lanes, i64, masked_load
from tvm_disc.tir.index import add, mul, product
from tvm_disc.typing import Buffer, Expr

_MOST_TAPS = 49  # largest number of taps; each is unrolled twice, with and without masks
_MOST_STRIDE = 2


def plan_window_tile(group: Group, solver: Solver, machine: Machine) -> Plan | WhyNot:
    """Return a plan with one task per plane."""
    node = group.anchor
    assert node is not None
    refused = _refusal(group, node, machine)
    if refused is not None:
        return WhyNot("window tile", refused)
    spec = contraction(node)
    planes = node.shape[:2]
    lanes = machine.lanes * 32 // int(DataType(spec.dtype).bits)

    def emit(body: Body) -> None:
        _Emitter(group, node, body, lanes).run()

    return Plan(
        tasks=product(planes),
        work=product([*node.shape, *spec.extents]) * 2,
        emit=emit,
    )


# Pairs of (element type of the input, accumulator type).
_TYPES = {(t, t) for t in ("float32", "float64", "int32")}
_TYPES |= {(t, "int32") for t in ("int8", "uint8", "int16")}


def _refusal(group: Group, node: Node, machine: Machine) -> str | None:
    data = node.inputs[0]
    rank = len(node.shape) - 2
    taps = literal_taps(node)
    if (reason := layout_refusal(node, last=False)) is not None:
        return reason
    if node.weighted:
        if static_dim(channels := node.inputs[1].shape[1]) != 1:
            return f"it requires one input channel per output: there are {show(channels)}"
    elif (
        "avg" in node.op
        and not node.attrs.get("count_include_pad")
        and (any(geometry(node, rank).padding) or node.attrs.get("ceil_mode"))
    ):
        return (
            "it requires averages that divide by the window's size: this pooling does not count "
            "the padding or positions beyond it"
        )
    if taps is None or math.prod(taps) > _MOST_TAPS:
        size = "its size is unknown" if taps is None else f"it has {math.prod(taps)}"
        return f"it requires a window of at most {_MOST_TAPS} elements: {size}"
    if (stride := geometry(node, rank).strides[-1]) > _MOST_STRIDE:
        return f"it requires stride 1 or 2 on the last axis: stride is {stride}"
    if static_dim(node.shape[-1]) == 1:
        return "it requires several outputs per row: the last axis has size 1"
    summed = node.weighted or "avg" in node.op
    sums = node.dtype if summed else data.dtype
    if (data.dtype, sums) not in _TYPES:
        return f"it does not support {values_of(node, data.dtype, sums)}"
    if not has_masks(machine.lanes * 4, data.dtype):
        return f"it requires masked vector loads: this processor has none for {data.dtype}"
    return outside_window(group, node)


def values_of(node: Node, dtype: str, sums: str) -> str:
    """Return a text that names what a window computes from elements of ``dtype``."""
    return f"maxima of {dtype}" if "max" in node.op else f"sums of {dtype} in {sums}"


def outside_window(group: Group, node: Node, data: Node | None = None) -> str | None:
    """Return why kernels with unrolled windows do not support the nodes fused with ``node``.

    None if they support all of them. ``data`` is the operand that the kernels read; by default, the
    first input.
    """
    if (data or node.inputs[0]) not in group.params:
        return "it requires an input in memory: this kernel computes its input"
    if any(n is not node and not is_lanewise(n) for n in group.nodes):
        return "it requires an element-wise epilogue: this one reorders elements"
    return None


def is_lanewise(node: Node) -> bool:
    """Return whether an epilogue can compute the node lane by lane."""
    return node.cls is OpClass.ELEMWISE or node.op in ("relax.broadcast_to", "relax.full")


def literal_taps(node: Node) -> list[int] | None:
    """Return the size of a window along each dim, or None if it is not known at compile time."""
    if node.weighted:
        sizes = [static_dim(d) for d in node.inputs[1].shape[2:]]
    else:
        size = node.attrs["pool_size"]
        rank = len(node.shape) - 2
        sizes = [size] * rank if isinstance(size, int) else [int(s) for s in size]
    return [s for s in sizes if s is not None] if None not in sizes else None


@dataclass(frozen=True)
class _Column:
    """A vector of outputs: its first output, and for each tap its first input and its masks.

    ``keep`` is the mask of the lanes that are outputs.
    """

    start: Expr
    first: list[Expr]
    masks: list[list[Expr]]
    keep: Expr


class _Emitter:
    """Emits one body. Invariant: ``self.block`` is inside the loop over planes while emitting."""

    def __init__(self, group: Group, node: Node, body: Body, lanes: int) -> None:
        self.group, self.node, self.body, self.lanes = group, node, body, lanes
        self.low, self.block = body.low, body.block
        self.rank = len(node.shape) - 2
        self.geo, self.spec = geometry(node, self.rank), contraction(node)
        taps = literal_taps(node)
        assert taps is not None
        self.taps = taps
        self.is_conv = node.weighted
        self.data = node.inputs[0]

    def run(self) -> None:
        low, block, body = self.low, self.block, self.body
        width = i64(self.node.shape[-1])
        with low.loop("plane", body.hi - body.lo, begin=body.lo) as plane:
            lead = list(low.space.split(plane, self.node.shape[:2]))
            low.resolve(lead)
            source = self._source(lead)
            weights = self._weights(lead[1])
            vectors = tirx.truncdiv(width + (self.lanes - 1), i64(self.lanes))
            with low.loop("v", vectors) as v:
                column = self._column(v)
                whole = block.bind("whole", self._is_whole(column, v))
                for masked in (False, True):
                    with block.when(whole) if not masked else block.otherwise(), low.scope():
                        self._rows(lead, plane, column, source, weights, masked)

    def _source(self, lead: Sequence[Expr]) -> Expr:
        """Return the offset of the input plane."""
        channel = lead[1]
        if self.is_conv:
            outputs, groups = self.node.inputs[1].shape[0], self.node.attrs["groups"]
            if static_dim(outputs) != groups:
                per_group = tirx.floordiv(i64(outputs), i64(groups))
                channel = tirx.floordiv(channel, per_group)
        index = lead[0] * i64(self.data.shape[1]) + channel
        return bind_opaque(self.block, "source", index * product(self.data.shape[2:]))

    def _weights(self, channel: Expr) -> dict[tuple[int, ...], Expr]:
        """Return the weight of each tap, broadcast to a vector; none for pooling."""
        if not self.is_conv:
            return {}
        weight, found = self.node.inputs[1], {}
        for tap in itertools.product(*(range(t) for t in self.taps)):
            at = [channel, i64(0), *(i64(t) for t in tap)]
            w = self.low.settle("w", cast(self.low.at(weight, at), self.spec.dtype))
            cell = self.block.alloc("weight", self.lanes, self.spec.dtype)
            vstore(self.block, cell, 0, self.lanes, splat(w, self.lanes))
            found[tap] = vload(cell, 0, self.lanes)
        return found

    def _column(self, v: Expr) -> _Column:
        block, lanes, stride = self.block, self.lanes, self.geo.strides[-1]
        extent = i64(self.data.shape[-1])
        start = bind_opaque(block, "start", v * lanes)
        firsts, masks = [], []
        for tap in range(self.taps[-1]):
            shift = tap * self.geo.dilation[-1] - self.geo.padding[self.rank - 1]
            first = bind_opaque(block, "first", start * stride + shift)
            parts = []
            for s in range(stride):
                at = first + s * lanes
                below = first_lanes(tirx.max(i64(0) - at, i64(0)), lanes)
                upto = first_lanes(tirx.max(extent - at, i64(0)), lanes)
                parts.append(block.bind("mask", tirx.And(upto, tirx.Not(below))))
            firsts.append(first)
            masks.append(parts)
        rest = i64(self.node.shape[-1]) - start
        return _Column(start, firsts, masks, block.bind("keep", first_lanes(rest, lanes)))

    def _is_whole(self, column: _Column, v: Expr) -> Expr:
        """Return the condition that all lanes are outputs whose taps are all inside the input."""
        reach = column.first[-1] + self.lanes * self.geo.strides[-1]
        inside = tirx.And(column.first[0] >= 0, reach <= i64(self.data.shape[-1]))
        return tirx.And(inside, (v + 1) * self.lanes <= i64(self.node.shape[-1]))

    def _rows(
        self,
        lead: list[Expr],
        plane: Expr,
        column: _Column,
        source: Expr,
        weights: dict[tuple[int, ...], Expr],
        masked: bool,
    ) -> None:
        """Emit all rows of outputs of one column of vectors."""
        low, block, lanes = self.low, self.block, self.lanes
        dtype = self.spec.dtype
        sums = block.alloc("sums", lanes, dtype)
        with ExitStack() as stack:
            rows = [
                stack.enter_context(low.loop(f"row{d}", self.node.shape[2 + d]))
                for d in range(self.rank - 1)
            ]
            identity = const_of(self.spec.reducer.identity(dtype), lanes)
            vstore(block, sums, 0, lanes, identity)
            self._lines(rows, source, self._tap_adder(column, weights, sums, masked))
            index = [*lead, *rows, tirx.Ramp(column.start, i64(1), lanes)]
            flat = plane
            for at, size in zip(rows, self.node.shape[2:-1], strict=True):
                flat = add(mul(flat, size), at)
            flat = add(mul(flat, self.node.shape[-1]), index[-1])
            if masked:
                stack.enter_context(low.masked(column.keep))
            total = low.settle("total", self._finish(vload(sums, 0, lanes)))
            store_outputs(self.group, self.body, self.node, total, index, flat)

    def _finish(self, value: Expr) -> Expr:
        """Return the result for a sum; an average is always divided by the size of the window."""
        if "avg" in self.node.op:
            count = const(math.prod(self.taps), dtype_of(value))
            floats = is_float(self.spec.dtype)
            value = value / count if floats else tirx.truncdiv(value, count)
        return cast(value, self.node.dtype, self.lanes)

    def _lines(
        self, rows: Sequence[Expr], source: Expr, taps_of: Callable[[Expr, tuple[int, ...]], None]
    ) -> None:
        """Emit all rows of taps, each under the condition that it is inside the input."""
        block, geo = self.block, self.geo
        for outer in itertools.product(*(range(t) for t in self.taps[:-1])):
            inside: Expr = tirx.IntImm("bool", 1)
            line: Expr = i64(0)
            for d, tap in enumerate(outer):
                at = rows[d] * geo.strides[d] + (tap * geo.dilation[d] - geo.padding[d])
                extent = i64(self.data.shape[2 + d])
                inside = tirx.And(inside, tirx.And(at >= 0, at < extent))
                line = line * extent + at
            with block.when(inside):
                base = bind_opaque(block, "base", source + line * i64(self.data.shape[-1]))
                taps_of(base, outer)

    def _tap_adder(
        self,
        column: _Column,
        weights: dict[tuple[int, ...], Expr],
        sums: Buffer,
        masked: bool,
    ) -> Callable[[Expr, tuple[int, ...]], None]:
        """Return a function that emits the taps of one line."""
        block, lanes, stride = self.block, self.lanes, self.geo.strides[-1]
        buffer, reducer, dtype = self.body.buffers[self.data], self.spec.reducer, self.spec.dtype

        def load(at: Expr, mask: Expr) -> Expr:
            if not masked:
                return vload(buffer, at, lanes)
            value = masked_load(buffer, at, mask)
            if self.is_conv or "avg" in self.node.op:
                return value
            return tirx.Select(mask, value, const_of(reducer.identity(dtype), lanes))

        def taps_of(base: Expr, outer: tuple[int, ...]) -> None:
            for tap in range(self.taps[-1]):
                at = base + column.first[tap]
                masks = column.masks[tap]
                loads = [load(at + s * lanes, masks[s]) for s in range(stride)]
                value = loads[0]
                if stride > 1:
                    parts = [block.bind("part", x) for x in loads]
                    picks = [tirx.IntImm("int32", lane * stride) for lane in range(lanes)]
                    value = tirx.Shuffle(parts, picks)
                value = block.bind("tap", cast(value, dtype, lanes))
                if self.is_conv:
                    value = value * weights[outer + (tap,)]  # noqa: RUF005
                vstore(block, sums, 0, lanes, reducer.combine(vload(sums, 0, lanes), value))

        return taps_of


def const_of(value: Expr, lanes: int) -> Expr:
    """Return a literal broadcast to all lanes."""
    return const(value.value, f"{dtype_of(value)}x{lanes}" if lanes > 1 else dtype_of(value))


__all__ = ["const_of", "is_lanewise", "literal_taps", "plan_window_tile"]
