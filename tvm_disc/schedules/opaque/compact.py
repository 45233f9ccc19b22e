"""Indices of the true elements of each row; a task is one row."""

from __future__ import annotations

from tvm_disc.graph.nodes import Node
from tvm_disc.schedules.kernel import Body, Plan
from tvm_disc.tir.builder import i64
from tvm_disc.tir.index import product


def plan_compact(node: Node) -> Plan:
    """Return a plan that maps ``[r, n]`` bools to ``[r, n + 1]`` int64.

    A result row contains the indices of the true elements, zeros as padding, and last their count.
    """
    flags = node.inputs[0]
    rows, size = flags.shape

    def emit(body: Body) -> None:
        low, block, out = body.low, body.block, body.outputs[0]
        with low.loop("r", body.hi - body.lo, begin=body.lo) as r:
            base = block.bind("base", r * (i64(size) + 1))
            count = block.alloc("count", 1, "int64")
            block.store(count, 0, i64(0))
            with low.loop("i", size) as i, block.when(low.at(flags, [r, i])), low.scope():
                low.store(out, base + count[i64(0)], i, "int64")
                block.store(count, 0, count[i64(0)] + 1)
            found = block.bind("found", count[i64(0)])
            with low.loop("i", i64(size) - found, begin=found) as i:
                low.store(out, base + i, i64(0), "int64")
            low.store(out, base + i64(size), found, "int64")

    return Plan(rows, product(flags.shape), emit)
