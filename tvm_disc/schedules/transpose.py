"""The *transpose* template: permutations that move the last axis, with element-wise work around.

Neither side of such a copy can be both read and written along its rows. Square tiles are loaded
along the operand's rows, transposed in registers by shuffles and stored along the result's rows.
Dims that stay neighbours count as one, so ``NHWC -> NCHW`` has whole images as rows.

A tile is as wide as a register: a line of cache is read once and written once, in one piece. The
last tile of a row overlaps the one before, so that nothing is masked. Tiles go in short runs along
the operand's rows: squares would touch a page with nearly every line. A large result is streamed
past the caches, a few rows of the operand at a time: its lines would be read only to be
overwritten, and rows a power of two apart would evict one another. Where a side is shorter than a
register, smaller tiles are masked.

    out[.., a, .., b] = in[.., b, .., a]      A: dims of a, contiguous in the operand
                                              B: dims of b, contiguous in the result
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

from tvm import tirx

from tvm_disc.errors import WhyNot
from tvm_disc.relay_passes.axes import permutation
from tvm_disc.relay_passes.graph import Node, is_one
from tvm_disc.schedules.emit import (
    LINE_BYTES,
    Buffer,
    base_address,
    element_pointer,
    first_lanes,
    i64,
    prefetch,
    ramp,
)
from tvm_disc.schedules.index import mul, product
from tvm_disc.schedules.kernel import Body, Group, Machine, Plan
from tvm_disc.schedules.llvm_ops import fence, has_native
from tvm_disc.schedules.llvm_ops import stream as stream_store
from tvm_disc.schedules.loop import plan_loop, uncertain_dims
from tvm_disc.schedules.lowering import Reader
from tvm_disc.schedules.rows import is_vectorizable
from tvm_disc.shape import Solver

Expr: TypeAlias = Any

RUN_TILES = 16  # tiles one after another: neighbouring lines of few rows
FETCH_TILES = 2  # to the tile whose lines are asked for
FAR_BYTES = 1 << 20  # beyond it operands are not in a nearby cache: their lines are asked for early
STREAM_BYTES = 3 << 20  # results beyond it go past the caches
SHARE_ELEMS = 4096  # what the tasks count
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
    if any(_is_short(domain[slice(*run)], solver) for pair in runs for run in pair):
        # LLVM also needs minutes for tiles that it can prove to be nearly empty.
        return WhyNot("transpose", f"one side is at most {NARROW} long: tiles would be empty")
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

    def emit(body: Body) -> None:
        with body.block.when(work.is_narrow()), body.low.scope():
            plain.emit(_part_of(body, work.tasks(), plain.tasks))
        with body.block.otherwise(), body.low.scope():
            work.emit(body)

    return Plan(
        tasks=work.tasks(),
        work=plain.work,
        emit=emit,
        notes={"tiles": f"{machine.lanes} x {machine.lanes} in registers"},
    )


def _is_short(dims: Sequence[Any], solver: Solver) -> bool:
    return bool(solver.known_le(product(dims), i64(NARROW)))


def _part_of(body: Body, tasks: Expr, own: Expr) -> Body:
    """The same share of ``own`` tasks as the body's of ``tasks``.

    What a task is depends on the shape. One number that chooses between the counts would make
    TVM's analyzer follow every combination of the choices inside.
    """
    block = body.block
    total, own = block.number("total", tirx.max(tasks, i64(1))), block.number("own", own)
    lo = block.number("lo", tirx.truncdiv(body.lo * own, total))
    return replace(body, lo=lo, hi=block.number("hi", tirx.truncdiv(body.hi * own, total)))


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
        self.side = max(self.machine.lanes // 2, 4)  # of the tiles with masks
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
        """Shares of the elements; every kind of tile has its own tasks."""
        return tirx.floordiv(product(self.domain) + (SHARE_ELEMS - 1), i64(SHARE_ELEMS))

    def emit(self, body: Body) -> None:
        """Tasks ``[lo, hi)``."""
        lanes, outer = self.machine.lanes, product([self.domain[k] for k in self.outer_axes])
        wide = tirx.min(product(self.a_dims), product(self.b_dims)) >= lanes
        with body.block.when(wide), body.low.scope():
            _Runs(self, body).emit(self.tasks(), outer)
        with body.block.otherwise(), body.low.scope():
            strips = mul(outer, mul(*self._strips()))
            self._emit_strips(_part_of(body, self.tasks(), strips))

    def _emit_strips(self, body: Body) -> None:
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
                index = self.index(body, outer, ramp(a, side), b + k)
                with _partly(body, rest_b, rest_a, k, side):
                    rows.append(low.at(move, index))
            columns[move] = transposed(body, rows)
        for k in range(side):
            with _partly(body, rest_a, rest_b, k, side), low.scope():
                for move in self.moves:
                    value = columns[move][k]
                    low.bind_reader(move, _constant(value))
                index = self.index(body, outer, a + k, ramp(b, side))
                values = [low.at(n, index) for n in self.group.outputs]
                for node, buffer, value in zip(
                    self.group.outputs, body.outputs, values, strict=True
                ):
                    low.store(buffer, low.space.join(index, node.shape), value, node.dtype)
                for move in self.moves:
                    low.drop_reader(move)

    def whole_tile(self, body: Body, outer: Sequence[Expr], a: Expr, b: Expr, stream: bool) -> None:
        """A tile of full registers, all of it inside."""
        low, lanes = body.low, self.machine.lanes
        columns: dict[Node, list[Expr]] = {}
        for move in self.moves:
            at = ramp(a, lanes)
            rows = [low.at(move, self.index(body, outer, at, b + k)) for k in range(lanes)]
            columns[move] = transposed(body, rows)
        for k in range(lanes):
            with low.scope():
                for move in self.moves:
                    low.bind_reader(move, _constant(columns[move][k]))
                index = self.index(body, outer, a + k, ramp(b, lanes))
                values = [low.at(n, index) for n in self.group.outputs]
                for node, buffer, value in zip(
                    self.group.outputs, body.outputs, values, strict=True
                ):
                    offset = low.space.join(index, node.shape)
                    if stream:
                        low.resolve([offset])
                        body.block.eval(stream_store(value, element_pointer(buffer, offset.base)))
                    else:
                        low.store(buffer, offset, value, node.dtype)
                for move in self.moves:
                    low.drop_reader(move)

    def index(self, body: Body, outer: Sequence[Expr], a: Expr, b: Expr) -> list[Expr]:
        space = body.low.space
        index: list[Expr] = [i64(0)] * len(self.domain)
        for axis, value in zip(self.outer_axes, outer, strict=True):
            index[axis] = value
        index[slice(*self.a_run)] = space.split(a, self.a_dims)
        index[slice(*self.b_run)] = space.split(b, self.b_dims)
        return index


class _Runs:
    """Tiles of whole registers, in runs along the operand's rows; runs lie side by side.

    Where all rows of the result begin at the same place in a line of cache, tiles lie on lines: as
    if that many elements stood before each row. So do those of the operand, whose lines would be
    loaded twice. The first and the last tile are moved inside.

    Choices are numbers 0 and 1 here, and divisions are of natural numbers: TVM spells out the
    rounding of any other.
    """

    def __init__(self, work: _Transpose, body: Body) -> None:
        self.work, self.body, self.lanes = work, body, work.machine.lanes
        block = body.block
        self.size_a = block.number("na", product(work.a_dims))
        self.size_b = block.number("nb", product(work.b_dims))
        # Lines and streaming need registers of float32 that fill a line.
        kinds = {n.dtype for n in (*work.group.outputs, *work.moves)}
        self.fills_lines = kinds == {"float32"} and has_native(self.lanes)
        self.before_a, self.before, self.streams = i64(0), i64(0), i64(0)
        if self.fills_lines:
            size_bytes = product(work.domain) * (4 * len(work.group.outputs))
            self.is_far = block.number("far", tirx.truncdiv(size_bytes, i64(FAR_BYTES)))
            odd = self._odd(self.size_b)
            self.streams = block.number("streams", self._streams(odd))
            self.before = self._before(body.outputs[0], self.size_b, odd, self.streams)
            source = work.moves[0].inputs[0]
            if source in body.buffers:
                odd = self._odd(self.size_a)
                self.before_a = self._before(body.buffers[source], self.size_a, odd, i64(0))

    def _odd(self, size: Expr) -> Expr:
        """0 if rows of so many elements all begin at the same place in a line."""
        return self.body.block.number("odd", tirx.bitwise_and(size, i64(self.lanes - 1)))

    def _before(self, buffer: Buffer, size: Expr, odd: Expr, always: Expr) -> Expr:
        """Elements of a line before the first of every row, 0 if rows differ or, but for
        ``always``, are short."""
        address = tirx.truncdiv(base_address(buffer), i64(LINE_BYTES // self.lanes))
        many = tirx.truncdiv(size, i64(self.lanes * RUN_TILES)) + always
        alike = tirx.min(many, i64(1)) * (1 - tirx.min(odd, i64(1)))
        before = tirx.bitwise_and(address, i64(self.lanes - 1)) * alike
        return self.body.block.number("before", before)

    def _streams(self, odd: Expr) -> Expr:
        """1 if results of this size are streamed: all rows must begin alike."""
        total = product(self.work.domain) * (4 * len(self.work.group.outputs))
        first, *others = (base_address(b) for b in self.body.outputs)
        for address in others:
            apart = tirx.bitwise_and(tirx.bitwise_xor(address, first), i64(LINE_BYTES - 1))
            odd = tirx.bitwise_or(odd, apart)
        odd = tirx.bitwise_or(odd, tirx.bitwise_and(first, i64(3)))
        times = self.body.block.number("times", tirx.truncdiv(total, i64(STREAM_BYTES)))
        return tirx.min(times, i64(1)) * (1 - tirx.min(odd, i64(1)))

    def emit(self, tasks: Expr, outer_size: Expr) -> None:
        """The body's share of the runs."""
        block, low, work, lanes = self.body.block, self.body.low, self.work, self.lanes
        ta = block.number(
            "ta", tirx.truncdiv(self.size_a + (self.before_a + lanes - 1), i64(lanes))
        )
        tb = block.number("tb", tirx.truncdiv(self.size_b + (self.before + lanes - 1), i64(lanes)))
        step = block.number("step", RUN_TILES + self.streams * (ta - RUN_TILES))
        runs = block.number("runs", tirx.truncdiv(ta + (step - 1), step))
        body = _part_of(self.body, tasks, mul(outer_size, runs * tb))
        with low.loop("t", body.hi - body.lo, begin=body.lo) as t:
            o = block.number("o", tirx.truncdiv(t, runs * tb))
            rest = block.number("rest", t - o * (runs * tb))
            run = block.number("run", tirx.truncdiv(rest, tb))
            place = block.number("place", rest - run * tb)
            outer = low.space.split(o, [work.domain[k] for k in work.outer_axes])
            first = block.number("first", run * step)
            with low.loop("j", tirx.min(ta - first, step), begin=first) as tile:
                self._tile(outer, tile, place)
        if self.fills_lines:
            block.eval(fence())

    def _fetch_next(self, outer: Sequence[Expr], a: Expr, b: Expr) -> None:
        """Ask for the lines of a later tile of the run: rows far apart would cost the latency of
        memory one by one."""
        low, lanes = self.body.low, self.lanes
        for move in self.work.moves:
            source = move.inputs[0]
            for k in range(lanes) if source in self.body.buffers else ():
                index = self.work.index(self.body, outer, a + FETCH_TILES * lanes, b + k)
                back = [index[permutation(move).index(d)] for d in range(len(index))]
                offset = low.space.join(back, source.shape)
                low.resolve([offset])
                self.body.block.eval(prefetch(self.body.buffers[source], offset, to_write=False))

    def _inside(self, at: Expr, size: Expr) -> Expr:
        """Where the tile that is wanted ``at`` a place along ``size`` begins."""
        first = tirx.max(at, i64(0))
        return self.body.block.number("at", tirx.min(first, size - self.lanes))

    def _tile(self, outer: Sequence[Expr], a: Expr, b: Expr) -> None:
        """Tile ``a`` across, ``b`` along."""
        block, low, lanes = self.body.block, self.body.low, self.lanes
        a = self._inside(a * lanes - self.before_a, self.size_a)
        wanted = block.number("wanted", b * lanes - self.before)
        b = self._inside(wanted, self.size_b)
        if not self.fills_lines:
            self.work.whole_tile(self.body, outer, a, b, stream=False)
            return
        with block.when(self.is_far > 0), low.scope():
            self._fetch_next(outer, a, b)
        with block.when(tirx.And(self.streams > 0, tirx.EQ(wanted, b))), low.scope():
            self.work.whole_tile(self.body, outer, a, b, stream=True)
        with block.otherwise(), low.scope():
            self.work.whole_tile(self.body, outer, a, b, stream=False)


