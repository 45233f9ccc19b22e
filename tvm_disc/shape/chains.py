"""Long sums and maxima as balanced trees, which limits the depth of recursion.

TVM's simplifier, and code that adds terms one by one, create left-leaning expressions whose depth
is the number of terms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from tvm import tirx

from tvm_disc.typing import Expr

T = TypeVar("T")
ROW = 16  # longer sequences are joined as a tree


def terms(expr: Expr) -> list[Expr]:
    """Return the terms along the left side of a sum, or the expression itself."""
    later = []
    while type(expr) is tirx.Add:
        later.append(expr.b)
        expr = expr.a
    return [expr, *reversed(later)]


def joined(parts: Sequence[T], join: Callable[[T, T], T]) -> T:
    """Return all parts joined in order, as a balanced tree if there are many."""
    if len(parts) > ROW:
        half = len(parts) // 2
        return join(joined(parts[:half], join), joined(parts[half:], join))
    found = parts[0]
    for part in parts[1:]:
        found = join(found, part)
    return found


def balanced(expr: Expr) -> Expr:
    """Return a long sum as a balanced tree; other expressions are unchanged."""
    found = terms(expr)
    return joined(found, tirx.Add) if len(found) > ROW else expr


__all__ = ["ROW", "balanced", "joined", "terms"]
