"""What a thread adds up along a row: single sums, and pairs of which the second rests on the first.

    largest, sum of exp(x - largest)    s' = s exp(m - m') + exp(x - m'), where m' = max(m, x)
    mean, sum of (x - mean)^2           Welford's: d = x - mean; mean += d / n; s += d (x - mean)

Found in one pass over the row, where two would be needed one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from tvm import tirx

from tvm_disc.graph.core_ops import OpClass
from tvm_disc.graph.nodes import Node
from tvm_disc.schedules.cuda.reduce import fold_all
from tvm_disc.schedules.group import Body, Group
from tvm_disc.schedules.loops.reducers import REDUCERS, accumulator
from tvm_disc.schedules.rows.stages import Schedule
from tvm_disc.tir.builder import Buffer, const, i64
from tvm_disc.tir.rounding import difference

Expr: TypeAlias = Any


def find_pairs(group: Group, sched: Schedule) -> dict[Node, Node]:
    """First reductions of a row with the second ones that can be found beside them."""
    found: dict[Node, Node] = {}
    for second in group.nodes:
        first = _first(second)
        if first is None or first in found or first in group.outputs:
            continue
        if sched.stage[first] == 1 and sched.stage[second] == 2:
            found[first] = second
    return found


def _first(second: Node) -> Node | None:
    """What the reduced values of a reduction are a known function of."""
    if second.cls is not OpClass.REDUCE or second.op not in ("relax.sum", "relax.mean"):
        return None
    term = second.inputs[0]
    if term.op == "relax.exp" and second.op == "relax.sum":
        return _away(term.inputs[0], second, "relax.max")
    if term.op == "relax.multiply" and term.inputs[0] is term.inputs[1]:
        return _away(term.inputs[0], second, "relax.mean")
    return None


def _away(node: Node, second: Node, op: str) -> Node | None:
    """The reduction ``op`` of x, if a node is x less it."""
    if node.op != "relax.subtract" or node.dtype not in ("float32", "float64"):
        return None
    x, first = node.inputs
    same = first.op == op and first.inputs[0] is x and first.attrs["axis"] == second.attrs["axis"]
    return first if same else None


class Sum:
    """What one thread adds up for a reduction."""

    def __init__(self, body: Body, node: Node) -> None:
        self.body, self.block, self.nodes = body, body.block, [node]
        self.dtype = accumulator(node.inputs[0].dtype)
        self.reducer = REDUCERS[node.op]
        self.combine = self.reducer.combine
        self.cell: Buffer = self.block.alloc(node.name, 1, self.dtype)
        self.block.store(self.cell, 0, self.reducer.identity(self.dtype))

    def step(self, value: Expr, j: Expr, mask: Expr) -> None:
        """Take one element more."""
        self.block.store(self.cell, 0, self.combine(self.cell[i64(0)], value))

    def values(self) -> list[Expr]:
        """The sum so far."""
        return [self.block.bind("part", self.cell[i64(0)])]

    def merge(self, theirs: Sequence[Expr], elements: Expr) -> None:
        """Take what others have found in so many elements."""
        self.step(theirs[0], i64(0), None)

    def folded(self, threads: int, apart: int = 1, whole: bool = True) -> list[Expr]:
        """The sum of all threads, which all of them get; see :func:`fold`."""

        def combine(a: Sequence[Expr], b: Sequence[Expr]) -> list[Expr]:
            return [self.combine(a[0], b[0])]

        return fold_all(self.body, self.values(), combine, self.dtype, threads, apart)


class Pair:
    """What one thread has of a pair of reductions, and of how many elements."""

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

    def step(self, value: Expr, j: Expr, mask: Expr) -> None:
        """Take one element more."""
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
        """What two have found, together."""
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
        """A sum for another largest value; what is that already, which may be infinite, is as it
        was."""
        same = tirx.EQ(one[0], largest)
        return tirx.Select(same, one[1], one[1] * tirx.exp(difference(one[0], largest)))

    def values(self) -> list[Expr]:
        """What both reductions have accumulated."""
        return self._accumulated(self._held(), True)

    def _accumulated(self, held: Sequence[Expr], whole: bool) -> list[Expr]:
        """What reductions have accumulated, of the whole row or of a part."""
        first, second, *count = held
        if self.largest and not whole:
            return [first, second]
        if self.largest:
            # As exp(x - largest) of an infinite largest value would have it: no number.
            return [first, self.block.bind("sum", second + difference(first, first))]
        return [self.block.bind("sum", first * count[0]), second]

    def merge(self, theirs: Sequence[Expr], elements: Expr) -> None:
        """Take what others have found in so many elements."""
        if self.largest:
            self._keep(self._more(self._held(), theirs))
            return
        count = self.block.bind("elements", tirx.Cast(self.dtype, elements))
        mean = self.block.bind("mean", theirs[0] / tirx.max(count, const(1, self.dtype)))
        self._keep(self._more(self._held(), (mean, theirs[1], count)))

    def folded(self, threads: int, apart: int = 1, whole: bool = True) -> list[Expr]:
        """What all threads have found, in the whole row or in a part, which all of them get."""
        found = fold_all(self.body, self._held(), self._more, self.dtype, threads, apart)
        return self._accumulated(found, whole)


__all__ = ["Pair", "Sum", "find_pairs"]