def _constant(value: Expr) -> Reader:
    return lambda index: value


@contextmanager
def _partly(body: Body, limit: Expr, count: Expr, k: int, side: int) -> Iterator[None]:
    """The first ``count`` lanes of row ``k`` if it is below ``limit``, else none."""
    lanes = tirx.Select(limit > k, tirx.min(count, i64(side)), i64(0))
    with body.low.masked(first_lanes(body.block.bind("lanes", lanes), side)):
        yield


def transposed(body: Body, rows: Sequence[Expr]) -> list[Expr]:
    """Columns of a square of vectors."""
    return _by_quarters(body, rows) if len(rows) == 16 else _by_butterfly(body, rows)


def _shuffled(body: Body, a: Expr, b: Expr, picks: Sequence[int]) -> Expr:
    mixed = tirx.Shuffle([a, b], [tirx.IntImm("int32", p) for p in picks])
    return body.block.bind("v", mixed)


def _by_quarters(body: Body, rows: Sequence[Expr]) -> list[Expr]:
    """Sixteen vectors: 4 x 4 squares inside the quarters of registers, then whole quarters.

    Each step is an instruction that needs no table of indices: interleave the low or high halves
    of the quarters by ones, by twos, and take the even or the odd quarters of two registers.
    """
    quarters = range(0, 16, 4)
    ones = [[q + k // 2 + 16 * (k % 2) + h for q in quarters for k in range(4)] for h in (0, 2)]
    twos = [[q + k % 2 + 16 * (k // 2) + h for q in quarters for k in range(4)] for h in (0, 2)]
    parts = [[s + 4 * q + k for s in (0, 16) for q in (h, h + 2) for k in range(4)] for h in (0, 1)]
    mix = partial(_shuffled, body)
    first = [mix(rows[i], rows[i + 1], p) for i in range(0, 16, 2) for p in ones]
    # second[4 * g + c]: column c of each quarter of rows 4g .. 4g + 3.
    second: list[Expr] = []
    for g in range(0, 16, 4):
        for low, high in ((g, g + 2), (g + 1, g + 3)):
            second += [mix(first[low], first[high], p) for p in twos]
    result: list[Expr] = [None] * 16
    for c in range(4):
        for h, p in enumerate(parts):
            top = mix(second[c], second[4 + c], p)
            bottom = mix(second[8 + c], second[12 + c], p)
            for odd, pick in enumerate(parts):
                result[4 * (h + 2 * odd) + c] = mix(top, bottom, pick)
    return result


def _by_butterfly(body: Body, rows: Sequence[Expr]) -> list[Expr]:
    """Exchange blocks of 1, 2, 4 lanes between pairs of vectors (Eklundh)."""
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
                following[at] = _shuffled(body, low, high, picks)
        current = following
        step *= 2
    return current
