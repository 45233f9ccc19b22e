"""Run-time checks of conditions on numbers, as Relay expressions that refuse a call."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tvm_disc.errors import Unsupported
from tvm_disc.frontends.calls import placed, refusal
from tvm_disc.frontends.torch.conditions import ConditionVisitor
from tvm_disc.frontends.torch.symbols import RULES, Number, Symbols, scalar
from tvm_disc.relay.expr import Expr, Let, Var

# Returns the number that a condition reads: the size of an axis of an input, or, if the axis is
# None, the value of an input or symbol. The first argument is the path of keys to the input.
Read = Callable[[tuple[Any, ...], int | None], Number]

_NODES: Mapping[type, str] = {
    ast.Add: "Add",
    ast.Mult: "Mul",
    ast.Div: "IntTrueDiv",
    ast.FloorDiv: "FloorDiv",
    ast.Mod: "PythonMod",
    ast.Pow: "Pow",
    ast.LShift: "LShift",
    ast.RShift: "RShift",
    ast.And: "And",
    ast.Or: "Or",
    ast.Not: "Not",
    ast.Eq: "Equality",
    ast.NotEq: "Unequality",
    ast.Lt: "StrictLessThan",
    ast.LtE: "LessThan",
    ast.Gt: "StrictGreaterThan",
    ast.GtE: "GreaterThan",
}
_FUNCTIONS: Mapping[str, str] = {
    "abs": "Abs",
    "ceil": "CeilToInt",
    "float": "ToFloat",
    "floor": "FloorToInt",
    "int": "TruncToInt",
    "max": "Max",
    "min": "Min",
    "round": "RoundToInt",
    "sqrt": "OpaqueUnaryFn_sqrt",
    "sym_float": "ToFloat",
    "sym_max": "Max",
    "sym_min": "Min",
    "trunc": "TruncToInt",
}


def checked(body: Expr, texts: Sequence[str], read: Read) -> Expr:
    """Return ``body``, preceded by checks that refuse a call if a condition is false.

    Raises:
        Unsupported: a condition cannot be expressed in Relay; the message quotes it.
    """
    for text in reversed(texts):
        try:
            with placed(f"the condition `{text}` of the exported program, which must hold"):
                cond, _ = _Evaluation(read).visit(
                    ast.parse(" ".join(text.split()), mode="eval").body
                )
                check = refusal(cond)
        except (KeyError, SyntaxError, Unsupported) as error:
            reason = "it has an unsupported operator" if isinstance(error, KeyError) else error
            raise Unsupported(
                f"the exported program requires `{text}`, which cannot be checked: {reason}"
            ) from None
        body = Let(Var("checked"), check, body)
    return body


class _Evaluation(ConditionVisitor[Number]):
    """Converts to Relay arithmetic on scalars."""

    def _made(self, node: ast.AST, *args: ast.expr) -> Number:
        return RULES[_NODES[type(node)]]([self.visit(a) for a in args])

    def visit_BoolOp(self, node: ast.BoolOp) -> Number:
        """Convert `a and b`."""
        return self._made(node.op, *node.values)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Number:
        """Convert `not a` and `-a`."""
        if isinstance(node.op, ast.USub):
            return RULES["Mul"]([(scalar(-1, "int64"), "int64"), self.visit(node.operand)])
        return self._made(node.op, node.operand)

    def visit_Compare(self, node: ast.Compare) -> Number:
        """Convert `a < b < c`."""
        sides = [node.left, *node.comparators]
        parts = [
            self._made(sign, a, b)
            for sign, a, b in zip(node.ops, sides[:-1], sides[1:], strict=True)
        ]
        return RULES["And"](parts)

    def visit_BinOp(self, node: ast.BinOp) -> Number:
        """Convert `a + b` and other binary operators."""
        if isinstance(node.op, ast.Sub):
            negative = ast.UnaryOp(ast.USub(), node.right)
            return RULES["Add"]([self.visit(node.left), self.visit(negative)])
        return self._made(node.op, node.left, node.right)

    def visit_Constant(self, node: ast.Constant) -> Number:
        """Convert a literal."""
        kind = {bool: "bool", int: "int64", float: "float64"}.get(type(node.value))
        if kind is None:
            return self.generic_visit(node)
        return scalar(node.value, kind), kind

    def visit_Call(self, node: ast.Call) -> Number:
        """Convert a function of numbers."""
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ast.unparse(node.func)
        return RULES[_FUNCTIONS[name]]([self.visit(a) for a in node.args])


def symbol_number(symbols: Symbols, keys: tuple[object, ...], axis: int | None) -> Number:
    """Return the value of the symbol whose name is ``keys[0]``.

    Raises:
        Unsupported: the symbol does not exist, or its value is unknown at the start of the program.
    """
    for symbol in symbols.known():
        if axis is None and len(keys) == 1 and str(symbol) == keys[0]:
            return symbols.number(symbol)
    raise Unsupported(f"the value of {keys[0]} is not known at the start of the program")


__all__ = ["Read", "checked", "symbol_number"]
