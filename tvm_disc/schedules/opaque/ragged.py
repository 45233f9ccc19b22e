"""Ragged batches: checks of offsets, the item of every row, and reductions over an item's rows."""

from __future__ import annotations

from tvm import tirx

from tvm_disc.graph.nodes import Node
from tvm_disc.schedules.elements import cast
from tvm_disc.schedules.kernel import Body, Plan
from tvm_disc.schedules.lowering import Lowering
from tvm_disc.schedules.rows.accumulate import BLOCK, make_accumulator
from tvm_disc.tir.builder import const, element_dtype, i64, ramp, same_lanes
from tvm_disc.tir.index import product
from tvm_disc.typing import Expr

LANES, PANEL = 32, 256  # columns kept in registers, and columns per task


def plan_lengths(node: Node) -> Plan:
    """Return a plan that checks ``offsets[b + 1]`` of packed data with ``t`` rows: int64 ``[3]``.

    The results are the number of faults in the offsets, the largest and the smallest length of an
    item. If there are no items, both lengths are the attribute ``least``. Each offset that is less
    than its predecessor is a fault. There is one more fault if the first offset is not 0 or the
    last offset is not ``t``.
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


def plan_offsets(node: Node) -> Plan:
    """Return a plan that computes int64 offsets ``[b + 1]`` from ``lengths[b]``.

    The first offset is 0; the others are the sums of all previous lengths. A negative length counts
    as 0.
    """
    lengths = node.inputs[0]
    items = i64(lengths.shape[0])

    def emit(body: Body) -> None:
        low, b, out = body.low, body.block, body.outputs[0]
        total = b.alloc("total", 1, "int64")
        b.store(total, 0, i64(0))
        b.store(out, 0, i64(0))
        with low.loop("g", items) as g:
            size = b.bind("size", tirx.max(low.at(lengths, [g]), i64(0)))
            b.store(total, 0, total[i64(0)] + size)
            b.store(out, g + 1, total[i64(0)])

    return Plan(i64(1), items, emit)


def plan_items(node: Node) -> Plan:
    """Return a plan that computes the item of each row, int64 ``[t]``, from ``offsets[b + 1]``.

    The offsets must be valid. With the attribute ``positions``, the result is the position of each
    row in its item.
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


def plan_segments(node: Node) -> Plan:
    """Return a plan that reduces the rows of each item: ``x[t, ...]`` to ``[b, ...]``.

    The second operand is ``offsets[b + 1]``, which must be valid. The attribute ``reduce`` is the
    operator. A task is one item and ``PANEL`` columns.
    """
    x, offsets = node.inputs
    how = str(node.attrs["reduce"])
    columns = i64(product(node.shape[1:]))
    panels = tirx.truncdiv(columns + (PANEL - 1), i64(PANEL))
    # A mean is computed as a sum, then divided by the length.
    like = Node("relax.sum" if how == "relax.mean" else how, (x,), node.shape, node.dtype)

    def emit(body: Body) -> None:
        low, b = body.low, body.block
        rows, count, width = body.buffers[x], b.bind("panels", panels), b.bind("columns", columns)

        def reduced(c: Expr, lanes: int) -> None:
            """Emit the reduction of ``lanes`` columns from column ``c`` on."""
            size = b.bind("size", end - begin)
            blocks = b.bind("blocks", tirx.truncdiv(size + (BLOCK - 1), i64(BLOCK)))
            acc = make_accumulator(b, like, lanes, blocks)
            with low.loop("k", blocks) as k:
                with low.loop("r", tirx.min(size - k * BLOCK, i64(BLOCK))) as r:
                    position = b.bind("position", k * BLOCK + r)
                    at = (begin + position) * width + c
                    place = ramp(at, lanes) if lanes > 1 else at
                    acc.step(cast(low.load(rows, place, x.dtype), acc.dtype), position)
                acc.close_block()
            acc.close()
            value = acc.lanes()
            if how == "relax.mean":
                value = value / same_lanes(value, tirx.Cast(element_dtype(value), size))[1]
            place = g * width + c
            low.store(
                body.outputs[0], ramp(place, lanes) if lanes > 1 else place, value, node.dtype
            )

        with low.loop("t", body.hi - body.lo, begin=body.lo) as t:
            g = b.bind("g", tirx.truncdiv(t, count))
            begin, end = _ends(low, offsets, g)
            first = b.bind("c0", (t - g * count) * PANEL)
            some = b.bind("some", tirx.min(width - first, i64(PANEL)))
            wide = b.bind("wide", tirx.truncdiv(some, i64(LANES)))
            with low.loop("v", wide) as v:
                reduced(b.bind("c", first + v * LANES), LANES)
            with low.loop("e", some - wide * LANES) as e:
                reduced(b.bind("c", first + wide * LANES + e), 1)

    items = i64(node.shape[0])
    return Plan(items * panels, product(x.shape), emit)


def _ends(low: Lowering, offsets: Node, g: Expr) -> tuple[Expr, Expr]:
    """Return the first row of item ``g``, and of item ``g + 1``."""
    return low.settle("begin", low.at(offsets, [g])), low.settle("end", low.at(offsets, [g + 1]))


__all__ = ["plan_items", "plan_lengths", "plan_offsets", "plan_segments"]
