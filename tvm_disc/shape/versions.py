"""Which equalities of input dims are worth a program of their own.

Broadcasting makes a program of unknown dims general: `x[n] + y[m]` is legal where n == m, and also
where one of them is 1. Nearly every call has n == m, and there everything is simpler: no broadcast,
fewer symbols, more to fuse. Rules note such equalities as wishes (`Solver.wish_eq`). A special
version is the program under the premise that they all hold; the general one serves the calls that
break the premise, so that no legal call is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from tvm_disc.errors import BadInput, ShapeConflict, shown

from .facts import Wish
from .solver import Solver

# A premise may make others visible: positions count a whole operand only once dims are equal.
MAX_ROUNDS = 3


class Described(Protocol):
    """Anything that carries what is known of its dims."""

    solver: Solver


T = TypeVar("T", bound=Described)


def special_version(
    read: Callable[[Sequence[str]], T], general: T
) -> tuple[T, tuple[Wish, ...]] | None:
    """The program under all wishes, and the premises it rests on; None if there is none.

    Args:
        read: the program under premises in the constraint language.
        general: the program without premises.
    """
    if not callable(read):
        raise BadInput(f"special_version: expected a function of premises, found {shown(read)}")
    if not isinstance(getattr(general, "solver", None), Solver):
        raise BadInput(f"special_version: expected what has a solver, found {shown(general)}")
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
            break  # the wishes exclude each other
    return best


__all__ = ["special_version"]
