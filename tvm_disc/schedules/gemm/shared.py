"""Consecutive items of a batch that multiply the same matrix B.

In grouped-query attention several heads read the same keys and values (Ainslie et al., 2023): the
graph repeats each matrix of B by a broadcast. If the index map of B proves it, the rows of those
items are rows of one matmul, and B is packed or read once for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm

from tvm_disc.graph.nodes import Node, is_one, static_dim
from tvm_disc.schedules.conv.contraction import operand_index
from tvm_disc.schedules.group import Group
from tvm_disc.schedules.lowering import Lowering
from tvm_disc.shape import Solver
from tvm_disc.tir.builder import Block, i64, index_var
from tvm_disc.tir.index import IndexSpace, product
from tvm_disc.typing import Expr


def shared_items(group: Group, node: Node, batch: Sequence[Expr], solver: Solver) -> int:
    """Return the largest proved number of consecutive batch items of a matmul that share B.

    1 if there is no proof. The number divides the number of items.
    """
    for items in sorted(_candidates(node, batch), reverse=True):
        if static_dim(_simplify(product(batch) % items)) == 0 and _shares(
            group, node, batch, items, solver
        ):
            return items
    return 1


def _candidates(node: Node, batch: Sequence[Expr]) -> set[int]:
    """Return the numbers of items for which the operands of B have been repeated."""
    b = node.inputs[1]
    found = set()
    last = static_dim(batch[-1]) if batch else None
    if last is not None and len(b.shape) > 2 and is_one(b.shape[-3]):
        found.add(last)
    while b.inputs:
        source = b.inputs[0]
        if b.op == "relax.broadcast_to":
            skipped = len(b.shape) - len(source.shape)
            repeated = [
                static_dim(dim)
                for axis, dim in enumerate(b.shape)
                if axis < skipped or is_one(source.shape[axis - skipped])
            ]
            found |= {size for size in repeated if size is not None}
        b = source
    return {size for size in found if size > 1}


def _shares(group: Group, node: Node, batch: Sequence[Expr], items: int, solver: Solver) -> bool:
    """Prove that B of item ``g * items + t`` is B of item ``g * items``."""
    space = IndexSpace(lambda a, b: bool(solver.known_eq(a, b)))
    low = Lowering(Block(), space, solver)
    index_itself: Any = lambda index: index  # noqa: E731
    for p in group.params:
        low.bind_reader(p, index_itself)
    g, t, k, j = (index_var(name) for name in "gtkj")
    b = node.inputs[1]

    def place(item: Expr) -> tuple[Node, Expr] | None:
        lead = space.split(item, batch)
        return low.locate(lambda: low.at(b, operand_index(b, list(lead), (k, j))))

    first, other = place(g * items), place(g * items + t)
    if first is None or other is None or first[0] is not other[0]:
        return False
    analyzer = tvm.sym.Analyzer()
    analyzer.bind(t, tvm.ir.Range(i64(0), i64(items)))
    apart = space.resolved(other[1]) - space.resolved(first[1])
    return static_dim(analyzer.simplify(apart)) == 0


def _simplify(expr: Expr) -> Expr:
    simple: Expr = tvm.sym.Analyzer().simplify(expr)
    return simple


__all__ = ["shared_items"]
