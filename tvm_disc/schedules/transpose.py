"""The *transpose* template: permutations that move the last axis, with element-wise work around.

Neither side of such a copy can be both read and written along its rows. Tiles of 8 x 8 are
loaded along the operand's rows, transposed in registers by a butterfly of shuffles (Eklundh's
algorithm: exchange blocks of 1, 2, 4 lanes between pairs of vectors) and stored along the
result's rows. Dims that stay neighbours count as one, so ``NHWC -> NCHW`` has whole images as rows.

    out[.., a, .., b] = in[.., b, .., a]      A: dims of a, contiguous in the operand
                                              B: dims of b, contiguous in the result
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

from tvm import tirx

from tvm_disc.errors import WhyNot
from tvm_disc.relay_passes.axes import permutation
from tvm_disc.relay_passes.graph import Node, is_one
from tvm_disc.schedules.emit import first_lanes, i64, ramp
from tvm_disc.schedules.index import mul, product
from tvm_disc.schedules.kernel import Body, Group, Machine, Plan
from tvm_disc.schedules.loop import plan_loop, uncertain_dims
from tvm_disc.schedules.lowering import Reader
from tvm_disc.schedules.rows import is_vectorizable
from tvm_disc.shape import Solver

Expr: TypeAlias = Any

STRIP_TILES = 8  # tiles side by side: whole cache lines of the operand in any alignment
STRIP_LENGTH = 64  # tiles one after another in a task
UNROLLED_COST = 6  # operations per element that may appear once for each row of a tile
NARROW = 3  # sides up to this length are copied element by element


def plan_transpose(group: Group, solver: Solver, machine: Machine) -> Plan | WhyNot:
    """Tasks are strips of tiles."""
    moves = [n for n in group.nodes if n.op == "relax.permute_dims" and _moves_last(n)]
    if not moves:
        return WhyNot("transpose", "no permutation moves the last axis")
    runs = {_runs(n) for n in moves}
    domain = moves[0].shape
    same = [*moves, *group.outputs]
    if len(runs) > 1 or not all(solver.known_same_shape(n.shape, domain) for n in same):
        return WhyNot("transpose", "permutations and outputs differ in shape or in what they move")
    if any(all(is_one(d) for d in domain[slice(*run)]) for pair in runs for run in pair):
        return WhyNot("transpose", "the last axis of one side is 1, between others")
    if any(m.dtype in ("bool", "float16", "bfloat16") for m in moves):
        return WhyNot("transpose", "no vector shuffles of this type")
    if not is_vectorizable(group) or uncertain_dims(group, solver):
        return WhyNot("transpose", "not every value can be computed for a vector")
    if sum(n.row.cost for n in group.nodes if n.row and n not in moves) > UNROLLED_COST:
        return WhyNot("transpose", "too much other work to repeat for every row of a tile")
    if any(_below(m) & set(moves) for m in moves):
        return WhyNot("transpose", "a permutation of a permutation")
    work = _Transpose(group, moves, *runs.pop(), tuple(domain), machine)
    plain = plan_loop(group, solver, machine)
    narrow = work.is_narrow()

    def emit(body: Body) -> None:
        with body.block.when(narrow), body.low.scope():
            plain.emit(body)
        with body.block.otherwise(), body.low.scope():
            work.emit(body)

    return Plan(
        tasks=tirx.Select(narrow, plain.tasks, work.tasks()),
        work=plain.work,
        emit=emit,
        notes={"tiles": f"{work.side} x {work.side} in registers"},
    )


def _moves_last(node: Node) -> bool:
    axes = permutation(node)
    wide = [k for k, d in enumerate(node.shape) if not is_one(d)]
    return bool(wide) and axes[wide[-1]] != max(axes[k] for k in wide)


def _runs(node: Node) -> tuple[tuple[int, int], tuple[int, int]]:
    """Output axes [begin, end) of the operand's innermost run (A) and of the result's (B)."""
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


@dataclass
class _Transpose:
    group: Group
    moves: list[Node]
    a_run: tuple[int, int]
    b_run: tuple[int, int]
    domain: tuple[Any, ...]
    machine: Machine

    def __post_init__(self) -> None:
        # Twice the side is no faster, and takes LLVM three times as long.
        self.side = max(self.machine.lanes // 2, 4)
        self.a_dims = self.domain[slice(*self.a_run)]
        self.b_dims = self.domain[slice(*self.b_run)]
        inside = {*range(*self.a_run), *range(*self.b_run)}
        self.outer_axes = [k for k in range(len(self.domain)) if k not in inside]

    def is_narrow(self) -> Expr:
        """Whether tiles would be mostly empty."""
        return tirx.min(product(self.a_dims), product(self.b_dims)) <= NARROW

    def _strips(self) -> tuple[Expr, Expr]:
        wide, long = self.side * STRIP_TILES, self.side * STRIP_LENGTH
        return (
            tirx.floordiv(product(self.a_dims) + (wide - 1), i64(wide)),
            tirx.floordiv(product(self.b_dims) + (long - 1), i64(long)),
        )

    def tasks(self) -> Expr:
        """Strips over all outer dims."""
        across, along = self._strips()
        return mul(mul(product([self.domain[k] for k in self.outer_axes]), across), along)

    def emit(self, body: Body) -> None:
        """Strips ``[lo, hi)``."""
        block, low, side = body.block, body.low, self.side
        across, along = (
            block.bind(n, e) for n, e in zip(("sa", "sb"), self._strips(), strict=True)
        )
        size_a, size_b = (
            block.bind("na", product(self.a_dims)),
            block.bind("nb", product(self.b_dims)),
        )
        with low.loop("t", body.hi - body.lo, begin=body.lo) as t:
            o = block.bind("o", tirx.floordiv(t, across * along))
            rest = block.bind("rest", t - o * (across * along))
            strip = block.bind("strip", tirx.floordiv(rest, along))
            first_a = block.bind("fa", strip * (side * STRIP_TILES))
            first_b = block.bind("fb", (rest - strip * along) * (side * STRIP_LENGTH))
            outer = low.space.split(o, [self.domain[k] for k in self.outer_axes])
            end_a = tirx.min(size_a - first_a, i64(side * STRIP_TILES))
            end_b = tirx.min(size_b - first_b, i64(side * STRIP_LENGTH))
            with low.loop("tb", tirx.floordiv(end_b + (side - 1), i64(side))) as tb:
                b = block.bind("b", first_b + tb * side)
                with low.loop("ta", tirx.floordiv(end_a + (side - 1), i64(side))) as ta:
                    a = block.bind("a", first_a + ta * side)
                    rest_a, rest_b = block.bind("ra", size_a - a), block.bind("rb", size_b - b)
                    self._tile(body, outer, a, b, (rest_a, rest_b))

    def _tile(
        self, body: Body, outer: Sequence[Expr], a: Expr, b: Expr, rest: tuple[Expr, Expr]
    ) -> None:
        low, side = body.low, self.side
        rest_a, rest_b = rest
        columns: dict[Node, list[Expr]] = {}
        for move in self.moves:
            rows = []
            for k in range(side):
                index = self._index(body, outer, ramp(a, side), b + k)
                with _partly(body, rest_b, rest_a, k, side):
                    rows.append(low.at(move, index))
            columns[move] = _transposed(body, rows)
        for k in range(side):
            with _partly(body, rest_a, rest_b, k, side), low.scope():
                for move in self.moves:
                    value = columns[move][k]
                    low.bind_reader(move, _constant(value))
                index = self._index(body, outer, a + k, ramp(b, side))
                values = [low.at(n, index) for n in self.group.outputs]
                for node, buffer, value in zip(
                    self.group.outputs, body.outputs, values, strict=True
                ):
                    low.store(buffer, low.space.join(index, node.shape), value, node.dtype)
                for move in self.moves:
                    low.drop_reader(move)

    def _index(self, body: Body, outer: Sequence[Expr], a: Expr, b: Expr) -> list[Expr]:
        space = body.low.space
        index: list[Expr] = [i64(0)] * len(self.domain)
        for axis, value in zip(self.outer_axes, outer, strict=True):
            index[axis] = value
        index[slice(*self.a_run)] = space.split(a, self.a_dims)
        index[slice(*self.b_run)] = space.split(b, self.b_dims)
        return index


def _constant(value: Expr) -> Reader:
    return lambda index: value


@contextmanager
def _partly(body: Body, limit: Expr, count: Expr, k: int, side: int) -> Iterator[None]:
    """The first ``count`` lanes of row ``k`` if it is below ``limit``, else none."""
    lanes = tirx.Select(limit > k, tirx.min(count, i64(side)), i64(0))
    with body.low.masked(first_lanes(body.block.bind("lanes", lanes), side)):
        yield


def _transposed(body: Body, rows: Sequence[Expr]) -> list[Expr]:
    """Columns of a square of vectors."""
    side = len(rows)
    current = list(rows)
    step = 1
    while step < side:
        following = list(current)
        for i in range(side):
            if i & step:
                continue
            low, high = current[i], current[i + step]
            keep = [j if not j & step else side + j - step for j in range(side)]
            swap = [side + j if j & step else j + step for j in range(side)]
            for at, picks in ((i, keep), (i + step, swap)):
                mixed = tirx.Shuffle([low, high], [tirx.IntImm("int32", p) for p in picks])
                following[at] = body.block.bind("v", mixed)
        current = following
        step *= 2
    return current
