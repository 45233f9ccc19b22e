"""The form of a loop over the steps of a sequence, and its body for the items that go on.

    loop(n, x, t, h, rows) = if t < n { y = x[t]; .. loop(n, x, t + 1, h', concat(rows, y')) }
                             else { (t, h, rows) }
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import tvm
from tvm import relax

from tvm_disc.graph.axes import concat_axis, permutation, reduced_axes
from tvm_disc.graph.core_ops import OpClass
from tvm_disc.graph.nodes import Node, free_symbols, is_tensor, read_call
from tvm_disc.relay_passes.rewrite import is_call, is_core
from tvm_disc.shape import Solver
from tvm_disc.tir.index import product
from tvm_disc.typing import Binding, Call, Expr, TVMFunction, Var


@dataclass(eq=False)
class StepLoop:
    """A loop that counts its steps.

    Attributes:
        call: the call of the loop.
        params: its parameters.
        counter: the number of the parameter that counts.
        limit: the number of the parameter that it is compared with.
        again: the arguments of the recursive call.
        results: the numbers of the parameters that the loop returns.
        body: the bindings of an iteration.
        nodes: the values of an iteration, by variable.
    """

    call: Call
    params: list[Var]
    counter: int
    limit: int
    again: list[Expr]
    results: list[int]
    body: list[Binding]
    nodes: dict[Var, Node]

    @staticmethod
    def read(func: TVMFunction, call: Call) -> StepLoop | None:
        """Return the parts of a loop function, or None if it has another form."""
        bindings = [b for block in func.body.blocks for b in block.bindings]
        if len(bindings) < 2 or not is_call(bindings[0].value, "less"):
            return None
        test, branch = bindings[0], bindings[1].value
        if not isinstance(branch, relax.If) or not branch.cond.same_as(test.var):
            return None
        params = list(func.params)
        places = [_place(x, params) for x in test.value.args]
        again = _recursion(branch.true_branch, call)
        results = _results(branch.false_branch, params)
        if None in places or again is None or results is None:
            return None
        body, args = again
        nodes = _nodes(params, body)
        if nodes is None:
            return None
        counter, limit = places
        return StepLoop(call, params, counter, limit, args, results, body, nodes)

    def is_fixed(self, k: int) -> bool:
        """Return whether a parameter is the same in all iterations."""
        return bool(self.again[k].same_as(self.params[k]))


def _place(expr: Expr, params: Sequence[Var]) -> int | None:
    return next((k for k, p in enumerate(params) if p.same_as(expr)), None)


def _bindings(seq: Expr) -> list[Binding]:
    return [b for block in seq.blocks for b in block.bindings]


def _recursion(seq: Expr, call: Call) -> tuple[list[Binding], list[Expr]] | None:
    """Return the bindings before the recursive call, and its arguments."""
    found = _bindings(seq)
    for k, binding in enumerate(found):
        value = binding.value
        if isinstance(value, tvm.ir.Call) and isinstance(value.op, tvm.ir.GlobalVar):
            whole = all(isinstance(b.value, tvm.ir.Var) for b in found[k + 1 :])
            return (found[:k], list(value.args)) if whole and value.op.same_as(call.op) else None
    return None


def _results(seq: Expr, params: Sequence[Var]) -> list[int] | None:
    """Return the numbers of the parameters that the other branch returns."""
    made = next((b.value for b in _bindings(seq) if isinstance(b.value, tvm.ir.Tuple)), seq.body)
    fields = made.fields if isinstance(made, tvm.ir.Tuple) else [made]
    places = [_place(f, params) for f in fields]
    known = [p for p in places if p is not None]
    return known if len(known) == len(places) else None


def _nodes(params: Sequence[Var], body: Sequence[Binding]) -> dict[Var, Node] | None:
    """Return the nodes of an iteration; None if it does more than core operators."""
    found: dict[Var, Node] = {}
    for p in params:
        if not is_tensor(p.ty) or p.ty.shape is None:
            return None
        found[p] = Node("param", (), tuple(p.ty.shape.values), str(p.ty.dtype), var=p)
    for binding in body:
        if not is_core(binding):
            return None
        found[binding.var] = read_call(binding.var, binding.value, found)
    return found


class ItemAxes:
    """Where the axis of items is in the values of an iteration.

    An iteration may compute the items in any order, and leave out some, if no operator combines
    elements along this axis.
    """

    def __init__(self, symbols: Sequence[Expr], solver: Solver) -> None:
        self.symbols, self.solver = list(symbols), solver

    def axis(self, node: Node) -> int | None:
        """Return the axis of items of a value, None if it has none."""
        found = [k for k, d in enumerate(node.shape) if self._is_items(d)]
        return found[0] if len(found) == 1 else None

    def reason(self, node: Node) -> str | None:
        """Return why an operator may combine items, or None."""
        if sum(self._has_items(d) for d in node.shape) > 1:
            return "its result has several axes of items"
        axes = [self.axis(x) for x in node.inputs]
        to = self.axis(node)
        if to is None and any(self._has_items(d) for d in node.shape):
            return "it merges the axis of items with others"
        if all(a is None for a in axes):
            return None
        if to is None:
            return "it combines elements of different items"
        kept = _KEPT.get(node.op) or _BY_CLASS.get(node.cls)
        pairs = zip(node.inputs, axes, strict=True)
        fits = kept is not None and all(kept(self, node, x, a, to) for x, a in pairs if a is not None)
        return None if fits else "it may combine elements of different items"

    def _is_items(self, dim: Expr) -> bool:
        return any(dim.same_as(s) for s in self.symbols)

    def _has_items(self, dim: Expr) -> bool:
        return any(s.same_as(b) for s in free_symbols([dim]) for b in self.symbols)

    # -- operators: whether the axis ``a`` of operand ``x`` is the axis ``to`` of the result -------

    def broadcast(self, node: Node, x: Node, a: int, to: int) -> bool:
        """Element-wise operators and broadcasts."""
        return a + len(node.shape) - len(x.shape) == to

    def view(self, node: Node, x: Node, a: int, to: int) -> bool:
        """Reshapes."""
        same = self.solver.known_eq(product(x.shape[:a]), product(node.shape[:to]))
        return same and bool(
            self.solver.known_eq(product(x.shape[a + 1 :]), product(node.shape[to + 1 :]))
        )

    def reduce(self, node: Node, x: Node, a: int, to: int) -> bool:
        """Reductions along other axes."""
        axes = reduced_axes(node)
        before = 0 if node.attrs["keepdims"] else sum(k < a for k in axes)
        return a not in axes and a - before == to

    def part(self, node: Node, x: Node, a: int, to: int) -> bool:
        """Slices along other axes."""
        return a == to and all(int(k) % len(x.shape) != a for k in node.prims[0])

    def permute(self, node: Node, x: Node, a: int, to: int) -> bool:
        """Permutations of axes."""
        return list(permutation(node)).index(a) == to

    def concat(self, node: Node, x: Node, a: int, to: int) -> bool:
        """Concatenations along other axes."""
        return a == to != concat_axis(node)

    def matmul(self, node: Node, x: Node, a: int, to: int) -> bool:
        """Products with a matrix that all items share."""
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

__all__ = ["ItemAxes", "StepLoop"]
