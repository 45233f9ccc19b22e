"""Coordinates of the elements of a sparse tensor after a reshape."""

from __future__ import annotations

from tvm import tirx

from tvm_disc.graph.nodes import Node
from tvm_disc.schedules.elements import cast
from tvm_disc.schedules.kernel import Body, Plan
from tvm_disc.tir.builder import i64
from tvm_disc.tir.index import product


def plan_coordinates(node: Node) -> Plan:
    """Return a plan that converts coordinates ``[n, d]`` in old dims to ``[n, k]`` in new dims."""
    indices, old, new = node.inputs
    depth, wanted = indices.shape[1], node.shape[1]

    def emit(body: Body) -> None:
        low, block = body.low, body.block
        with low.loop("t", body.hi - body.lo, begin=body.lo) as t:
            flat = block.alloc("flat", 1, "int64")
            block.store(flat, 0, i64(0))
            with low.loop("j", depth) as j:
                at = cast(low.at(indices, [t, j]), "int64")
                block.store(flat, 0, flat[i64(0)] * low.at(old, [j]) + at)
            with low.loop("k", wanted) as k:
                axis = block.bind("axis", i64(wanted) - 1 - k)
                size = block.bind("size", tirx.max(low.at(new, [axis]), i64(1)))
                rest = block.number("rest", tirx.floordiv(flat[i64(0)], size))
                here = block.bind("here", flat[i64(0)] - rest * size)
                place = low.space.join([t, axis], node.shape)
                low.store(body.outputs[0], place, cast(here, node.dtype), node.dtype)
                block.store(flat, 0, rest)

    return Plan(indices.shape[0], product(indices.shape) * 8, emit)
