"""Formulas of sizes as users read them: `ceil(n / 16)`, not `Div(n + 16 - 1, 16)`."""

from __future__ import annotations

import ast
import re

LONGEST = 20_000  # characters of a formula above which the text is kept as it is

_OPERATION = re.compile(r"Div\(|Select\(|//|\*")


def plain_formula(text: str) -> str:
    """Return an equal formula with standard operators, for sizes that are not negative.

    Divisions of TIR become ``//``, those that round up ``ceil``, and selections ``a if c else b``;
    literal factors are multiplied. A text that is not a formula is returned unchanged.
    """
    if len(text) > LONGEST or not _OPERATION.search(text):
        return text
    try:
        tree = ast.parse(text, mode="eval").body
        return ast.unparse(_Plain().visit(tree))
    except (SyntaxError, RecursionError, ValueError):
        return text


class _Plain(ast.NodeTransformer):
    """Replaces the operations of TIR, from the operands up."""

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """Replace ``Div`` and ``Select``."""
        self.generic_visit(node)
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name == "Div" and len(node.args) == 2:
            return _quotient(ast.BinOp(node.args[0], ast.FloorDiv(), node.args[1]))
        if name == "Select" and len(node.args) == 3:
            test, yes, no = node.args
            same = ast.unparse(yes) == ast.unparse(no)
            return yes if same else ast.IfExp(test, yes, no)
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        """Combine literal factors, and find quotients that are rounded up."""
        self.generic_visit(node)
        if isinstance(node.op, ast.FloorDiv):
            return _quotient(node)
        return _product(node) if isinstance(node.op, ast.Mult) else node


def _literal(node: ast.expr) -> int | None:
    found = isinstance(node, ast.Constant) and type(node.value) is int
    return node.value if found else None  # type: ignore[attr-defined]


def _quotient(node: ast.BinOp) -> ast.expr:
    """Return ``ceil(a / b)`` for ``(a + b - 1) // b``, and a product for ``a * 6 // 2``."""
    divisor, top, added = _literal(node.right), node.left, 0
    if divisor and isinstance(top, ast.BinOp) and isinstance(top.op, ast.Mult):
        factor = _literal(top.right)
        if factor is not None and factor % divisor == 0:
            return _product(ast.BinOp(top.left, ast.Mult(), ast.Constant(factor // divisor)))
    while isinstance(top, ast.BinOp) and isinstance(top.op, ast.Add | ast.Sub):
        term = _literal(top.right)
        if term is None:
            break
        added += term if isinstance(top.op, ast.Add) else -term
        top = top.left
    if divisor is None or divisor < 2 or added != divisor - 1:
        return node
    quotient = ast.BinOp(top, ast.Div(), node.right)
    return ast.Call(ast.Name("ceil"), [quotient], [])


def _divides(node: ast.expr) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv | ast.Mod)


def _product(node: ast.BinOp) -> ast.expr:
    """Return a product with its literal factors multiplied, at the end."""
    work: list[ast.expr] = [node]
    factors: list[ast.expr] = []
    literal = 1
    while work:
        term = work.pop()
        number = _literal(term)
        if isinstance(term, ast.BinOp) and isinstance(term.op, ast.Mult):
            work += [term.right, term.left]
        elif number is not None:
            literal *= number
        else:
            factors.append(term)
    # a // b * 2 would read as a // (b * 2): quotients follow the other factors.
    factors.sort(key=_divides)
    if literal != 1 or not factors:
        at = 0 if factors and _divides(factors[0]) else len(factors)
        factors.insert(at, ast.Constant(literal))
    first, *rest = factors
    for factor in rest:
        first = ast.BinOp(first, ast.Mult(), factor)
    return first


__all__ = ["plain_formula"]
