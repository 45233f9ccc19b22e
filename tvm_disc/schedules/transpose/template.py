"""The *transpose* template: permutations that move the last axis, with element-wise operators.

A transposition cannot both read and write along rows. Square tiles are loaded along the operand's
rows, transposed in registers by shuffles, and stored along the result's rows. Dims that stay
adjacent are merged, so ``NHWC -> NCHW`` has whole images as rows.

A tile is as wide as a register or a cache line, so each cache line is read once and written once as
a whole. The last tile of a row overlaps the previous one, so nothing is masked. Tiles are computed
in short runs along the operand's rows or the result's, depending on the machine (``Memory`` of the
cost model); square blocks of tiles would touch a new page with nearly every line. A large result is
written with non-temporal stores. With ordinary stores, its lines would be read before they are
overwritten, and rows with a power of two as stride would evict each other.

Tiles of whole registers, tiles of half registers, small masked tiles, and the loops of the *loop*
template are separate plans. The length of the shorter side determines which one is fastest.

    out[.., a, .., b] = in[.., b, .., a]      A: dims of a, contiguous in the operand
                                              B: dims of b, contiguous in the result
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from tvm import tirx

from tvm_disc.errors import WhyNot
from tvm_disc.graph.axes import permutation
from tvm_disc.graph.nodes import Node, is_one
from tvm_disc.schedules.dispatch.variant import Knobs, Need
from tvm_disc.schedules.group import Body, Group, Machine
from tvm_disc.schedules.kernel import Plan
from tvm_disc.schedules.loops.template import plan_loop, uncertain_dims
from tvm_disc.schedules.rows.template import is_vectorizable
from tvm_disc.schedules.transpose.runs import TileRuns, tile_side
from tvm_disc.schedules.transpose.tiles import transposed
from tvm_disc.schedules.transpose.work import TransposeWork
from tvm_disc.shape import Solver
from tvm_disc.tir.builder import first_lanes, i64, ramp
from tvm_disc.tir.index import ceil_div, product
from tvm_disc.typing import Expr

STRIP_TILES = 8  # tiles of a task along the operand's rows; they cover whole cache lines
STRIP_LENGTH = 64  # tiles of a task along the result's rows
UNROLLED_COST = 6  # largest cost of operators per element; their code is repeated for each row
FEWEST_LANES = 4  # smallest number of lanes of a register with which tiles are used


def find_moves(group: Group, solver: Solver, machine: Machine) -> TransposeWork | WhyNot:
    """Return the permutations of a group; a WhyNot if no plan with tiles can compute them."""
    moves = [n for n in group.nodes if n.op == "relax.permute_dims" and _moves_last(n)]
    if not moves:
        return WhyNot("transpose", "it requires a permutation that moves the last axis")
    runs = {_runs(n) for n in moves}
    domain = moves[0].shape
    same = [*moves, *group.outputs]
    if len(runs) > 1 or not all(solver.known_same_shape(n.shape, domain) for n in same):
        return WhyNot(
            "transpose",
            "all permutations and results of the kernel must have the same shape, and all "
            "permutations the same order of axes",
        )
    if any(all(is_one(d) for d in domain[slice(*run)]) for pair in runs for run in pair):
        return WhyNot(
            "transpose",
            "the innermost axes of its operand and of its result must have several elements",
        )
    if any(_below(m) & set(moves) for m in moves):
        return WhyNot(
            "transpose", "it requires independent permutations: one reads the result of another"
        )
    return TransposeWork(group, moves, *runs.pop(), tuple(domain), machine)


@dataclass(frozen=True)
class TransposeKnobs(Knobs):
    """The traversal (``"masked tiles"``, ``"tiles"``) and the rows of a tile; loop plans have
    the knobs of the *loop* template.
    """

    walk: str
    side: int


def plan_transpose(group: Group, solver: Solver, machine: Machine) -> list[Plan] | WhyNot:
    """Return plans that copy element by element, by tiles of full or half registers, and by small
    masked tiles.
    """
    work = find_moves(group, solver, machine)
    if isinstance(work, WhyNot):
        return work
    if any(solver.known_lt(s, FEWEST_LANES) for s in work.sides()):
        # Besides, LLVM takes minutes to compile tiles that it can prove to be nearly empty.
        return WhyNot(
            "transpose", f"both axes that it exchanges must have at least {FEWEST_LANES} elements"
        )
    if any(m.dtype in ("bool", "float16", "bfloat16") for m in work.moves):
        return WhyNot("transpose", "it has no vector shuffles for bool, float16 and bfloat16")
    if not is_vectorizable(group) or uncertain_dims(group, solver):
        return WhyNot(
            "transpose", "it requires vectorizable operators, without dims that may be broadcast"
        )
    if work.cost() > UNROLLED_COST:
        return WhyNot(
            "transpose",
            "its other operators are too large: their code is repeated for each row of a tile",
        )
    elems = product(work.domain)
    elements = [
        replace(
            plan,
            work=elems * work.cost(),
            units={"far_ns": elems * work.words()},
            steps=plan.tasks,
            loops=0,
            strided=0,
            moved=work.moved_twice(),
            features=(*plan.features, work.shorter(), elems),
        )
        for plan in plan_loop(group, solver, machine)
    ]
    widths = [n for n in (machine.lanes, machine.lanes // 2) if n >= FEWEST_LANES]
    return [*elements, *(_tile_plan(work, n) for n in widths), _masked_plan(work)]


def _tile_plan(work: TransposeWork, lanes: int) -> Plan:
    """Return the plan for tiles of ``lanes`` lanes; both sides must have that many elements."""

    def emit(body: Body) -> None:
        TileRuns(work, body, lanes).emit()

    side = tile_side(work, lanes)
    covered = [tirx.min(s, i64(side)) * ceil_div(s, side) for s in work.sides()]
    elems = product([*work.outer_dims(), *covered])
    words = elems * work.words()
    return Plan(
        tasks=work.tasks(),
        work=elems * work.cost(),
        units={"tile_ns": words, "shuffle_ns": ceil_div(words, lanes)},
        emit=emit,
        features=(elems,),
        knobs=TransposeKnobs("tiles", lanes),
        needs=(Need(f"both axes of the tile have {lanes} elements", work.shorter() >= lanes),),
        notes={"tiles": f"{lanes} x {lanes} in registers"},
    )


def _masked_plan(work: TransposeWork) -> Plan:
    strips = _Strips(work)
    covered = [ceil_div(s, strips.side) * strips.side for s in work.sides()]
    elems = product([*work.outer_dims(), *covered])
    return Plan(
        tasks=strips.count(),
        work=elems * work.cost(),
        units={"masked_ns": elems * work.words()},
        emit=strips.emit,
        features=(elems,),
        knobs=TransposeKnobs("masked tiles", strips.side),
        moved=work.moved_twice(),
    )


def _moves_last(node: Node) -> bool:
    axes = permutation(node)
    wide = [k for k, d in enumerate(node.shape) if not is_one(d)]
    return bool(wide) and axes[wide[-1]] != max(axes[k] for k in wide)


def _runs(node: Node) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the output axes [begin, end) of the operand's innermost run (A) and the result's
    (B).
    """
    axes = permutation(node)

    def run(end: int) -> tuple[int, int]:
        begin = end
        while begin > 0 and axes[begin - 1] + 1 == axes[begin]:
            begin -= 1
        return begin, end + 1

    return run(axes.index(len(axes) - 1)), run(len(axes) - 1)


