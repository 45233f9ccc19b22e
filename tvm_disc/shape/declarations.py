"""User-provided facts about input dims, for every kind of source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from tvm_disc.errors import BadInput, shown
from tvm_disc.typing import Size

from .arithmetic import literal
from .constraints import Likely, parse_constraint
from .solver import Solver


def declare_facts(
    solver: Solver, dims: Mapping[str, Size], constraints: Sequence[str], premises: Sequence[str]
) -> None:
    """Add a user's constraints and premises to a solver.

    Args:
        solver: receives the facts.
        dims: the input dims by the names that a user may write: symbols, and ``input.axis``.
        constraints: conditions that the program checks before it relies on them.
        premises: like constraints, but the caller guarantees them.

    Raises:
        ParseError: a text is not a constraint, or names an unknown dim.
        ShapeConflict: a constraint can never hold.
        BadInput: an argument has another type.
    """
    if not isinstance(solver, Solver):
        raise BadInput(f"declare_facts: expected a Solver, found {shown(solver)}")
    if not isinstance(dims, Mapping):
        raise BadInput(f"declare_facts: expected a mapping of names to dims, found {shown(dims)}")
    for name, texts in (("constraints", constraints), ("premises", premises)):
        if not isinstance(texts, list | tuple):
            raise BadInput(
                f"declare_facts: {name}: expected a list of strings, found {shown(texts)}"
            )
    for text in constraints:
        sizes: dict[str, int] = {}
        fact = parse_constraint(text, partial(_resolve, dims, sizes), dims)
        if isinstance(fact, Likely):
            solver.likely(fact.expr, fact.values)
        else:
            solver.require_text(fact, text, sizes)
    for text in premises:
        solver.assume(parse_constraint(text, dims.get, dims), "condition of the special version")


def _resolve(dims: Mapping[str, Size], sizes: dict[str, int], name: str) -> Size | None:
    """Return the dim called `name`, or None; a static size is also added to `sizes`."""
    dim = dims.get(name)
    size = dim if isinstance(dim, int) else literal(dim)
    if size is not None:
        sizes[name] = int(size)
    return dim


__all__ = ["declare_facts"]
