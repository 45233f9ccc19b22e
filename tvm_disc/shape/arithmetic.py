"""Typed arithmetic on dims for the constraint language: int64, float64 and bool expressions.

Integer expressions remain integers, so that the solver can analyze them. Floating-point expressions
occur in sizes that a front end computes (`int(0.2 * n)`). The solver treats them as opaque, and a
condition on one is checked at run time in float64, as Python and PyTorch compute it. Literals are
folded with Python's arithmetic.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping

from tvm import tirx

from tvm_disc.typing import Expr

INT, FLOAT, BOOL = "int64", "float64", "bool"


class Mistyped(Exception):
    """Raised for operands of a wrong type; the parser adds the column (internal)."""


def kind_of(e: Expr) -> str:
    """Return the type of an expression: `int64`, `float64` or `bool`."""
    dtype = str(e.ty.dtype)
    return BOOL if dtype == "bool" else FLOAT if dtype.startswith("float") else INT


def integer(value: int) -> Expr:
    """Return an integer literal."""
    return tirx.IntImm(INT, value)


def real(value: float) -> Expr:
    """Return a floating-point literal."""
    return tirx.FloatImm(FLOAT, value)


def literal(e: object) -> int | float | None:
    """Return the Python number of a literal, or None for any other expression."""
    return e.value if isinstance(e, tirx.IntImm | tirx.FloatImm) else None


def _wrapped(value: float) -> Expr:
    return real(value) if isinstance(value, float) else integer(int(value))


def as_float(e: Expr) -> Expr:
    """Return the expression converted to float64."""
    known = literal(_number(e))
    if known is not None:
        return real(float(known))
    return e if kind_of(e) == FLOAT else tirx.Cast(FLOAT, e)


def _number(e: Expr) -> Expr:
    if kind_of(e) == BOOL:
        raise Mistyped("expected a number, found a condition")
    return e


def condition(e: Expr) -> Expr:
    """Return the expression if it is a condition.

    Raises:
        Mistyped: it is a number.
    """
    if kind_of(e) != BOOL:
        raise Mistyped("expected a condition, found a number")
    return e


def _joint(a: Expr, b: Expr) -> tuple[Expr, Expr, bool]:
    """Return two numbers in their common type, and whether this type is float64."""
    real_ones = FLOAT in (kind_of(_number(a)), kind_of(_number(b)))
    return (as_float(a), as_float(b), True) if real_ones else (a, b, False)


Binary = Callable[[Expr, Expr], Expr]
OfNumbers = Callable[[float, float], float]


def _arithmetic(of_numbers: OfNumbers, of_ints: Binary, of_floats: Binary | None) -> Binary:
    def apply(a: Expr, b: Expr) -> Expr:
        a, b, is_real = _joint(a, b)
        if is_real and of_floats is None:
            raise Mistyped("expected integers, found a floating-point number")
        x, y = literal(a), literal(b)
        if x is not None and y is not None:
            return _wrapped(of_numbers(x, y))
        return of_floats(a, b) if is_real and of_floats is not None else of_ints(a, b)

    return apply


def _true_quotient(a: Expr, b: Expr) -> Expr:
    a, b = as_float(a), as_float(b)
    x, y = literal(a), literal(b)
    if y == 0:
        raise Mistyped("expected a divisor of '/' other than 0")
    return real(x / y) if x is not None and y is not None else tirx.Div(a, b)


def _shifted(a: Expr, by: Expr, left: bool) -> Expr:
    count = literal(by)
    if not isinstance(count, int) or not 0 <= count < 62 or kind_of(a) != INT:
        raise Mistyped("expected an integer shifted by a literal from 0 to 61")
    return a * integer(1 << count) if left else tirx.floordiv(a, integer(1 << count))


def _power(a: Expr, b: Expr) -> Expr:
    times = literal(b)
    if kind_of(_number(a)) == FLOAT and times == 0.5:
        return _root(a)
    most = 8 if kind_of(a) == INT else 2  # longer float products round unlike `pow`
    if not isinstance(times, int) or not 0 <= times <= most:
        also = "" if kind_of(a) == INT else ", or 0.5"
        raise Mistyped(f"expected an integer literal from 0 to {most}{also}, as the exponent")
    product = integer(1)
    for _ in range(times):
        product = BINARY["*"](product, a)
    return product


# operator -> function of two expressions
BINARY: Mapping[str, Binary] = {
    "+": _arithmetic(operator.add, operator.add, tirx.Add),
    "-": _arithmetic(operator.sub, operator.sub, tirx.Sub),
    "*": _arithmetic(operator.mul, operator.mul, tirx.Mul),
    "//": _arithmetic(operator.floordiv, tirx.floordiv, None),
    "%": _arithmetic(operator.mod, tirx.floormod, None),
    "/": _true_quotient,
    "<<": lambda a, b: _shifted(a, b, left=True),
    ">>": lambda a, b: _shifted(a, b, left=False),
    "**": _power,
}

_RELATIONS: Mapping[str, tuple[OfNumbers, Binary]] = {
    "==": (operator.eq, tirx.EQ),
    "!=": (operator.ne, tirx.NE),
    "<=": (operator.le, tirx.LE),
    "<": (operator.lt, tirx.LT),
    ">=": (operator.ge, tirx.GE),
    ">": (operator.gt, tirx.GT),
}
RELATIONS = frozenset(_RELATIONS)


def related(sign: str, a: Expr, b: Expr) -> Expr:
    """Return the condition `a sign b`."""
    of_numbers, node = _RELATIONS[sign]
    a, b, _ = _joint(a, b)
    x, y = literal(a), literal(b)
    if x is not None and y is not None:
        return tirx.IntImm(BOOL, int(of_numbers(x, y)))
    return node(a, b)


def joined(word: str, a: Expr, b: Expr) -> Expr:
    """Return `a and b`, or `a or b`."""
    return (tirx.And if word == "and" else tirx.Or)(condition(a), condition(b))


def negated(a: Expr) -> Expr:
    """Return `not a`."""
    return tirx.Not(condition(a))


def chosen(test: Expr, a: Expr, b: Expr) -> Expr:
    """Return `a if test else b`."""
    if kind_of(a) == BOOL:
        yes, no = tirx.And(condition(test), a), tirx.And(tirx.Not(test), condition(b))
        return tirx.Or(yes, no)
    a, b, _ = _joint(a, b)
    return tirx.Select(condition(test), a, b)


def _truncated(e: Expr) -> Expr:
    if kind_of(_number(e)) == INT:
        return e
    known = literal(e)
    return tirx.Cast(INT, e) if known is None else integer(int(known))


def _floored(e: Expr) -> Expr:
    if kind_of(_number(e)) == INT:
        return e
    known = literal(e)
    if known is not None:
        return integer(math.floor(known))
    whole = tirx.Cast(INT, e)
    above = tirx.GT(tirx.Cast(FLOAT, whole), e)
    return tirx.Sub(whole, tirx.Select(above, integer(1), integer(0)))


def _ceiled(e: Expr) -> Expr:
    if kind_of(_number(e)) == INT:
        return e
    return BINARY["-"](integer(0), _floored(BINARY["-"](real(0.0), e)))


def _rounded(e: Expr) -> Expr:
    """Return the nearest integer, with ties rounded to even as in Python."""
    if kind_of(_number(e)) == INT:
        return e
    known = literal(e)
    if known is not None:
        return integer(round(known))
    below = _floored(e)
    rest = tirx.Sub(e, tirx.Cast(FLOAT, below))
    odd = tirx.NE(tirx.floormod(below, integer(2)), integer(0))
    up = tirx.Or(tirx.GT(rest, real(0.5)), tirx.And(tirx.EQ(rest, real(0.5)), odd))
    return tirx.Add(below, tirx.Select(up, integer(1), integer(0)))


def _root(e: Expr) -> Expr:
    return tirx.sqrt(as_float(e))


def _magnitude(e: Expr) -> Expr:
    return EXTREMA["max"](e, BINARY["-"](integer(0), _number(e)))


# name of a unary function -> function of an expression
FUNCTIONS: Mapping[str, Callable[[Expr], Expr]] = {
    "abs": _magnitude,
    "ceil": _ceiled,
    "float": as_float,
    "floor": _floored,
    "int": _truncated,
    "round": _rounded,
    "sqrt": _root,
    "trunc": _truncated,
}

# name of a function with two or more arguments -> function of two expressions
EXTREMA: Mapping[str, Binary] = {
    "min": _arithmetic(min, tirx.min, tirx.Min),
    "max": _arithmetic(max, tirx.max, tirx.Max),
}

__all__ = [
    "BINARY",
    "EXTREMA",
    "FUNCTIONS",
    "RELATIONS",
    "Mistyped",
    "chosen",
    "condition",
    "integer",
    "joined",
    "kind_of",
    "literal",
    "negated",
    "real",
    "related",
]
