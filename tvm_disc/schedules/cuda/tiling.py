"""Plans of a matmul in tiles: how operands are copied, and which facts vector copies require."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from tvm_disc.graph.nodes import static_dim
from tvm_disc.schedules.conv.contraction import contraction
from tvm_disc.schedules.cuda.block import DeviceBlock
from tvm_disc.schedules.cuda.cost import Work, passes_ns
from tvm_disc.schedules.cuda.epilogue import plain_epilogue
from tvm_disc.schedules.cuda.reduce import THREADS, ReduceKnobs, add_parts
from tvm_disc.schedules.cuda.tile import Side, TileKnobs, TilePlan, operand
from tvm_disc.schedules.cuda.vector import (
    ALIGNED,
    MOST_FACTS,
    Lanes,
    distinct,
    item_bytes,
    lanes_of_operand,
    multiple_need,
    stand_in,
)
from tvm_disc.schedules.cuda.views import TileView
from tvm_disc.schedules.dispatch.variant import Grid, Need, Pass
from tvm_disc.schedules.group import Body
from tvm_disc.schedules.kernel import Machine, Plan
from tvm_disc.schedules.loops.reducers import accumulator
from tvm_disc.schedules.lowering import Lowering
from tvm_disc.shape import Solver
from tvm_disc.tir.builder import i64, index_var
from tvm_disc.tir.index import IndexSpace, ceil_div, mul, product
from tvm_disc.typing import Expr

SPLIT_FROM = 512  # smallest k that is split among several blocks


class Tiling(ABC):
    """Builds the plans of one matmul, for tiles of one kind."""

    def __init__(self, tiled: TileView, solver: Solver, machine: Machine) -> None:
        assert machine.device is not None
        self.view, self.solver, self.device = tiled, solver, machine.device
        self.group, self.node = tiled.group, tiled.node
        self.dtype = accumulator(self.node.dtype)
        self.a, facts_a = self._side(True)
        self.b, facts_b = self._side(False)
        self.facts = distinct([*facts_a, *facts_b])

    @abstractmethod
    def _fits(self, tile: Any) -> bool:
        """Return whether a tile fits shared memory."""

    @abstractmethod
    def _emit(
        self, tile: Any, sides: tuple[Side, Side], facts: Sequence[Expr], wide_store: bool
    ) -> Callable[[Body], None]:
        """Return a function that emits the code of a task."""

    @abstractmethod
    def _work(self, tile: Any, tasks: Expr) -> Work:
        """Return the amount of work of a plan."""

    @abstractmethod
    def _stored_lanes(self, tile: Any) -> int:
        """Return the number of adjacent results that a thread stores at once, at least 1."""

    def plans(self, tiles: Sequence[Any]) -> list[Plan]:
        """Return a plan for each tile that fits shared memory.

        If k is known to be less than ``SPLIT_FROM``, tiles whose sums several blocks share are left
        out.
        """
        depth = static_dim(self.view.sizes[3])
        return [
            self._with_wide(t)
            for t in tiles
            if self._fits(t) and (t.parts == 1 or depth is None or depth >= SPLIT_FROM)
        ]

    def _with_wide(self, tile: Any) -> Plan:
        """Return a plan without needs; its ``wide`` plan, if any, uses vector copies."""
        plan = self._plan(tile)
        reason = self._why_not_wide()
        if reason is not None:
            return replace(plan, notes={**plan.notes, "lanes": f"one: {reason}"} if reason else {})
        wide = self._plan(replace(tile, wide=True))
        facts = ", ".join(n.text for n in wide.needs)
        return replace(plan, wide=wide, notes={**plan.notes, "lanes": f"several if {facts}"})

    def _why_not_wide(self) -> str | None:
        """Return why operands cannot be copied by vectors; None if they can, "" for no note."""
        few = max(self.a.lanes, self.b.lanes) > 1 and len(self.facts) <= MOST_FACTS
        return None if few else ""

    def _side(self, first: bool) -> tuple[Side, list[Expr]]:
        """Return how an operand is copied, along k or its other dim, and the required facts."""
        lanes = lanes_of_operand(self.group, self.node.inputs[0 if first else 1])
        for along_k in (first, not first):
            side = Side(first, along_k, lanes)
            facts = self._facts(side) if lanes > 1 else None
            if facts is not None:
                return side, facts
        return Side(first, first, 1), []

    def _facts(self, side: Side) -> list[Expr] | None:
        """Return the sizes that must be multiples of the number of lanes for vector copies.

        None if elements along the side's dim are not adjacent in memory.
        """
        if side.along_k and not self.view.along_k(side.lanes):
            return None
        low = Lowering(
            DeviceBlock(), IndexSpace(lambda a, b: bool(self.solver.known_eq(a, b))), self.solver
        )
        at, kk = index_var("at"), index_var("kk")
        symbols = self.group.symbols()
        lanes = Lanes(low, side.lanes, (), [at, kk], symbols, self.view.packed)
        with lanes.reading({n: stand_in(n) for n in self.group.params}):
            low.resolve([operand(self.view, low, side, index_var("g"), (at, kk), lanes.lane)])
        _, m, n, k = self.view.sizes
        edge = lanes.facts(i64(k if side.along_k else (m if side.first else n)))
        if lanes.single or not lanes.together or edge is None:
            return None
        return [*lanes.wanted, *edge]

    def _wide_store(self, tile: Any) -> list[Expr] | None:
        """Return the facts that vector stores of results require; None if these are impossible."""
        lanes = self._stored_lanes(tile) if tile.wide and tile.parts == 1 else 1
        if lanes == 1 or not plain_epilogue(self.group, self.solver):
            return None
        n = i64(self.view.sizes[2])
        if self.solver.known_divides(lanes, n):
            return []
        already = [*self.facts]
        return [n] if static_dim(n) is None and len(distinct([*already, n])) <= MOST_FACTS else None

    def _plan(self, tile: Any) -> Plan:
        g, m, n, k = self.view.sizes
        a, b, facts = self.a, self.b, list(self.facts)
        if not tile.wide:
            a, b, facts = replace(a, lanes=1), replace(b, lanes=1), []
        stored = self._wide_store(tile)
        facts = distinct([*facts, *(stored or [])])
        emit = self._emit(tile, (a, b), facts, stored is not None)
        tiles = mul(mul(g, ceil_div(i64(m), tile.m)), ceil_div(i64(n), tile.n))
        tasks, total = mul(tiles, tile.parts), product([g, m, n])
        grid = self._grid(tile)
        passes: tuple[Pass, ...] = ()
        works = [(self._work(tile, tasks), 1)]
        if tile.parts > 1:
            rest = ReduceKnobs(parts=tile.parts)
            add = partial(add_parts, self.group, contraction(self.node), rest)
            passes = (Pass(tasks, emit, grid), Pass(total, add))
            works.append((Work(ceil_div(total, THREADS), THREADS, i64(tile.parts)), 1))
        return Plan(
            tasks=tasks,
            work=product([g, m, n, k]) * 2,
            emit=emit,
            scratch_elems=mul(total, tile.parts) if passes else 0,
            scratch_dtype=self.dtype if passes else "float32",
            packed=self.view.packed,
            knobs=tile,
            needs=self._needs(max(a.lanes, b.lanes, 4), facts) if tile.wide else (),
            grid=grid,
            cost=partial(passes_ns, self.device, self.group, tuple(works)),
            features=(i64(m), i64(n), i64(k), mul(m, n)),
            passes=passes,
        )

    def _grid(self, tile: Any) -> Grid:
        return Grid(tile.threads, shared=True)

    def _needs(self, lanes: int, facts: Sequence[Expr]) -> tuple[Need, ...]:
        return (*(multiple_need(f, lanes) for f in facts), ALIGNED)


class Tiles(Tiling):
    """Builds plans with tiles whose sums the threads add up in registers."""

    def _fits(self, tile: TileKnobs) -> bool:
        room = self.device.shared_bytes // item_bytes(self.dtype)
        return 2 * tile.k * (tile.m + tile.n) <= room

    def _emit(
        self, tile: TileKnobs, sides: tuple[Side, Side], facts: Sequence[Expr], wide_store: bool
    ) -> Callable[[Body], None]:
        return TilePlan(self.view, tile, *sides, facts, wide_store).emit

    def _stored_lanes(self, tile: TileKnobs) -> int:
        return 4

    def _work(self, tile: TileKnobs, tasks: Expr) -> Work:
        costs, k = self.device.costs, i64(self.view.sizes[3])
        multiplies, loads = tile.rows * tile.columns, (tile.rows + tile.columns) / 4
        copied = (tile.m + tile.n) / tile.threads
        busy = multiplies * costs.multiply + loads * costs.shared
        busy += copied * (costs.load + costs.shared)
        slices = ceil_div(ceil_div(k, tile.k), tile.parts)
        # the latency of its pipelines limits a block that is alone on a multiprocessor
        each = max(tile.k, round(tile.k * tile.threads * busy / costs.step))
        # a slice waits for memory, then for shared memory
        waits = slices * 2
        return Work(tasks, tile.threads, slices * each, slices, 1.0, busy * tile.k / each, waits)


__all__ = ["SPLIT_FROM", "Tiles"]
