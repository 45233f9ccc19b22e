"""Converters of matrix factorizations and of triangular solves, as loops over columns or rows.

The last two axes are matrices, all others a batch. JAX emits custom calls of LAPACK for the CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tvm_disc.frontends.calc import Expr, op
from tvm_disc.frontends.loop import counted
from tvm_disc.frontends.stablehlo.node import StableHLONode
from tvm_disc.frontends.stablehlo.table import OperationRow

Pair = tuple[list[Expr], list[Expr]]


def indices(n: StableHLONode, x: Expr, axis: int) -> Expr:
    """Return the row numbers (axis -2) or column numbers (-1), shaped to broadcast to ``x``."""
    rank = n.rank(x)
    return n.along(n.arange(n.size(x, rank + axis)), rank + axis, rank)


def column(n: StableHLONode, x: Expr, t: Expr) -> Expr:
    """Return column ``t`` of each matrix, with a last axis of length 1."""
    return n.expand(n.take(x, t, n.rank(x) - 1), n.rank(x) - 1)


def row(n: StableHLONode, x: Expr, t: Expr) -> Expr:
    """Return row ``t`` of each matrix, with a second last axis of length 1."""
    return n.expand(n.take(x, t, n.rank(x) - 2), n.rank(x) - 2)


def cholesky(n: StableHLONode, a: Expr, lower: bool) -> Expr:
    """Return the Cholesky factor of positive definite matrices.

    Only the lower or the upper triangle of ``a`` is read.
    """
    a = a if lower else n.swapped(a)

    def step(t: Expr, fixed: list[Expr], now: list[Expr]) -> Pair:
        [a], [factor] = fixed, now
        last = n.rank(a) - 1
        done = n.reduce("sum", factor * row(n, factor, t), [last], keep=True)
        rest = column(n, a, t) - done
        root = n.sqrt(row(n, rest, t))
        below = indices(n, a, -2)
        line = n.where(op("greater", below, t), rest / root, n.where(n.equal(below, t), root, 0))
        return [n.where(n.equal(indices(n, a, -1), t), line, factor)], []

    zeros = n.full(0, n.sizes(a), n.dtype(a))
    [factor], _ = counted(n, n.size(a, n.rank(a) - 1), [a], [zeros], step)
    return factor if lower else n.swapped(factor)


def triangular_solve(
    n: StableHLONode, a: Expr, b: Expr, left: bool, lower: bool, unit: bool, transposed: bool
) -> Expr:
    """Return the solution of ``op(a) x = b`` if ``left``, else of ``x op(a) = b``.

    ``op`` is the transposition if ``transposed``. Only one triangle of ``a`` is read.
    """
    if transposed == left:  # a^T x = b; or x a = b, which is a^T x^T = b^T
        a, lower = n.swapped(a), not lower
    b = b if left else n.swapped(b)
    rank = n.rank(a)
    if not lower:  # solve from the last row to the first
        a = op("reverse", op("reverse", a, axis=rank - 1), axis=rank - 2)
        b = op("reverse", b, axis=rank - 2)

    def step(t: Expr, fixed: list[Expr], now: list[Expr]) -> Pair:
        [a, b], [x] = fixed, now
        line = row(n, a, t)
        known = n.where(op("less", indices(n, a, -1), t), line, 0)
        rest = row(n, b, t) - n.reduce("sum", n.swapped(known) * x, [rank - 2], keep=True)
        new = rest if unit else rest / column(n, line, t)
        return [n.where(n.equal(indices(n, x, -2), t), new, x)], []

    zeros = n.full(0, n.sizes(b), n.dtype(b))
    [x], _ = counted(n, n.size(a, rank - 1), [a, b], [zeros], step)
    x = x if lower else op("reverse", x, axis=rank - 2)
    return x if left else n.swapped(x)


def lu(n: StableHLONode, a: Expr) -> list[Expr]:
    """Return L and U of ``P a = L U`` in one matrix, and the pivot row of each step."""
    rank = n.rank(a)

    def step(t: Expr, fixed: list[Expr], now: list[Expr]) -> Pair:
        a, pivots = now
        rows, columns = indices(n, a, -2), indices(n, a, -1)
        size = n.where(op("less", rows, t), -1, n.abs(column(n, a, t)))
        pivot = op("argmax", size, axis=(rank - 2,), keepdims=True)
        pivot = n.cast(pivot, "int64")
        chosen = n.equal(rows, pivot)
        top = n.reduce("sum", n.where(chosen, a, 0), [rank - 2], keep=True)
        a = n.where(chosen, row(n, a, t), a)
        a = n.where(n.equal(rows, t), top, a)
        head = column(n, top, t)
        factor = n.where(n.equal(head, 0), 0, column(n, a, t) / head)
        below = op("greater", rows, t)
        rest = n.where(op("greater", columns, t), a - factor * top, a)
        rest = n.where(n.equal(columns, t), factor, rest)
        line = n.squeeze(pivot, [rank - 1])
        here = n.equal(n.along(n.arange(n.size(pivots, rank - 2)), rank - 2, rank - 1), t)
        return [n.where(below, rest, a), n.where(here, n.cast(line, "int32"), pivots)], []

    sizes = n.sizes(a)
    count = n.dim("minimum", *sizes[-2:])
    pivots = n.full(0, [*sizes[:-2], count], "int32")
    found, _ = counted(n, count, [], [a, pivots], step)
    return found


# -- operators and custom calls --------------------------------------------------------------------


def _triangular_solve(n: StableHLONode) -> Expr:
    left, lower, unit = (bool(n.attr(k, False)) for k in ("left_side", "lower", "unit_diagonal"))
    transposed = "NO_TRANSPOSE" not in str(n.op.attributes["transpose_a"])
    return triangular_solve(n, n[0], n[1], left, lower, unit, transposed)


def lapack_option(n: StableHLONode, name: str) -> str:
    """Return a letter option of LAPACK; the attribute stores its character code."""
    from jaxlib.mlir import ir

    return chr(ir.IntegerAttr(n.op.attributes["mhlo.backend_config"][name]).value & 0xFF)


def failed(n: StableHLONode, k: int, factor: Expr) -> Expr:
    """Return LAPACK's status of each matrix: 0, or 1 if its result ``factor`` has a NaN."""
    rank = n.rank(factor)
    failed = n.reduce("any", n.isnan(factor), [rank - 2, rank - 1])
    return n.cast(failed, n.out_dtype(k))


