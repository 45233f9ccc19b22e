"""Column reductions by panels: several rows of a panel of columns are read in memory order.

The elements of a column are a row apart, so reducing a single column may read a new page with every
element. Here, several rows are read together, over a panel of columns. For each block of columns,
the kernel adds up these rows in registers, and adds the result to totals in scratch memory, which
stay in cache. For float sums, a second buffer accumulates the rounding errors of the totals
(TwoSum), by which the results are corrected, as in :mod:`.accumulate`.

    for chunk of rows, for block of columns:    totals[block] += sum of the chunk's rows
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from tvm import tirx

from tvm_disc.graph.core_ops import OpClass
from tvm_disc.graph.nodes import Node
from tvm_disc.schedules.elements import cast, is_float
from tvm_disc.schedules.group import Body
from tvm_disc.schedules.loops.reducers import (
    ARG_REDUCTIONS,
    REDUCERS,
    accumulator,
    averaged,
    finish,
)
from tvm_disc.schedules.rows.accumulate import make_accumulator, two_sum
from tvm_disc.schedules.rows.loops import UNROLLED_VECTORS, Column, RowWork
from tvm_disc.schedules.rows.stages import bytes_of
from tvm_disc.tir.builder import byte_offset, const, first_lanes, i64, lane_index, ramp
from tvm_disc.tir.index import add, mul, product
from tvm_disc.typing import Buffer, Expr

ROWS = 8  # number of lines in a set of the first-level cache; rows a page apart share a set
PANEL = 2048  # number of columns whose totals stay in cache


def takes_panels(work: RowWork) -> bool:
    """Return whether the group has only reductions and per-row values, as panels require."""
    reductions = _reductions(work)
    return (
        work.sched.stages == 2
        and not work.sched.kept
        and all(work.sched.per_row[n] for n in work.group.outputs)
        and not any(n.op in ARG_REDUCTIONS for n in reductions)
    )


def _reductions(work: RowWork) -> list[Node]:
    return [n for n in work.group.nodes if n.cls is OpClass.REDUCE]


@dataclass
class Panels:
    """The plan of a group's column reductions; a task is a panel of columns."""

    work: RowWork
    threads: int
    _totals: dict[Node, list[Buffer]] = field(default_factory=dict)

    @property
    def width(self) -> int:
        """The number of columns that one block adds up in registers."""
        return self.work.lanes * UNROLLED_VECTORS

    def _panel(self) -> Expr:
        """Return the number of columns of a panel, a multiple of a block.

        Panels are narrower if there would otherwise be fewer panels than threads.
        """
        share = product(self.work.domain.tail) + (self.width * self.threads - 1)
        blocks = tirx.truncdiv(share, i64(self.width * self.threads))
        return tirx.max(tirx.min(blocks * self.width, i64(PANEL)), i64(self.width))

    def _panels(self) -> Expr:
        panel = self._panel()
        return tirx.truncdiv(product(self.work.domain.tail) + (panel - 1), panel)

    def tasks(self) -> Expr:
        """Return the number of panels, for all outer indices."""
        return mul(product(self.work.domain.outer), self._panels())

    def scratch_elems(self) -> int:
        """Return the float32 elements of scratch memory that a task needs."""
        return sum(self._bytes(n) * len(_initial(n)) for n in _reductions(self.work)) // 4

    def _bytes(self, node: Node) -> int:
        return PANEL * max(4, bytes_of(accumulator(node.inputs[0].dtype)))

    def emit(self, body: Body) -> None:
        """Emit panels ``[lo, hi)``."""
        for span in self.spans(body, None):
            span.finish()

    def spans(self, body: Body, height: Expr | None) -> Iterator[ColumnSpan]:
        """Emit a loop over the body's panels; yield the panel, with its totals, inside the loop.

        If ``height`` is None, a panel covers all rows. Otherwise the rows are split into pieces of
        ``height`` rows; the panels of one piece have consecutive task numbers.
        """
        block, low, domain = body.block, body.low, self.work.domain
        self._declare_totals(body)
        size = block.bind("columns", product(domain.tail))
        panel, panels = block.number("panel", self._panel()), block.number("panels", self._panels())
        rows = block.bind("rows", product(domain.inner))
        pieces = i64(1) if height is None else block.number("pieces", self.pieces(height))
        with low.loop("t", body.hi - body.lo, begin=body.lo) as t:
            piece = block.number("piece", tirx.truncdiv(t, panels))
            begin = block.number("begin", (t - piece * panels) * panel)
            o = block.number("o", tirx.truncdiv(piece, pieces))
            top = i64(0) if height is None else block.number("top", (piece - o * pieces) * height)
            left = rows if height is None else tirx.min(rows - top, height)
            some = block.number("some", left)
            end = block.number("end", tirx.min(begin + panel, size))
            span = ColumnSpan(self, body, low.space.split(o, domain.outer), piece, begin, end)
            span.clear()
            with low.loop("c", tirx.truncdiv(some + (ROWS - 1), i64(ROWS))) as c:
                count = block.bind("count", tirx.min(some - c * ROWS, i64(ROWS)))
                span.add_rows(block.bind("first", add(top, c * ROWS)), count)
            yield span

    def pieces(self, height: Expr) -> Expr:
        """Return the number of pieces of ``height`` rows, at least one."""
        rows = product(self.work.domain.inner)
        return tirx.max(tirx.truncdiv(rows + (height - 1), height), i64(1))

    def _declare_totals(self, body: Body) -> None:
        assert body.scratch is not None
        offset = 0
        self._totals = {}
        for node in _reductions(self.work):
            dtype, cells = accumulator(node.inputs[0].dtype), []
            for k in range(len(_initial(node))):
                data = byte_offset(body.scratch.data, offset, dtype)
                data = body.block.bind(f"totals{k}", data)
                cells.append(body.block.declare(f"{node.name}{k}", data, dtype))
                offset += self._bytes(node)
            self._totals[node] = cells

    def totals(self, node: Node) -> list[Buffer]:
        """Return the buffer of a reduction's totals, and for float sums that of their errors."""
        return self._totals[node]


