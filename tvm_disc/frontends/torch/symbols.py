"""Conversion of PyTorch's symbolic numbers, which are sympy expressions, to Relay arithmetic.

The value of a symbol is a dim of an input, an input that is a number, or a dim of a node's result.
All other symbolic numbers are expressions of symbols. Nodes that only compute sizes need no
converter, because PyTorch has their results as expressions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial, reduce
from typing import Any

import numpy as np

from tvm_disc.errors import Unsupported
from tvm_disc.frontends.calls import MOST, op
from tvm_disc.frontends.torch.values import Dim, Value
from tvm_disc.relay.expr import Constant, Expr, Tuple
from tvm_disc.typing import SymExpr

INT, FLOAT, BOOL = "int64", "float64", "bool"


def scalar(value: object, dtype: str) -> Constant:
    """Return a literal of rank 0."""
    return Constant(np.array(value, dtype=dtype))


def dim_at(tensor: Expr, axis: int) -> Expr:
    """Return the dim of ``axis`` of a tensor as an int64 scalar."""
    shape = op("shape_of", tensor, dtype=INT)
    return op("take", shape, scalar(axis, INT), axis=0)


class Symbols:
    """Converts symbolic numbers to Relay expressions."""

    def __init__(self) -> None:
        self._bound: dict[object, Callable[[], Expr]] = {}
        self._made: dict[object, tuple[Expr, str]] = {}

    def knows(self, symbol: object) -> bool:
        """Return whether the value of a symbol is defined."""
        return symbol in self._bound

    def known(self) -> list[Any]:
        """Return the symbols whose values are defined."""
        return list(self._bound)

    def bind(self, symbol: SymExpr, read: Callable[[], Expr]) -> None:
        """Define the value of a symbol as the result of ``read``; later definitions are ignored."""
        self._bound.setdefault(symbol, read)

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Open the scope of a conditional or loop body; its definitions are removed at the end."""
        kept = self._bound, self._made
        self._bound, self._made = dict(self._bound), dict(self._made)
        try:
            yield
        finally:
            self._bound, self._made = kept

    def number(self, value: SymExpr | int) -> tuple[Expr, str]:
        """Return a number or symbolic number as a scalar expression, and its dtype."""
        if isinstance(value, bool | int | float):
            dtype = BOOL if isinstance(value, bool) else INT if isinstance(value, int) else FLOAT
            return scalar(value, dtype), dtype
        found = self._made.get(value)
        if found is None:
            found = self._made[value] = self._make(value)
        return found

    def value(self, value: SymExpr | int, dtype: str | None = None) -> Value:
        """Return a symbolic number as a tensor of rank 0."""
        number = self.number(value)
        dtype = dtype or number[1]
        return Value(_as(number, dtype), dtype, ())

    def vector(self, dims: Sequence[Dim]) -> Expr:
        """Return dims as an int64 vector."""
        if all(isinstance(d, int) for d in dims):
            return Constant(np.array([min(d, MOST) for d in dims], dtype=INT))
        parts = [self.value(d, INT).expr for d in dims]
        return op("stack", Tuple(tuple(parts)), axis=0)

    def _make(self, e: SymExpr) -> tuple[Expr, str]:
        import sympy

        if isinstance(e, sympy.Symbol):
            if e not in self._bound:
                raise Unsupported(f"no input or node defines the size {e}")
            dtype = FLOAT if e.is_integer is False or str(e).startswith("zf") else INT
            return self._bound[e](), dtype
        if e.is_Boolean and not e.args:
            return scalar(bool(e), BOOL), BOOL
        if e.is_Integer:
            return scalar(max(min(int(e), MOST), -MOST - 1), INT), INT
        if e.is_number and not e.args and e.is_Float:
            return scalar(float(e), FLOAT), FLOAT
        rule = RULES.get(type(e).__name__)
        if rule is None:
            raise Unsupported(f"the function {type(e).__name__} of sizes is not supported, in {e}")
        args = [self.number(a) for a in e.args]
        return rule(args)


Number = tuple[Expr, str]
Rule = Callable[[Sequence[Number]], Number]


def _cast(expr: Expr, dtype: str) -> Expr:
    return op("cast", expr, dtype=dtype)


