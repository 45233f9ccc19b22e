"""Sizes as code: every quotient, extremum and choice in them is computed once, by way of memory.

The scratch memory of a kernel is a page of arithmetic over dims that are expressions themselves,
and says the same things again and again. TVM's analyzer looks through variables: a program of fifty
convolutions took it a minute.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from tvm import tirx
from tvm.ir.prim.expr import LShift, RShift

from tvm_disc.tir.builder import INDEX, Block, dtype_of

Expr: TypeAlias = Any

_COSTLY = (tirx.Div, tirx.Mod, tirx.FloorDiv, tirx.FloorMod, tirx.Min, tirx.Max)
_PLAIN = (tirx.Add, tirx.Sub, tirx.Mul, tirx.LT, tirx.LE, tirx.GT, tirx.GE, tirx.EQ, tirx.NE,
          tirx.And, tirx.Or, LShift, RShift)  # fmt: skip


class Sizes:
    """Emits sizes into one block; what was computed there is used again."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self._ids: dict[tuple[Any, ...], int] = {}
        self._numbers: dict[int, Expr] = {}
        self._leaves: list[Expr] = []

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
        made: Expr
        key: tuple[Any, ...]
        if isinstance(expr, (*_COSTLY, *_PLAIN)):
            (a, ka), (b, kb) = self._walk(expr.a), self._walk(expr.b)
            made, key = type(expr)(a, b), (type(expr).__name__, ka, kb)
        elif isinstance(expr, tirx.Select):
            parts = [self._walk(e) for e in (expr.condition, expr.true_value, expr.false_value)]
            made, key = tirx.Select(*(e for e, _ in parts)), ("Select", *(k for _, k in parts))
        elif isinstance(expr, tirx.IntImm):
            return expr, self._id(("IntImm", int(expr.value), dtype_of(expr)))
        else:
            # Variables are told apart by what they are: names repeat.
            self._leaves.append(expr)  # alive, so that no other object takes its place
            return expr, self._id((type(expr).__name__, hash(expr)))
        number = self._id(key)
        if isinstance(made, (tirx.Select, *_COSTLY)) and dtype_of(made) == INDEX:
            if number not in self._numbers:
                self._numbers[number] = self.block.number("part", made)
            made = self._numbers[number]
        return made, number

    def _id(self, key: tuple[Any, ...]) -> int:
        return self._ids.setdefault(key, len(self._ids))
