"""The *window* template: pooling and depthwise convolution, one row of outputs at a time.

A row of outputs is accumulated in scratch. Each tap of the window adds one shifted row of the
input, over the range of outputs for which the tap is inside the input. Padding therefore needs no
test per element, and the inner loop can be vectorized for any symbolic sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from tvm import tirx

from tvm_disc.errors import WhyNot
from tvm_disc.graph.nodes import Node, static_dim
from tvm_disc.schedules.conv.contraction import (
    WindowGeometry,
    contraction,
    geometry,
    layout_refusal,
)
from tvm_disc.schedules.elements import cast
from tvm_disc.schedules.kernel import Body, Group, Machine, Plan
from tvm_disc.schedules.loops.fallback import store_outputs
from tvm_disc.schedules.loops.reducers import accumulator
from tvm_disc.schedules.lowering import Lowering
from tvm_disc.shape import Solver
from tvm_disc.shape.printing import show
from tvm_disc.tir.builder import i64
from tvm_disc.tir.index import add, mul, product
from tvm_disc.typing import Buffer, Expr


def _scratch(body: Body) -> Buffer:
    assert body.scratch is not None
    return body.scratch


def plan_window(group: Group, solver: Solver, machine: Machine) -> Plan | WhyNot:
    """Return a plan with one task per row of outputs."""
    node = group.anchor
    assert node is not None
    rank = len(node.shape) - 2
    refused = _refusal(node)
    if refused is not None:
        return WhyNot("window", refused)
    spec = contraction(node)
    geo = geometry(node, rank)
    rows, width = node.shape[:-1], node.shape[-1]

    def emit(body: Body) -> None:
        low, block, sums = body.low, body.block, _scratch(body)
        with low.loop("r", body.hi - body.lo, begin=body.lo) as r:
            outer = list(low.space.split(r, rows))
            low.resolve(outer)
            with block.loop("z", i64(width)) as z:
                block.store(sums, z, spec.reducer.identity(spec.dtype))
            _accumulate(body, node, geo, spec, outer)
            with low.loop("j", i64(width)) as j:
                index = [*outer, j]
                total = low.settle("total", spec.finish(low, index, sums[j]))
                store_outputs(group, body, node, total, index, add(mul(r, width), j))

    return Plan(
        tasks=product(rows),
        work=product([*node.shape, *spec.extents]) * 2,
        emit=emit,
        scratch_elems=i64(width),
        scratch_dtype=spec.dtype,
    )


def _refusal(node: Node) -> str | None:
    if (reason := layout_refusal(node, last=False)) is not None:
        return reason
    if node.weighted and static_dim(channels := node.inputs[1].shape[1]) != 1:
        return f"it requires one input channel per output: there are {show(channels)}"
    return None


def _accumulate(
    body: Body, node: Node, geo: WindowGeometry, spec: Any, outer: Sequence[Expr]
) -> None:
    """Emit the sum over all taps; a row of taps outside the input is skipped."""
    low, block, sums = body.low, body.block, _scratch(body)
    data = node.inputs[0]
    rank = len(geo.strides)
    with ExitStack() as stack:
        taps = [
            stack.enter_context(low.loop(f"k{d}", e))
            for d, e in enumerate(spec.extents[len(spec.extents) - rank :])
        ]
        for d in range(rank - 1):
            position = add(mul(outer[2 + d], geo.strides[d]), mul(taps[d], geo.dilation[d]))
            position = position - geo.padding[d]
            extent = i64(data.shape[2 + d])
            inside = tirx.And(position >= 0, position < extent)
            stack.enter_context(block.when(inside))
        begin, end = valid_range(node, taps[-1], rank)
        first, last = block.bind("first", begin), block.bind("last", end)
        lead = [i64(0)] * (len(spec.extents) - rank)
        with low.loop("j", tirx.max(last - first, i64(0)), begin=first) as j:
            value = _tap(low, node, geo, outer, j, [*lead, *taps])
            old = sums[j]
            result = spec.reducer.combine(old, low.settle("tap", cast(value, spec.dtype)))
            low.resolve([result])
            block.store(sums, j, result)


def valid_range(node: Node, tap: Expr, rank: int) -> tuple[Expr, Expr]:
    """Return the outputs ``[begin, end)`` along the last dim whose tap is inside the input.

    Each output j in it satisfies ``0 <= j * stride + tap * dilation - padding < extent``.
    """
    geo = geometry(node, rank)
    stride, before = geo.strides[rank - 1], geo.padding[rank - 1]
    shift = mul(tap, geo.dilation[rank - 1]) - before
    begin = tirx.max(tirx.floordiv(i64(stride - 1) - shift, i64(stride)), i64(0))
    end = tirx.floordiv(i64(node.inputs[0].shape[-1]) - 1 - shift, i64(stride)) + 1
    return begin, tirx.min(end, i64(node.shape[-1]))


def _tap(
    low: Lowering,
    node: Node,
    geo: WindowGeometry,
    outer: Sequence[Expr],
    j: Expr,
    k: Sequence[Expr],
) -> Expr:
    data = node.inputs[0]
    rank = len(geo.strides)
    taps = list(k)[len(k) - rank :]
    at = [*outer[2:], j]
    where = [
        add(mul(at[d], geo.strides[d]), mul(taps[d], geo.dilation[d])) - geo.padding[d]
        for d in range(rank)
    ]
    if not node.weighted:
        return low.at(data, [outer[0], outer[1], *where])
    weight = node.inputs[1]
    per_group = tirx.floordiv(i64(weight.shape[0]), i64(node.attrs["groups"]))
    single = static_dim(weight.shape[0]) == node.attrs["groups"]
    channel = outer[1] if single else tirx.floordiv(outer[1], per_group)
    w = low.at(weight, [outer[1], i64(0), *taps])
    x = low.at(data, [outer[0], channel, *where])
    dtype = accumulator(node.dtype)
    return cast(x, dtype) * cast(w, dtype)
