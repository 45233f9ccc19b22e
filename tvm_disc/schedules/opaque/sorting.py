"""Sorting and searching: kernels that compare the elements along an axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from tvm import tirx

from tvm_disc.errors import WhyNot
from tvm_disc.graph.nodes import Node
from tvm_disc.schedules.elements import cast, is_float
from tvm_disc.schedules.kernel import Body, Group, Machine, Plan
from tvm_disc.shape import Solver
from tvm_disc.tir.builder import i64, is_nan
from tvm_disc.tir.index import mul, product
from tvm_disc.typing import Buffer, Expr

Before: TypeAlias = Callable[[Expr, Expr], Expr]

ARGSORT, TOP = "relax.argsort", "relax.topk"
ORDERS = (ARGSORT, TOP)
SELECT_COST = 4  # operations per element
SORT_COST = 32  # operations per element: comparisons of about a dozen merge passes


def plan_sort(group: Group, solver: Solver, machine: Machine) -> Plan | WhyNot:
    """Return a plan for ``argsort`` or ``topk``; a task is one row along the axis.

    ``argsort`` is a stable merge sort of indices. ``topk`` inserts indices into a sorted list of
    length k; most elements are compared only with the last of the list.
    """
    node = group.anchor or group.nodes[-1]
    if node.op not in ORDERS:
        return WhyNot("sort", f"it requires a sort: found {node.op}")
    source = node.inputs[0]
    axis = int(node.attrs["axis"]) % len(source.shape)
    outer = [d for a, d in enumerate(source.shape) if a != axis]
    length = i64(source.shape[axis])
    whole = node.op == ARGSORT

    def emit(body: Body) -> None:
        with body.low.loop("r", body.hi - body.lo, begin=body.lo) as r:
            line = _Line(body, node, axis, list(body.low.space.split(r, outer)), length)
            line.sort() if whole else line.select()

    if not whole:
        return Plan(product(outer), product(source.shape) * SELECT_COST, emit)
    return Plan(
        tasks=product(outer),
        work=product(source.shape) * SORT_COST,
        emit=emit,
        scratch_elems=mul(length, 2),
        scratch_dtype="int64",
    )


def descends(node: Node) -> bool:
    """Return whether a node with an operator in ``ORDERS`` places the largest elements first."""
    return bool(node.attrs["descending" if node.op == ARGSORT else "largest"])


def sorts_before(dtype: str, descending: bool) -> Before:
    """Return a function that tests whether one element is sorted strictly before another.

    NaN is larger than every number: last in ascending and first in descending order, as in PyTorch
    and NumPy.
    """

    def before(a: Expr, b: Expr) -> Expr:
        order = a > b if descending else a < b
        if not is_float(dtype):
            return order
        lower, upper = (b, a) if descending else (a, b)
        return tirx.Or(order, tirx.And(tirx.EQ(lower, lower), is_nan(upper)))

    return before


class _Line:
    """Sorts the indices of one row along the axis, or selects the first ones in order."""

    def __init__(self, body: Body, node: Node, axis: int, head: list[Expr], length: Expr) -> None:
        self.body, self.low, self.block = body, body.low, body.block
        self.node, self.axis, self.head, self.length = node, axis, head, length
        self.before = sorts_before(node.inputs[0].dtype, descends(node))

    def _cell(self, name: str, value: Expr | int) -> Buffer:
        cell = self.block.alloc(name, 1, "int64")
        self.block.store(cell, 0, i64(value))
        return cell

    def _value(self, position: Expr) -> Expr:
        """Emit the load of an element of the row; nothing is cached, since indices change."""
        index = [*self.head[: self.axis], position, *self.head[self.axis :]]
        with self.low.scope():
            value = self.low.at(self.node.inputs[0], index)
            self.low.resolve([value])
            if self.node.inputs[0].dtype == "bool":
                value = tirx.Cast("int8", value)
            return self.block.bind("value", value)

    def _write(self, place: Expr, position: Expr) -> None:
        """Emit the store of the index ``position`` at ``place`` in the result."""
        index = [*self.head[: self.axis], place, *self.head[self.axis :]]
        at = self.low.space.join(index, self.node.shape)
        self.low.store(self.body.outputs[0], at, cast(position, self.node.dtype), self.node.dtype)

    def select(self) -> None:
        """Emit the insertion of each index into the list of the first k, and the list's stores.

        Equal elements keep their order, because an element is inserted after equal ones.
        """
        block, count = self.block, i64(self.node.shape[self.axis])
        room = block.alloc("best", int(self.node.attrs["k"]), "int64")
        filled, at = self._cell("filled", 0), block.alloc("at", 1, "int64")
        last = block.alloc("last", 1, self._value(i64(0)).ty.dtype)
        with self.low.loop("i", self.length) as i:
            value = self._value(i)
            block.store(at, 0, i64(-1))
            with block.when(filled[i64(0)] < count):
                block.store(at, 0, filled[i64(0)])
                block.store(filled, 0, filled[i64(0)] + 1)
            with block.otherwise(), block.when(self.before(value, last[i64(0)])):
                block.store(at, 0, count - 1)
            with block.when(at[i64(0)] >= 0):
                self._insert(room, at, i, value)
                with block.when(tirx.EQ(filled[i64(0)], count)):
                    block.store(last, 0, self._value(block.bind("worst", room[count - 1])))
        with self.low.loop("o", count) as o:
            self._write(o, block.bind("found", room[o]))

    def _insert(self, room: Buffer, at: Buffer, position: Expr, value: Expr) -> None:
        """Emit the insertion of an index into the sorted list; entry ``at`` of the list is free."""
        block, moved = self.block, self._cell("moved", 1)
        with block.loop_while(tirx.NE(moved[i64(0)], i64(0))):
            block.store(moved, 0, i64(0))
            with block.when(at[i64(0)] > 0):
                previous = block.bind("previous", room[at[i64(0)] - 1])
                with block.when(self.before(value, self._value(previous))):
                    block.store(room, at[i64(0)], previous)
                    block.store(at, 0, at[i64(0)] - 1)
                    block.store(moved, 0, i64(1))
        block.store(room, at[i64(0)], position)

    def sort(self) -> None:
        """Emit the initial indices, the merge passes and the stores of the result.

        The length of sorted runs doubles in each pass. Before each pass, half ``flip`` of the
        scratch memory contains the indices, sorted in runs of ``width``.
        """
        assert self.body.scratch is not None
        self.scratch = self.body.scratch
        self.width, self.flip = self._cell("width", 1), self._cell("flip", 0)
        with self.low.loop("i", self.length) as i:
            self.block.store(self.scratch, i, i)
        with self.block.loop_while(self.width[i64(0)] < self.length):
            width = self.block.bind("w", self.width[i64(0)])
            source = self.block.bind("src", self.flip[i64(0)] * self.length)
            target = self.block.bind("dst", (i64(1) - self.flip[i64(0)]) * self.length)
            runs = tirx.truncdiv(self.length + width * 2 - 1, width * 2)
            with self.low.loop("run", self.block.number("runs", runs)) as run:
                self._merge(self.block.bind("start", run * width * 2), width, source, target)
            self.block.store(self.width, 0, width * 2)
            self.block.store(self.flip, 0, i64(1) - self.flip[i64(0)])
        base = self.block.bind("base", self.flip[i64(0)] * self.length)
        with self.low.loop("o", self.length) as o:
            self._write(o, self.block.bind("found", self.scratch[base + o]))

    def _merge(self, start: Expr, width: Expr, source: Expr, target: Expr) -> None:
        block = self.block
        middle = block.bind("middle", tirx.min(start + width, self.length))
        end = block.bind("end", tirx.min(start + width * 2, self.length))
        left, right = self._cell("left", start), self._cell("right", middle)
        with self.low.loop("k", end - start, begin=start) as k:
            a, b = block.bind("a", left[i64(0)]), block.bind("b", right[i64(0)])
            take_right = block.alloc("pick", 1, "int8")
            block.store(take_right, 0, tirx.IntImm("int8", 0))
            with block.when(b < end):
                with block.when(a >= middle):
                    block.store(take_right, 0, tirx.IntImm("int8", 1))
                with block.otherwise():
                    one = self._value(block.bind("pa", self.scratch[source + a]))
                    two = self._value(block.bind("pb", self.scratch[source + b]))
                    block.store(take_right, 0, tirx.Cast("int8", self.before(two, one)))
            with block.when(tirx.NE(take_right[i64(0)], tirx.IntImm("int8", 0))):
                block.store(self.scratch, target + k, self.scratch[source + b])
                block.store(right, 0, b + 1)
            with block.otherwise():
                block.store(self.scratch, target + k, self.scratch[source + a])
                block.store(left, 0, a + 1)


def plan_search(group: Group, solver: Solver, machine: Machine) -> Plan | WhyNot:
    """Return a plan for ``bucketize``: a binary search in a sorted row for every value.

    The result is the position before equal boundaries, or after them with ``right``. NaN is larger
    than all numbers. If the boundaries have several dims, each of their rows is searched for the
    values of the same row.
    """
    node = group.anchor or group.nodes[-1]
    if node.op != "relax.bucketize":
        return WhyNot("search", f"it requires bucketize: found {node.op}")
    values, bounds = node.inputs
    size = i64(bounds.shape[-1])
    lead = len(bounds.shape) - 1
    before = sorts_before(values.dtype, descending=False)

    def emit(body: Body) -> None:
        low, block = body.low, body.block
        with low.loop("t", body.hi - body.lo, begin=body.lo) as t:
            index = list(low.space.split(t, values.shape))
            value = low.settle("value", low.at(values, index))
            first, last = (block.alloc(n, 1, "int64") for n in ("first", "last"))
            block.store(first, 0, i64(0))
            block.store(last, 0, size)
            with block.loop_while(first[i64(0)] < last[i64(0)]), low.scope():
                half = tirx.truncdiv(first[i64(0)] + last[i64(0)], i64(2))
                middle = block.bind("middle", half)
                here = low.settle("here", low.at(bounds, [*index[:lead], middle]))
                right = node.attrs["right"]
                after = tirx.Not(before(value, here)) if right else before(here, value)
                with block.when(after):
                    block.store(first, 0, middle + 1)
                with block.otherwise():
                    block.store(last, 0, middle)
            low.store(body.outputs[0], t, cast(first[i64(0)], node.dtype), node.dtype)

    return Plan(product(values.shape), product(values.shape) * SORT_COST, emit)
