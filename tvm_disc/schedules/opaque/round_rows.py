"""Rows rounded to int8 in blocks with a scale each, and returned as float32; a task is one row."""

from __future__ import annotations

from tvm_disc.graph.nodes import Node, static_dim
from tvm_disc.schedules.gemm.integer import chunk_of, round_row
from tvm_disc.schedules.kernel import Body, Plan
from tvm_disc.tir.builder import i64
from tvm_disc.tir.index import product


def plan_round_rows(node: Node) -> Plan:
    """Return a plan that rounds ``[..., K]`` with a static K; the result has the same shape."""
    rows = node.inputs[0]
    *lead, last = rows.shape
    size, block = static_dim(last), int(node.attrs["block"])
    assert size is not None, "rounded rows have a known length"

    def emit(body: Body) -> None:
        low, b, out = body.low, body.block, body.outputs[0]
        with low.loop("r", body.hi - body.lo, begin=body.lo) as r:
            base = b.bind("base", r * size)
            index = low.space.split(r, lead)
            with low.loop("k", size) as k, low.scope():
                low.store(out, base + k, low.at(rows, [*index, k]), "float32")
            round_row(b, out, base, (i64(size), i64(block)), chunk_of(size, block), None)

    return Plan(product(lead), product(rows.shape), emit)
