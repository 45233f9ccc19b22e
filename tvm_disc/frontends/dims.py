"""Dims whose names are arithmetic on the names of other dims, such as ``2*h``."""

from __future__ import annotations

import ast as python
from collections.abc import Mapping, Sequence, Set
from functools import partial, reduce
from keyword import iskeyword

from tvm_disc.relay import types as rt

OPERATORS: Mapping[type, str] = {
    python.Add: "Add",
    python.Sub: "Sub",
    python.Mult: "Mul",
    python.FloorDiv: "FloorDiv",
    python.Div: "FloorDiv",
    python.Mod: "FloorMod",
}


def is_name(text: str) -> bool:
    """Return whether a text is an identifier, so that expressions can refer to the dim."""
    return text.isidentifier() and text.isascii() and not iskeyword(text)


def identifier(text: str) -> str:
    """Return a text with ``_`` for each character that identifiers do not have."""
    return "".join(c if c.isalnum() and c.isascii() else "_" for c in text).strip("_")


def dim_formula(
    text: str, plain: Set[str], operators: Mapping[type, str], functions: Mapping[str, str]
) -> rt.Dim | None:
    """Return the dim that a text describes, or None if it is no arithmetic on the names ``plain``.

    ``operators`` and ``functions`` have the operation of ``DimOp`` for each operator of Python and
    for each function of two dims. "Pow" is a product of up to 8 factors.
    """

    def of(tree: python.expr) -> rt.Dim | None:
        if isinstance(tree, python.Constant) and type(tree.value) is int and tree.value >= 0:
            return tree.value
        if isinstance(tree, python.Name) and tree.id in plain:
            return rt.Any(tree.id)
        name, args = None, list[python.expr]()
        if isinstance(tree, python.BinOp):
            name, args = operators.get(type(tree.op)), [tree.left, tree.right]
        elif isinstance(tree, python.Call) and isinstance(tree.func, python.Name):
            name, args = functions.get(tree.func.id), tree.args
        return None if name is None else operation(name, list(map(of, args)))

    def operation(name: str, args: Sequence[rt.Dim | None]) -> rt.Dim | None:
        base, times = args if len(args) == 2 else (None, None)
        if base is None or times is None:
            return None
        if name != "Pow":
            return rt.DimOp(name, base, times)
        if not isinstance(times, int) or not 1 <= times <= 8:
            return None
        return reduce(partial(rt.DimOp, "Mul"), [base] * times)

    try:
        return of(python.parse(text, mode="eval").body)
    except (SyntaxError, ValueError, RecursionError):
        return None


__all__ = ["OPERATORS", "dim_formula", "identifier", "is_name"]
