"""Rows that are concatenations along the last dim: each part of a row has a separate loop.

In a common loop, each element would have to test which part its column belongs to, which LLVM
vectorizes for at most two parts. The sizes of the parts must be literals, such as numbers of
channels.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate, pairwise
from typing import Any

from tvm_disc.graph.axes import concat_axis
from tvm_disc.graph.core_ops import OpClass
from tvm_disc.graph.nodes import Node, static_dim
from tvm_disc.schedules.group import Group
from tvm_disc.schedules.lowering import Lowering
from tvm_disc.shape import Solver
from tvm_disc.tir.index import add
from tvm_disc.typing import Expr

MOST_PARTS = 64  # largest number of parts of a row; the code of each is repeated


class JoinedColumns:
    """The concatenations along the last dim of a domain, and the parts of its rows."""

    def __init__(self, group: Group, domain: Sequence[Expr], solver: Solver) -> None:
        self.begins: dict[Node, list[int]] = {}
        for node in group.nodes:
            begins = _begins(node)
            if begins is not None and solver.known_same_shape(node.shape, domain):
                self.begins[node] = begins
        cuts = sorted({b for begins in self.begins.values() for b in begins})
        if len(cuts) > MOST_PARTS + 1 or not keep_places(group, self.begins, domain, solver):
            self.begins, cuts = {}, []
        self.parts = [(a, b) for a, b in pairwise(cuts) if b > a]

    def __contains__(self, node: Node) -> bool:
        return node in self.begins

    def __bool__(self) -> bool:
        return bool(self.parts)

    @contextmanager
    def part(self, low: Lowering, begin: int) -> Iterator[None]:
        """Bind every concatenation to the operand that contains column ``begin``."""
        with low.scope():
            for node, begins in self.begins.items():
                low.bind_reader(node, _reader(low, node, begins, begin))
            try:
                yield
            finally:
                for node in self.begins:
                    low.drop_reader(node)


def keep_places(
    group: Group, joined: Iterable[Node], domain: Sequence[object], solver: Solver
) -> bool:
    """Return whether only element-wise operators of the domain's shape are applied to these nodes.

    If so, the operand to read depends only on the part of the row that is written. With a
    transposition, for example, the operand to read also depends on the row.
    """
    found = set(joined)
    for node in group.nodes:
        if found.isdisjoint(node.inputs):
            continue
        if node.cls is not OpClass.ELEMWISE or not solver.known_same_shape(node.shape, domain):
            return False
        found.add(node)
    return True


def of_rows(group: Group) -> set[Node]:
    """Return nodes that contribute one element to each row of the last dim, such as indices of
    ``take``.
    """
    found: set[Node] = set()
    for node in reversed(group.nodes):
        users = list(dict.fromkeys(node.users))
        if users and not node.is_output and all(u in found or _picks(u, node) for u in users):
            found.add(node)
    return found


def _picks(take: Node, index: Node) -> bool:
    """Return whether ``take`` reads only positions from ``index``, on an axis other than its
    last.
    """
    if take.op != "relax.take" or index is take.inputs[0]:
        return False
    rank = len(take.inputs[0].shape)
    axis = take.attrs["axis"]
    return axis is not None and axis % rank < rank - 1


def _begins(node: Node) -> list[int] | None:
    """Return the first column of each operand of a concatenation along the last dim, then the end.

    None for other nodes, and if a size is unknown.
    """
    if node.op != "relax.concat":
        return None
    last = len(node.shape) - 1
    if concat_axis(node) != last:
        return None
    sizes = [static_dim(x.shape[last]) for x in node.inputs]
    return None if None in sizes else [0, *accumulate(s for s in sizes if s is not None)]


def _reader(low: Lowering, node: Node, begins: list[int], begin: int) -> Any:
    k = max(i for i, b in enumerate(begins[:-1]) if b <= begin and begins[i + 1] > b)

    def read(index: Sequence[Expr]) -> Expr:
        return low.at(node.inputs[k], [*index[:-1], add(index[-1], -begins[k])])

    return read


__all__ = ["JoinedColumns", "keep_places", "of_rows"]
