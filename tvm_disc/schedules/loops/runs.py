"""Concatenations along any axis of operands of any size: each operand is one run of a row.

A row here is the concatenated axis and all dims after it. The elements that one operand contributes
to a row are contiguous, in the operand and in the result. Each operand therefore has a separate
loop over vectors, without a test per element.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tvm_disc.graph.axes import concat_axis
from tvm_disc.graph.nodes import Node
from tvm_disc.schedules.group import Group
from tvm_disc.schedules.loops.joined import keep_places
from tvm_disc.schedules.lowering import Lowering
from tvm_disc.shape import Solver
from tvm_disc.tir.index import mul, product
from tvm_disc.typing import Expr

MOST_RUNS = 8  # largest number of operands; each has a separate loop


@dataclass(frozen=True)
class JoinedRuns:
    """Concatenations ``nodes`` along ``axis``; the k-th operands of all nodes have equal sizes."""

    axis: int
    nodes: tuple[Node, ...]

    @staticmethod
    def of(group: Group, domain: Sequence[object], solver: Solver) -> JoinedRuns | None:
        """Return the concatenations of a group.

        None if there are none, if they have more than ``MOST_RUNS`` operands or differ in sizes, if
        an output has another shape, or if an operator that is not element-wise reads one.
        """
        nodes = tuple(n for n in group.nodes if n.op == "relax.concat")
        if not nodes or len(nodes[0].inputs) > MOST_RUNS:
            return None
        found = JoinedRuns(concat_axis(nodes[0]), nodes)
        whole = [*nodes, *group.outputs]
        if not all(solver.known_same_shape(n.shape, domain) for n in whole):
            return None
        alike = all(found._is_like(n, solver) for n in nodes)
        return found if alike and keep_places(group, nodes, domain, solver) else None

    def _is_like(self, node: Node, solver: Solver) -> bool:
        sizes, others = ([x.shape[self.axis] for x in n.inputs] for n in (self.nodes[0], node))
        return (
            concat_axis(node) == self.axis
            and len(sizes) == len(others)
            and all(solver.known_eq(a, b) for a, b in zip(sizes, others, strict=True))
        )

    @property
    def count(self) -> int:
        """The number of runs of a row."""
        return len(self.nodes[0].inputs)

    @property
    def suffix(self) -> Expr:
        """The product of the dims after the axis; runs begin at multiples of this number."""
        return product(self.nodes[0].shape[self.axis + 1 :])

    def sizes(self) -> list[Expr]:
        """Return the number of elements of each run."""
        return [mul(x.shape[self.axis], self.suffix) for x in self.nodes[0].inputs]

    def needed(self, outputs: Sequence[Node], k: int) -> list[Node]:
        """Return the nodes from which the elements of run ``k`` are computed."""
        found: dict[Node, None] = {}
        open_nodes = list(outputs)
        while open_nodes:
            node = open_nodes.pop()
            if node not in found:
                found[node] = None
                open_nodes += [node.inputs[k]] if node in self.nodes else node.inputs
        return list(found)

    @contextmanager
    def run(self, low: Lowering, k: int, outer: Sequence[Expr], at: Expr) -> Iterator[None]:
        """Bind every concatenation to its operand ``k``, at position ``at`` of the run."""
        for node in self.nodes:
            low.bind_reader(node, self._reader(low, node.inputs[k], outer, at))
        try:
            yield
        finally:
            for node in self.nodes:
                low.drop_reader(node)

    def _reader(self, low: Lowering, operand: Node, outer: Sequence[Expr], at: Expr) -> Any:
        inner = operand.shape[self.axis :]
        return lambda index: low.at(operand, [*outer, *low.space.split(at, inner)])


__all__ = ["JoinedRuns"]
