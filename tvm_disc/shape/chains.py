"""Long sums and maxima as trees, which nothing recurses into deeply.

TVM's own simplifier, and who adds terms one by one, make expressions that lean to the left, as deep
as they have terms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

from tvm import tirx

Expr: TypeAlias = Any
T = TypeVar("T")
ROW = 16  # parts that are joined one by one


def terms(expr: Expr) -> list[Expr]:
    """What a sum adds, down its left side; of another expression itself alone."""
    later = []
    while type(expr) is tirx.Add:
        later.append(expr.b)
        expr = expr.a
    return [expr, *reversed(later)]


def joined(parts: Sequence[T], join: Callable[[T, T], T]) -> T:
    """One of all parts, in their order: a tree where there are many."""
    if len(parts) > ROW:
        half = len(parts) // 2
        return join(joined(parts[:half], join), joined(parts[half:], join))
    found = parts[0]
    for part in parts[1:]:
        found = join(found, part)
    return found


def balanced(expr: Expr) -> Expr:
    """A long sum as a tree; any other expression as it is."""
    found = terms(expr)
    return joined(found, tirx.Add) if len(found) > ROW else expr


__all__ = ["ROW", "balanced", "joined", "terms"]
