"""The budget of a query: how much work one question or fact may cost.

A proof search over symbolic dims has no natural end: sums of nested floor divisions, as the sizes
of a pyramid of convolutions are, can keep it busy for minutes. So every query of a solver counts
its work in units, not in seconds: the same program takes the same decisions on every machine. When
the units are used up, the remaining searches give their weakest correct answer: a proof answers
"unknown", a bound is the one that interval arithmetic gives, a fact is recorded without all of its
consequences. An answer of True or False is correct with any budget.
"""

from __future__ import annotations

QUERY = 8_000
"""Units of one query: about one term of a polynomial handled, 5 to 10 microseconds each."""


class Budget:
    """The units left of the query that is in progress; shared by a state and its copies.

    Used as a context manager by the methods that are queries; a query within a query belongs to
    the outer one.

    Attributes:
        left: units left; at most 0 once they are used up.
        query: the number of the query, which weak results are valid for.
        largest: the most units that one query of this solver spent.
        exhausted: how many queries used up their units.
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
        """Whether the query in progress is not within another."""
        return self._depth <= 1


__all__ = ["QUERY", "Budget"]
