"""Budget of a query: the amount of work that one query or fact may cost.

A proof search over symbolic dims has no natural end: sums of nested floor divisions, such as the
sizes of a pyramid of convolutions, can take minutes. Therefore each query of a solver counts its
work in units, not in seconds, so that a program is compiled identically on every machine. When the
units are used up, the remaining searches return their weakest correct answer: a proof returns
"unknown", a bound is that of interval arithmetic, and a fact is recorded without all of its
consequences. An answer of True or False is correct with any budget.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from typing import Concatenate, ParamSpec, Protocol, TypeVar

QUERY = 8_000
"""Units per query. A unit is about one processed term of a polynomial: 5 to 10 microseconds."""


class Budget:
    """The remaining units of the current query; shared by a state and its copies.

    Query methods use it as a context manager; a nested query belongs to the outer one.

    Attributes:
        left: remaining units; at most 0 once they are used up.
        query: the sequence number of the query; a result that is weaker because the budget was used
            up is cached only under this number.
        largest: the most units that one query of this solver spent.
        exhausted: the number of queries that used up their units.
    """

    __slots__ = ("_depth", "exhausted", "largest", "left", "limit", "query")

    def __init__(self, limit: int | None = None) -> None:
        self.limit = QUERY if limit is None else limit
        self.left = self.limit
        self.query = 0
        self.largest = 0
        self.exhausted = 0
        self._depth = 0

    def __enter__(self) -> Budget:
        if not self._depth:
            self.left = self.limit
            self.query += 1
        self._depth += 1
        return self

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if not self._depth:
            spent = self.limit - self.left
            self.largest = max(self.largest, spent)
            self.exhausted += self.left <= 0
            self.left = self.limit

    @property
    def outermost(self) -> bool:
        """Whether the current query is not nested in another."""
        return self._depth <= 1


class Limited(Protocol):
    """An object whose queries have a budget."""

    budget: Budget


P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound=Limited)


def query(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Return a method that runs as one query of the budget, or as part of its caller's query."""

    def within_budget(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with self.budget:
            return method(self, *args, **kwargs)

    update_wrapper(within_budget, method)
    return within_budget


__all__ = ["QUERY", "Budget", "query"]
