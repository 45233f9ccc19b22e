"""Facts about the dims of a kernel: equations, divisors, upper bounds and likely values.

A kernel is compiled separately from its program, over its own symbols. The program's facts about
the group's dims are passed on as constraints on ``d0``, ``d1``, ... in the order of the group's
symbols. These constraints remove vector tails, allow 32-bit indices, and select variants for likely
values. Equations such as ``b * (h // 16) // 2 == b * (h // 32)``, which allowed a fusion, also let
the template treat the two dims as equal.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm import tirx

from tvm_disc.errors import ParseError
from tvm_disc.shape import Solver, parse_constraint
from tvm_disc.shape.printing import show
from tvm_disc.shape.symbols import free_symbols
from tvm_disc.tir.index import substitute
from tvm_disc.typing import Expr

DIVISORS = (64, 32, 16, 8, 4, 2)
"""Candidate divisors of an even dim, largest first: common numbers of vector lanes."""


class GroupFacts:
    """Facts of a program about the dims of its groups.

    Args:
        solver: the facts of the program; symbols that are declared later are ignored.
    """

    def __init__(self, solver: Solver) -> None:
        self._solver = solver
        self._read = _read_from_data(solver)

    def about(self, dims: Sequence[Expr]) -> list[str]:
        """Return constraints on ``d0``, ``d1``, ... that hold wherever a kernel over ``dims`` runs.

        A fact about a data-dependent dim may follow from a guard that runs after the kernel. The
        result is empty if ``dims`` contain such a symbol. If only other dims of the program depend
        on data, the result contains equations but no single facts.
        """
        if not self._read:
            return [*_equations(self._solver, dims), *_single_facts(self._solver, dims)]
        return [] if self._read.intersection(free_symbols(dims)) else _equations(self._solver, dims)


def _read_from_data(solver: Solver) -> set[Expr]:
    """Return the data-dependent symbols, and the symbols whose definitions contain one."""
    read = {
        symbol
        for symbol, source in solver.symbols()
        if not source.startswith("input ") and symbol not in solver.definitions
    }
    for symbol, value in solver.definitions.items():
        if read.intersection(free_symbols([value])):
            read.add(symbol)
    return read


def _single_facts(solver: Solver, dims: Sequence[Expr]) -> list[str]:
    """Return divisors, upper bounds and likely values as constraints on ``d0``, ``d1``, ..."""
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


def _equations(solver: Solver, dims: Sequence[Expr]) -> list[str]:
    """Return the equations that the constraint language can express."""
    named = {d: tirx.Var(f"d{k}", "int64") for k, d in enumerate(dims)}
    known = {str(v.name): v for v in named.values()}
    found = []
    for equation in solver.equations(dims):
        text = show(substitute(equation, named))
        try:
            parse_constraint(text, known.get, known)
        except ParseError:  # the equation has a select, or a division that truncates towards zero
            continue
        found.append(text)
    return found


__all__ = ["GroupFacts"]
