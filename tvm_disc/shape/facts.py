"""Facts and guards as the user sees them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .terms import Atom, Cond


@dataclass(frozen=True)
class Fact:
    """A statement known to hold.

    kind     eq | range | divides | ne | le | any | same_elements | likely
    text     the statement as printed
    reason   who said so: an operator's definition, the user, a guard
    """

    kind: str
    text: str
    reason: str
    cond: Cond = field(repr=False, compare=False)

    def __str__(self) -> str:
        return f"{self.text}    [{self.reason}]"


@dataclass(frozen=True)
class Guard:
    """A requirement left for run time.

    cond      the TVM condition to check
    message   the requirement in terms of the inputs
    symbols   the variables it reads
    context   what needs it
    """

    cond: Any
    message: str
    symbols: tuple[Any, ...]
    context: str

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True)
class Wish:
    """An equality of two input dims that would make a program simpler; nothing relies on it.

    text      the equality in the constraint language
    message   the equality in terms of the inputs
    context   what it would simplify, and to what
    """

    text: str
    message: str
    context: str

    def __str__(self) -> str:
        return f"{self.message}    [{self.context}]"


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
