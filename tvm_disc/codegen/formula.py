"""Sizes as text: an integer expression over dims that anyone can read and evaluate."""

from __future__ import annotations

import ast
import operator
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

from tvm import tirx

from tvm_disc.codegen.placement import rounded, tops
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
    tirx.Mod: "%",
    tirx.EQ: "==",
    tirx.NE: "!=",
    tirx.LT: "<",
    tirx.LE: "<=",
    tirx.GT: ">",
    tirx.GE: ">=",
    tirx.And: "and",
    tirx.Or: "or",
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
    """Bytes of a region's workspace: the highest stack of slots, each slot rounded up."""
    stacks: list[list[Counter[str]]] = []
    for slot in region.slots:
        below = [stack for k in slot.above for stack in stacks[k]] or [Counter[str]()]
        size = formula(slot.size_bytes)
        stacks.append(_highest([stack + Counter([size]) for stack in below]))
    highest = _highest([stack for k in tops(region.slots) for stack in stacks[k]])
    sums = [" + ".join(f"{n} * align({size})" for size, n in s.items()) for s in highest]
    text = f"max({', '.join(sums)})" if len(sums) > 1 else "".join(sums) or "0"
    return ast.unparse(_tidy(ast.parse(text, mode="eval").body))


def _tidy(node: ast.AST) -> ast.expr:
    return _Tidy().visit(node)  # type: ignore[no-any-return]


class _Tidy(ast.NodeTransformer):
    """Known numbers computed, factors of one left out."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        left, right = node.left, node.right
        if isinstance(node.op, ast.Mult) and isinstance(left, ast.Constant) and left.value == 1:
            return right
        if isinstance(left, ast.Constant) and isinstance(right, ast.Constant):
            return ast.Constant(_value(node, {}))
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        if all(isinstance(a, ast.Constant) for a in node.args):
            return ast.Constant(_value(node, {}))
        return node


def _highest(stacks: Sequence[Counter[str]]) -> list[Counter[str]]:
    """The stacks that are not part of another."""
    kept: list[Counter[str]] = []
    for stack in sorted(stacks, key=lambda s: -s.total()):
        if not any(stack <= other for other in kept):
            kept.append(stack)
    return kept


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
_FUNCTIONS: Mapping[str, Callable[..., int]] = {"max": max, "min": min, "align": rounded}


def evaluate(text: str, dims: Mapping[str, int]) -> int:
    """The value of a formula; only arithmetic is understood."""
    return int(_value(_parsed(text), dims))


@lru_cache(maxsize=1024)
def _parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _value(node: ast.expr, dims: Mapping[str, int]) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return dims[node.id]
    if isinstance(node, ast.BinOp):
        return _EVALUATE[type(node.op)](_value(node.left, dims), _value(node.right, dims))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand, dims)
    if isinstance(node, ast.Compare):
        return _EVALUATE[type(node.ops[0])](
            _value(node.left, dims), _value(node.comparators[0], dims)
        )
    if isinstance(node, ast.BoolOp):
        combine = all if isinstance(node.op, ast.And) else any
        return combine(_value(v, dims) for v in node.values)
    if isinstance(node, ast.IfExp):
        return _value(node.body if _value(node.test, dims) else node.orelse, dims)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return _FUNCTIONS[node.func.id](*(_value(a, dims) for a in node.args))
    raise ValueError(f"not arithmetic: {ast.dump(node)}")
