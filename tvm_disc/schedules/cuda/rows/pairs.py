"""Accumulators of a thread along a row: single reductions, and pairs of dependent reductions.

    max, sum of exp(x - max)     s' = s exp(m - m') + exp(x - m'), where m' = max(m, x)
    mean, sum of (x - mean)^2    Welford: d = x - mean; mean += d / n; s += d (x - mean)

A pair needs one pass over the row instead of two.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm import tirx

from tvm_disc.graph.core_ops import OpClass
from tvm_disc.graph.nodes import Node
from tvm_disc.schedules.cuda.reduce import fold_all
from tvm_disc.schedules.group import Body, Group
from tvm_disc.schedules.loops.reducers import REDUCERS, accumulator
from tvm_disc.schedules.rows.stages import Schedule
from tvm_disc.tir.builder import const, i64
from tvm_disc.tir.llvm_ops import difference
from tvm_disc.typing import Buffer, Expr


def find_pairs(group: Group, sched: Schedule) -> dict[Node, Node]:
    """Return the pairs of reductions that one pass can compute, as a dict first -> second."""
    found: dict[Node, Node] = {}
    for second in group.nodes:
        first = _first(second)
        if first is None or first in found or first in group.outputs:
            continue
        if sched.stage[first] == 1 and sched.stage[second] == 2:
            found[first] = second
    return found


def _first(second: Node) -> Node | None:
    """Return the reduction that one pass can compute together with ``second``, or None.

    The terms of ``second`` depend on the returned reduction.
    """
    if second.cls is not OpClass.REDUCE or second.op not in ("relax.sum", "relax.mean"):
        return None
    term = second.inputs[0]
    if term.op == "relax.exp" and second.op == "relax.sum":
        return _away(term.inputs[0], second, "relax.max")
    if term.op == "relax.multiply" and term.inputs[0] is term.inputs[1]:
        return _away(term.inputs[0], second, "relax.mean")
    return None


def _away(node: Node, second: Node, op: str) -> Node | None:
    """Return the reduction ``op`` of x if ``node`` is x minus that reduction; else None."""
    if node.op != "relax.subtract" or node.dtype not in ("float32", "float64"):
        return None
    x, first = node.inputs
    same = first.op == op and first.inputs[0] is x and first.attrs["axis"] == second.attrs["axis"]
    return first if same else None


class Sum:
    """The accumulator of one reduction in a thread."""

    def __init__(self, body: Body, node: Node) -> None:
        self.body, self.block, self.nodes = body, body.block, [node]
        self.dtype = accumulator(node.inputs[0].dtype)
        self.reducer = REDUCERS[node.op]
        self.combine = self.reducer.combine
        self.cell: Buffer = self.block.alloc(node.name, 1, self.dtype)
        self.block.store(self.cell, 0, self.reducer.identity(self.dtype))

    def step(self, value: Expr, j: Expr, mask: Expr | None) -> None:
        """Emit the accumulation of one element."""
        self.block.store(self.cell, 0, self.combine(self.cell[i64(0)], value))

    def values(self) -> list[Expr]:
        """Return the value accumulated so far."""
        return [self.block.bind("part", self.cell[i64(0)])]

    def merge(self, theirs: Sequence[Expr], elements: Expr) -> None:
        """Emit the accumulation of the value of another part of the row."""
        self.step(theirs[0], i64(0), None)

    def folded(self, threads: int, apart: int = 1, whole: bool = True) -> list[Expr]:
        """Return the value combined over all threads, which all of them get; see :func:`fold`."""

        def combine(a: Sequence[Expr], b: Sequence[Expr]) -> list[Expr]:
            return [self.combine(a[0], b[0])]

        return fold_all(self.body, self.values(), combine, self.dtype, threads, apart)


class Pair:
    """The accumulator of a pair of reductions in a thread; for means, with a count of elements."""

    def __init__(self, body: Body, first: Node, second: Node) -> None:
        self.body, self.block, self.nodes = body, body.block, [first, second]
        self.dtype = accumulator(first.inputs[0].dtype)
        self.largest = first.op == "relax.max"
        names = ("first", "second") if self.largest else ("first", "second", "count")
        self.cells = [self.block.alloc(n, 1, self.dtype) for n in names]
        zero = const(0, self.dtype)
        self._keep([REDUCERS[first.op].identity(self.dtype), *[zero] * (len(names) - 1)])

    def _held(self) -> list[Expr]:
        return [self.block.bind("held", c[i64(0)]) for c in self.cells]

    def _keep(self, values: Sequence[Expr]) -> None:
        for cell, value in zip(self.cells, values, strict=True):
            self.block.store(cell, 0, value)

    def step(self, value: Expr, j: Expr, mask: Expr | None) -> None:
        """Emit the accumulation of one element."""
        block = self.block
        value = block.bind("value", value)
        if self.largest:
            self._keep(self._more(self._held(), (value, const(1, self.dtype))))
            return
        first, second, count = self._held()
        count = block.bind("count", count + const(1, self.dtype))
        away = block.bind("away", value - first)
        mean = block.bind("mean", first + away / count)
        self._keep([mean, second + away * (value - mean), count])

    def _more(self, a: Sequence[Expr], b: Sequence[Expr]) -> list[Expr]:
        """Return the combination of two partial results."""
        block = self.block
        if self.largest:
            largest = block.bind("largest", REDUCERS["relax.max"].combine(a[0], b[0]))
            return [largest, self._scaled(a, largest) + self._scaled(b, largest)]
        count = block.bind("count", a[2] + b[2])
        share = block.bind("share", b[2] / tirx.max(count, const(1, self.dtype)))
        away = block.bind("away", b[0] - a[0])
        mean = a[0] + away * share
        return [mean, a[1] + b[1] + away * away * a[2] * share, count]

    def _scaled(self, one: Sequence[Expr], largest: Expr) -> Expr:
        """Return the sum of ``one``, rescaled to another maximum.

        An equal maximum is handled separately, since the difference of infinite maxima is NaN.
        """
        same = tirx.EQ(one[0], largest)
        return tirx.Select(same, one[1], one[1] * tirx.exp(difference(one[0], largest)))

    def values(self) -> list[Expr]:
        """Return the accumulated values of both reductions."""
        return self._accumulated(self._held(), True)

    def _accumulated(self, held: Sequence[Expr], whole: bool) -> list[Expr]:
        """Return the values of both reductions, of a complete row (``whole``) or of a part."""
        first, second, *count = held
        if self.largest and not whole:
            return [first, second]
        if self.largest:
            # If the maximum is infinite, exp(x - max) of that element is NaN, so the sum must be
            # NaN.
            return [first, self.block.bind("sum", second + difference(first, first))]
        return [self.block.bind("sum", first * count[0]), second]

    def merge(self, theirs: Sequence[Expr], elements: Expr) -> None:
        """Emit the accumulation of the values of another part, which has ``elements`` elements."""
        if self.largest:
            self._keep(self._more(self._held(), theirs))
            return
        count = self.block.bind("elements", tirx.Cast(self.dtype, elements))
        mean = self.block.bind("mean", theirs[0] / tirx.max(count, const(1, self.dtype)))
        self._keep(self._more(self._held(), (mean, theirs[1], count)))

    def folded(self, threads: int, apart: int = 1, whole: bool = True) -> list[Expr]:
        """Return the values combined over all threads, which all of them get.

        Args:
            whole: whether the values are those of a complete row, not of a part.
        """
        found = fold_all(self.body, self._held(), self._more, self.dtype, threads, apart)
        return self._accumulated(found, whole)


__all__ = ["Pair", "Sum", "find_pairs"]
