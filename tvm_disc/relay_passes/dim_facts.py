"""What a kernel may know of the dims it is called with: divisors, upper ends, likely values.

A kernel is compiled apart from its program, over symbols of its own. What the program's facts say
of the dims that a group mentions goes along as constraints on ``d0``, ``d1``, ... in the order of
the group's symbols: a whole number of vectors needs no masked rest, a small index needs 32 bits,
and variants are chosen for the values that occur.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm_disc.shape import Solver

DIVISORS = (64, 32, 16, 8, 4, 2)
"""Numbers of lanes; a dim that is not even is not asked about the others."""


def facts_about(solver: Solver, dims: Sequence[Any]) -> list[str]:
    """Constraints on ``d0``, ``d1``, ... that hold wherever a kernel over ``dims`` runs.

    A fact about a dim that only data gives may rest on a check that comes after a kernel: where
    there is such a dim, nothing is told.
    """
    if not all(source.startswith("input ") for _, source in solver.symbols()):
        return []
    found = []
    for k, dim in enumerate(dims):
        name = f"d{k}"
        if solver.known_divides(2, dim):
            divisor = next(d for d in DIVISORS if solver.known_divides(d, dim))
            found.append(f"{name} % {divisor} == 0")
        high = solver.range_of(dim)[1]
        if high is not None:
            found.append(f"{name} <= {high}")
        likely = solver.likely_values(dim)
        if likely:
            found.append(f"likely({name}, {list(likely)})")
    return found


__all__ = ["facts_about"]
