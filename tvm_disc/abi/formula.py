"""Evaluation of size formulas: integer expressions over dims, as text."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

ALIGNMENT_BYTES = 64

_EVALUATE: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


def rounded(size_bytes: int) -> int:
    """Return a size rounded up to the workspace's alignment."""
    return -(-max(size_bytes, 0) // ALIGNMENT_BYTES) * ALIGNMENT_BYTES


_FUNCTIONS: Mapping[str, Callable[..., int]] = {
    "max": max,
    "min": min,
    "align": rounded,
    # TIR's notation, which conditions of dispatch trees contain; sizes are not negative
    "Select": lambda condition, yes, no: yes if condition else no,
    "Div": operator.floordiv,
}


def evaluate(text: str, dims: Mapping[str, int]) -> int:
    """Return the value of a formula; only arithmetic is supported."""
    *steps, last = text.split("; ")
    return evaluate_all(steps, [last], dims)[0]


def evaluate_all(steps: Sequence[str], texts: Sequence[str], dims: Mapping[str, int]) -> list[int]:
    """Return the values of formulas over dims and over the names of ``steps``: ``name = text``.

    Raises:
        ZeroDivisionError: a formula divides by zero for these dims.
    """
    known = _after(steps, dims)
    return [int(value_of(_parsed(text), known)) for text in texts]


def _after(steps: Sequence[str], dims: Mapping[str, int]) -> dict[str, int | None]:
    """Return the values of dims and steps; None for a step that divides by zero.

    A step that reads an undefined step is also undefined. An undefined step raises an error only if
    a formula evaluates it: a formula may contain the step in a branch that is not taken.
    """
    known: dict[str, int | None] = dict(dims)
    for step in steps:
        name, _, text = step.partition(" = ")
        try:
            known[name] = int(value_of(_parsed(text), known))
        except ZeroDivisionError:
            known[name] = None
    return known


@lru_cache(maxsize=1 << 14)
def _parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def value_of(node: ast.expr, dims: Mapping[str, int | None]) -> Any:
    """Return the value of a parsed formula over dims.

    Raises:
        KeyError: the formula contains an unknown dim, operator or function.
        ValueError: the formula contains an expression other than arithmetic.
        ZeroDivisionError: the formula divides by zero, or reads a value that is None.
    """
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        value = dims[node.id]
        if value is None:
            raise ZeroDivisionError(f"'{node.id}' divides by zero")
        return value
    if isinstance(node, ast.BinOp):
        return _EVALUATE[type(node.op)](value_of(node.left, dims), value_of(node.right, dims))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -value_of(node.operand, dims)
    if isinstance(node, ast.Compare):
        return _EVALUATE[type(node.ops[0])](
            value_of(node.left, dims), value_of(node.comparators[0], dims)
        )
    if isinstance(node, ast.BoolOp):
        combine = all if isinstance(node.op, ast.And) else any
        return combine(value_of(v, dims) for v in node.values)
    if isinstance(node, ast.IfExp):
        return value_of(node.body if value_of(node.test, dims) else node.orelse, dims)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return _FUNCTIONS[node.func.id](*(value_of(a, dims) for a in node.args))
    raise ValueError(f"not arithmetic: {ast.dump(node)}")
