"""Sequences to which a loop appends one tensor per iteration, stored as rows of one tensor."""

from __future__ import annotations

from dataclasses import dataclass

from tvm_disc.errors import Unsupported
from tvm_disc.frontends.calc import Calc, Expr


@dataclass(frozen=True)
class Growing:
    """A sequence inside a loop body: the tensors that the current iteration has appended."""

    added: tuple[Expr, ...] = ()

    def with_(self, item: Expr) -> Growing:
        """Return the sequence with ``item`` appended."""
        return Growing((*self.added, item))

    def item(self) -> Expr:
        """Return the tensor that the iteration has appended.

        Raises:
            Unsupported: the iteration has not appended exactly one tensor.
        """
        if len(self.added) != 1:
            raise Unsupported(
                "expected a loop that adds one tensor to its sequence in each iteration, found "
                f"{len(self.added)} tensors"
            )
        return self.added[0]


@dataclass(frozen=True)
class Gathered:
    """A sequence after the loop: ``first`` are the tensors that it had before the loop.

    Row k of ``rows``, ``[iterations, ...]``, is the tensor that iteration k has appended.
    """

    first: tuple[Expr, ...]
    rows: Expr

    def length(self, n: Calc) -> Expr:
        """Return the number of tensors in the sequence."""
        return n.scalar(n.size(self.rows, 0)) + len(self.first)

    def joined(self, n: Calc, axis: int, new: bool) -> Expr:
        """Return all tensors concatenated along ``axis``, or stacked along it if ``new``."""
        axis = n.axis(axis, n.rank(self.rows) - 1 + new, "the result")
        moved = n.move(self.rows, 0, axis)
        if new:
            parts = [n.expand(x, axis) for x in self.first]
        else:
            sizes = n.sizes(moved)
            both = n.dim("multiply", sizes[axis], sizes[axis + 1])
            moved = n.reshape(moved, [*sizes[:axis], both, *sizes[axis + 2 :]])
            parts = list(self.first)
        return n.concat([*parts, moved], axis) if parts else moved


__all__ = ["Gathered", "Growing"]
