"""Explanations: why a claim holds, and a description of all known facts.

The reasons for a claim are found by repeated proofs from fewer and fewer facts. The result is a
minimal sufficient set, and does not depend on how the first proof was found. It is computed on
request only.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from tvm_disc.support.late import Late
from tvm_disc.typing import Expr

from .assume import assume
from .facts import Fact, Guard, Wish, connected
from .printing import plain, show
from .prove import prove
from .state import Contradiction, State
from .terms import Atom, Cond

simplified = Late("tvm_disc.support.notation:simplified")


class Described(Protocol):
    """The part of a solver's interface that a description requires."""

    definitions: dict[Expr, Expr]
    guards: list[Guard]
    wishes: list[Wish]
    unchecked: list[str]
    notes: list[str]
    origins: dict[str, str]

    def symbols(self) -> list[tuple[Any, str]]:
        """Return every symbol with its source."""

    def facts(self) -> list[Fact]:
        """Return every fact, in the order given."""

    def simplify(self, e: object) -> Any:
        """Return the canonical expression."""

    def range_of(self, e: object) -> tuple[int | None, int | None]:
        """Return the inclusive range; None means unbounded."""

    def known(self, cond: object) -> bool | None:
        """Return whether a condition holds; None if unknown."""


def blame(
    facts: Sequence[Fact], syms: frozenset[Atom], suffices: Callable[[Sequence[Fact]], bool]
) -> list[Fact]:
    """Return a minimal sufficient subset of `facts`: remove halves, then quarters, and so on.

    If all facts that are connected to ``syms`` do not suffice, these are returned.
    """
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


def conflict(fact: Fact, facts: Sequence[Fact], replay: Callable[[Sequence[Fact]], State]) -> str:
    """Return the text of a contradiction: the fact, and a minimal set of facts that contradict
    it.
    """

    def impossible(facts: Sequence[Fact]) -> bool:
        try:
            assume(replay(facts), fact.cond)
        except Contradiction:
            return True
        return False

    others = blame(facts, fact.cond.syms, impossible)
    mine = f"'{fact.text}' ({fact.reason})"
    if not others:
        return f"{mine} cannot hold: every dimension is an integer that is at least 0"
    theirs = " and ".join(f"'{f.text}' ({f.reason})" for f in others)
    return f"{mine} contradicts {theirs}"


def reasons(
    facts: Sequence[Fact],
    claim: Cond,
    answer: bool | None,
    replay: Callable[[Sequence[Fact]], State],
) -> list[str]:
    """Return the facts that imply `answer`, then the laws of the proof; [] without an answer."""
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


def because(chain: Sequence[str]) -> str:
    """Return the facts of a chain from :func:`reasons` as the end of a message, after a colon; the
    laws are left out.
    """
    facts = [line.replace("    [", " (", 1)[:-1] + ")" for line in chain if line.endswith("]")]
    return f": {' and '.join(facts)}" if facts else ""


def line_of(guard: Guard, origins: Mapping[str, str] = {}) -> str:
    """Return a guard's condition, and the operator or constraint that requires it.

    ``origins`` names the sources of constraints that the caller of ``build`` did not write.
    """
    kind, _, text = guard.context.partition(" ")
    if kind == "constraint" and text[:1] in "'\"":
        stated = ast.literal_eval(text)
        origin = origins.get(stated, "constraint of the caller of build")
        return f"{simplified(stated)}    [{origin}]"
    text = _SOURCES.sub("", str(guard))
    return text if text.startswith(guard.context) else f"{text}    [{guard.context}]"


_WIDEST = 48  # characters of a symbol and its value; longer ones do not widen the table

# The table of symbols says this of each symbol: "(n: input 'x' axis 0, m: input 'y' axis 0)".
_SOURCES = re.compile(r" \((?:\w+: input '[^']*' axis \d+(?:, )?)+\)")


def describe(solver: Described) -> str:
    """Return the text of symbols, facts, guards, unchecked conditions, notes, and equalities that
    would simplify the program.
    """
    lines, rows = ["symbols"], []
    for var, source in solver.symbols():
        defined = var in solver.definitions
        value = show(solver.definitions[var] if defined else solver.simplify(var))
        lo, hi = solver.range_of(var)
        same = "" if value == str(var.name) else f" = {value}"
        top = "inf)" if hi is None else f"{hi}]"
        rows.append((str(var.name) + same, f"[{lo}, {top}", source))
    width = max([24, *(len(name) for name, _, _ in rows if len(name) <= _WIDEST)])
    lines += [f"  {name:<{width}} {span:<14} {source}".rstrip() for name, span, source in rows]
    lines.append("facts")
    facts = [f for f in solver.facts() if not f.reason.startswith("guard of ")]
    lines.extend(f"  {plain(f.text)}    [{f.reason}]" for f in facts)
    lines += [] if facts else ["  none"]
    lines.append("guards")
    lines.extend(f"  {line_of(guard, solver.origins)}" for guard in solver.guards)
    lines += [] if solver.guards else ["  none"]
    if solver.unchecked:
        lines += ["conditions that are not checked", *(f"  {text}" for text in solver.unchecked)]
    if solver.notes:
        lines += ["notes", *(f"  {text}" for text in solver.notes)]
    open_wishes = [w for w in solver.wishes if solver.known(w.text) is None]
    if open_wishes:
        lines += ["constraints that would simplify the program", *(f"  {w}" for w in open_wishes)]
    return "\n".join(lines)
