"""Offsets of ragged batches: their lengths, and the item of every row."""

from __future__ import annotations

from tvm import tirx

from tvm_disc.graph.nodes import Node
from tvm_disc.schedules.kernel import Body, Plan
from tvm_disc.schedules.lowering import Lowering
from tvm_disc.tir.builder import const, i64
from tvm_disc.typing import Expr


def plan_lengths(node: Node) -> Plan:
    """Return a plan of ``offsets[b + 1]`` for packed data of ``t`` rows: int64 ``[3]``.

    The results are the number of faults of the offsets, the largest and the least length. Without
    items both are the attribute ``least``. A fault is a first offset other than 0, a last one other
    than t, or one that is less than the one before it.
    """
    offsets, least = node.inputs[0], i64(int(node.attrs["least"]))
    rows, items = i64(node.prims[0][0]), i64(offsets.shape[0]) - 1

    def emit(body: Body) -> None:
        low, b, out = body.low, body.block, body.outputs[0]
        faults, most, fewest = (b.alloc(n, 1, "int64") for n in ("faults", "most", "fewest"))
        first, last = b.bind("first", low.at(offsets, [i64(0)])), low.at(offsets, [items])
        wrong = tirx.Or(tirx.NE(first, i64(0)), tirx.NE(b.bind("last", last), rows))
        b.store(faults, 0, tirx.Select(wrong, i64(1), i64(0)))
        b.store(most, 0, tirx.Select(items > 0, i64(0), least))
        b.store(fewest, 0, tirx.Select(items > 0, rows, least))
        with low.loop("g", items) as g:
            begin, end = _ends(low, offsets, g)
            with b.when(end < begin):
                b.store(faults, 0, faults[i64(0)] + 1)
            with b.otherwise():
                size = b.bind("size", end - begin)
                b.store(most, 0, tirx.max(most[i64(0)], size))
                b.store(fewest, 0, tirx.min(fewest[i64(0)], size))
        for k, cell in enumerate((faults, most, fewest)):
            b.store(out, k, tirx.max(cell[i64(0)], const(0, "int64")))

    return Plan(i64(1), items, emit)


def plan_items(node: Node) -> Plan:
    """Return a plan of ``offsets[b + 1]``, which were checked: int64 ``[t]``, the item of each row,
    or with the attribute ``positions`` its position in the item.
    """
    offsets = node.inputs[0]
    items, positions = i64(offsets.shape[0]) - 1, bool(node.attrs["positions"])

    def emit(body: Body) -> None:
        low, b = body.low, body.block
        with low.loop("g", body.hi - body.lo, begin=body.lo) as g:
            begin, end = _ends(low, offsets, g)
            with b.loop("r", end - begin) as r:
                b.store(body.outputs[0], begin + r, r if positions else g)

    return Plan(items, i64(node.shape[0]), emit)


def _ends(low: Lowering, offsets: Node, g: Expr) -> tuple[Expr, Expr]:
    """Return the first row of item ``g``, and that of the next."""
    return low.settle("begin", low.at(offsets, [g])), low.settle("end", low.at(offsets, [g + 1]))


__all__ = ["plan_items", "plan_lengths"]
