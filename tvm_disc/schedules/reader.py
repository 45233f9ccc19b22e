"""The interface between a function body and the rules that compute its elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from tvm_disc.graph.nodes import Node
from tvm_disc.shape import Solver
from tvm_disc.tir.builder import Block
from tvm_disc.tir.index import IndexSpace
from tvm_disc.typing import Expr

Index: TypeAlias = Sequence[Expr]


class ElementReader(Protocol):
    """The methods of a function body that element rules may use."""

    block: Block
    space: IndexSpace
    solver: Solver

    @property
    def in_guard(self) -> bool:
        """Whether evaluation is conditional at this point, so that no variable may be bound."""

    def at(self, node: Node, index: Index) -> Expr:
        """Return the value of ``node`` at ``index``."""

    def item_of(self, offsets: Node) -> tuple[Expr, Expr] | None:
        """Return (item, first row) if the body reads only one item of packed data, else None."""

    def guarded_at(self, node: Node, index: Index, inside: Expr) -> Expr:
        """Return :meth:`at`, for use in the arm of ``if_then_else`` in which ``inside`` holds."""

    def settle(self, name: str, value: Expr) -> Expr:
        """Bind ``value`` to a variable, and return the variable."""

    def broadcast(self, source: Node, out_rank: int, index: Index) -> list[Expr]:
        """Return the index into ``source`` for an element-wise operator's output ``index``."""

    def is_equal_dim(self, node: Node, axis: int) -> bool:
        """Return whether an axis of a ``broadcast_to`` operand is assumed not to be broadcast."""


Rule: TypeAlias = Callable[[ElementReader, Node, Index], Expr]

__all__ = ["ElementReader", "Index", "Rule"]
