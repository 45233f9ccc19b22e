"""Select the equalities of input dims for which a special version of the program is compiled.

Broadcasting with unknown dims requires general code: `x[n] + y[m]` is valid if n == m, and also if
one of them is 1. Nearly every call has n == m, and for these calls the program is simpler: no
broadcast, fewer symbols, more fusion. Rules record such equalities as wishes (`Solver.wish_eq`). A
special version is the program under the premise that they all hold. The general version serves
calls that violate the premise, so that no valid call is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from tvm_disc.errors import BadInput, ShapeConflict, shown

from .facts import Wish
from .solver import Solver

# A premise may enable further wishes: more equalities become relevant once dims are equal.
MAX_ROUNDS = 3


class HasSolver(Protocol):
    """An object with a solver for its dims."""

    solver: Solver


T = TypeVar("T", bound=HasSolver)


def special_version(
    read: Callable[[Sequence[str]], T], general: T
) -> tuple[T, tuple[Wish, ...]] | None:
    """Return the program under its wishes, and these wishes.

    Returns None if the program has no open wish, or if its wishes contradict each other. If wishes
    that arise under these premises contradict them, the later wishes are left out.

    Args:
        read: returns the program under premises in the constraint language.
        general: the program without premises.
    """
    if not callable(read):
        raise BadInput(
            f"special_version: expected a function that takes premises, found {shown(read)}"
        )
    if not isinstance(getattr(general, "solver", None), Solver):
        raise BadInput(
            f"special_version: expected an object with a `solver`, found {shown(general)}"
        )
    best: tuple[T, tuple[Wish, ...]] | None = None
    for _ in range(MAX_ROUNDS):
        known, premises = best or (general, ())
        new = [w for w in known.solver.wishes if known.solver.known(w.text) is None]
        if not new:
            break
        premises = (*premises, *new)
        try:
            best = read([w.text for w in premises]), premises
        except ShapeConflict:
            break  # the wishes contradict each other
    return best


__all__ = ["special_version"]
