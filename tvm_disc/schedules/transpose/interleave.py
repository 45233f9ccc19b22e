"""The *interleave* template: permutations that make a short axis, such as colors, the last axis.

    out[.., p, c] = f(in[.., c, p], ..)     # c: 2 to 4 values, p: all dims after it

For each ``c``, one vector is loaded or computed by element-wise operators. Shuffles interleave
these vectors into consecutive vectors of the result. Square tiles would be mostly empty here, and a
scalar loop writes only one element per cycle.
"""

from __future__ import annotations

from functools import partial

from tvm import tirx

from tvm_disc.errors import WhyNot
from tvm_disc.graph.axes import permutation
from tvm_disc.graph.core_ops import OpClass
from tvm_disc.graph.nodes import Node, static_dim
from tvm_disc.schedules.gemm.micro_kernel import bind_opaque, vload, vstore
from tvm_disc.schedules.kernel import Body, Group, Machine, Plan
from tvm_disc.schedules.rows.template import are_vectorizable
from tvm_disc.shape import Solver
from tvm_disc.tir.builder import i64
from tvm_disc.tir.index import product
from tvm_disc.typing import Buffer, Expr

MOST = 4  # largest size of the axis; this many vectors and their shuffles fit the registers
BLOCK = 4096  # largest number of pixels (values of p) in a task
_TYPES = ("float32", "int32", "float64", "int64", "int8", "uint8", "int16", "uint16")


def plan_interleave(group: Group, solver: Solver, machine: Machine) -> Plan | WhyNot:
    """Return a plan whose tasks are blocks of pixels."""
    *before, node = group.nodes
    if node.op != "relax.permute_dims" or group.outputs != [node]:
        return WhyNot("interleave", "it requires a kernel that permutes axes once, at its end")
    shape = node.inputs[0].shape
    if not all(n.cls is OpClass.ELEMWISE for n in before):
        return WhyNot("interleave", "it requires element-wise operators before the permutation")
    alike = all(solver.known_same_shape(n.shape, shape) for n in (*before, *group.params))
    if not alike or not are_vectorizable(before):
        return WhyNot(
            "interleave",
            "its operators must be vectorizable, and their operands must have the shape of the "
            "permuted value",
        )
    axis = _moved(node)
    if axis is None:
        return WhyNot("interleave", "it requires a permutation that moves one axis to the end")
    count = static_dim(node.shape[-1])
    if count is None or not 2 <= count <= MOST:
        return WhyNot(
            "interleave", f"it requires a constant size of 2 to {MOST} for the axis that moves"
        )
    if node.dtype not in _TYPES:
        return WhyNot("interleave", f"it has no vector shuffles for {node.dtype}")
    items, pixels = product(node.shape[:axis]), product(node.shape[axis:-1])
    blocks = tirx.floordiv(i64(pixels) + (BLOCK - 1), i64(BLOCK))

    def emit(body: Body) -> None:
        _emit(body, group, node, (count, pixels), machine.lanes)

    return Plan(tasks=i64(items) * blocks, work=product(node.shape), emit=emit)


def _moved(node: Node) -> int | None:
    """Return the operand's axis that becomes the last axis.

    None if the other axes do not keep their order.
    """
    axes = permutation(node)
    axis = axes[-1]
    rest = [a for a in range(len(axes)) if a != axis]
    return axis if axis != len(axes) - 1 and list(axes[:-1]) == rest else None


def _vector(data: Buffer, at: Expr, lanes: int, _index: object) -> Expr:
    return vload(data, at, lanes)


def _value(body: Body, group: Group, node: Node, at: Expr, lanes: int) -> Expr:
    """Return ``lanes`` elements of the value to permute, from offset ``at`` of its operands."""
    low = body.low
    for p in group.params:
        low.bind_reader(p, partial(_vector, body.buffers[p], at, lanes))
    index = [i64(0) for _ in node.inputs[0].shape]
    with low.inside(low.block):
        value = low.block.bind("row", low.at(node.inputs[0], index))
    for p in group.params:
        low.drop_reader(p)
    return value


def _emit(body: Body, group: Group, node: Node, sizes: tuple[int, Expr], lanes: int) -> None:
    low, block, out = body.low, body.block, body.outputs[0]
    count, pixels = sizes
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
            places = [source + c * size + at for c in range(count)]
            rows = [_value(body, group, node, place, lanes) for place in places]
            for k in range(count):
                flat = range(k * lanes, (k + 1) * lanes)
                picks = [tirx.IntImm("int32", f % count * lanes + f // count) for f in flat]
                value = tirx.Shuffle(rows, picks)
                vstore(block, out, target + at * count + k * lanes, lanes, value)
        done = bind_opaque(block, "done", whole * lanes)
        with block.loop("p", length - done, begin=done) as p:
            for c in range(count):
                one = _value(body, group, node, source + c * size + p, 1)
                block.store(out, target + p * count + c, one)


__all__ = ["plan_interleave"]
