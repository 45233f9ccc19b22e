"""Facts and guards in the form that users see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .terms import Atom, Cond


@dataclass(frozen=True)
class Fact:
    """A statement that is known to hold.

    kind     eq | range | ne | le | any | all | same_elements | likely
    text     the statement as printed
    reason   its origin: an operator's definition, the user, a guard
    """

    kind: str
    text: str
    reason: str
    cond: Cond = field(repr=False, compare=False)

    def __str__(self) -> str:
        return f"{self.text}    [{self.reason}]"


@dataclass(frozen=True)
class Guard:
    """A condition that is checked at run time.

    cond      the TVM condition
    message   the condition in terms of the inputs
    symbols   the variables that it reads
    context   the operator or constraint that requires it
    """

    cond: Any
    message: str
    symbols: tuple[Any, ...]
    context: str

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True)
class Wish:
    """An equality of two input dims that would simplify the program; nothing relies on it.

    text      the equality in the constraint language
    message   the equality in terms of the inputs
    context   what it would simplify
    """

    text: str
    message: str
    context: str

    def __str__(self) -> str:
        return f"{self.message}    [{self.context}]"


def connected(facts: Sequence[Fact], syms: frozenset[Atom]) -> list[Fact]:
    """Return the facts that are connected to these symbols through shared symbols."""
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


class StatedCond(Cond):
    """A condition with the text in which it was requested."""

    __slots__ = ("text",)

    def __init__(self, c: Cond, text: str) -> None:
        super().__init__(c.op, c.args)
        self.text = text


def kind_of(c: Cond) -> str:
    """Return the kind of the fact that states a condition, a value of `Fact.kind`."""
    return {"ge": "le", "eq": "eq", "ne": "ne", "or": "any"}.get(c.op, "all")
