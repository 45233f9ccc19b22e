"""Permutations that move the last axis: tiles of 32 x 32 in shared memory.

Threads read along the operand's rows and write along the result's. A row of a tile in shared memory
is padded by one element, so that reads of a column have no bank conflicts.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import cast as typed

from tvm import tirx

from tvm_disc.errors import WhyNot
from tvm_disc.schedules.cuda.block import DeviceBlock
from tvm_disc.schedules.cuda.cost import Work, waves_ns
from tvm_disc.schedules.cuda.elements import THREADS, single_elements
from tvm_disc.schedules.cuda.reduce import SPREAD
from tvm_disc.schedules.dispatch.variant import Grid, Knobs
from tvm_disc.schedules.kernel import Body, Group, Machine, Plan
from tvm_disc.schedules.rows.stages import bytes_of
from tvm_disc.schedules.transpose.template import find_moves
from tvm_disc.schedules.transpose.work import TransposeWork
from tvm_disc.shape import Solver
from tvm_disc.tir.builder import i64
from tvm_disc.tir.index import mul, product
from tvm_disc.typing import Expr

SIDE, ROWS = 32, 8  # side of a tile, and rows of threads in a block


@dataclass(frozen=True)
class MoveKnobs(Knobs):
    """Side of a tile; 1 is a plan without tiles."""

    side: int = 1


def plan_tiles(group: Group, solver: Solver, machine: Machine) -> list[Plan] | WhyNot:
    """Return a plan with a thread per element, and a plan with tiles."""
    work = find_moves(group, solver, machine)
    if isinstance(work, WhyNot):
        return work
    assert machine.device is not None
    size = sum(bytes_of(m.dtype) for m in work.moves)
    if size * SIDE * (SIDE + 1) > machine.device.shared_bytes:
        return WhyNot(
            "transpose",
            f"its tiles require {size * SIDE * (SIDE + 1)} bytes of shared memory; a thread "
            f"block has at most {machine.device.shared_bytes}",
        )
    plain = single_elements(group, solver, machine)
    elements = product(work.domain)
    a, b = _tiles(work)
    tasks = mul(product(work.outer_dims()), mul(a, b))
    ns = partial(waves_ns, machine.device, group)
    blocks = tirx.floordiv(elements + (THREADS - 1), i64(THREADS))
    features = (work.shorter(), elements)
    alone = Work(blocks, THREADS, i64(1), 0, SPREAD)
    tiled = Plan(
        tasks=tasks,
        work=plain.work,
        emit=partial(_tile, work),
        knobs=MoveKnobs(SIDE),
        grid=Grid(SIDE * ROWS, shared=True),
        cost=partial(ns, Work(tasks, SIDE * ROWS, i64(2 * SIDE // ROWS), 2)),
        features=features,
        notes={"tiles": f"{SIDE} x {SIDE} in shared memory"},
    )
    cost = partial(ns, alone)
    return [replace(plain, knobs=MoveKnobs(), cost=cost, features=features), tiled]


def _tiles(work: TransposeWork) -> tuple[Expr, Expr]:
    """Return the number of tiles along each side."""
    sides = (product(dims) for dims in (work.a_dims, work.b_dims))
    a, b = (tirx.floordiv(i64(s) + (SIDE - 1), i64(SIDE)) for s in sides)
    return a, b


def _tile(work: TransposeWork, body: Body) -> None:
    block, low = typed(DeviceBlock, body.block), body.low
    size_a, size_b = (block.bind("side", product(d)) for d in (work.a_dims, work.b_dims))
    across, along = (block.bind("tiles", t) for t in _tiles(work))
    rest = block.bind("rest", tirx.truncdiv(body.lo, along))
    b0 = block.bind("b0", (body.lo - rest * along) * SIDE)
    o = block.bind("o", tirx.truncdiv(rest, across))
    a0 = block.bind("a0", (rest - o * across) * SIDE)
    row = block.bind("row", tirx.truncdiv(body.thread, i64(SIDE)))
    lane = block.bind("lane", body.thread - row * SIDE)
    rooms = {m: block.shared("tile", SIDE * (SIDE + 1), m.dtype) for m in work.moves}
    with low.scope():
        outer = low.space.split(o, work.outer_dims())
        low.resolve(outer)

        @contextmanager
        def element(x: Expr, y: Expr) -> Iterator[tuple[list[Expr], Expr]]:
            a, b = block.bind("a", a0 + x), block.bind("b", b0 + y)
            with block.when(tirx.And(a < size_a, b < size_b)), low.scope():
                yield work.index(body, outer, a, b), block.bind("at", y * (SIDE + 1) + x)

        with low.loop("s", SIDE // ROWS) as s, element(lane, row + s * ROWS) as (index, at):
            for move, room in rooms.items():
                value = low.at(move, index)
                low.resolve([value])
                block.store(room, at, value)
        block.barrier()
        with low.loop("s", SIDE // ROWS) as s, element(row + s * ROWS, lane) as (index, at):
            moved = {m: block.bind("moved", room[at]) for m, room in rooms.items()}
            values = work.values(body, moved, index)
            for node, buffer, value in zip(work.group.outputs, body.outputs, values, strict=True):
                low.store(buffer, low.space.join(index, node.shape), value, node.dtype)
        block.barrier()
