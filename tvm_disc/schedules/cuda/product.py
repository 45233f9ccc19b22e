"""Plans of tiles for matmuls and convolutions: tile sizes, and how operands are copied.

An operand is copied along its contiguous dim, k or the other: a plain A along k, a plain B along n,
transposed ones the other way. Plans that copy several elements at once (``wide``) require dims that
are multiples, and operands aligned to 16 bytes; the base plans require nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from tvm_disc.errors import WhyNot
from tvm_disc.graph.core_ops import OpClass
from tvm_disc.graph.nodes import static_dim
from tvm_disc.schedules.conv.contraction import channels_last, contraction, matmul_dims
from tvm_disc.schedules.conv.implicit import ConvView
from tvm_disc.schedules.cuda.block import DeviceBlock
from tvm_disc.schedules.cuda.cost import Work, passes_ns
from tvm_disc.schedules.cuda.epilogue import plain_epilogue
from tvm_disc.schedules.cuda.reduce import THREADS, ReduceKnobs, add_parts, plan_contraction
from tvm_disc.schedules.cuda.tile import (
    Side,
    TileKnobs,
    TilePlan,
    ceil_div,
    operand,
)
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
from tvm_disc.schedules.cuda.views import ChannelsLast, Plain, TileView
from tvm_disc.schedules.dispatch.variant import Grid, Need, Pass
from tvm_disc.schedules.gemm.view import MatMulView
from tvm_disc.schedules.kernel import Group, Machine, Plan
from tvm_disc.schedules.loops.reducers import accumulator
from tvm_disc.schedules.lowering import Lowering
from tvm_disc.shape import Solver
from tvm_disc.tir.builder import i64, index_var
from tvm_disc.tir.index import IndexSpace, mul, product
from tvm_disc.typing import Expr

# A slice takes as long as a load from memory if few blocks run, so small tiles have deep slices.
TILES = (
    TileKnobs(64, 64, 32, 4, 4),
    TileKnobs(16, 64, 32, 2, 4),
    TileKnobs(32, 32, 32, 4, 4),
    TileKnobs(128, 64, 16, 8, 8),
    TileKnobs(64, 64, 32, 4, 4, parts=8),
    TileKnobs(16, 64, 32, 2, 4, parts=8),
)
SPLIT_FROM = 512  # smallest k that is split among blocks


def plan_product(group: Group, solver: Solver, machine: Machine) -> list[Plan] | WhyNot:
    """Return plans with tiles in shared memory, and contraction plans for few elements."""
    node = group.anchor
    if node is None or node.cls is not OpClass.DOT:
        return WhyNot("product", "no product to anchor on")
    batch, m, n, k = matmul_dims(node)
    if min(len(x.shape) for x in node.inputs) < 2:
        return WhyNot("product", "an operand is a vector")
    tiles = _Tiles(Plain(MatMulView(group, node, batch, m, n, k)), solver, machine)
    plans = plan_contraction(group, solver, machine)
    assert isinstance(plans, list)
    size = static_dim(m)
    return [*plans, *tiles.plans([t for t in TILES if size is None or size > t.m // 4])]


def plan_convolution(group: Group, solver: Solver, machine: Machine) -> list[Plan] | WhyNot:
    """Return plans with tiles of the implicit GEMM: output channels by pixels, in memory
    order.
    """
    node = group.anchor
    if node is None or not node.op.startswith("relax.nn.conv"):
        return WhyNot("convolution", "no convolution to anchor on")
    weight, last = node.inputs[1], channels_last(node)
    if any(static_dim(d) in (None, 0) for d in weight.shape):
        return WhyNot("convolution", "the weight's shape is not known")
    plans = plan_contraction(group, solver, machine)
    if isinstance(plans, WhyNot):
        return plans
    tiled: TileView = ChannelsLast(group, node) if last else Plain(ConvView(group, node))
    tiles = _Tiles(tiled, solver, machine)
    channels = static_dim(tiled.sizes[2 if last else 1]) or 0
    fit = [t for t in TILES if channels > (t.n if last else t.m) // 4]
    return [*plans[:3], *tiles.plans(fit)]


class _Tiles:
    """The plans of one matmul."""

    def __init__(self, tiled: TileView, solver: Solver, machine: Machine) -> None:
        assert machine.device is not None
        self.view, self.solver, self.device = tiled, solver, machine.device
        self.group, self.node = tiled.group, tiled.node
        self.dtype = accumulator(self.node.dtype)
        self.a, facts_a = self._side(True)
        self.b, facts_b = self._side(False)
        self.facts = distinct([*facts_a, *facts_b])

    def plans(self, tiles: Sequence[TileKnobs]) -> list[Plan]:
        """Return a plan for each tile that fits shared memory."""
        depth = static_dim(self.view.sizes[3])
        room = self.device.shared_bytes // item_bytes(self.dtype)
        return [
            self._with_wide(t)
            for t in tiles
            if 2 * t.k * (t.m + t.n) <= room
            and (t.parts == 1 or depth is None or depth >= SPLIT_FROM)
        ]

    def _with_wide(self, tile: TileKnobs) -> Plan:
        """Return a plan without needs, and its replacement for when the facts hold."""
        plan = self._plan(tile)
        if max(self.a.lanes, self.b.lanes) == 1 or len(self.facts) > MOST_FACTS:
            return plan
        wide = self._plan(replace(tile, wide=True))
        facts = ", ".join(n.text for n in wide.needs)
        return replace(plan, wide=wide, notes={**plan.notes, "lanes": f"several if {facts}"})

    def _side(self, first: bool) -> tuple[Side, list[Expr]]:
        """Return the best way to copy an operand, and the facts that it requires."""
        lanes = lanes_of_operand(self.group, self.node.inputs[0 if first else 1])
        for along_k in (first, not first):
            side = Side(first, along_k, lanes)
            facts = self._facts(side) if lanes > 1 else None
            if facts is not None:
                return side, facts
        return Side(first, first, 1), []

    def _facts(self, side: Side) -> list[Expr] | None:
        """Return the sizes that must be multiples for vector copies; None if elements are not
        adjacent.
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

    def _wide_store(self, tile: TileKnobs) -> list[Expr] | None:
        """Return the facts for vector stores of results; None if these are impossible."""
        if not tile.wide or tile.parts > 1 or not plain_epilogue(self.group, self.solver):
            return None
        n = i64(self.view.sizes[2])
        if self.solver.known_divides(4, n):
            return []
        already = [*self.facts]
        return [n] if static_dim(n) is None and len(distinct([*already, n])) <= MOST_FACTS else None

    def _plan(self, tile: TileKnobs) -> Plan:
        g, m, n, k = self.view.sizes
        a, b, facts = self.a, self.b, list(self.facts)
        if not tile.wide:
            a, b, facts = replace(a, lanes=1), replace(b, lanes=1), []
        stored = self._wide_store(tile)
        facts = distinct([*facts, *(stored or [])])
        made = TilePlan(self.view, tile, a, b, facts, stored is not None)
        tiles = mul(mul(g, ceil_div(m, tile.m)), ceil_div(n, tile.n))
        tasks, total = mul(tiles, tile.parts), product([g, m, n])
        grid = Grid(tile.threads, shared=True)
        passes: tuple[Pass, ...] = ()
        works = [(self._work(tile, tasks), 1)]
        if tile.parts > 1:
            rest = ReduceKnobs(parts=tile.parts)
            emit = partial(add_parts, self.group, contraction(self.node), rest)
            passes = (Pass(tasks, made.emit, grid), Pass(total, emit))
            works.append((Work(ceil_div(total, THREADS), THREADS, i64(tile.parts)), 1))
        return Plan(
            tasks=tasks,
            work=product([g, m, n, k]) * 2,
            emit=made.emit,
            scratch_elems=mul(total, tile.parts) if passes else 0,
            scratch_dtype=self.dtype if passes else "float32",
            packed=self.view.packed,
            layout="taps first" if self.view.packed else "",
            knobs=tile,
            needs=self._needs(made),
            grid=grid,
            cost=partial(passes_ns, self.device, self.group, tuple(works)),
            features=(i64(m), i64(n), i64(k), mul(m, n)),
            passes=passes,
        )

    def _needs(self, made: TilePlan) -> tuple[Need, ...]:
        if not made.tile.wide:
            return ()
        lanes = max(made.a.lanes, made.b.lanes, 4)
        return (*(multiple_need(f, lanes) for f in made.facts), ALIGNED)

    def _work(self, tile: TileKnobs, tasks: Expr) -> Work:
        costs, k = self.device.costs, self.view.sizes[3]
        multiplies, loads = tile.rows * tile.columns, (tile.rows + tile.columns) / 4
        copied = (tile.m + tile.n) / tile.threads
        busy = multiplies * costs.multiply + loads * costs.shared
        busy += copied * (costs.load + costs.shared)
        slices = ceil_div(ceil_div(k, tile.k), tile.parts)
        # a block alone on a multiprocessor still waits for the pipes
        each = max(tile.k, round(tile.k * tile.threads * busy / costs.step))
        # a slice is loaded, stored to shared memory and loaded again
        waits = slices * 2
        return Work(tasks, tile.threads, slices * each, slices, 1.0, busy * tile.k / each, waits)
