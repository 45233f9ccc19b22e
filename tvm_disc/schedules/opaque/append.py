"""Operators on buffers: an uninitialized buffer, and rows appended to a buffer in place."""

from __future__ import annotations

import tvm

from tvm_disc.graph.nodes import Node
from tvm_disc.schedules.elements import cast
from tvm_disc.schedules.kernel import Body, Plan
from tvm_disc.tir.builder import i64
from tvm_disc.tir.index import product


def plan_blank(node: Node) -> Plan:
    """Return a plan that writes nothing; the buffer's contents are undefined."""
    return Plan(i64(0), i64(0), lambda body: None, family="blank")


def plan_append(node: Node) -> Plan:
    """Return a plan for ``(buffer, new, length)`` that writes ``new`` into the memory of
    ``buffer``.

    The rows of ``new``, converted to the buffer's dtype, are placed after the first ``p`` rows
    along ``axis``. ``p`` is a dim: ``length`` has the shape ``[p]``.
    """
    buffer, new, length = node.inputs
    axis, used = int(node.attrs["axis"]), length.shape[0]
    outer, inner = product(new.shape[:axis]), product(new.shape[axis + 1 :])
    rows, capacity = i64(new.shape[axis]), i64(buffer.shape[axis])

    def emit(body: Body) -> None:
        low, b, out = body.low, body.block, body.outputs[0]
        size = b.bind("size", rows * i64(inner))
        with low.loop("o", body.hi - body.lo, begin=body.lo) as o:
            begin = b.bind("begin", (o * capacity + i64(used)) * i64(inner))
            with low.loop("e", size) as e, low.scope():
                index = low.space.split(o * size + e, new.shape)
                low.store(out, begin + e, cast(low.at(new, index), node.dtype), node.dtype)

    def emit_rows(body: Body) -> None:
        """Emit elements ``[lo, hi)`` of ``new`` for ``axis`` 0; these are contiguous in
        the buffer.
        """
        low, b, out = body.low, body.block, body.outputs[0]
        begin = b.bind("begin", i64(used) * i64(inner))
        with low.loop("e", body.hi - body.lo, begin=body.lo) as e, low.scope():
            index = low.space.split(e, new.shape)
            low.store(out, begin + e, cast(low.at(new, index), node.dtype), node.dtype)

    work, itemsize = product(new.shape), int(tvm.DataType(node.dtype).bits) // 8 or 1
    moved = 2 * itemsize * i64(work)
    if axis == 0:
        return Plan(i64(work), work, emit_rows, moved=moved)
    return Plan(i64(outer), work, emit, moved=moved)
