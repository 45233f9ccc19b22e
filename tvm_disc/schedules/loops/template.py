"""The *loop* template: element-wise, broadcast and injective operators over one domain.

The domain is flattened as far as all reads allow: fully if they are contiguous, else into rows of
the longest suffix of dims that needs no division in the inner loop. A loop computes vectors, of
which the last one is masked. A second plan, for short rows, computes one row per lane. Values that
cannot be computed as vectors (guarded loads) are left to LLVM's vectorizer.

A dim ``n`` of an operand that may or may not be 1 is indexed by ``i * (n != 1)``. In this case, two
versions of the loop nest are emitted; the version for equal dims, in which nothing is broadcast,
has plain indices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import tvm
from tvm import tirx

from tvm_disc.graph.core_ops import OpClass
from tvm_disc.graph.nodes import Node, is_one
from tvm_disc.schedules.dispatch.variant import Need
from tvm_disc.schedules.kernel import Body, Group, Machine, Plan
from tvm_disc.schedules.loops.joined import JoinedColumns, of_rows
from tvm_disc.schedules.loops.runs import JoinedRuns
from tvm_disc.schedules.lowering import Lowering, is_contiguous
from tvm_disc.schedules.rows.template import AcrossKnobs, are_vectorizable, is_vectorizable
from tvm_disc.shape import Solver
from tvm_disc.tir.builder import (
    LINE_BYTES,
    Block,
    first_lanes,
    i64,
    index_var,
    lanes_of,
    pointer,
    ramp,
    view,
)
from tvm_disc.tir.index import IndexSpace, add, ceil_div, mul, product
from tvm_disc.tir.non_temporal import PastCaches, far_elems
from tvm_disc.tir.vector_split import Vectors, to_next_line
from tvm_disc.typing import UNSET, Buffer, Expr

BLOCK_ELEMS = 4096  # elements of a task if rows are long
MANY_ROWS = 16  # with this many rows per thread, rows are not divided
AHEAD = 1024  # prefetch distance in elements
UNROLLED_BYTES = 16  # bytes per lane of an unrolled step: four vectors of 32-bit elements


def plan_loop(group: Group, solver: Solver, machine: Machine) -> list[Plan]:
    """Return plans with one pass over the outputs: along rows, or one short row per lane."""
    loop = _Loop(group, solver, machine)
    cost = sum(n.row.cost for n in group.nodes if n.row is not None)
    along = Plan(
        tasks=loop.tasks(),
        work=product(loop.domain) * cost,
        emit=loop.emit,
        steps=i64(0) if loop.split else 0,
        loops=loop.tasks() if loop.split else 0,
        notes=loop.notes(),
    )
    if not loop.walks_across():
        return [along]
    blocks = ceil_div(loop.rows, machine.lanes)
    across = Plan(
        tasks=blocks,
        work=product(loop.domain) * cost,
        emit=loop.emit_across,
        knobs=AcrossKnobs(machine.lanes),
        needs=(Need(f"there are {machine.lanes} rows", i64(loop.rows) >= machine.lanes),),
        features=(i64(loop.inner),),
        strided=product(loop.domain) * loop.strided(),
    )
    return [along, across]


def _gathers(node: Node) -> bool:
    """Return whether a node reads its operand at positions that are loaded from memory."""
    return node.cls is OpClass.INJECTIVE and any("int" in x.dtype for x in node.inputs[1:])


class _Loop:
    """A loop group, whose dims are split into ``outer`` and ``inner`` ones.

    If there are two versions, the split is chosen for the version with broadcast dims.
    """

    def __init__(self, group: Group, solver: Solver, machine: Machine) -> None:
        self.group, self.solver, self.lanes = group, solver, machine.lanes
        self.threads, memory = machine.threads, machine.memory
        self.far_bytes, self.stream_ops = memory.far_bytes, memory.stream_ops
        self.domain = tuple(group.outputs[0].shape)
        self.joined = JoinedColumns(group, self.domain, solver)
        plain = is_vectorizable(group)
        self.by_parts = not plain and self._has_parts()
        self.unsure = uncertain_dims(group, solver)
        self.runs = None if plain or self.by_parts else self._joined_runs()
        self.runs_as_vectors = self._runs_as_vectors()
        self.vector = plain or self.by_parts or any(self.runs_as_vectors)
        self.lined = False
        self.split = self._split()
        self.unrolled = self._unrolled()
        self.inner = product(self.domain[self.split :])
        self.rows = product(self.domain[: self.split])

    def _has_parts(self) -> bool:
        """Return whether rows can be written with one loop per part of ``joined``."""
        short = bool(self.joined) and self.joined.parts[-1][1] <= BLOCK_ELEMS
        return short and is_vectorizable(self.group, {*self.joined.begins, *of_rows(self.group)})

    def _joined_runs(self) -> JoinedRuns | None:
        """Return the concatenations whose operands are written one after the other, or None."""
        runs = None if self.unsure else JoinedRuns.of(self.group, self.domain, self.solver)
        if runs is None or any(self._divides(runs, k) for k in range(runs.count)):
            return None
        return runs

    def _divides(self, runs: JoinedRuns, k: int) -> bool:
        """Return whether reading the operands of a run requires a division of its position."""
        low, outputs = self._dry()
        outer = low.space.split(index_var("r"), self.domain[: runs.axis])
        at, j = index_var("at"), index_var("j")
        inner = low.space.split(j, self.domain[runs.axis :])
        with runs.run(low, k, outer, at):
            for node, buffer in zip(self.group.outputs, outputs, strict=True):
                low.store(buffer, j, low.at(node, [*outer, *inner]), node.dtype)
        return any(low.space.depends_on(v, x) for v in low.defined for x in (at, j))

    def _runs_as_vectors(self) -> list[bool]:
        """Return for each run whether it can be written as vectors; others are left to LLVM."""
        runs = self.runs
        if runs is None:
            return []
        nodes = set(self.group.nodes)
        needed = [runs.needed(self.group.outputs, k) for k in range(runs.count)]
        return [are_vectorizable(nodes.intersection(n), runs.nodes) for n in needed]

    def _split(self) -> int:
        """Return the number of outer dims."""
        if self.runs is not None:
            return self.runs.axis
        return len(self.domain) - 1 if self.by_parts else self._best_split()

    def _unrolled(self) -> int:
        """Return the number of vectors per loop iteration.

        Several vectors hide latency. One vector is enough if the group gathers, since a gather has
        one load per lane. If elements that are not adjacent are read, there is also one load per
        lane; a step then writes one cache line. There are fewer vectors of wide elements, since
        LLVM splits each vector into several registers, and its compile time grows faster than the
        number of registers.
        """
        if any(_gathers(n) for n in self.group.nodes):
            return 1
        values = {x for n in self.group.nodes for x in (n, *n.inputs)}
        widest = max(int(tvm.DataType(x.dtype).bits) // 8 for x in values)
        if self.vector and self._loads_by_lane():
            return max(1, LINE_BYTES // max(4, widest) // self.lanes)
        return UNROLLED_BYTES // max(4, widest)

    def _loads_by_lane(self) -> bool:
        """Return whether lanes of a vector are read from elements that are not adjacent."""
        if self.by_parts or self.runs is not None:
            return False
        low, outputs = self._dry()
        offsets: list[Expr] = []
        low.on_load = offsets.append
        j = ramp(index_var("j"), self.lanes)
        outer = low.space.split(index_var("r"), self.domain[: self.split])
        self._store(low, outputs, outer, add(index_var("base"), j) if self.split else j, j)
        return any(lanes_of(at) > 1 and not is_contiguous(at) for at in offsets)

    def notes(self) -> dict[str, str]:
        """Return the plan's lines in ``explain``."""
        rank = len(self.domain) - self.split
        inner = "the last dim" if rank == 1 else f"the last {rank} dims"
        over = "all elements" if self.split == 0 else f"rows, then elements of {inner}"
        notes = {"loops over": over}
        if self.runs is not None:
            notes["joined operands"] = f"{self.runs.count}, each copied by its own loop"
        if self.unsure:
            notes["inner loops"] = "one for equal dims, one for broadcast dims"
        return notes

    def tasks(self) -> Expr:
        """Return the number of tasks: rows, or blocks of each row if there are few rows."""
        return mul(self.rows, self._blocks())

    def strided(self) -> int:
        """Return the strided accesses per element if each lane computes a row."""
        low, outputs = self._dry()
        offsets: list[Expr] = []
        low.on_load = offsets.append
        at, j = ramp(index_var("r"), self.lanes), index_var("j")
        outer = low.space.split(at, self.domain[: self.split])
        self._store(low, outputs, outer, add(mul(at, self.inner), j), j)
        loads = sum(lanes_of(x) > 1 and not is_contiguous(x) for x in offsets)
        return loads + len(outputs)

    def _blocks(self) -> Expr:
        blocks = ceil_div(self.inner, BLOCK_ELEMS)
        if self.split == 0:
            return blocks
        many = i64(self.rows) >= MANY_ROWS * self.threads
        return tirx.Select(many, i64(1), tirx.max(blocks, i64(1)))

    def emit(self, body: Body) -> None:
        """Emit tasks ``[lo, hi)`` along rows."""
        self._versions(body, self._along)

    def emit_across(self, body: Body) -> None:
        """Emit blocks ``[lo, hi)`` of rows, one row per lane."""
        self._versions(body, self._across)

    def _versions(self, body: Body, walk: Callable[[Body, bool], None]) -> None:
        """Emit ``walk``, in two versions if dims may be broadcast; the dims select the version."""
        if not self.unsure:
            walk(body, self.vector)
            return
        equal: Expr = UNSET
        for dim, target in self.unsure.values():
            test = tirx.EQ(i64(dim), i64(target))
            equal = test if equal is None else tirx.And(equal, test)
        with body.block.when(equal), body.low.scope(), body.low.without_broadcast(self.unsure):
            walk(body, self.vector)
        with body.block.otherwise(), body.low.scope():
            # Strides of 0 or 1 are known at run time only, so this version is not vectorized.
            walk(body, False)

    def _along(self, body: Body, vector: bool) -> None:
        low = body.low
        self.lined = vector and self._alignment_varies(body)
        past = self._past_caches(body, self.split) if vector else None
        low.past = past
        self._nest(body, self.split, vector)
        low.past = None
        if past is not None:
            past.end()

    def _past_caches(self, body: Body, split: int) -> PastCaches | None:
        """Return the non-temporal stores of results, or None; rows must be whole cache lines.

        Expensive operators do not gain from these stores: with them, a gelu of an array larger than
        the caches took 0.8 to 1.4 times as long.
        """
        if sum(n.row.cost for n in self.group.nodes if n.row is not None) > self.stream_ops:
            return None
        row = self.inner if split else i64(0)
        width = self.lanes * self.unrolled
        same = [n for n in (*self.group.params, *self.group.outputs)
                if self.solver.known_same_shape(n.shape, self.domain)]  # fmt: skip
        arrays = max(len(same), 2)  # operands that may be broadcast are not counted
        if self.runs is not None:
            row, arrays = i64(self.runs.suffix), 2 * len(self.group.outputs)
            if isinstance(row, tirx.IntImm) and int(row.value) * 4 % LINE_BYTES:
                return None
        sizes = (product(self.domain), row)
        far = far_elems(self.far_bytes, arrays)
        return PastCaches.of(body.block, body.outputs, sizes, width, far, self.lined)

    def _alignment_varies(self, body: Body) -> bool:
        """Return whether the code aligns vectors to cache lines of the first result at run time.

        A result of known size is allocated on a cache line, so its vectors are already aligned.
        """
        known = isinstance(self.inner, tirx.IntImm) or self.runs is not None
        if self.split or known or any(_gathers(n) for n in self.group.nodes):
            return False
        return not body.low.whole_vectors(self.inner, self.lanes, self.unrolled)

    def _nest(self, body: Body, split: int, vector: bool) -> None:
        block, low = body.block, body.low
        if split == 0:
            begin = block.bind("begin", body.lo * BLOCK_ELEMS)
            end = block.bind("end", tirx.min(body.hi * BLOCK_ELEMS, self.inner))
            self._run(body, (), i64(0), begin, end, vector)
            return
        inner = block.bind("inner", self.inner)
        if self.by_parts:
            self._each_row(body, inner, vector)
            return
        blocks = block.bind("blocks", self._blocks())
        with block.when(tirx.EQ(blocks, i64(1))), low.scope():
            self._each_row(body, inner, vector)
        with block.otherwise(), low.scope(), low.loop("t", body.hi - body.lo, begin=body.lo) as t:
            r = block.bind("r", tirx.floordiv(t, blocks))
            begin = block.bind("begin", (t - r * blocks) * BLOCK_ELEMS)
            end = block.bind("end", tirx.min(begin + BLOCK_ELEMS, inner))
            outer = low.space.split(r, self.domain[:split])
            self._run(body, outer, block.bind("base", mul(r, inner)), begin, end, vector)

    def _each_row(self, body: Body, inner: Expr, vector: bool) -> None:
        with body.low.loop("r", body.hi - body.lo, begin=body.lo) as r:
            outer = body.low.space.split(r, self.domain[: self.split])
            base = body.block.bind("base", mul(r, inner))
            self._run(body, outer, base, i64(0), inner, vector)

    def _across(self, body: Body, vector: bool) -> None:
        block, low, lanes = body.block, body.low, self.lanes
        inner = block.bind("inner", self.inner)
        rows = block.bind("rows", i64(self.rows))
        if not vector:
            begin, end = body.lo * lanes, tirx.min(body.hi * lanes, rows)
            self._each_row(replace(body, lo=begin, hi=end), inner, vector)
            return
        with low.loop("t", body.hi - body.lo, begin=body.lo) as t:
            # The last block overlaps the previous one.
            first = block.bind("first", tirx.min(t * lanes, rows - lanes))
            at = ramp(first, lanes)
            outer = low.space.split(at, self.domain[: self.split])
            with low.loop("j", inner) as j:
                self._store(low, body.outputs, outer, add(mul(at, inner), j), j)

    def _run(
        self, body: Body, outer: Sequence[Expr], base: Expr, begin: Expr, end: Expr, vector: bool
    ) -> None:
        """Emit elements ``[begin, end)`` of one row."""
        block, low, lanes = body.block, body.low, self.lanes
        if self.runs is not None:
            self._run_joined(body, self.runs, outer, base, (begin, end))
            return
        if not vector:
            with low.loop("j", end - begin, begin=begin) as j:
                self._store(low, body.outputs, outer, add(base, j), j)
            return
        if self.by_parts:
            for part in self.joined.parts:
                with self.joined.part(low, part[0]):
                    self._run_part(body, outer, base, part)
            return
        wide = lanes * self.unrolled
        lead = None
        if self.lined:
            first = body.outputs[0] if low.past is None else low.past.first
            lead = to_next_line(first, begin, lanes)
        vectors = Vectors(block, (begin, end), lanes, self.unrolled, lead)
        with low.loop("jo", vectors.wides) as jo:
            at = vectors.wide(jo)
            self._fetch(body, add(base, at) + AHEAD, wide)
            self._store(low, body.outputs, outer, ramp(add(base, at), wide), ramp(at, wide))
        # Blocks begin at multiples of BLOCK_ELEMS. If a row consists of full vectors, so do its
        # blocks.
        whole = low.whole_vectors(self.inner, lanes, self.unrolled)
        if whole == wide:
            return
        with low.loop("jt", vectors.singles()) as jt:
            at, left = vectors.single(jt, masked=not whole)
            with low.masked(None if left is None else first_lanes(left, lanes)):
                self._store(low, body.outputs, outer, ramp(add(base, at), lanes), ramp(at, lanes))

    def _run_part(
        self, body: Body, outer: Sequence[Expr], base: Expr, part: tuple[int, int]
    ) -> None:
        """Emit columns ``[begin, end)`` of one row: unrolled steps, then single vectors."""
        low, (begin, end) = body.low, part
        wide, at = self.lanes * self.unrolled, begin
        blocks = (end - begin) // wide
        if blocks:
            with low.loop("jo", blocks) as jo:
                first = body.block.bind("at", add(mul(jo, wide), begin))
                to = ramp(add(base, first), wide)
                self._store(low, body.outputs, outer, to, ramp(first, wide))
            at += blocks * wide
        for j in range(at, end, self.lanes):
            mask = first_lanes(i64(end - j), self.lanes) if end - j < self.lanes else None
            with low.scope(), low.masked(mask):
                to = ramp(add(base, j), self.lanes)
                self._store(low, body.outputs, outer, to, ramp(i64(j), self.lanes))

    def _run_joined(
        self, body: Body, runs: JoinedRuns, outer: Sequence[Expr], base: Expr, span: Sequence[Expr]
    ) -> None:
        """Emit elements ``span``, as (begin, end), of one row, with one loop per operand."""
        block, low, lanes = body.block, body.low, self.lanes
        begin, end = span
        wide, first = lanes * self.unrolled, i64(0)
        for k, size in enumerate(runs.sizes()):
            lo = block.bind("lo", tirx.max(begin - first, i64(0)))
            hi = block.bind("hi", tirx.max(tirx.min(end - first, i64(size)), lo))
            place, begins = (runs, k, outer), (base, first)
            if self.runs_as_vectors[k]:
                vectors = Vectors(block, (lo, hi), lanes, self.unrolled)
                with low.loop("jo", vectors.wides) as jo:
                    self._store_run(body, place, begins, vectors.wide(jo), wide)
                with low.loop("jt", vectors.singles()) as jt:
                    at, left = vectors.single(jt, masked=True)
                    assert left is not None
                    with low.masked(first_lanes(left, lanes)):
                        self._store_run(body, place, begins, at, lanes)
            else:
                with low.loop("js", hi - lo, begin=lo) as at:
                    self._store_run(body, place, begins, at, 1)
            first = block.bind("first", first + size)

    def _store_run(
        self,
        body: Body,
        place: tuple[JoinedRuns, int, Sequence[Expr]],
        begins: tuple[Expr, Expr],
        at: Expr,
        lanes: int,
    ) -> None:
        """Emit one vector of a run.

        ``begins`` is (offset of the row, offset of the run in the row).
        """
        runs, k, outer = place
        row, first = begins
        j = body.block.bind("j", first + at)
        places: tuple[Expr, ...] = (at, add(row, j), j)
        if lanes > 1:
            places = tuple(ramp(p, lanes) for p in places)
        with runs.run(body.low, k, outer, places[0]):
            self._store(body.low, body.outputs, outer, *places[1:])

    def _fetch(self, body: Body, flat: Expr, wide: int) -> None:
        """Emit prefetches for a later step.

        With long steps, hardware prefetchers do not run far enough ahead.
        """
        for node in self.group.params:
            if self.solver.known_same_shape(node.shape, self.domain):
                body.block.fetch(body.buffers[node], flat, wide, to_write=False)
        past = body.low.past
        for buffer in body.outputs:
            near: AbstractContextManager[None] = nullcontext()
            if past is not None and past.takes(buffer, wide):
                near = body.block.when(tirx.Not(past.chosen))
            with near:
                body.block.fetch(buffer, flat, wide, to_write=True)

    def _store(
        self, low: Lowering, outputs: Sequence[Buffer], outer: Sequence[Expr], flat: Expr, j: Expr
    ) -> None:
        index = [*outer, *low.space.split(j, self.domain[self.split :])]
        values = []
        for node in self.group.outputs:
            same = low.solver.known_same_shape(node.shape, self.domain)
            values.append(low.at(node, index if same else low.space.split(flat, node.shape)))
        for node, buffer, value in zip(self.group.outputs, outputs, values, strict=True):
            low.store(buffer, flat, value, node.dtype)

    # -- choice of the split -------------------------------------------------------------------

    def _best_split(self) -> int:
        """Return the fewest outer dims for which the inner loop has no division.

        If there is always a division, all dims but the last are outer.
        """
        rank = len(self.domain)
        for split in range(max(rank, 1)):
            self.split = split
            j = index_var("j")
            low, outputs = self._dry()
            outer = low.space.split(index_var("r"), self.domain[:split])
            self._store(low, outputs, outer, add(index_var("base"), j) if split else j, j)
            if not any(low.space.depends_on(v, j) for v in low.defined):
                return split
        return max(rank - 1, 0)

    def walks_across(self) -> bool:
        """Return whether rows may be short, and computing one row per lane needs no division."""
        if self.split == 0 or self.by_parts or self.runs is not None or not self.vector:
            return False
        if self.solver.known_le(self.lanes, self.inner):
            return False
        low, outputs = self._dry()
        rows = ramp(index_var("r"), self.lanes)
        outer = low.space.split(rows, self.domain[: self.split])
        j = index_var("j")
        self._store(low, outputs, outer, add(mul(rows, index_var("inner")), j), j)
        return not low.defined

    def _dry(self) -> tuple[Lowering, list[Buffer]]:
        """Return a lowering over placeholder buffers, to find the index arithmetic that is
        needed.
        """
        space = IndexSpace(lambda a, b: bool(self.solver.known_eq(a, b)))
        low = Lowering(Block(), space, self.solver)
        for node in self.group.params:
            low.bind_buffer(node, _dummy(node))
        return low, [_dummy(n) for n in self.group.outputs]


def uncertain_dims(group: Group, solver: Solver) -> dict[tuple[Node, int], tuple[Expr, Expr]]:
    """Return the dims of broadcast operands that may be 1 or equal to the target's dim.

    The result maps (node, axis) to (dim, target).
    """
    found: dict[tuple[Node, int], tuple[Any, Any]] = {}
    for node in group.nodes:
        if node.op != "relax.broadcast_to":
            continue
        source = node.inputs[0]
        offset = len(node.shape) - len(source.shape)
        for axis, dim in enumerate(source.shape):
            target = node.shape[offset + axis]
            if not is_one(dim) and not solver.known_eq(dim, target):
                found[node, axis] = (dim, target)
    return found


def _dummy(node: Node) -> Buffer:
    return view("x", pointer("x", node.dtype), node.dtype)
