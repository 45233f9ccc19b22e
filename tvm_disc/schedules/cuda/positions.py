"""Indices of selected elements: blocks count their elements, then write after earlier blocks.

count   each block counts the selected ones of 4096 elements; one thread adds the counts
fill    as count; then each block writes the indices of its selected elements
"""

from __future__ import annotations

from functools import partial
from typing import Any

from tvm import tirx

from tvm_disc.errors import WhyNot
from tvm_disc.graph.nodes import Node
from tvm_disc.schedules.cuda.reduce import fold, strided
from tvm_disc.schedules.cuda.scan import PART, THREADS, running_totals, scanned
from tvm_disc.schedules.dispatch.variant import Grid, Pass, Plan
from tvm_disc.schedules.elements import cast
from tvm_disc.schedules.group import Body, Group, Machine
from tvm_disc.shape import Solver
from tvm_disc.tir.builder import i64
from tvm_disc.tir.index import product
from tvm_disc.typing import Buffer, Expr


def plan_compact_rows(group: Group, solver: Solver, machine: Machine) -> Plan | WhyNot:
    """Return a plan that computes indices ``[r, n + 1]`` from bools ``[r, n]``.

    A row has the indices of its true elements, then zeros; its last element is their number. A
    block computes a row.
    """
    node = group.anchor or group.nodes[-1]
    if node.op != "disc.compact":
        return WhyNot("compact", f"it requires disc.compact: found {node.op}")
    rows, shape = node.inputs[0].shape[0], node.inputs[0].shape
    notes = {"positions": "a block for each row"}
    grid = Grid(THREADS, shared=True)
    return Plan(rows, product(shape), partial(_row, node.inputs[0]), grid=grid, notes=notes)


def _row(flags: Node, body: Body) -> None:
    low, block, out = body.low, body.block, body.outputs[0]
    size = block.bind("size", i64(flags.shape[1]))
    base = block.bind("base", body.lo * (size + 1))

    def kept(k: Expr) -> Expr:
        return low.at(flags, [body.lo, k])

    def write(k: Expr, place: Expr) -> None:
        low.store(out, base + place, k, "int64")

    found = _written(body, (i64(0), size), i64(0), kept, write)
    with strided(body, size - found, THREADS) as k:
        low.store(out, base + found + k, i64(0), "int64")
    with block.when(tirx.EQ(body.thread, i64(0))):
        low.store(out, base + size, found, "int64")


def _written(body: Body, bounds: tuple[Expr, Expr], before: Expr, kept: Any, write: Any) -> Expr:
    """Emit stores of the selected indices in a range, from position ``before`` on.

    Return the position after the last one.

    Args:
        bounds: first element of the range, and the end.
        kept: returns whether an element is selected.
        write: emits the store of an element's index at a position.
    """
    block, low, (begin, end) = body.block, body.low, bounds
    place = block.alloc("place", 1, "int64")
    block.store(place, 0, before)
    steps = block.bind("steps", tirx.truncdiv(end - begin + (THREADS - 1), i64(THREADS)))
    with low.loop("step", steps) as step:
        k = block.bind("k", begin + step * THREADS + body.thread)
        mine = block.alloc("mine", 1, "int64")
        block.store(mine, 0, i64(0))
        with block.when(k < end), low.scope(), block.when(kept(k)):
            block.store(mine, 0, i64(1))
        start = block.bind("start", place[i64(0)])
        _, others, all_ = scanned(body, mine, lambda a, b: a + b, i64(0))
        with block.when(mine[i64(0)] > 0), low.scope():
            write(k, start + others)
        block.store(place, 0, start + all_)
    return block.bind("found", place[i64(0)])


def nonzero_plans(source: Node, size: Expr) -> tuple[Plan, Plan]:
    """Return the plans that count, and that store, the indices of a tensor's nonzero elements."""
    total = product(source.shape)
    parts = tirx.floordiv(total + (PART - 1), i64(PART))
    shared = Grid(THREADS, shared=True)
    counts = Pass(parts, partial(_counted, source), shared)
    sums = Pass(i64(1), partial(_summed, parts, False), Grid(32))
    places = Pass(i64(1), partial(_summed, parts, True), Grid(32))
    fill = Pass(parts, partial(_filled, source, size), shared)
    made = [
        Plan(
            tasks=i64(1),
            work=total,
            emit=partial(_counted, source),
            scratch_elems=parts,
            scratch_dtype="int64",
            passes=passes,
        )
        for passes in ((counts, sums), (counts, places, fill))
    ]
    return made[0], made[1]


def _truth(body: Body, source: Node, t: Expr) -> Expr:
    return cast(body.low.load(body.buffers[source], t, source.dtype), "bool")


def _bounds(source: Node, body: Body) -> tuple[Expr, Expr]:
    begin = body.block.bind("begin", body.lo * PART)
    return begin, body.block.bind("end", tirx.min(begin + PART, i64(product(source.shape))))


def _counted(source: Node, body: Body) -> None:
    block = body.block
    assert body.scratch is not None
    begin, end = _bounds(source, body)
    own = block.alloc("own", 1, "int64")
    block.store(own, 0, i64(0))
    with strided(body, end - begin, THREADS) as j, block.when(_truth(body, source, begin + j)):
        block.store(own, 0, own[i64(0)] + 1)
    whole = fold(body, own[i64(0)], lambda a, b: a + b, "int64", THREADS)
    with block.when(tirx.EQ(body.thread, i64(0))):
        block.store(body.scratch, body.lo, whole)


def _summed(parts: Expr, kept: bool, body: Body) -> None:
    """Emit the sum of the parts' counts; if ``kept``, exclusive prefix sums in their place."""
    assert body.scratch is not None
    room: Buffer = body.scratch
    count = body.block.bind("parts", parts)
    found = running_totals(body, room, i64(0), count, i64(0), lambda a, b: a + b)
    if not kept:
        body.block.store(body.outputs[0], 0, found)


def _filled(source: Node, size: Expr, body: Body) -> None:
    low, out = body.low, body.outputs[0]
    assert body.scratch is not None

    def write(t: Expr, place: Expr) -> None:
        index = low.space.split(t, source.shape)
        low.resolve(index)
        for axis, i in enumerate(index):
            body.block.store(out, i64(size) * axis + place, i)

    before = body.block.bind("before", body.scratch[body.lo])
    _written(body, _bounds(source, body), before, lambda t: _truth(body, source, t), write)


__all__ = ["nonzero_plans", "plan_compact_rows"]
