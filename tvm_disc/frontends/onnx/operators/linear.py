"""Converters of matmuls, einsum and determinants."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from string import ascii_letters

from tvm_disc.errors import TypeMismatch, Unsupported
from tvm_disc.frontends.calc import Calc, Expr, is_float, op
from tvm_disc.frontends.loop import counted
from tvm_disc.frontends.onnx.node import OnnxNode
from tvm_disc.frontends.onnx.table import MICROSOFT, Row
from tvm_disc.relay import expr as ast

FEW = 5  # maximum size of a matrix whose determinant is computed by Leibniz's formula


def product(
    n: Calc, a: Expr, b: Expr, multiply: Callable[[Expr, Expr], Expr] | None = None
) -> Expr:
    """Return the matmul as in NumPy: a vector is a row if it is ``a``, a column if it is ``b``.

    ``multiply`` returns the matmul of operands of rank 2 or more.
    """
    row_, column = n.rank(a) == 1, n.rank(b) == 1
    a = n.expand(a, 0) if row_ else a
    b = n.expand(b, 1) if column else b
    made = (multiply or n.matmul)(a, b)
    return n.squeeze(made, [-2] * row_ + [-1] * column)


def gemm(n: OnnxNode) -> Expr:
    """Convert Gemm: ``alpha * a @ b + beta * c``, with optionally transposed operands."""
    a, b = n[0], n[1]
    floats = is_float(n.dtype(a))
    if n.attr("transA", 0):
        a = n.transpose(a, [1, 0])
    if n.attr("transB", 0):
        made: Expr = op("nn.dense", a, b, units=None)
    else:
        made = n.matmul(a, b)
    made = _scaled(n, made, float(n.attr("alpha", 1.0)), floats)
    c = n.get(2)
    if c is None:
        return made
    return made + _scaled(n, c, float(n.attr("beta", 1.0)), floats)


def _scaled(n: Calc, x: Expr, factor: float, floats: bool) -> Expr:
    if factor == 1:
        return x
    return x * (factor if floats else int(factor))


def _fused_matmul(n: OnnxNode) -> Expr:
    a, b = n[0], n[1]
    if n.attr("transBatchA", 0) or n.attr("transBatchB", 0):
        raise Unsupported("transBatchA and transBatchB are not supported")
    a = n.swapped(a) if n.attr("transA", 0) and n.rank(a) > 1 else a
    b = n.swapped(b) if n.attr("transB", 0) and n.rank(b) > 1 else b
    return _scaled(n, product(n, a, b), float(n.attr("alpha", 1.0)), True)


# -- einsum ------------------------------------------------------------------------------------


def _einsum(n: OnnxNode) -> Expr:
    """Convert Einsum. Relay's einsum has no '...' and no letter twice in an operand."""
    left, arrow, out = str(n.required("equation")).replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(n):
        raise TypeMismatch(f"expected {len(terms)} inputs, as in the equation, found {len(n)}")
    if not arrow:
        letters = sorted(c for c in set(left) if c.isalpha() and left.count(c) == 1)
        out = ("..." if "..." in left else "") + "".join(letters)
    terms, out = _without_dots(n, terms, out)
    items = []
    for k, term in enumerate(terms):
        x, terms[k] = _without_diagonals(n, n[k], term)
        items.append(x)
    equation = f"{','.join(terms)}->{out}"
    return op("einsum", ast.Tuple(tuple(items)), equation=equation)


def _without_dots(n: OnnxNode, terms: list[str], out: str) -> tuple[list[str], str]:
    """Return the terms with '...' replaced by letters, aligned at the last axis."""
    used = set("".join(terms) + out)
    free = [c for c in ascii_letters if c not in used]
    counts = [n.rank(n[k]) - len(t.replace("...", "")) for k, t in enumerate(terms)]
    most = max((c for c, t in zip(counts, terms, strict=True) if "..." in t), default=0)
    dots = "".join(free[:most])
    found = [
        t.replace("...", dots[most - c :]) if "..." in t else t
        for c, t in zip(counts, terms, strict=True)
    ]
    return found, out.replace("...", dots)