def _initial(node: Node) -> list[Expr]:
    dtype = accumulator(node.inputs[0].dtype)
    identity = REDUCERS[node.op].identity(dtype)
    return [identity, const(0, dtype)] if _compensated(node) else [identity]


def _compensated(node: Node) -> bool:
    return node.op in ("relax.sum", "relax.mean") and is_float(accumulator(node.inputs[0].dtype))


@dataclass
class ColumnSpan:
    """The columns ``[begin, end)`` of one outer index and, if rows are split, of one ``piece``."""

    panels: Panels
    body: Body
    outer: Sequence[Expr]
    piece: Expr
    begin: Expr
    end: Expr

    def clear(self) -> None:
        """Emit the initialization of the totals, in complete vectors."""
        block, lanes = self.body.block, self.panels.work.lanes
        count = tirx.truncdiv(self.end - self.begin + (lanes - 1), i64(lanes))
        with self.body.low.loop("v", count) as v:
            for node in _reductions(self.panels.work):
                for cells, value in zip(self.panels.totals(node), _initial(node), strict=True):
                    block.store(cells, ramp(v * lanes, lanes), tirx.Broadcast(value, lanes))

    def add_rows(self, first: Expr, count: Expr) -> None:
        """Emit the reduction of ``count`` rows from row ``first`` on."""
        block, low = self.body.block, self.body.low
        nodes = _reductions(self.panels.work)
        for walk, at in self._blocks():
            accs = [make_accumulator(block, n, walk.width) for n in nodes]
            with low.loop("j", count, begin=first) as j:
                walk.step(nodes, accs, (), j)
            for node, acc in zip(nodes, accs, strict=True):
                self._add(node, at, acc.cells[lane_index(walk.width)])

    def _add(self, node: Node, at: Expr, piece: Expr) -> None:
        block, (total, *errors) = self.body.block, self.panels.totals(node)
        piece = block.bind("piece", piece)
        if not errors:
            block.store(total, at, REDUCERS[node.op].combine(total[at], piece))
            return
        t, error = two_sum(block, total[at], piece)
        block.store(errors[0], at, errors[0][at] + error)
        block.store(total, at, t)

    def finish(self) -> None:
        """Emit the values that follow from the totals, and the stores of outputs."""
        for walk, _, values in self.results():
            walk.known(_reductions(self.panels.work), values)

    def results(self, wide: bool = False) -> Iterator[tuple[Column, Expr, list[Expr]]]:
        """Yield blocks of columns, their offsets from ``begin``, and their reductions' values.

        With ``wide``, float sums are returned as float64, including the rounding errors.
        """
        for walk, at in self._blocks():
            values = []
            for node in _reductions(self.panels.work):
                total, *errors = self.panels.totals(node)
                value = self.body.block.bind("total", total[at])
                if errors:
                    error = errors[0][at]
                    if wide:
                        value, error = cast(value, "float64"), cast(error, "float64")
                    value = _corrected(value, error)
                values.append(averaged(node, value) if wide else finish(node, value))
            yield walk, at, values

    def _blocks(self) -> Iterator[tuple[Column, Expr]]:
        """Yield each block of columns and its offset in the totals, inside a loop."""
        block, low, lanes = self.body.block, self.body.low, self.panels.work.lanes
        width = self.panels.width
        full = block.bind("full", tirx.truncdiv(self.end - self.begin, i64(width)))
        with low.loop("b", full) as b:
            yield self._column(b * width, width)
        done = block.bind("done", full * width)
        rest = tirx.truncdiv(self.end - self.begin - done + (lanes - 1), i64(lanes))
        with low.loop("p", rest) as p:
            offset = block.bind("offset", done + p * lanes)
            with self._masked(offset, lanes):
                yield self._column(offset, lanes)

    @contextmanager
    def _masked(self, offset: Expr, lanes: int) -> Iterator[None]:
        left = self.body.block.bind("left", self.end - self.begin - offset)
        with self.body.low.masked(first_lanes(left, lanes)):
            yield

    def _column(self, offset: Expr, width: int) -> tuple[Column, Expr]:
        work, low = self.panels.work, self.body.low
        start = self.body.block.bind("start", self.begin + offset)
        tail = low.space.split(ramp(start, width), work.domain.tail)
        return Column(work, self.body, self.outer, tail, width), ramp(offset, width)


def _corrected(total: Expr, error: Expr) -> Expr:
    """Return the sum of a total and its rounding error; an infinite total is returned unchanged.

    The formula of the error gives NaN for an infinite total.
    """
    dtype = str(total.ty.dtype)
    largest = const(float(tirx.max_value(dtype.partition("x")[0]).value), dtype)
    return tirx.Select(tirx.abs(total) <= largest, total + error, total)


__all__ = ["PANEL", "ROWS", "ColumnSpan", "Panels", "takes_panels"]
