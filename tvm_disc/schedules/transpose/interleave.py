"""The *interleave* template: a short axis, such as that of colors, becomes the last axis.

    out[.., p, c] = in[.., c, p]            # c < 2 .. 4, p: all dims after it

A vector of each ``c`` is loaded, and shuffles make as many consecutive vectors of the result.
Square tiles would be mostly empty here, and an element by element loop writes one number per cycle.
"""

from __future__ import annotations

from tvm import tirx

from tvm_disc.errors import WhyNot
from tvm_disc.graph.axes import permutation
from tvm_disc.graph.nodes import Node, static_dim
from tvm_disc.schedules.gemm.micro_kernel import bind_opaque, vload, vstore
from tvm_disc.schedules.kernel import Body, Group, Machine, Plan
from tvm_disc.shape import Solver
from tvm_disc.tir.builder import i64
from tvm_disc.tir.index import product
from tvm_disc.typing import Expr

MOST = 4  # largest size of the axis; this many vectors stay in registers with their shuffles
BLOCK = 4096  # pixels of a task
_TYPES = ("float32", "int32", "float64", "int64", "int8", "uint8", "int16", "uint16")


def plan_interleave(group: Group, solver: Solver, machine: Machine) -> Plan | WhyNot:
    """Return a plan whose tasks are blocks of pixels."""
    del solver
    node, *others = group.nodes
    if others or node.op != "relax.permute_dims" or node.inputs[0] not in group.params:
        return WhyNot("interleave", "the group is not a single permutation")
    axis = _moved(node)
    if axis is None:
        return WhyNot("interleave", "the permutation does not move one axis to the end")
    count = static_dim(node.shape[-1])
    if count is None or not 2 <= count <= MOST:
        return WhyNot("interleave", f"the axis is not known to have 2 to {MOST} elements")
    if node.dtype not in _TYPES:
        return WhyNot("interleave", f"there are no vector shuffles of {node.dtype}")
    items, pixels = product(node.shape[:axis]), product(node.shape[axis:-1])
    blocks = tirx.floordiv(i64(pixels) + (BLOCK - 1), i64(BLOCK))

    def emit(body: Body) -> None:
        _emit(body, node, count, pixels, machine.lanes)

    return Plan(tasks=i64(items) * blocks, work=product(node.shape), emit=emit)


def _moved(node: Node) -> int | None:
    """Return the operand's axis that becomes the last, if all others keep their order; else
    None.
    """
    axes = permutation(node)
    axis = axes[-1]
    rest = [a for a in range(len(axes)) if a != axis]
    return axis if axis != len(axes) - 1 and list(axes[:-1]) == rest else None


def _emit(body: Body, node: Node, count: int, pixels: Expr, lanes: int) -> None:
    low, block = body.low, body.block
    data, out = body.buffers[node.inputs[0]], body.outputs[0]
    size = bind_opaque(block, "pixels", i64(pixels))
    blocks = bind_opaque(block, "blocks", tirx.truncdiv(size + (BLOCK - 1), i64(BLOCK)))
    with low.loop("task", body.hi - body.lo, begin=body.lo) as task:
        item = bind_opaque(block, "item", tirx.truncdiv(task, blocks))
        begin = bind_opaque(block, "begin", (task - item * blocks) * BLOCK)
        length = bind_opaque(block, "length", tirx.min(size - begin, i64(BLOCK)))
        source = bind_opaque(block, "source", item * (count * size) + begin)
        target = bind_opaque(block, "target", (item * size + begin) * count)
        whole = bind_opaque(block, "whole", tirx.truncdiv(length, i64(lanes)))
        with block.loop("v", whole) as v:
            at = bind_opaque(block, "at", v * lanes)
            rows = [
                block.bind("row", vload(data, source + c * size + at, lanes)) for c in range(count)
            ]
            for k in range(count):
                flat = range(k * lanes, (k + 1) * lanes)
                picks = [tirx.IntImm("int32", f % count * lanes + f // count) for f in flat]
                value = tirx.Shuffle(rows, picks)
                vstore(block, out, target + at * count + k * lanes, lanes, value)
        done = bind_opaque(block, "done", whole * lanes)
        with block.loop("p", length - done, begin=done) as p:
            for c in range(count):
                block.store(out, target + p * count + c, data[source + c * size + p])


__all__ = ["plan_interleave"]
