"""Determine whether an expression rises or falls with a symbol."""

from __future__ import annotations

from tvm import tirx

from tvm_disc.graph.nodes import static_dim
from tvm_disc.shape import Solver
from tvm_disc.typing import Expr, Var


def uses(expr: Expr, symbol: Var) -> bool:
    """Return whether a symbol occurs in an expression."""
    return any(v.same_as(symbol) for v in tirx.analysis.undefined_vars(expr))


def trend(expr: Expr, symbol: Var, solver: Solver) -> int | None:
    """Return 1 if an expression never falls as ``symbol`` grows, and -1 if it never rises.

    Returns 0 if the symbol does not occur, and None if the direction is not known.
    """
    if not uses(expr, symbol):
        return 0
    if isinstance(expr, tirx.Var):
        return 1
    if isinstance(expr, tirx.Add | tirx.Min | tirx.Max):
        return _both(trend(expr.a, symbol, solver), trend(expr.b, symbol, solver))
    if isinstance(expr, tirx.Sub):
        return _both(trend(expr.a, symbol, solver), _turned(trend(expr.b, symbol, solver)))
    if isinstance(expr, tirx.Mul):
        for x, factor in ((expr.a, expr.b), (expr.b, expr.a)):
            if not uses(factor, symbol):
                found = trend(x, symbol, solver)
                if solver.known_le(0, factor):
                    return found
                return _turned(found) if solver.known_le(factor, 0) else None
    if isinstance(expr, tirx.FloorDiv):
        divisor = static_dim(expr.b)
        return trend(expr.a, symbol, solver) if divisor is not None and divisor > 0 else None
    return None


def _turned(value: int | None) -> int | None:
    return None if value is None else -value


def _both(a: int | None, b: int | None) -> int | None:
    if a is None or b is None or a * b < 0:
        return None
    return a or b


__all__ = ["trend", "uses"]
