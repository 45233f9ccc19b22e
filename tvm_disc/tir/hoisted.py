"""Sizes as code: every quotient, extremum and choice in them is computed once, by way of memory.

The scratch memory of a kernel is a page of arithmetic over dims that are expressions themselves,
and says the same things again and again. TVM's analyzer looks through variables: a program of fifty
convolutions took it a minute.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from tvm import tirx
from tvm.ir.prim.expr import LShift, RShift

from tvm_disc.shape.chains import balanced
from tvm_disc.tir.builder import INDEX, Block, dtype_of

Expr: TypeAlias = Any

# Looked up by type, not tried with isinstance, which is slow for each of TVM's classes.
_COSTLY = {tirx.Div, tirx.Mod, tirx.FloorDiv, tirx.FloorMod, tirx.Min, tirx.Max}
_BINARY = _COSTLY | {tirx.Add, tirx.Sub, tirx.Mul, tirx.LT, tirx.LE, tirx.GT, tirx.GE, tirx.EQ,
                     tirx.NE, tirx.And, tirx.Or, LShift, RShift}  # fmt: skip


class Sizes:
    """Emits sizes into one block; what was computed there is used again."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self._ids: dict[tuple[Any, ...], int] = {}
        self._numbers: dict[int, Expr] = {}
        self._walked: dict[int, tuple[Expr, int]] = {}
        self._seen: list[Expr] = []  # alive, so that no other object takes its place

    def emit(self, name: str, size: Expr) -> Expr:
        """A variable that holds ``size``; literals and variables are returned unchanged."""
        value = self.plain(size)
        if isinstance(value, tirx.IntImm | tirx.Var):
            return value
        return self.block.number(name, value)

    def plain(self, expr: Expr) -> Expr:
        """``expr`` over variables that hold what is costly in it; integers or a condition."""
        return self._walk(expr)[0]

    def _walk(self, expr: Expr) -> tuple[Expr, int]:
        """``expr`` over variables for its costly parts, and the number of its structure."""
        if type(expr) is tirx.IntImm:  # whose hash is its value, in any type
            return expr, self._id(("IntImm", int(expr.value), dtype_of(expr)))
        place = hash(expr)
        if place not in self._walked:
            self._seen.append(expr)
            self._walked[place] = self._rebuilt(expr)
        return self._walked[place]

    def _rebuilt(self, expr: Expr) -> tuple[Expr, int]:
        expr = balanced(expr)
        kind = type(expr)
        made: Expr
        key: tuple[Any, ...]
        if kind in _BINARY:
            (a, ka), (b, kb) = self._walk(expr.a), self._walk(expr.b)
            made, key = kind(a, b), (kind.__name__, ka, kb)
        elif kind is tirx.Select:
            parts = [self._walk(e) for e in (expr.condition, expr.true_value, expr.false_value)]
            made, key = tirx.Select(*(e for e, _ in parts)), ("Select", *(k for _, k in parts))
        else:  # variables are told apart by what they are: names repeat
            return expr, self._id((kind.__name__, hash(expr)))
        number = self._id(key)
        if (kind is tirx.Select or kind in _COSTLY) and dtype_of(made) == INDEX:
            if number not in self._numbers:
                self._numbers[number] = self.block.number("part", made)
            made = self._numbers[number]
        return made, number

    def _id(self, key: tuple[Any, ...]) -> int:
        return self._ids.setdefault(key, len(self._ids))
