"""The second oracle: what an expression means, by evaluation over every combination of values.

Expressions are nested tuples, so that the meaning here and the TVM expression given to the solver
come from one text but share no code:

    3 | "n" | ("+", a, b) | - * // % min max | ("if", cond, a, b)
    ("==", a, b) | != <= < | ("and", c, d) | ("or", c, d) | ("|", k, e)      k divides e

Dividing by zero has no value: such combinations are left out.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from tvm import tirx

VALUES = (0, 1, 2, 3, 5, 7, 8, 64)

Tree = Any
Array = np.ndarray


def grid(names: Sequence[str], values: Sequence[int] = VALUES) -> dict[str, Array]:
    """Every combination of values, as one column per name."""
    rows = np.array(list(itertools.product(values, repeat=len(names))), dtype=np.int64)
    return {name: rows[:, i] for i, name in enumerate(names)} if names else {}


class Meaning:
    """Values of trees on a table of assignments, and where they are defined."""

    def __init__(self, table: Mapping[str, Array]) -> None:
        self.table = table
        self.size = len(next(iter(table.values()))) if table else 1

    def value(self, tree: Tree) -> tuple[Array, Array]:
        """`(values, defined)`."""
        yes = np.ones(self.size, bool)
        if isinstance(tree, (int, np.integer)):
            return np.full(self.size, int(tree), np.int64), yes
        if isinstance(tree, str):
            return self.table[tree], yes
        op = tree[0]
        if op == "if":
            cond, ok = self.truth(tree[1])
            a, ok_a = self.value(tree[2])
            b, ok_b = self.value(tree[3])
            return np.where(cond, a, b), ok & np.where(cond, ok_a, ok_b)
        a, ok_a = self.value(tree[1])
        b, ok_b = self.value(tree[2])
        ok = ok_a & ok_b
        if op in ("//", "%"):
            ok = ok & (b != 0)
            b = np.where(b == 0, 1, b)
            return (np.floor_divide(a, b) if op == "//" else a - b * np.floor_divide(a, b)), ok
        out = {
            "+": np.add, "-": np.subtract, "*": np.multiply, "min": np.minimum, "max": np.maximum,
        }[op](a, b)  # fmt: skip
        return out, ok

    def truth(self, tree: Tree) -> tuple[Array, Array]:
        """`(truths, defined)` of a condition."""
        op = tree[0]
        if op in ("and", "or"):
            a, ok_a = self.truth(tree[1])
            b, ok_b = self.truth(tree[2])
            return (a & b if op == "and" else a | b), ok_a & ok_b
        a, ok_a = self.value(tree[1])
        b, ok_b = self.value(tree[2])
        ok = ok_a & ok_b
        if op == "|":
            return b % np.where(a == 0, 1, a) == 0, ok & (a != 0)
        test = {"==": np.equal, "!=": np.not_equal, "<=": np.less_equal, "<": np.less}[op]
        return test(a, b), ok

    def holding(self, facts: Iterable[Tree]) -> Array:
        """Where every fact is defined and true."""
        out = np.ones(self.size, bool)
        for fact in facts:
            truth, ok = self.truth(fact)
            out &= truth & ok
        return out


def to_tvm(tree: Tree, symbols: Mapping[str, Any]) -> Any:
    """The TVM expression of a tree."""
    if isinstance(tree, (int, np.integer)):
        return tirx.IntImm("int64", int(tree))
    if isinstance(tree, str):
        return symbols[tree]
    op, *args = tree
    e = [to_tvm(a, symbols) for a in args]
    if op == "if":
        return tirx.if_then_else(*e)
    if op == "|":
        return tirx.EQ(tirx.floormod(e[1], e[0]), tirx.IntImm("int64", 0))
    return {
        "+": tirx.Add, "-": tirx.Sub, "*": tirx.Mul, "//": tirx.FloorDiv, "%": tirx.FloorMod,
        "min": tirx.Min, "max": tirx.Max, "==": tirx.EQ, "!=": tirx.NE, "<=": tirx.LE,
        "<": tirx.LT, "and": tirx.And, "or": tirx.Or,
    }[op](*e)  # fmt: skip


def from_tvm(e: Any) -> Tree:
    """The tree of a TVM expression, to evaluate what the solver answers."""
    kind = type(e).__name__
    if kind == "IntImm":
        return int(e.value)
    if kind == "Var":
        return str(e.name)
    if kind in ("Call", "Select"):
        args = e.args if kind == "Call" else (e.condition, e.true_value, e.false_value)
        return ("if", *map(from_tvm, args))
    op = {
        "Add": "+", "Sub": "-", "Mul": "*", "FloorDiv": "//", "FloorMod": "%", "Min": "min",
        "Max": "max", "EQ": "==", "NE": "!=", "LE": "<=", "LT": "<", "And": "and", "Or": "or",
    }[kind]  # fmt: skip
    return (op, from_tvm(e.a), from_tvm(e.b))