def _below(node: Node) -> set[Node]:
    seen: set[Node] = set()
    work = list(node.inputs)
    while work:
        n = work.pop()
        if n not in seen:
            seen.add(n)
            work.extend(n.inputs)
    return seen


class _Strips:
    """Emits masked tiles of half a register; a task is a strip of tiles."""

    def __init__(self, work: TransposeWork) -> None:
        self.work, self.side = work, max(work.machine.lanes // 2, 4)

    def _counts(self) -> tuple[Expr, Expr]:
        wide, long = self.side * STRIP_TILES, self.side * STRIP_LENGTH
        return (
            ceil_div(product(self.work.a_dims), wide),
            ceil_div(product(self.work.b_dims), long),
        )

    def count(self) -> Expr:
        """Return the number of strips."""
        return product([*self.work.outer_dims(), *self._counts()])

    def emit(self, body: Body) -> None:
        """Emit strips ``[lo, hi)``."""
        work, side = self.work, self.side
        block, low = body.block, body.low
        across, along = (
            block.bind(n, e) for n, e in zip(("sa", "sb"), self._counts(), strict=True)
        )
        size_a = block.bind("na", product(work.a_dims))
        size_b = block.bind("nb", product(work.b_dims))
        with low.loop("t", body.hi - body.lo, begin=body.lo) as t:
            o = block.bind("o", tirx.floordiv(t, across * along))
            rest = block.bind("rest", t - o * (across * along))
            strip = block.bind("strip", tirx.floordiv(rest, along))
            first_a = block.bind("fa", strip * (side * STRIP_TILES))
            first_b = block.bind("fb", (rest - strip * along) * (side * STRIP_LENGTH))
            outer = low.space.split(o, work.outer_dims())
            end_a = tirx.min(size_a - first_a, i64(side * STRIP_TILES))
            end_b = tirx.min(size_b - first_b, i64(side * STRIP_LENGTH))
            with low.loop("tb", ceil_div(end_b, side)) as tb:
                b = block.bind("b", first_b + tb * side)
                with low.loop("ta", ceil_div(end_a, side)) as ta:
                    a = block.bind("a", first_a + ta * side)
                    rest_a, rest_b = block.bind("ra", size_a - a), block.bind("rb", size_b - b)
                    self._tile(body, outer, a, b, (rest_a, rest_b))

    def _tile(
        self, body: Body, outer: Sequence[Expr], a: Expr, b: Expr, rest: tuple[Expr, Expr]
    ) -> None:
        low, side, work = body.low, self.side, self.work
        rest_a, rest_b = rest
        columns: dict[Node, list[Expr]] = {}
        for move in work.moves:
            rows = []
            for k in range(side):
                index = work.index(body, outer, ramp(a, side), _row(body, b, k, rest_b))
                with _partly(body, rest_b, rest_a, k, side):
                    rows.append(low.at(move, index))
            columns[move] = transposed(body.block, rows)
        for k in range(side):
            with _partly(body, rest_a, rest_b, k, side), low.scope():
                index = work.index(body, outer, _row(body, a, k, rest_a), ramp(b, side))
                values = work.values(body, {m: columns[m][k] for m in work.moves}, index)
                for node, buffer, value in zip(
                    work.group.outputs, body.outputs, values, strict=True
                ):
                    low.store(buffer, low.space.join(index, node.shape), value, node.dtype)


def _row(body: Body, first: Expr, k: int, count: Expr) -> Expr:
    """Return ``first + k``, or the last of ``count`` rows from ``first`` if there are fewer rows.

    The address should be mapped even if the mask is empty. If it is not, the processor takes
    hundreds of cycles to suppress the fault.
    """
    return body.block.number("row", first + tirx.min(i64(k), count - 1)) if k else first


@contextmanager
def _partly(body: Body, limit: Expr, count: Expr, k: int, side: int) -> Iterator[None]:
    """Enable the first ``count`` lanes of row ``k`` if it is below ``limit``, otherwise no lane."""
    lanes = tirx.Select(limit > k, tirx.min(count, i64(side)), i64(0))
    with body.low.masked(first_lanes(body.block.bind("lanes", lanes), side)):
        yield
