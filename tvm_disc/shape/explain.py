"""Why a claim holds, and what is known, for people.

The reasons for a claim are found by proving it again from fewer and fewer facts: what is left is a
minimal set that suffices, whatever path the proof took. That costs nothing until it is asked for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from .facts import Fact
from .printing import show
from .prove import prove
from .state import Contradiction, State
from .terms import Atom, Cond

if TYPE_CHECKING:
    from .solver import Solver


def connected(facts: Sequence[Fact], syms: frozenset[Atom]) -> list[Fact]:
    """The facts that reach these symbols through shared symbols."""
    reached, kept = set(syms), set()
    grew = True
    while grew:
        grew = False
        for i, fact in enumerate(facts):
            if i not in kept and not reached.isdisjoint(fact.cond.syms):
                kept.add(i)
                reached |= fact.cond.syms
                grew = True
    return [f for i, f in enumerate(facts) if i in kept]


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


def describe(solver: Solver) -> str:
    """A table of symbols, facts and guards."""
    lines = ["symbols"]
    for var, source in solver.symbols():
        value = show(solver.simplify(var))
        lo, hi = solver.range_of(var)
        same = "" if value == str(var.name) else f" = {value}"
        top = "" if hi is None else str(hi)
        lines.append(f"  {str(var.name) + same:<24} {f'[{lo}, {top}]':<14} {source}".rstrip())
    for title, rows in (("facts", solver.facts()), ("guards", solver.guards)):
        lines.append(title)
        lines.extend(f"  {row}" for row in rows or ("none",))
    return "\n".join(lines)
