"""What a user says of the dims of inputs, for every kind of source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tvm_disc.errors import BadInput, shown

from .constraints import Likely, parse_constraint
from .solver import Solver


def tell(
    solver: Solver, dims: Mapping[str, Any], constraints: Sequence[str], premises: Sequence[str]
) -> None:
    """Tell a solver what the user knows.

    Args:
        solver: takes the facts.
        dims: the input dims by the names a user may write: those of symbols, and ``input.axis``.
        constraints: stated, not proved: the program checks them before it relies on them.
        premises: as constraints, but the caller sees to it that they hold.

    Raises:
        ParseError: a text that is no constraint, or that names no dim of these.
        ShapeConflict: a constraint that can never hold.
    """
    if not isinstance(solver, Solver):
        raise BadInput(f"tell: expected a Solver, found {shown(solver)}")
    if not isinstance(dims, Mapping):
        raise BadInput(f"tell: expected a mapping of names to dims, found {shown(dims)}")
    for name, texts in (("constraints", constraints), ("premises", premises)):
        if not isinstance(texts, list | tuple):
            raise BadInput(f"tell: {name}: expected a list of texts, found {shown(texts)}")
    for text in constraints:
        fact = parse_constraint(text, dims.get, dims)
        if isinstance(fact, Likely):
            solver.likely(fact.expr, fact.values)
        else:
            solver.require_text(fact, text)
    for text in premises:
        solver.assume(parse_constraint(text, dims.get, dims), "premise of this version")


__all__ = ["tell"]