def _without_diagonals(n: OnnxNode, x: Expr, term: str) -> tuple[Expr, str]:
    """Return an operand and its term without repeated letters: diagonals replace the two axes."""
    while len(set(term)) < len(term):
        c = next(c for c in term if term.count(c) > 1)
        a = term.index(c)
        b = term.index(c, a + 1)
        rank = n.rank(x)
        rows = n.along(n.arange(n.size(x, a)), a, rank)
        columns = n.along(n.arange(n.size(x, b)), b, rank)
        x = n.reduce("sum", n.where(n.equal(rows, columns), x, 0), [b])
        term = term[:b] + term[b + 1 :]
    return x, term


def _det(n: OnnxNode) -> Expr:
    """Convert Det: Leibniz's formula for small matrices, Gaussian elimination for others."""
    if n.rank(n[0]) < 2:
        raise TypeMismatch(f"expected rank 2 or more, found rank {n.rank(n[0])}")
    rank = n.rank(n[0])
    x = n.fitted({"X": (n[0], [*[None] * (rank - 2), "rows", "rows"])})[0]
    size = n.literals(x)[-1]
    if size is None or not 1 <= size <= FEW:
        return _eliminated(n, x)
    cells = [
        [n.pick(n.pick(x, rank - 2, i), rank - 2, j) for j in range(size)] for i in range(size)
    ]
    total: Expr | None = None
    for order in permutations(range(size)):
        term = cells[0][order[0]]
        for i in range(1, size):
            term = term * cells[i][order[i]]
        odd = sum(a > b for k, a in enumerate(order) for b in order[k + 1 :]) % 2
        term = -term if odd and total is None else term
        total = term if total is None else total - term if odd else total + term
    assert total is not None
    return total


def _eliminated(n: OnnxNode, x: Expr) -> Expr:
    """Return the determinant by Gaussian elimination with partial pivoting.

    Each iteration eliminates one column.
    """
    *lead, size, _ = n.sizes(x)
    flat = n.reshape(x, [n.product(lead), size, size])
    one = n.full(1, [n.product(lead)], n.dtype(x))

    def turn(t: Expr, fixed: list[Expr], now: list[Expr]) -> tuple[list[Expr], list[Expr]]:
        left, found = now
        place, at = n.arange(n.size(left, 1)), n.cast(t, "int64")
        column = n.take(left, at, 2)
        reach = n.where(place < at, n.like(-1, column), n.abs(column))
        best = n.expand(n.cast(op("argmax", reach, axis=1), "int64"), 1)
        order = n.where(n.equal(place, at), best, n.where(n.equal(place, best), at, place))
        picks = n.broadcast(n.expand(order, 2), n.sizes(left))
        left = op("gather", left, picks, axis=1)
        row_, column = n.take(left, at, 1), n.take(left, at, 2)
        pivot = n.expand(n.take(column, at, 1), 1)
        safe = n.where(n.equal(pivot, 0), n.like(1, pivot), pivot)
        factor = n.where(place > at, column / safe, n.like(0, column))
        left = left - n.expand(factor, 2) * n.expand(row_, 1)
        kept = n.equal(best, at)
        signed = n.squeeze(n.where(kept, pivot, -pivot), [1])
        return [left, found * signed], []

    last, _ = counted(n, size, [], [flat, one], turn)
    return n.reshape(last[1], lead)


ROWS: tuple[Row, ...] = (
    Row("MatMul", lambda n: product(n, n[0], n[1])),
    Row("Gemm", gemm),
    Row("FusedMatMul TransposeMatMul", _fused_matmul, domain=MICROSOFT),
    Row("Einsum", _einsum),
    Row("Det", _det),
)

__all__ = ["ROWS", "gemm", "product"]
