"""Bounds of integer expressions, which turn conditions and sizes into literals.

Kernels with static dims compare and divide literals, and loop variables whose range is known: row
``2 * i`` of an image of eight rows needs no test if ``i`` is in ``range(4)``. Without the branch,
there is less code to emit, to analyze and to read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from tvm import tirx
from tvm.ir import Var as IrVar

from tvm_disc.typing import Expr

Bounds: TypeAlias = tuple[float, float]  # least and greatest value: integers, or infinite
UNKNOWN: Bounds = (-float("inf"), float("inf"))
_LOW, _HIGH = UNKNOWN
_DEPTH = 8  # expressions may share subexpressions, so a walk without a limit may take 2^n steps


def _product(a: Bounds, b: Bounds) -> Bounds:
    ends = [0 if 0 in (x, y) else x * y for x in a for y in b]
    return min(ends), max(ends)


def _quotient(a: Bounds, b: Bounds) -> Bounds:
    """Bound a quotient of numbers that are not negative, which all divisions round down."""
    if a[0] < 0 or b[0] < 1:
        return UNKNOWN
    least = 0 if b[1] == _HIGH else a[0] // b[1]
    return least, a[1] if a[1] == _HIGH else a[1] // b[0]


def _remainder(a: Bounds, b: Bounds) -> Bounds:
    """Bound a remainder of numbers that are not negative."""
    if a[0] < 0 or b[0] < 1:
        return UNKNOWN
    return 0, min(a[1], b[1] - 1)


def _equal(a: Bounds, b: Bounds) -> bool | None:
    if a[0] == a[1] == b[0] == b[1]:
        return True
    return False if a[1] < b[0] or b[1] < a[0] else None


_ARITHMETIC: dict[type, Callable[[Bounds, Bounds], Bounds]] = {
    tirx.Add: lambda a, b: (a[0] + b[0], a[1] + b[1]),
    tirx.Sub: lambda a, b: (a[0] - b[1], a[1] - b[0]),
    tirx.Mul: _product,
    tirx.Min: lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
    tirx.Max: lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
    tirx.Div: _quotient,
    tirx.FloorDiv: _quotient,
    tirx.Mod: _remainder,
    tirx.FloorMod: _remainder,
}
# The result of a comparison if it is the same for all values within the bounds, else None.
_COMPARED: dict[type, Callable[[Bounds, Bounds], bool | None]] = {
    tirx.LT: lambda a, b: True if a[1] < b[0] else False if a[0] >= b[1] else None,
    tirx.LE: lambda a, b: True if a[1] <= b[0] else False if a[0] > b[1] else None,
    tirx.GT: lambda a, b: True if a[0] > b[1] else False if a[1] <= b[0] else None,
    tirx.GE: lambda a, b: True if a[0] >= b[1] else False if a[1] < b[0] else None,
    tirx.EQ: lambda a, b: _equal(a, b),
    tirx.NE: lambda a, b: None if (same := _equal(a, b)) is None else not same,
}


# Bounds of both operands that follow from a comparison of integers that holds.
_BOUNDED: dict[type, Callable[[Bounds, Bounds], tuple[Bounds, Bounds]]] = {
    tirx.LT: lambda a, b: ((_LOW, b[1] - 1), (a[0] + 1, _HIGH)),
    tirx.LE: lambda a, b: ((_LOW, b[1]), (a[0], _HIGH)),
    tirx.GT: lambda a, b: ((b[0] + 1, _HIGH), (_LOW, a[1] - 1)),
    tirx.GE: lambda a, b: ((b[0], _HIGH), (_LOW, a[1])),
    tirx.EQ: lambda a, b: (b, a),
    tirx.NE: lambda a, b: (UNKNOWN, UNKNOWN),
}
_OPPOSITE: dict[type, type] = {
    tirx.LT: tirx.GE,
    tirx.LE: tirx.GT,
    tirx.GT: tirx.LE,
    tirx.GE: tirx.LT,
    tirx.EQ: tirx.NE,
    tirx.NE: tirx.EQ,
}
# Conditions that may share operands: walks remember them by hash, which is that of the object.
_LOGICAL = {tirx.Not, tirx.And, tirx.Or}


class KnownBounds:
    """Bounds of the variables of one function, and of expressions over them."""

    def __init__(self) -> None:
        self._of: dict[Expr, Bounds] = {}
        self._meaning: dict[Expr, Expr] = {}  # variables that are minima and maxima

    def define(self, var: Expr, value: Expr) -> None:
        """Record that ``var`` is ``value``."""
        self.limit(var, self.of(value))
        if type(value) in (tirx.Min, tirx.Max):
            self._meaning[var] = value

    def limit(self, var: Expr, bounds: Bounds) -> None:
        """Record that the value of ``var`` is always within ``bounds``."""
        if bounds != UNKNOWN:
            self._of[var] = bounds

    @contextmanager
    def assuming(self, cond: Expr, holds: bool = True) -> Iterator[None]:
        """Use that ``cond`` holds, or does not hold, inside the context."""
        before: dict[Expr, Bounds] = {}
        for var, (least, most) in self._implied(cond, holds, set()):
            old = before.setdefault(var, self._of.get(var, UNKNOWN))
            now = self._of.get(var, old)
            least, most = max(now[0], least), min(now[1], most)
            if least <= most:  # else the code is unreachable, and the bounds stay as they are
                self._of[var] = least, most
        try:
            yield
        finally:
            self._of.update(before)

    def _implied(
        self, cond: Expr, holds: bool, visited: set[tuple[int, bool]]
    ) -> Iterator[tuple[Expr, Bounds]]:
        """Yield bounds of variables that follow from ``cond``, or from its negation.

        Subterms in ``visited`` are skipped: conditions may share them.
        """
        kind = type(cond)
        if kind in _LOGICAL:
            place = hash(cond), holds
            if place in visited:
                return
            visited.add(place)
        if kind is tirx.Not:
            yield from self._implied(cond.a, not holds, visited)
        elif kind is (tirx.And if holds else tirx.Or):
            yield from self._implied(cond.a, holds, visited)
            yield from self._implied(cond.b, holds, visited)
        elif kind in _BOUNDED:
            a, b = _BOUNDED[kind if holds else _OPPOSITE[kind]](self.of(cond.a), self.of(cond.b))
            yield from self._narrowed(cond.a, a)
            yield from self._narrowed(cond.b, b)

    def _narrowed(
        self, value: Expr, bounds: Bounds, depth: int = _DEPTH
    ) -> Iterator[tuple[Expr, Bounds]]:
        """Yield what follows for variables if ``value`` is within ``bounds``."""
        if bounds == UNKNOWN or not depth:
            return
        if type(value) is IrVar and str(value.ty.dtype) == "int64":
            yield value, bounds
            value = self._meaning.get(value, value)
        if type(value) is tirx.Min:  # both operands are at least this
            bounds = bounds[0], _HIGH
        elif type(value) is tirx.Max:
            bounds = _LOW, bounds[1]
        else:
            return
        yield from self._narrowed(value.a, bounds, depth - 1)
        yield from self._narrowed(value.b, bounds, depth - 1)

    def of(self, value: Expr, depth: int = _DEPTH) -> Bounds:
        """Return bounds of an int64 expression; :data:`UNKNOWN` for all other expressions."""
        kind = type(value)
        if kind is tirx.IntImm:
            return value.value, value.value
        if kind is IrVar:
            return self._of.get(value, UNKNOWN)
        if not depth:
            return UNKNOWN
        if kind in _ARITHMETIC:
            if str(value.ty.dtype) != "int64":  # unsigned numbers wrap around
                return UNKNOWN
            return _ARITHMETIC[kind](self.of(value.a, depth - 1), self.of(value.b, depth - 1))
        if kind is tirx.Select:
            one, other = (self.of(v, depth - 1) for v in (value.true_value, value.false_value))
            return min(one[0], other[0]), max(one[1], other[1])
        if kind is tirx.Cast and str(value.ty.dtype) in ("int64", "uint64"):
            inside = self.of(value.value, depth - 1)
            return inside if inside[0] >= 0 else UNKNOWN
        return UNKNOWN

    def settled(self, cond: Expr) -> Expr:
        """Simplify a condition; the result is a literal if bounds determine it."""
        return self._settled(cond, {})

    def _settled(self, cond: Expr, known: dict[int, Expr]) -> Expr:
        """Simplify a condition; ``known`` has the results of subterms, which may be shared."""
        kind = type(cond)
        if kind in _COMPARED:
            result = _COMPARED[kind](self.of(cond.a), self.of(cond.b))
            return cond if result is None else tirx.IntImm("bool", result)
        if kind not in _LOGICAL:
            return cond
        place = hash(cond)
        if place not in known:
            known[place] = self._logical(cond, known)
        return known[place]

    def _logical(self, cond: Expr, known: dict[int, Expr]) -> Expr:
        """Simplify a negation, conjunction or disjunction."""
        kind = type(cond)
        if kind is tirx.Not:
            inner = self._settled(cond.a, known)
            return tirx.IntImm("bool", not inner.value) if type(inner) is tirx.IntImm else cond
        decides = kind is tirx.Or  # an operand with this value determines the result
        left, right = self._settled(cond.a, known), self._settled(cond.b, known)
        for side, other in ((left, right), (right, left)):
            if type(side) is tirx.IntImm:
                return side if bool(side.value) == decides else other
        if left.same_as(cond.a) and right.same_as(cond.b):
            return cond
        return (tirx.Or if decides else tirx.And)(left, right)