def _as(number: Number, dtype: str) -> Expr:
    return number[0] if number[1] == dtype else _cast(number[0], dtype)


def _joint(args: Sequence[Number]) -> str:
    kinds = {dtype for _, dtype in args}
    return FLOAT if FLOAT in kinds else BOOL if kinds == {BOOL} else INT


def _folded(name: str) -> Rule:
    def rule(args: Sequence[Number]) -> Number:
        dtype = _joint(args)
        exprs = [_as(a, dtype) for a in args]
        return reduce(partial(op, name), exprs), dtype

    return rule


def _power(args: Sequence[Number]) -> Number:
    base, exponent = args
    times = exponent[0]
    if base[1] == INT and isinstance(times, Constant) and exponent[1] == INT:
        count = int(times.data)
        if 0 <= count <= 8:
            factors: list[Expr] = [base[0]] * count or [scalar(1, INT)]
            return reduce(partial(op, "multiply"), factors), INT
    return op("power", _as(base, FLOAT), _as(exponent, FLOAT)), FLOAT


def _compared(name: str) -> Rule:
    def rule(args: Sequence[Number]) -> Number:
        dtype = _joint(args)
        return op(name, *(_as(a, dtype) for a in args)), BOOL

    return rule


def _typed(name: str, dtype: str) -> Rule:
    """Return the rule of a Relay operator whose operands and result have one dtype."""
    return lambda args: (op(name, *(_as(a, dtype) for a in args)), dtype)


def _to_int(name: str) -> Rule:
    return lambda args: (_cast(op(name, _as(args[0], FLOAT)), INT), INT)


def _ceil_div(args: Sequence[Number]) -> Number:
    a, b = (_as(x, INT) for x in args)
    up = op("subtract", op("add", a, b), scalar(1, INT))
    return op("floor_divide", up, b), INT


def _modular(args: Sequence[Number]) -> Number:
    base, divisor, modulus = (_as(x, INT) for x in args)
    return op("floor_mod", op("floor_divide", base, divisor), modulus), INT


def _chosen(args: Sequence[Number]) -> Number:
    dtype = _joint(args[1:])
    return op("where", args[0][0], *(_as(a, dtype) for a in args[1:])), dtype


RULES: Mapping[str, Rule] = {
    "Add": _folded("add"),
    "Mul": _folded("multiply"),
    "Pow": _power,
    "PowByNatural": _power,
    "FloatPow": _power,
    "Max": _folded("maximum"),
    "Min": _folded("minimum"),
    "FloorDiv": _typed("floor_divide", INT),
    "CleanDiv": _typed("floor_divide", INT),
    "Mod": _typed("floor_mod", INT),
    "PythonMod": _typed("floor_mod", INT),
    "ModularIndexing": _modular,
    "CeilDiv": _ceil_div,
    "LShift": _typed("left_shift", INT),
    "RShift": _typed("right_shift", INT),
    "IntTrueDiv": _typed("divide", FLOAT),
    "FloatTrueDiv": _typed("divide", FLOAT),
    "ToFloat": lambda args: (_as(args[0], FLOAT), FLOAT),
    "TruncToInt": _to_int("trunc"),
    "FloorToInt": _to_int("floor"),
    "CeilToInt": _to_int("ceil"),
    "RoundToInt": _to_int("round"),
    "TruncToFloat": _typed("trunc", FLOAT),
    **{f"OpaqueUnaryFn_{name}": _typed(name, FLOAT) for name in ("sqrt", "exp", "log", "log2")},
    "Abs": lambda args: (op("abs", args[0][0]), args[0][1]),
    "Identity": lambda args: args[0],
    "Where": _chosen,
    "Equality": _compared("equal"),
    "Unequality": _compared("not_equal"),
    "StrictLessThan": _compared("less"),
    "LessThan": _compared("less_equal"),
    "StrictGreaterThan": _compared("greater"),
    "GreaterThan": _compared("greater_equal"),
    "And": _folded("logical_and"),
    "Or": _folded("logical_or"),
    "Not": lambda args: (op("logical_not", args[0][0]), BOOL),
}

__all__ = ["RULES", "Number", "Symbols", "dim_at", "scalar"]
