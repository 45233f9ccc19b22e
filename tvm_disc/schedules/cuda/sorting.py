"""Argsort and top-k indices along an axis: a thread, a block, or several blocks per row.

A block sorts 1024 indices in shared memory by Batcher's bitonic network (AFIPS 1968). Rows that are
longer are merged from sorted runs, which double in length with each launch. A thread moves one
index: it finds the position in the merged run by a binary search in the other run.

The order is total: equal elements keep their order. Padding after the end of a row is sorted last.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import cast as typed

from tvm import tirx

from tvm_disc.errors import WhyNot
from tvm_disc.graph.nodes import Node
from tvm_disc.schedules.cuda.block import DeviceBlock
from tvm_disc.schedules.cuda.cost import Work, passes_ns, waves_ns
from tvm_disc.schedules.cuda.reduce import strided
from tvm_disc.schedules.cuda.serial import in_order
from tvm_disc.schedules.dispatch.variant import Grid, Knobs, Need, Pass
from tvm_disc.schedules.elements import cast
from tvm_disc.schedules.kernel import Body, Group, Machine, Plan
from tvm_disc.schedules.opaque.sorting import ARGSORT, descends, plan_sort, sorts_before
from tvm_disc.shape import Solver
from tvm_disc.tir.builder import i64
from tvm_disc.tir.hoisted import Sizes
from tvm_disc.tir.index import add, mul, product
from tvm_disc.typing import Buffer, Expr

CHUNK, THREADS = 1024, 256
LONGEST = 40  # largest number of merges, each of which doubles the length of runs


@dataclass(frozen=True)
class SortKnobs(Knobs):
    """Whether a thread, a block or several blocks sort a row."""

    by: str = "thread"


def plan_sorted(group: Group, solver: Solver, machine: Machine) -> list[Plan] | WhyNot:
    """Return plans with a thread per row, a block per row, or several blocks and merges."""
    answer = in_order(plan_sort)(group, solver, machine)
    if isinstance(answer, WhyNot):
        return answer
    assert machine.device is not None and isinstance(answer, Plan)
    node = group.anchor or group.nodes[-1]
    lines = _Lines(node)
    rows, length = lines.rows, lines.length
    chunks = tirx.floordiv(length + (CHUNK - 1), i64(CHUNK))
    rounds = _doublings(length, CHUNK)
    all_ = mul(rows, length)
    alone = Work(tirx.floordiv(rows + 63, i64(64)), 64, length * (_doublings(length, 1) + 1) * 8)
    network = Work(mul(rows, chunks), THREADS, i64(CHUNK // THREADS * 8), 55)
    search = Work(tirx.floordiv(all_ + (THREADS - 1), i64(THREADS)), THREADS, i64(200))
    ns = partial(waves_ns, machine.device, group)
    first = replace(answer, knobs=SortKnobs(), cost=partial(ns, alone), features=(length,))
    block = Plan(
        tasks=rows,
        work=answer.work,
        emit=partial(lines.chunk, last=True),
        knobs=SortKnobs("block"),
        needs=(Need(f"lines have at most {CHUNK} elements", length <= CHUNK),),
        grid=Grid(THREADS, shared=True),
        cost=partial(ns, network),
        features=(length,),
        notes={"sort": "a network in shared memory; merges of longer lines"},
    )
    merged = Plan(
        tasks=rows,
        work=answer.work,
        emit=lines.chunk,
        knobs=SortKnobs("blocks"),
        scratch_elems=mul(all_, 2),
        scratch_dtype="int64",
        cost=partial(passes_ns, machine.device, group, ((network, 1), (search, rounds + 1))),
        features=(length,),
        passes=(
            Pass(mul(rows, chunks), lines.chunk, Grid(THREADS, shared=True)),
            Pass(all_, lines.merge, rounds=rounds),
            Pass(all_, partial(lines.result, rounds=rounds)),
        ),
    )
    return [first, block, merged]


def _doublings(length: Expr, width: int) -> Expr:
    """Return how many times ``width`` must be doubled to reach ``length``."""
    tests: list[Expr] = [tirx.Cast("int64", length > (width << k)) for k in range(LONGEST)]
    return reduce(add, tests)


class _Lines:
    """The rows of a tensor: the slices along the sorted axis."""

    def __init__(self, node: Node) -> None:
        self.node, source = node, node.inputs[0]
        self.axis = int(node.attrs["axis"]) % len(source.shape)
        self.outer = [d for a, d in enumerate(source.shape) if a != self.axis]
        self.rows, self.length = product(self.outer), i64(source.shape[self.axis])
        self.dtype = "int8" if source.dtype == "bool" else source.dtype
        self.count = i64(node.shape[self.axis])  # length of a row of the result
        self.before = sorts_before(source.dtype, descends(node))

    def index(self, body: Body, row: Expr, position: Expr) -> list[Expr]:
        """Return the tensor index of a position in a row."""
        head = list(body.low.space.split(row, self.outer))
        return [*head[: self.axis], position, *head[self.axis :]]

    def value(self, body: Body, row: Expr, position: Expr) -> Expr:
        """Emit the load of the element at a position of a row; return its value."""
        low = body.low
        with low.scope():
            value = cast(low.at(self.node.inputs[0], self.index(body, row, position)), self.dtype)
            low.resolve([value])
            return body.block.bind("value", value)

    def write(self, body: Body, row: Expr, place: Expr, position: Expr) -> None:
        """Emit the store of the index ``position`` at ``place`` in a row of the result."""
        low, node = body.low, self.node
        with low.scope():
            at = low.space.join(self.index(body, row, place), node.shape)
            low.store(body.outputs[0], at, cast(position, node.dtype), node.dtype)

    def precedes(self, one: tuple[Expr, Expr], two: tuple[Expr, Expr]) -> Expr:
        """Return whether the (value, index) ``one`` is sorted before (value, index) ``two``."""
        (a, p), (b, q) = one, two
        equal = tirx.And(tirx.Not(self.before(b, a)), p < q)
        return tirx.Or(self.before(a, b), equal)

    # -- in shared memory --------------------------------------------------------------------------

    def chunk(self, body: Body, last: bool = False) -> None:
        """Emit a sort of at most 1024 indices of a row into scratch memory, or the result if
        ``last``.
        """
        block, length = typed(DeviceBlock, body.block), self.length
        values = block.shared("values", CHUNK, self.dtype)
        places = block.shared("places", CHUNK, "int64")
        chunks = block.bind("chunks", tirx.floordiv(length + (CHUNK - 1), i64(CHUNK)))
        row = block.bind("row", body.lo if last else tirx.truncdiv(body.lo, chunks))
        begin = i64(0) if last else block.bind("begin", (body.lo - row * chunks) * CHUNK)
        end = block.bind("end", tirx.min(begin + CHUNK, length))
        with strided(body, i64(CHUNK), THREADS) as k:
            # indices after the end of the row are padding
            block.store(places, k, begin + k)
            with block.when(begin + k < end):
                block.store(values, k, self.value(body, row, begin + k))
        block.barrier()
        self._network(body, values, places, (begin, end))
        with strided(body, self.count if last else end - begin, THREADS) as k:
            if last:
                self.write(body, row, k, block.bind("place", places[k]))
            else:
                assert body.scratch is not None
                block.store(body.scratch, row * length + begin + k, places[k])
        block.barrier()

    def _network(
        self, body: Body, values: Buffer, places: Buffer, bounds: tuple[Expr, Expr]
    ) -> None:
        """Emit Batcher's network for the range's length, rounded up to a power of two."""
        block, (begin, end) = typed(DeviceBlock, body.block), bounds
        cells = [block.alloc(n, 1, "int64") for n in ("size", "step", "width")]
        size, step, width = cells
        block.store(width, 0, i64(1))
        with block.loop_while(width[i64(0)] < end - begin):
            block.store(width, 0, width[i64(0)] * 2)
        pairs = block.bind("pairs", tirx.shift_right(width[i64(0)], i64(1)))
        block.store(size, 0, i64(2))
        with block.loop_while(size[i64(0)] <= pairs * 2):
            run = block.bind("run", size[i64(0)])
            block.store(step, 0, tirx.shift_right(run, i64(1)))
            with block.loop_while(step[i64(0)] > 0):
                far = block.bind("far", step[i64(0)])
                with strided(body, pairs, THREADS) as t:
                    inner = block.bind("inner", tirx.bitwise_and(t, far - 1))
                    one = block.bind("one", (t - inner) * 2 + inner)
                    rising = tirx.EQ(tirx.bitwise_and(one, run), i64(0))
                    ends = (one, block.bind("two", one + far))
                    self._exchange(body, (values, places), ends, rising, end)
                block.barrier()
                block.store(step, 0, tirx.shift_right(far, i64(1)))
            block.store(size, 0, run * 2)

    def _exchange(
        self,
        body: Body,
        rooms: tuple[Buffer, Buffer],
        ends: tuple[Expr, Expr],
        rising: Expr,
        end: Expr,
    ) -> None:
        block, (values, places), (one, two) = body.block, rooms, ends
        a, b = block.bind("a", values[one]), block.bind("b", values[two])
        p, q = block.bind("p", places[one]), block.bind("q", places[two])

        def first(x: tuple[Expr, Expr], y: tuple[Expr, Expr]) -> Expr:
            some = tirx.Or(y[1] >= end, self.precedes(x, y))
            return tirx.And(x[1] < end, some)

        wrong = tirx.Select(rising, first((b, q), (a, p)), first((a, p), (b, q)))
        with block.when(wrong):
            for room, x, y in ((values, a, b), (places, p, q)):
                block.store(room, one, y)
                block.store(room, two, x)

    # -- merges ------------------------------------------------------------------------------------

    def _at(self, body: Body) -> tuple[Expr, Expr, Expr]:
        """Return (row, position in the row, number of elements of all rows) of a task."""
        block = body.block
        row = block.bind("row", tirx.truncdiv(body.lo, self.length))
        total = block.bind("total", mul(self.rows, self.length))
        return row, block.bind("p", body.lo - row * self.length), total

    def merge(self, body: Body) -> None:
        """Emit the move of one index to its position in the merged run, which is twice as long."""
        block, scratch = body.block, body.scratch
        assert scratch is not None
        row, p, total = self._at(body)
        flip = block.bind("flip", tirx.bitwise_and(body.round, i64(1)))
        source = block.bind("source", flip * total + row * self.length)
        target = block.bind("target", (1 - flip) * total + row * self.length)
        width = block.bind("width", tirx.shift_left(i64(CHUNK), body.round))
        start = block.bind("start", tirx.truncdiv(p, width * 2) * (width * 2))
        middle = block.bind("middle", tirx.min(start + width, self.length))
        end = block.bind("end", tirx.min(start + width * 2, self.length))
        mine = block.bind("mine", scratch[source + p])
        value = self.value(body, row, mine)
        left = block.bind("left", p < middle)
        first, last = (block.alloc(n, 1, "int64") for n in ("first", "last"))
        block.store(first, 0, tirx.Select(left, middle, start))
        block.store(last, 0, tirx.Select(left, end, middle))
        with block.loop_while(first[i64(0)] < last[i64(0)]):
            half = tirx.shift_right(first[i64(0)] + last[i64(0)], i64(1))
            half = block.bind("middle", half)
            other = block.bind("other", scratch[source + half])
            sooner = self.precedes((self.value(body, row, other), other), (value, mine))
            with block.when(sooner):
                block.store(first, 0, half + 1)
            with block.otherwise():
                block.store(last, 0, half)
        # An index of the left run is preceded by p - start indices of its run and first - middle of
        # the other; for the right run the formula is the same.
        block.store(scratch, target + p + first[i64(0)] - middle, mine)

    def result(self, body: Body, rounds: Expr) -> None:
        """Emit the store of one index into the result, after all merges."""
        block = body.block
        assert body.scratch is not None
        row, p, total = self._at(body)
        flip = block.bind("flip", tirx.bitwise_and(Sizes(block).plain(rounds), i64(1)))
        place = block.bind("place", body.scratch[flip * total + row * self.length + p])
        if self.node.op == ARGSORT:
            self.write(body, row, p, place)
        else:
            with block.when(p < self.count):
                self.write(body, row, p, place)
