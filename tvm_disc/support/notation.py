"""Formulas of sizes as users read them: `ceil(n / 16)`, not `Div(n + 16 - 1, 16)`."""

from __future__ import annotations

import ast
import math
import re
from collections import Counter

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
    """Return a product with its literal factors folded into one.

    It is the last factor, or the first if all other factors are quotients.
    """
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


def simplified(text: str) -> str:
    """Return an equivalent, shorter condition on sizes that are not negative.

    In each comparison of integers, terms that occur on both sides are removed, and both sides are
    divided by their common factor: ``64 * x.1 != 64 * (x.1 // 2)`` becomes ``x.1 != 0``. A text
    that cannot be parsed, or that does not become shorter, is returned unchanged.
    """
    try:
        tree = ast.parse(_AXIS.sub(r"\1._\2", text), mode="eval").body
    except (SyntaxError, ValueError):
        return text
    found = re.sub(r"\._(\d+)", r".\1", ast.unparse(_Comparisons().visit(tree)))
    return found if len(found) < len(text) else text


_AXIS = re.compile(r"\b([A-Za-z_]\w*)\.(\d+)")


class _Comparisons(ast.NodeTransformer):
    """Simplifies comparisons of two sums."""

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        """Move the terms with a negative factor to the right, and divide by the common factor."""
        if len(node.ops) != 1:
            return node
        terms: Counter[str] = Counter()
        exact = _collect(node.left, 1, terms) and _collect(node.comparators[0], -1, terms)
        factor = math.gcd(*terms.values())
        if not exact or not factor or not any(terms[name] for name in terms if name != _ONE):
            return node
        terms = Counter({name: count // factor for name, count in terms.items() if count})
        if isinstance(node.ops[0], ast.Eq | ast.NotEq):
            terms = _without_quotient(terms)
        left, right = _side(terms, 1), _side(terms, -1)
        return ast.Compare(left, node.ops, [right])


_ONE = "1"  # the term of a literal


def _collect(node: ast.expr, factor: int, terms: Counter[str]) -> bool:
    """Add the terms of ``factor * node``; return whether all literals are integers."""
    number = _literal(node)
    if number is not None:
        terms[_ONE] += factor * number
        return True
    if isinstance(node, ast.Constant):
        return False
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return _collect(node.operand, -factor, terms)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        other = factor if isinstance(node.op, ast.Add) else -factor
        return _collect(node.left, factor, terms) and _collect(node.right, other, terms)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        for scale, rest in ((node.left, node.right), (node.right, node.left)):
            number = _literal(scale)
            if number is not None:
                return _collect(rest, factor * number, terms)
    terms[ast.unparse(node)] += factor
    return not any(isinstance(x, ast.Div | ast.Call) for x in ast.walk(node))


def _without_quotient(terms: Counter[str]) -> Counter[str]:
    """Return ``{n: 1}`` for ``n - n // k`` with k > 1, which is 0 only if n is 0."""
    if sorted(terms.values()) != [-1, 1]:
        return terms
    one, other = sorted(terms, key=terms.__getitem__, reverse=True)
    for name, quotient in ((one, other), (other, one)):
        divisor = quotient.removeprefix(f"{name} // ")
        if name.replace(".", "").isidentifier() and divisor.isdigit() and int(divisor) > 1:
            return Counter({name: 1})
    return terms


def _side(terms: Counter[str], sign: int) -> ast.expr:
    """Return the sum of the terms whose factor has this sign, 0 if there is none."""
    found: list[ast.expr] = []
    for name, count in sorted(terms.items(), key=lambda item: item[0] == _ONE):
        if count * sign > 0:
            term: ast.expr = ast.parse(name, mode="eval").body
            if name == _ONE:
                term = ast.Constant(abs(count))
            elif abs(count) != 1:
                term = ast.BinOp(ast.Constant(abs(count)), ast.Mult(), term)
            found.append(term)
    first, *rest = found or [ast.Constant(0)]
    for term in rest:
        first = ast.BinOp(first, ast.Add(), term)
    return first


__all__ = ["plain_formula", "simplified"]
