"""Why a claim holds, and what is known, for people.

The reasons for a claim are found by proving it again from fewer and fewer facts: what is left is a
minimal set that suffices, whatever path the proof took. That costs nothing until it is asked for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from .facts import Fact, Guard, Wish, connected
from .printing import show
from .prove import prove
from .state import Contradiction, State
from .terms import Atom, Cond


class Described(Protocol):
    """What a description asks of a solver."""

    guards: list[Guard]
    wishes: list[Wish]
    unchecked: list[str]
    notes: list[str]

    def symbols(self) -> list[tuple[Any, str]]:
        """Every symbol with its source."""

    def facts(self) -> list[Fact]:
        """Every fact, in the order given."""

    def simplify(self, e: Any) -> Any:
        """The canonical expression."""

    def range_of(self, e: Any) -> tuple[int | None, int | None]:
        """The inclusive range; None is unbounded."""

    def known(self, cond: Any) -> bool | None:
        """Whether a condition holds."""


def blame(
    facts: Sequence[Fact], syms: frozenset[Atom], suffices: Callable[[Sequence[Fact]], bool]
) -> list[Fact]:
    """A minimal subset of `facts` for which `suffices` holds, dropping halves, then quarters."""
    kept = connected(facts, syms)
    if not suffices(kept):
        return kept
    size = max(1, len(kept) // 2)
    while kept:
        start = 0
        while start < len(kept):
            fewer = kept[:start] + kept[start + size :]
            if suffices(fewer):
                kept = fewer
            else:
                start += size
        if size == 1:
            break
        size //= 2
    return kept


def reasons(
    facts: Sequence[Fact],
    claim: Cond,
    answer: bool | None,
    replay: Callable[[Sequence[Fact]], State],
) -> list[str]:
    """The facts that give `answer`, then the laws by which they do."""
    if answer is None:
        return []

    def proves(subset: Sequence[Fact]) -> bool:
        try:
            return prove(replay(subset), claim) is answer
        except Contradiction:
            return False

    needed = blame(facts, claim.syms, proves)
    st = replay(needed)
    st.hits = Counter()
    prove(st, claim)
    return [str(f) for f in needed] + [f"by {law}" for law in st.hits]


def operations(expr: Any) -> int:
    """How many comparisons and arithmetic operations an expression takes to evaluate."""
    parts = [getattr(expr, name) for name in _PARTS if hasattr(expr, name)]
    return bool(parts) + sum(operations(part) for part in parts)


# The operands of TVM's expressions.
_PARTS = ("a", "b", "condition", "true_value", "false_value")


def cost_of(guard: Guard) -> str:
    """What a guard costs, who asked for it, and what is known because of it."""
    count = operations(guard.cond)
    unit = "operation" if count == 1 else "operations"
    return f"{count} {unit} per call; for {guard.context}; then {show(guard.cond)}"


def describe(solver: Described) -> str:
    """A table of symbols, facts and guards, and of what would help if it were known."""
    lines = ["symbols"]
    for var, source in solver.symbols():
        value = show(solver.simplify(var))
        lo, hi = solver.range_of(var)
        same = "" if value == str(var.name) else f" = {value}"
        top = "" if hi is None else str(hi)
        lines.append(f"  {str(var.name) + same:<24} {f'[{lo}, {top}]':<14} {source}".rstrip())
    lines.append("facts")
    lines.extend(f"  {row}" for row in solver.facts() or ("none",))
    lines.append("guards")
    for guard in solver.guards:
        lines += [f"  {guard}", f"      {cost_of(guard)}"]
    lines += [] if solver.guards else ["  none"]
    if solver.unchecked:
        lines += ["conditions that are not checked", *(f"  {text}" for text in solver.unchecked)]
    if solver.notes:
        lines += ["notes", *(f"  {text}" for text in solver.notes)]
    open_wishes = [w for w in solver.wishes if solver.known(w.text) is None]
    if open_wishes:
        lines += ["would help", *(f"  {w}" for w in open_wishes)]
    return "\n".join(lines)
