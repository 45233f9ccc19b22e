"""Tables of the items and rows of every step of a loop over a ragged dim.

Items are sorted by falling length, so that the first ``counts[t]`` items have step t. Rows are
stored step by step: first the rows of step 0 of all items, and so on. ``begins[t]`` rows precede
step t.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from tvm import relax
from tvm.relax import op as R

from tvm_disc.graph.nodes import Node
from tvm_disc.relay_passes.ragged.forms import RaggedDim
from tvm_disc.relay_passes.ragged.items import ends, lengths, starts
from tvm_disc.relay_passes.ragged.values import Values
from tvm_disc.relay_passes.rewrite import operand_expr
from tvm_disc.tir.builder import i64
from tvm_disc.typing import Expr


@dataclass(frozen=True)
class Steps:
    """Emits int64 tables about the steps of a dim, each at most once."""

    values: Values
    dim: RaggedDim

    def order(self) -> Node:
        """Return the items sorted by falling length, ``[b]``."""

        def sort() -> Expr:
            return R.argsort(operand_expr(lengths(self.values, self.dim)), 0, True, "int64")

        return self._once("order", sort, [self.dim.items])

    def rank(self) -> Node:
        """Return the position of every item in ``order``, ``[b]``."""

        def invert() -> Expr:
            return R.argsort(operand_expr(self.order()), 0, False, "int64")

        return self._once("rank", invert, [self.dim.items])

    def first(self, backward: bool) -> Node:
        """Return the first row of each item in ``order``, or the last row if ``backward``,
        ``[b]``.
        """
        name = "last rows" if backward else "first rows"
        return self._once(name, lambda: self._first(backward), [self.dim.items])

    def _first(self, backward: bool) -> Expr:
        row = starts(self.values, self.dim)
        if backward:
            last = R.subtract(ends(self.values, self.dim), _const(1))
            row = self._emit(last, [self.dim.items])
        return R.take(row, operand_expr(self.order()), 0, "clip")

    def counts(self) -> Node:
        """Return for every step the number of items that have this step, ``[s]``."""
        return self._once("counts", self._counts, [self.dim.size])

    def _counts(self) -> Expr:
        size, items = self.dim.size, self.dim.items
        places = self.values.out.emit(R.arange(0, size, 1, "int64"), [size], "int64")
        steps = operand_expr(self.values.shaped(places, [size, i64(1)]))
        length = operand_expr(lengths(self.values, self.dim))
        longer = self.values.out.emit(R.less(steps, length), [size, items], "bool")
        numbers = self._emit(R.astype(operand_expr(longer), "int64"), [size, items])
        return R.sum(numbers, [1], False)

    def begins(self) -> Node:
        """Return the number of rows before each step, then the number of all rows, ``[s + 1]``."""
        return self._once("begins", self._begins, [self.dim.size + 1])

    def _begins(self) -> Expr:
        total = self._emit(R.cumsum(operand_expr(self.counts()), 0, "int64"), [self.dim.size])
        return R.concat([relax.const(np.zeros(1, "int64"), "int64"), total], 0)

    def places(self) -> Node:
        """Return for each packed row its position among the rows stored step by step, ``[t]``."""
        return self._once("places", self._places, [self.dim.rows])

    def _places(self) -> Expr:
        rows = [self.dim.rows]
        steps = operand_expr(self.values.positions(self.dim))
        items = operand_expr(self.values.items(self.dim))
        begin = self._emit(R.take(operand_expr(self.begins()), steps, 0, "clip"), rows)
        return R.add(begin, self._emit(R.take(operand_expr(self.rank()), items, 0, "clip"), rows))

    def last(self) -> Node:
        """Return the position of the last row of each item, ``[b]``.

        The rows are stored step by step, after one initial row per item in ``order``. The last row
        of an item without elements is its initial row.
        """
        return self._once("last", self._last, [self.dim.items])

    def _last(self) -> Expr:
        items = [self.dim.items]
        length = operand_expr(lengths(self.values, self.dim))
        step = self._emit(
            R.maximum(self._emit(R.subtract(length, _const(1)), items), _const(0)), items
        )
        begin = self._emit(R.take(operand_expr(self.begins()), step, 0, "clip"), items)
        number = R.shape_to_tensor(relax.ShapeExpr([self.dim.items]))
        count = operand_expr(self.values.out.emit(number, [i64(1)], "int64"))
        rank = operand_expr(self.rank())
        behind = self._emit(R.add(self._emit(R.add(begin, count), items), rank), items)
        some = self.values.out.emit(R.greater(length, _const(0)), items, "bool")
        return R.where(operand_expr(some), behind, rank)

    def _once(self, name: str, make: Callable[[], Expr], shape: Sequence[Expr]) -> Node:
        if name not in self.dim.made:
            self.dim.made[name] = self.values.out.emit(make(), list(shape), "int64")
        return self.dim.made[name]

    def _emit(self, call: Expr, shape: Sequence[Expr]) -> Expr:
        return operand_expr(self.values.out.emit(call, list(shape), "int64"))


def _const(value: int) -> Expr:
    return relax.const(np.asarray(value, "int64"), "int64")


__all__ = ["Steps"]
