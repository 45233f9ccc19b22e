"""Epilogues: the operators that compute a group's results from the sums of its anchor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from tvm_disc.graph.core_ops import OpClass
from tvm_disc.schedules.cuda.vector import Lanes
from tvm_disc.schedules.group import Body, Group
from tvm_disc.shape import Solver
from tvm_disc.tir.builder import i64
from tvm_disc.typing import Expr


def plain_epilogue(group: Group, solver: Solver) -> bool:
    """Return whether all outputs follow from the anchor by element-wise operators of its shape."""
    anchor = group.anchor
    assert anchor is not None
    after = {anchor}
    for node in group.nodes:
        if any(x in after for x in node.inputs):
            same = solver.known_same_shape(node.shape, anchor.shape)
            if node.cls is not OpClass.ELEMWISE or not same:
                return False
            after.add(node)
    return all(n in after for n in group.outputs)


def store_lanes(
    group: Group,
    body: Body,
    lanes: Lanes,
    index: Callable[[Expr], Sequence[Expr]],
    total: Callable[[int, Sequence[Expr]], Expr],
    flat: Expr,
    whole: bool = False,
) -> None:
    """Emit vector stores of adjacent elements of every output, from ``flat`` on.

    Args:
        index: returns the anchor's index of a lane.
        total: returns the anchor's value from a lane number and the lane's index.
        whole: store 16 bytes by an instruction that NVRTC cannot split, which takes more registers.
    """
    low, block, anchor = body.low, body.block, group.anchor
    assert anchor is not None
    cells = [block.alloc("out", lanes.count, str(b.dtype)) for b in body.outputs]
    with lanes.reading(body.buffers):
        for number, lane in enumerate(lanes.each()):
            at = index(lane)
            value = low.settle("total", total(number, at))
            low.bind_reader(anchor, partial(_same, value))
            for node, cell in zip(group.outputs, cells, strict=True):
                low.store(cell, i64(number), low.at(node, at), node.dtype)
            low.drop_reader(anchor)
    low.resolve([flat])
    begin = block.bind("flat", flat)
    for cell, buffer in zip(cells, body.outputs, strict=True):
        if whole:
            lanes.put(buffer, begin, cell)
        else:
            lanes.copy(buffer, begin, cell, i64(0))


def _same(value: Expr, index: Sequence[Expr]) -> Expr:
    return value


__all__ = ["plain_epilogue", "store_lanes"]
