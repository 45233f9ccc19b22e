"""Plans for attention: tiles of queries and keys, and a thread block per query.

Tiles require heads of a static size. If there are few queries, several blocks share their keys.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from tvm_disc.errors import WhyNot
from tvm_disc.graph.attention import Attention, find_attention
from tvm_disc.graph.nodes import Node
from tvm_disc.schedules.conv.contraction import matmul_dims
from tvm_disc.schedules.cuda.attention.parts import Core, combine_parts
from tvm_disc.schedules.cuda.attention.query import THREADS, QueryKnobs, emit_query
from tvm_disc.schedules.cuda.attention.tile import (
    CHUNK,
    FlashKnobs,
    FlashPlan,
    Operand,
    operands_of,
)
from tvm_disc.schedules.cuda.block import DeviceBlock
from tvm_disc.schedules.cuda.cost import Work, passes_ns
from tvm_disc.schedules.cuda.epilogue import plain_epilogue
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
from tvm_disc.schedules.dispatch.variant import Grid, Pass
from tvm_disc.schedules.gemm.view import MatMulView
from tvm_disc.schedules.kernel import Group, Machine, Plan
from tvm_disc.schedules.lowering import Lowering
from tvm_disc.shape import Solver
from tvm_disc.tir.builder import i64, index_var
from tvm_disc.tir.index import IndexSpace, add, ceil_div, mul, product
from tvm_disc.typing import Expr

QUERIES = (QueryKnobs(), QueryKnobs(parts=8))
TILES = (
    FlashKnobs(64, 64, 8, 4),
    FlashKnobs(32, 64, 4, 4),
    FlashKnobs(32, 32, 4, 4),
    FlashKnobs(16, 64, 4, 4, parts=8),
)
MOST_RESULTS = 64  # largest number of elements of the result that a thread keeps in registers
COMBINE = 256  # threads per block of the kernel that combines the parts
FOLD_BARRIERS = 7  # barriers per iteration over 128 keys


def plan_attention(group: Group, solver: Solver, machine: Machine) -> list[Plan] | WhyNot:
    """Return plans with a thread block per query, and plans with tiles of queries."""
    assert group.anchor is not None and machine.device is not None
    found = find_attention(group.anchor, solver)
    if not isinstance(found, Attention):
        return (
            WhyNot("attention", "it requires a softmax between two matmuls")
            if found is None
            else found
        )
    core = Core(found, _view(group, found.scores), _view(group, found.result))
    return _Attentions(core, solver, machine).plans()


def _view(group: Group, node: Node) -> MatMulView:
    batch, m, n, k = matmul_dims(node)
    return MatMulView(group, node, batch, m, n, k)


class _Attentions:
    """Builds the plans of one attention."""

    def __init__(self, core: Core, solver: Solver, machine: Machine) -> None:
        assert machine.device is not None
        self.core, self.solver, self.device = core, solver, machine.device
        self.group = core.values.group
        self.operands = operands_of(core)
        self.facts: list[Expr] = []
        self.notes = {"threads": "a block for each query, or for a tile of queries"}
        if isinstance(self.operands, str):
            self.notes["tiles"] = f"none: {self.operands}"
            return
        (q, of_q), (k, of_k), (v, of_v) = (self._widened(o) for o in self.operands)
        self.wide = (q, k, v)
        self.facts = distinct([*of_q, *of_k, *of_v])

    def plans(self) -> list[Plan]:
        """Return all plans; those with a block per query come first."""
        return [*(self._query(k) for k in QUERIES), *(self._tile(k) for k in self._fitting())]

    def _fitting(self) -> list[FlashKnobs]:
        """Return the knobs of the tiles that fit shared memory and registers."""
        if isinstance(self.operands, str):
            return []
        depth, values = self.operands[0].length, self.operands[2].length
        size = item_bytes(self.core.dtype)
        fit = [
            k
            for k in TILES
            if sum(k.room(depth, values)) * size <= self.device.shared_bytes
            and k.rows * k.width(values) * size <= MOST_RESULTS * 4
        ]
        if not fit:
            self.notes["tiles"] = f"none: heads of {depth} and {values} do not fit shared memory"
        return fit

    # -- a block per query -----------------------------------------------------------------------

    def _query(self, knobs: QueryKnobs) -> Plan:
        batch, m, n, depth = self.core.scores.sizes
        tasks = mul(mul(batch, m), knobs.parts)
        mine = n if knobs.parts == 1 else ceil_div(i64(n), i64(knobs.parts))
        chunks = ceil_div(i64(mine), i64(THREADS))
        # Each thread reads one row of keys; then all threads read the same rows of values.
        steps = add(mul(chunks, depth), i64(mine))
        barriers = mul(chunks, FOLD_BARRIERS)
        busy, waits = self.device.costs.spread_loads * self.device.costs.load, mul(chunks, 2)
        work = Work(tasks, THREADS, steps, barriers, busy=busy, waits=waits)
        emit = partial(emit_query, self.core, knobs)
        return self._plan(knobs, tasks, emit, Grid(THREADS, shared=True), work, knobs.parts)

    # -- tiles -----------------------------------------------------------------------------------

    def _tile(self, knobs: FlashKnobs) -> Plan:
        """Return the plan with scalar accesses, which has no needs.

        Its ``wide`` plan uses vector accesses, and is launched if operands are aligned and sizes
        divisible.
        """
        assert not isinstance(self.operands, str)
        plan = self._flash(FlashPlan(self.core, knobs, self.operands))
        if all(o.lanes == 1 for o in self.wide) or len(self.facts) > MOST_FACTS:
            return plan
        plain = plain_epilogue(self.group, self.solver) and knobs.parts == 1
        stored = plain and self.wide[2].length % CHUNK == 0
        knobs = replace(knobs, wide=True)
        wide = self._flash(FlashPlan(self.core, knobs, self.wide, self.facts, stored))
        lanes = max(o.lanes for o in self.wide)
        wide = replace(wide, needs=(*(multiple_need(f, lanes) for f in self.facts), ALIGNED))
        facts = ", ".join(need.text for need in wide.needs)
        return replace(plan, wide=wide, notes={**plan.notes, "lanes": f"several if {facts}"})

    def _flash(self, made: FlashPlan) -> Plan:
        core, knobs = self.core, made.knobs
        batch, m, n, _ = core.scores.sizes
        tasks = mul(mul(batch, ceil_div(i64(m), i64(knobs.queries))), knobs.parts)
        tiles = ceil_div(ceil_div(i64(n), i64(knobs.keys)), i64(knobs.parts))
        length, width = (made.operands[k].length for k in (0, 2))
        costs, columns = self.device.costs, knobs.width(width)
        busy = length * self._step_ns(knobs.rows, knobs.columns)
        busy += knobs.keys * self._step_ns(knobs.rows, columns)
        busy += (knobs.rows * knobs.columns * costs.weight_steps) * costs.multiply
        copied = knobs.keys * (length / made.operands[1].lanes + width / made.operands[2].lanes)
        busy += copied / knobs.threads * (costs.load + costs.shared)
        # A block that is alone on a multiprocessor is limited by latency, which this ratio models.
        each = round(knobs.threads * busy / costs.step)
        steps, barriers = mul(tiles, each), mul(tiles, 5)
        waits = mul(tiles, 2)
        work = Work(tasks, knobs.threads, steps, barriers, busy=busy / each, waits=waits)
        return self._plan(
            knobs, tasks, made.emit, Grid(knobs.threads, shared=True), work, knobs.parts
        )

    def _step_ns(self, rows: int, columns: int) -> float:
        """Return the nanoseconds that one step of a matmul occupies the pipes for one thread."""
        costs = self.device.costs
        return rows * columns * costs.multiply + (rows + columns) / CHUNK * costs.shared

    def _widened(self, operand: Operand) -> tuple[Operand, list[Expr]]:
        """Return an operand with vector copies, and the sizes that must be multiples of
        its lanes.
        """
        lanes = lanes_of_operand(self.group, operand.node)
        facts = self._facts(replace(operand, lanes=lanes)) if lanes > 1 else None
        return (operand, []) if facts is None else (replace(operand, lanes=lanes), facts)

    def _facts(self, operand: Operand) -> list[Expr] | None:
        if operand.length % operand.lanes:
            return None
        space = IndexSpace(lambda a, b: bool(self.solver.known_eq(a, b)))
        low = Lowering(DeviceBlock(), space, self.solver)
        at = index_var("at")
        lanes = Lanes(low, operand.lanes, (), [at], self.group.symbols())
        with lanes.reading({n: stand_in(n) for n in self.group.params}):
            g, row = index_var("g"), index_var("row")
            low.resolve([operand.read(low, g, row, add(at, lanes.lane))])
        return None if lanes.single or not lanes.together else lanes.wanted

    # -- both kinds ------------------------------------------------------------------------------

    def _plan(
        self,
        knobs: QueryKnobs | FlashKnobs,
        tasks: Expr,
        emit: Any,
        grid: Grid,
        work: Work,
        parts: int,
    ) -> Plan:
        core = self.core
        batch, m, n, depth = core.scores.sizes
        total = mul(core.rows, core.values.n)
        works: list[tuple[Work, Expr | int]] = [(work, 1)]
        passes: tuple[Pass, ...] = ()
        if parts > 1:
            rest = partial(combine_parts, core, parts)
            passes = (Pass(tasks, emit, grid), Pass(total, rest))
            # The second kernel reads only partial results: first maxima, then sums and results.
            blocks = ceil_div(total, i64(COMBINE))
            works.append((Work(blocks, COMBINE, i64(3 * parts), memory=0.0, waits=2), 1))
        return Plan(
            tasks=tasks,
            work=product([batch, m, n]) * (2 * (i64(depth) + i64(core.values.n))),
            emit=emit,
            scratch_elems=core.scratch_elems(parts) if passes else 0,
            scratch_dtype=core.dtype if passes else "float32",
            knobs=knobs,
            grid=grid,
            cost=partial(passes_ns, self.device, self.group, tuple(works)),
            features=(i64(m), i64(n), mul(batch, m)),
            passes=passes,
            notes=self.notes,
        )


__all__ = ["plan_attention"]
