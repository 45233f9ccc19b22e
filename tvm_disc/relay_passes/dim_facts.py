"""What a kernel may know of the dims it is called with: equations, divisors, ends, likely values.

A kernel is compiled apart from its program, over symbols of its own. What the program's facts say
of the dims that a group mentions goes along as constraints on ``d0``, ``d1``, ... in the order of
the group's symbols: a whole number of vectors needs no masked rest, a small index needs 32 bits,
and variants are chosen for the values that occur. A group that was fused because two dims are
equal, such as ``b * (h // 16) // 2`` and ``b * (h // 32)``, is one for its template as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

from tvm_disc.errors import ParseError
from tvm_disc.shape import Solver, parse_constraint
from tvm_disc.shape.printing import show

DIVISORS = (64, 32, 16, 8, 4, 2)
"""Numbers of lanes; a dim that is not even is not asked about the others."""


def facts_about(solver: Solver, dims: Sequence[Any]) -> list[str]:
    """Constraints on ``d0``, ``d1``, ... that hold wherever a kernel over ``dims`` runs.

    A fact about a dim that only data gives may rest on a check that comes after a kernel: where
    there is such a dim, only equations of others are told.
    """
    read = {symbol for symbol, source in solver.symbols() if not source.startswith("input ")}
    found = [] if read.intersection(dims) else _equations(solver, dims)
    if read:
        return found
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


def _equations(solver: Solver, dims: Sequence[Any]) -> list[str]:
    """Those that the language of constraints can say."""
    named = {d: tirx.Var(f"d{k}", "int64") for k, d in enumerate(dims)}
    known = {str(v.name): v for v in named.values()}
    found = []
    for equation in solver.equations(dims):
        renamed = tvm_ffi.structural_map(
            equation, (tvm.ir.Var, lambda v: named.get(v, v)), order="post"
        )
        text = show(renamed)
        try:
            parse_constraint(text, known.get, known)
        except ParseError:  # a choice, or a quotient that is rounded towards zero
            continue
        found.append(text)
    return found


__all__ = ["facts_about"]