def _potrf(n: StableHLONode) -> list[Expr]:
    factor = cholesky(n, n[0], lapack_option(n, "uplo") == "L")
    return [factor, failed(n, 1, factor)]


def _trsm(n: StableHLONode) -> Expr:
    letters = [lapack_option(n, k) for k in ("side", "uplo", "diag", "trans_x")]
    left, lower, unit = (found == "LLU"[k] for k, found in enumerate(letters[:3]))
    return triangular_solve(n, n[0], n[1], left, lower, unit, letters[3] != "N")


def _getrf(n: StableHLONode) -> list[Expr]:
    factors, pivots = lu(n, n[0])
    info = n.full(0, n.sizes(pivots)[:-1], "int32")
    return [factors, pivots + 1, info]


LAPACK: Mapping[str, Callable[[StableHLONode], object]] = {
    f"lapack_{letter}{name}_ffi": row
    for name, row in (("potrf", _potrf), ("trsm", _trsm), ("getrf", _getrf))
    for letter in "sd"
}

ROWS: tuple[OperationRow, ...] = (
    OperationRow("cholesky", lambda n: cholesky(n, n[0], bool(n.attr("lower", False)))),
    OperationRow("triangular_solve", _triangular_solve),
)

__all__ = [
    "LAPACK",
    "ROWS",
    "cholesky",
    "column",
    "failed",
    "indices",
    "lapack_option",
    "lu",
    "row",
    "triangular_solve",
]
