"""Find the axis of items in the values of a loop iteration."""

from __future__ import annotations

from collections.abc import Sequence

from tvm_disc.graph.axes import concat_axis, permutation, reduced_axes
from tvm_disc.graph.core_ops import OpClass
from tvm_disc.graph.nodes import Node
from tvm_disc.shape import Solver
from tvm_disc.shape.symbols import free_symbols
from tvm_disc.tir.index import product
from tvm_disc.typing import Expr


class ItemAxes:
    """Finds the axis of items of each value.

    If no operator combines elements along this axis, an iteration may compute the items in any
    order, and only some of them.
    """

    def __init__(self, symbols: Sequence[Expr], solver: Solver) -> None:
        self.symbols, self.solver = list(symbols), solver

    def axis(self, node: Node) -> int | None:
        """Return the axis of items of a value; None if it has none, or several."""
        found = [k for k, d in enumerate(node.shape) if self._is_items(d)]
        return found[0] if len(found) == 1 else None

    def reason(self, node: Node) -> str | None:
        """Return why an operator may combine items, or None."""
        if sum(self._has_items(d) for d in node.shape) > 1:
            return "its result has several axes of items"
        axes = [self.axis(x) for x in node.inputs]
        to = self.axis(node)
        if to is None and any(self._has_items(d) for d in node.shape):
            return "it merges the item axis with other axes"
        if all(a is None for a in axes):
            return None
        if to is None:
            return "it combines elements of different items"
        kept = _KEPT.get(node.op) or (_BY_CLASS.get(node.cls) if node.cls else None)
        pairs = zip(node.inputs, axes, strict=True)
        fits = kept is not None and all(
            kept(self, node, x, a, to) for x, a in pairs if a is not None
        )
        return None if fits else "it may combine elements of different items"

    def _is_items(self, dim: Expr) -> bool:
        return any(dim.same_as(s) for s in self.symbols)

    def _has_items(self, dim: Expr) -> bool:
        return any(s.same_as(b) for s in free_symbols([dim]) for b in self.symbols)

    # -- operators: whether the axis ``a`` of operand ``x`` is the axis ``to`` of the result -------

    def broadcast(self, node: Node, x: Node, a: int, to: int) -> bool:
        """Return whether an element-wise operator or a broadcast keeps the axis."""
        return a + len(node.shape) - len(x.shape) == to

    def view(self, node: Node, x: Node, a: int, to: int) -> bool:
        """Return whether a reshape keeps the axis."""
        same = self.solver.known_eq(product(x.shape[:a]), product(node.shape[:to]))
        return bool(same) and bool(
            self.solver.known_eq(product(x.shape[a + 1 :]), product(node.shape[to + 1 :]))
        )

    def reduce(self, node: Node, x: Node, a: int, to: int) -> bool:
        """Return whether a reduction keeps the axis, because it reduces other axes."""
        axes = reduced_axes(node)
        before = 0 if node.attrs["keepdims"] else sum(k < a for k in axes)
        return a not in axes and a - before == to

    def part(self, node: Node, x: Node, a: int, to: int) -> bool:
        """Return whether a slice keeps the axis, because it slices other axes."""
        return a == to and all(int(k) % len(x.shape) != a for k in node.prims[0])

    def permute(self, node: Node, x: Node, a: int, to: int) -> bool:
        """Return whether a permutation moves the axis to ``to``."""
        return list(permutation(node)).index(a) == to

    def concat(self, node: Node, x: Node, a: int, to: int) -> bool:
        """Return whether a concatenation keeps the axis, because it is along another axis."""
        return a == to != concat_axis(node)

    def matmul(self, node: Node, x: Node, a: int, to: int) -> bool:
        """Return whether a matmul keeps the axis: all items are multiplied by one matrix."""
        return x is node.inputs[0] and a == to < len(x.shape) - 1 and len(node.inputs[1].shape) == 2


_KEPT = {
    "relax.broadcast_to": ItemAxes.broadcast,
    "relax.concat": ItemAxes.concat,
    "relax.matmul": ItemAxes.matmul,
    "relax.permute_dims": ItemAxes.permute,
    "relax.strided_slice": ItemAxes.part,
}
_BY_CLASS = {
    OpClass.ELEMWISE: ItemAxes.broadcast,
    OpClass.VIEW: ItemAxes.view,
    OpClass.REDUCE: ItemAxes.reduce,
}

__all__ = ["ItemAxes"]
