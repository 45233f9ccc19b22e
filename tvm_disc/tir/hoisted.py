"""Emits sizes as code; each quotient, minimum, maximum and select is computed once.

The scratch size of a kernel is a long expression over dims. Dims are expressions themselves, and
share many subexpressions. Results are loaded from stack cells (:meth:`.Block.number`). For ordinary
variables, TVM's analyzer would substitute the definitions, which took a minute for a program of
fifty convolutions.
"""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.ir.prim.expr import LShift, RShift

from tvm_disc.shape.chains import balanced
from tvm_disc.tir.builder import INDEX, Block, dtype_of
from tvm_disc.typing import Expr

# Types are looked up in sets, because isinstance is slow for TVM's classes.
_COSTLY = {tirx.Div, tirx.Mod, tirx.FloorDiv, tirx.FloorMod, tirx.Min, tirx.Max}
_BINARY = _COSTLY | {tirx.Add, tirx.Sub, tirx.Mul, tirx.LT, tirx.LE, tirx.GT, tirx.GE, tirx.EQ,
                     tirx.NE, tirx.And, tirx.Or, LShift, RShift}  # fmt: skip


class Sizes:
    """Emits sizes into one block and reuses common subexpressions."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self._ids: dict[tuple[object, ...], int] = {}
        self._numbers: dict[int, Expr] = {}
        self._walked: dict[int, tuple[Expr, int]] = {}
        self._seen: list[Expr] = []  # keeps the objects alive, so that their hashes stay unique

    def emit(self, name: str, size: Expr) -> Expr:
        """Return a variable that holds ``size``; literals and variables are returned unchanged."""
        value = self.plain(size)
        if isinstance(value, tirx.IntImm | tirx.Var):
            return value
        return self.block.number(name, value)

    def plain(self, expr: Expr) -> Expr:
        """Return ``expr``, an integer or a condition, with its costly subexpressions replaced by
        variables.
        """
        return self._walk(expr)[0]

    def _walk(self, expr: Expr) -> tuple[Expr, int]:
        """Return (``expr`` with costly parts as variables, number that is equal for equal
        structures).
        """
        if type(expr) is tirx.IntImm:  # the hash of an IntImm ignores its type
            return expr, self._id(("IntImm", int(expr.value), dtype_of(expr)))
        place = hash(expr)
        if place not in self._walked:
            self._seen.append(expr)
            self._walked[place] = self._rebuilt(expr)
        return self._walked[place]

    def _rebuilt(self, expr: Expr) -> tuple[Expr, int]:
        expr = balanced(expr)
        kind: Any = type(expr)
        made: Expr
        key: tuple[Any, ...]
        if kind in _BINARY:
            (a, ka), (b, kb) = self._walk(expr.a), self._walk(expr.b)
            made, key = kind(a, b), (kind.__name__, ka, kb)
        elif kind is tirx.Select:
            parts = [self._walk(e) for e in (expr.condition, expr.true_value, expr.false_value)]
            made, key = tirx.Select(*(e for e, _ in parts)), ("Select", *(k for _, k in parts))
        else:  # variables are distinguished by identity, since names are not unique
            return expr, self._id((kind.__name__, hash(expr)))
        number = self._id(key)
        if (kind is tirx.Select or kind in _COSTLY) and dtype_of(made) == INDEX:
            if number not in self._numbers:
                self._numbers[number] = self.block.number("part", made)
            made = self._numbers[number]
        return made, number

    def _id(self, key: tuple[object, ...]) -> int:
        return self._ids.setdefault(key, len(self._ids))
