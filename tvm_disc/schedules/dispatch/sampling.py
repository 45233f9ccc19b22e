"""Samples the dims of a group, and evaluates expressions over them with NumPy."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from tvm import tirx

from tvm_disc.errors import Unsupported
from tvm_disc.shape import Solver
from tvm_disc.tir.builder import i64
from tvm_disc.typing import Expr, Var

Values: TypeAlias = npt.NDArray[np.float64]
Points: TypeAlias = Mapping[Any, Values]  # symbol -> its value at each point

# Largest sampled value of a symbol without upper bound, by the number of symbols.
LARGEST_DIM = (1 << 24, 1 << 24, 1 << 18, 1 << 14)
COUNT = 768
COMMON_DIM = 4096
LIKELY = 9.0  # weight of likely values: nine of ten calls have them, if the user declared any
_PRIMES = (2, 3, 5, 7, 11, 13, 17, 19)


def _floordiv(a: Values, b: Values) -> Values:
    return np.floor(a / np.where(b == 0, 1, b))


def _truncdiv(a: Values, b: Values) -> Values:
    return np.trunc(a / np.where(b == 0, 1, b))


_OPERATORS: Mapping[type, Callable[[Any, Any], Any]] = {
    tirx.Add: operator.add,
    tirx.Sub: operator.sub,
    tirx.Mul: operator.mul,
    tirx.FloorDiv: _floordiv,
    tirx.FloorMod: lambda a, b: a - _floordiv(a, b) * b,
    tirx.Div: _truncdiv,
    tirx.Mod: lambda a, b: a - _truncdiv(a, b) * b,
    tirx.Min: np.minimum,
    tirx.Max: np.maximum,
    tirx.EQ: operator.eq,
    tirx.NE: operator.ne,
    tirx.LT: operator.lt,
    tirx.LE: operator.le,
    tirx.GT: operator.gt,
    tirx.GE: operator.ge,
    tirx.And: np.logical_and,
    tirx.Or: np.logical_or,
}


class KnownPoints(dict[Any, Values]):
    """Points with a cache of evaluated expressions, for several models at the same points."""

    def __init__(self, points: Points) -> None:
        super().__init__(points)
        # key: id of the expression; the value holds a reference, so that the id is not reused
        self.known: dict[int, tuple[Expr, object]] = {}


def evaluate(expr: Expr | float, points: Points) -> Any:
    """Return the value of an expression at each point: floats, or bools for a condition.

    Raises:
        Unsupported: the expression is not arithmetic on the points' symbols.
    """
    if isinstance(points, KnownPoints) and not isinstance(expr, int | float):
        found = points.known.get(id(expr))
        if found is None:
            found = points.known[id(expr)] = (expr, _evaluate(expr, points))
        return found[1]
    return _evaluate(expr, points)


def _evaluate(expr: Expr | float, points: Points) -> Any:
    if isinstance(expr, int | float):
        return np.float64(expr)
    if isinstance(expr, tirx.IntImm | tirx.FloatImm):
        return np.float64(expr.value)
    if isinstance(expr, tirx.Var) and expr in points:
        return points[expr]
    if isinstance(expr, tirx.Select):
        cond = _evaluate(expr.condition, points)
        yes, no = _evaluate(expr.true_value, points), _evaluate(expr.false_value, points)
        return np.where(cond, yes, no)
    if isinstance(expr, tirx.Cast):
        found = _evaluate(expr.value, points)
        return np.trunc(found) if _is_real(expr.value) and not _is_real(expr) else found
    if isinstance(expr, tirx.Div) and _is_real(expr):
        return _evaluate(expr.a, points) / _evaluate(expr.b, points)
    if isinstance(expr, tirx.Not):
        return np.logical_not(_evaluate(expr.a, points))
    apply = _OPERATORS.get(type(expr))
    if apply is None:
        raise Unsupported(f"cannot evaluate {expr} on sampled dims")
    return apply(_evaluate(expr.a, points), _evaluate(expr.b, points))


def _is_real(expr: Expr) -> bool:
    return str(expr.ty.dtype).startswith("float")


def _radical_inverses(count: int, base: int) -> Values:
    """Return ``count`` elements of the van der Corput sequence (low-discrepancy, in [0, 1))."""
    result = np.zeros(count)
    index = np.arange(1, count + 1)
    fraction = 1.0
    while index.any():
        fraction /= base
        result += fraction * (index % base)
        index //= base
    return result


def bounds(symbol: object, solver: Solver, dims: int = 1) -> tuple[int, int]:
    """Return the range from which a symbol is sampled; its values are at least 1.

    The upper end depends on ``dims``, the number of symbols of the group.
    """
    low, high = solver.range_of(symbol)
    low = max(low or 1, 1)
    largest = LARGEST_DIM[min(dims, len(LARGEST_DIM) - 1)]
    return low, max(low, largest if high is None else high)


def sample(
    symbols: Sequence[Any], solver: Solver, size: Expr, limit: float, count: int = COUNT
) -> dict[Var, Values]:
    """Return points that are log-uniform over the ranges of the symbols, with ``size <= limit``.

    In half of the points all dims are at most ``COMMON_DIM``, if the ranges allow it. A single
    symbol gets distinct values in ascending order. The result is deterministic.
    """
    if not symbols:
        return {}
    ranges = [bounds(s, solver, len(symbols)) for s in symbols]
    common = [(low, min(high, max(low, COMMON_DIM))) for low, high in ranges]
    found = [_inside(symbols, box, size, limit, count // 2) for box in (common, ranges)]
    table = np.unique(np.concatenate(found, axis=1), axis=1)
    return dict(zip(symbols, table, strict=True))


def _inside(
    symbols: Sequence[object],
    box: Sequence[tuple[int, int]],
    size: Expr,
    limit: float,
    count: int,
) -> Values:
    """Return up to ``count`` points of a box that satisfy ``size <= limit``, a row for each symbol.

    If no candidate satisfies the condition, the first candidate is returned.
    """
    wanted = count if len(symbols) == 1 else 4 * count
    columns = {}
    for k, (symbol, ends) in enumerate(zip(symbols, box, strict=True)):
        low, high = np.log(ends)
        spread = np.linspace(0, 1, wanted) if len(symbols) == 1 else halton(wanted, k)
        columns[symbol] = np.rint(np.exp(low + (high - low) * spread))
    fits = np.flatnonzero(np.broadcast_to(evaluate(i64(size), columns) <= limit, (wanted,)))
    chosen = fits[:count] if len(fits) else np.arange(1)
    return np.stack([columns[s][chosen] for s in symbols])


def with_likely(points: Points, solver: Solver) -> tuple[dict[Expr, Values], Values]:
    """Return the points and weights, extended by points with likely values.

    One likely point is added per point; its weight is ``LIKELY``, that of the others 1.
    """
    count = len(next(iter(points.values()))) if points else 1
    expected = {s: np.array(v, np.float64) for s in points if (v := solver.likely_values(s))}
    if not expected:
        return dict(points), np.ones(count)
    columns = {}
    for k, (symbol, values) in enumerate(points.items()):
        among = expected.get(symbol)
        more = values if among is None else among[(halton(count, k) * len(among)).astype(int)]
        columns[symbol] = np.concatenate([values, more])
    return columns, np.repeat([1.0, LIKELY], count)


def spread(low: Values, high: Values, count: int) -> Values:
    """Return ``count`` integer points, log-uniform over a box, a row for each point."""
    columns = []
    for k, (a, b) in enumerate(zip(np.maximum(low, 0.5), np.maximum(high, 0.5), strict=True)):
        columns.append(np.rint(a * (b / a) ** halton(count, k)))
    return np.stack(columns, axis=1)


def halton(count: int, axis: int) -> Values:
    """Return one coordinate of the first ``count`` points of a Halton sequence, in [0, 1)."""
    base = _PRIMES[axis % len(_PRIMES)]
    shift = 0.618 * (axis // len(_PRIMES))
    return (_radical_inverses(count, base) + shift) % 1.0
