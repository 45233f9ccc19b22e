"""Sizes as text: an integer expression over dims that anyone can read and evaluate."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from tvm import tirx

from tvm_disc.codegen.memory import ALIGNMENT_BYTES
from tvm_disc.codegen.program import Region
from tvm_disc.errors import Unsupported

Expr: TypeAlias = Any

_OPERATORS: dict[type, str] = {
    tirx.Add: "+",
    tirx.Sub: "-",
    tirx.Mul: "*",
    tirx.FloorDiv: "//",
    tirx.Div: "//",
    tirx.FloorMod: "%",
    tirx.EQ: "==",
    tirx.NE: "!=",
    tirx.LT: "<",
    tirx.LE: "<=",
    tirx.GT: ">",
    tirx.GE: ">=",
}


def formula(expr: Expr) -> str:
    """An integer expression in Python's syntax.

    Raises:
        Unsupported: an expression that is not arithmetic on dims.
    """
    if isinstance(expr, int):
        return str(expr)
    if isinstance(expr, tirx.IntImm):
        return str(int(expr.value))
    if isinstance(expr, tirx.Var):
        return str(expr.name)
    if isinstance(expr, tirx.Max | tirx.Min):
        name = "max" if isinstance(expr, tirx.Max) else "min"
        return f"{name}({formula(expr.a)}, {formula(expr.b)})"
    if isinstance(expr, tirx.Select):
        taken, other = formula(expr.true_value), formula(expr.false_value)
        return f"({taken} if {formula(expr.condition)} else {other})"
    symbol = _OPERATORS.get(type(expr))
    if symbol is None:
        raise Unsupported(f"no formula for {expr}")
    return f"({formula(expr.a)} {symbol} {formula(expr.b)})"


def workspace_formula(region: Region) -> str:
    """Bytes of a region's workspace: its slots, each rounded up to the alignment."""
    unit = ALIGNMENT_BYTES
    parts = [f"({formula(s)} + {unit - 1}) // {unit} * {unit}" for s in region.slots]
    return " + ".join(parts) or "0"


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
_FUNCTIONS: Mapping[str, Callable[..., int]] = {"max": max, "min": min}


def evaluate(text: str, dims: Mapping[str, int]) -> int:
    """The value of a formula; only arithmetic is understood."""
    return int(_value(ast.parse(text, mode="eval").body, dims))


def _value(node: ast.expr, dims: Mapping[str, int]) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return dims[node.id]
    if isinstance(node, ast.BinOp):
        return _EVALUATE[type(node.op)](_value(node.left, dims), _value(node.right, dims))
    if isinstance(node, ast.Compare):
        return _EVALUATE[type(node.ops[0])](
            _value(node.left, dims), _value(node.comparators[0], dims)
        )
    if isinstance(node, ast.IfExp):
        return _value(node.body if _value(node.test, dims) else node.orelse, dims)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return _FUNCTIONS[node.func.id](*(_value(a, dims) for a in node.args))
    raise ValueError(f"not arithmetic: {ast.dump(node)}")
