"""Converters of orthogonal decompositions of real matrices: QR, eigenvalues, singular values.

The last two axes are matrices, all others a batch. JAX emits custom calls of LAPACK for the CPU.
Eigenvalues and singular values are computed by Jacobi rotations of pairs of columns. In a round,
each column is in one pair; the rounds of a sweep rotate every pair once, in the order of a
round-robin tournament (Brent and Luk, 1985). Signs of eigenvectors and singular vectors may differ
from LAPACK's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from tvm_disc.frontends.calc import Dim, Expr, op
from tvm_disc.frontends.loop import TensorLoop, counted
from tvm_disc.frontends.stablehlo.node import StableHLONode
from tvm_disc.frontends.stablehlo.operators.factor import (
    Pair,
    column,
    failed,
    indices,
    lapack_option,
    row,
)

MOST_SWEEPS = 30  # limit; float64 converges in about ten sweeps


# -- QR --------------------------------------------------------------------------------------------


def householder(n: StableHLONode, a: Expr) -> list[Expr]:
    """Return the results of LAPACK's geqrf.

    The first is a matrix with R in its upper triangle and the Householder vectors below; the second
    has the factors tau of the reflectors.
    """
    rank = n.rank(a)
    count = n.dim("minimum", *n.sizes(a)[-2:])

    def step(t: Expr, fixed: list[Expr], now: list[Expr]) -> Pair:
        a, taus = now
        rows, columns = indices(n, a, -2), indices(n, a, -1)
        below, here = op("greater", rows, t), n.equal(rows, t)
        x = column(n, a, t)
        head, tail = row(n, x, t), n.where(below, x, 0)
        rest = n.reduce("sum", tail * tail, [rank - 2], keep=True)
        flat = n.equal(rest, 0)
        norm = n.sqrt(head * head + rest)
        last = n.where(flat, head, n.where(head >= 0, -norm, norm))
        tau = n.where(flat, 0, (last - head) / n.where(flat, 1, last))
        v = n.where(here, 1, tail / n.where(flat, 1, head - last))
        along = n.reduce("sum", v * a, [rank - 2], keep=True)
        left = n.where(below, v, n.where(here, last, x))
        a = n.where(
            op("greater", columns, t), a - tau * v * along, n.where(n.equal(columns, t), left, a)
        )
        place = n.along(n.arange(n.size(taus, rank - 2)), rank - 2, rank - 1)
        return [a, n.where(n.equal(place, t), n.squeeze(tau, [rank - 1]), taus)], []

    taus = n.full(0, [*n.sizes(a)[:-2], count], n.dtype(a))
    found, _ = counted(n, count, [], [a, taus], step)
    return found


def orthogonal(n: StableHLONode, reflectors: Expr, taus: Expr) -> Expr:
    """Return the result of LAPACK's orgqr: Q, with the number of columns of ``reflectors``."""
    rank = n.rank(reflectors)
    count = n.size(taus, rank - 2)

    def step(t: Expr, fixed: list[Expr], now: list[Expr]) -> Pair:
        [reflectors, taus], [q] = fixed, now
        t = n.scalar(n.dim("subtract", n.size(taus, rank - 2), 1)) - t
        rows = indices(n, q, -2)
        v = n.where(
            op("greater", rows, t), column(n, reflectors, t), n.cast(n.equal(rows, t), n.dtype(q))
        )
        along = n.reduce("sum", v * q, [rank - 2], keep=True)
        return [q - column(n, n.expand(taus, rank - 2), t) * v * along], []

    found, _ = counted(n, count, [reflectors, taus], [_identity(n, reflectors)], step)
    q: Expr = found[0]
    return q


def _identity(n: StableHLONode, like: Expr) -> Expr:
    """Return matrices of the shape of ``like`` with 1 on the diagonal and 0 elsewhere."""
    ones = n.equal(indices(n, like, -2), indices(n, like, -1))
    return n.where(ones, n.like(1, like), n.full(0, n.sizes(like), n.dtype(like)))


# -- Jacobi rotations ------------------------------------------------------------------------------


class Tournament:
    """The order in which pairs of columns are rotated.

    If the number of columns is odd, one column has no partner in each round.

    Attributes:
        count: the number of columns.
        places: the number of columns, rounded up to an even number.
        rounds: the number of rounds of a sweep.
    """

    def __init__(self, n: StableHLONode, count: Dim) -> None:
        self.n, self.count = n, count
        self.places = n.dim("add", count, n.dim("floor_mod", count, 2))
        self.rounds = n.dim("maximum", n.dim("subtract", self.places, 1), 1)

    def partners(self, number: Expr) -> Expr:
        """Return the partner of each column in round ``number``, or the column if it has none.

        This is the circle method: the partner of column i is ``(number - i) mod rounds``. The
        column that would be its own partner is paired with the last column.
        """
        n, circle = self.n, self.n.scalar(self.rounds)
        at, last = n.arange(self.count), n.scalar(n.dim("subtract", self.places, 1))
        mirrored = op("floor_mod", number - at, circle)
        single = n.where(op("less", last, n.scalar(self.count)), last, at)
        half = n.scalar(n.dim("floor_divide", self.places, 2))
        fixed = op("floor_mod", number * half, circle)
        return n.where(n.equal(at, last), fixed, n.where(n.equal(mirrored, at), single, mirrored))


def _tangent(n: StableHLONode, a: Expr, b: Expr, mixed: Expr, active: Expr, first: Expr) -> Expr:
    """Return the tangent of the rotation that makes ``[[a, mixed], [mixed, b]]`` diagonal.

    The result is 0 for pairs that are not active. The two columns of a pair have tangents of
    opposite signs; ``first`` is true for one of them.
    """
    ratio = (b - a) / (mixed * 2)
    sign = n.where(
        n.equal(ratio, 0), n.where(first, n.like(1, a), n.like(-1, a)), op("sign", ratio)
    )
    return n.where(active, sign / (n.abs(ratio) + n.sqrt(ratio * ratio + 1)), 0)


def _rotated(n: StableHLONode, x: Expr, tangent: Expr, partner: Expr, axis: int) -> Expr:
    """Return the matrices with their rows (axis -2) or columns (-1) rotated in pairs."""
    rank = n.rank(x)
    t = n.expand(tangent, rank - 1 if axis == -2 else rank - 2)
    return (x - t * n.take(x, partner, rank + axis)) / n.sqrt(t * t + 1)


def _epsilon(n: StableHLONode, x: Expr) -> float:
    return float(np.finfo(n.dtype(x)).eps)


def _swept(
    n: StableHLONode,
    fixed: list[Expr],
    state: list[Expr],
    turn: Callable[[list[Expr], list[Expr], Expr], tuple[list[Expr], Expr]],
) -> list[Expr]:
    """Repeat rounds until no pair has been active in a whole sweep, or for ``MOST_SWEEPS`` sweeps,
    and return the state.

    ``turn(fixed, state, partners)`` returns the state after a round, and for each column whether
    its pair was active, that is, not yet orthogonal or diagonal.
    """

    def more(fixed: list[Expr], now: list[Expr]) -> Expr:
        plan = Tournament(n, n.size(now[2], n.rank(now[2]) - 1))
        limit = n.scalar(n.dim("multiply", plan.rounds, MOST_SWEEPS))
        idle = op("less", now[1], n.scalar(plan.rounds))
        return op("logical_and", op("less", now[0], limit), idle)

    def step(fixed: list[Expr], now: list[Expr]) -> Pair:
        k, quiet, *state = now
        plan = Tournament(n, n.size(state[0], n.rank(state[0]) - 1))
        number = op("floor_mod", k, n.scalar(plan.rounds))
        state, active = turn(fixed, state, plan.partners(number))
        axes = list(range(n.rank(active)))
        quiet = n.where(n.reduce("any", active, axes), n.like(0, quiet), quiet + 1)
        return [k + 1, quiet, *state], []

    zero = n.literal(0, "int64")
    found, _ = TensorLoop(n, fixed, [zero, zero, *state]).run(more, step)
    return found[2:]


def symmetric(n: StableHLONode, a: Expr, lower: bool) -> list[Expr]:
    """Return the eigenvalues of symmetric matrices in ascending order, and eigenvectors as columns.

    Only the lower or the upper triangle of ``a`` is read.
    """
    rank = n.rank(a)
    order = "greater_equal" if lower else "less_equal"
    a = n.where(op(order, indices(n, a, -2), indices(n, a, -1)), a, n.swapped(a))
    norm = n.sqrt(n.reduce("sum", a * a, [rank - 2, rank - 1], keep=True))
    least = n.squeeze(norm, [rank - 1]) * _epsilon(n, a)

    def turn(fixed: list[Expr], now: list[Expr], partner: Expr) -> tuple[list[Expr], Expr]:
        [least], [a, vectors] = fixed, now
        at = n.arange(n.size(a, rank - 1))
        across = n.along(partner, rank - 2, rank)
        own, mixed = (
            n.reduce("sum", n.where(n.equal(indices(n, a, -1), k), a, 0), [rank - 1])
            for k in (indices(n, a, -2), across)
        )
        # Rounding errors make the matrix asymmetric, but both columns of a pair must use the same
        # off-diagonal element.
        mixed = (mixed + n.take(mixed, partner, rank - 2)) * 0.5
        other = n.take(own, partner, rank - 2)
        pair = op("not_equal", partner, at)
        active = op("logical_and", op("greater", n.abs(mixed), least), pair)
        t = _tangent(n, own, other, mixed, active, op("less", at, partner))
        a = _rotated(n, _rotated(n, a, t, partner, -2), t, partner, -1)
        return [a, _rotated(n, vectors, t, partner, -1)], active

    a, vectors = _swept(n, [least], [a, _identity(n, a)], turn)
    return _ordered(n, _diagonal(n, a), vectors, ascending=True)


def _diagonal(n: StableHLONode, a: Expr) -> Expr:
    """Return the diagonal element of each row, or 0 for rows below the square part."""
    here = n.equal(indices(n, a, -2), indices(n, a, -1))
    return n.reduce("sum", n.where(here, a, 0), [n.rank(a) - 1])


def _ordered(n: StableHLONode, values: Expr, *matrices: Expr, ascending: bool) -> list[Expr]:
    """Return ``values`` sorted, and each matrix with its columns permuted in the same way."""
    axis = n.rank(values) - 1
    order = op("argsort", values, axis=axis, is_ascend=ascending, dtype="int64")
    found = [op("gather", values, order, axis=axis)]
    for x in matrices:
        places = n.broadcast(n.expand(order, axis), n.sizes(x))
        found.append(op("gather", x, places, axis=axis + 1))
    return found


def singular(n: StableHLONode, a: Expr, full: bool) -> list[Expr]:
    """Return singular values in descending order, U, and the transpose of V."""
    rank = n.rank(a)
    m, k = n.literals(a)[-2:]
    if m is not None and k is not None and m < k:
        values, u, vt = singular(n, n.swapped(a), full)
        return [values, n.swapped(vt), n.swapped(u)]
    eps = _epsilon(n, a)
    norm = n.sqrt(n.reduce("sum", a * a, [rank - 2, rank - 1], keep=True))
    least = n.squeeze(norm, [rank - 1]) * eps

    def turn(fixed: list[Expr], now: list[Expr], partner: Expr) -> tuple[list[Expr], Expr]:
        [least], [w, v] = fixed, now
        at = n.arange(n.size(w, rank - 1))
        own = n.reduce("sum", w * w, [rank - 2])
        other = n.take(own, partner, rank - 2)
        mixed = n.reduce("sum", w * n.take(w, partner, rank - 1), [rank - 2])
        size, most = n.sqrt(own), n.sqrt(other)
        active = op("greater", n.abs(mixed), size * most * (4 * eps))
        for known in (
            op("greater", n.minimum(size, most), least),
            op("not_equal", partner, at),
        ):
            active = op("logical_and", active, known)
        t = _tangent(n, own, other, mixed, active, op("less", at, partner))
        return [_rotated(n, x, t, partner, -1) for x in (w, v)], active

    columns = n.size(a, rank - 1)
    square = n.full(0, [*n.sizes(a)[:-2], columns, columns], n.dtype(a))
    w, v = _swept(n, [least], [a, _identity(n, square)], turn)
    size = n.sqrt(n.reduce("sum", w * w, [rank - 2]))
    values, w, v = _ordered(n, size, w, v, ascending=False)
    return _bases(n, values, w, v, full)


def _bases(n: StableHLONode, values: Expr, w: Expr, v: Expr, full: bool) -> list[Expr]:
    """Return singular values, U, and the transpose of V, for ``a v = w``.

    The columns of ``w`` are orthogonal, with ``values`` as norms in descending order. U is the Q of
    the QR decomposition of ``w``, which also completes the basis. As R is diagonal, the signs of
    its elements are moved to the columns of Q.
    """
    rank = n.rank(w)
    rows, columns = n.sizes(w)[-2:]
    count = n.dim("minimum", rows, columns)
    factors, taus = householder(n, w)
    sign = n.where(op("less", _diagonal(n, factors), n.like(0, w)), n.like(-1, w), n.like(1, w))
    square = n.full(0, [*n.sizes(w)[:-2], rows, rows], n.dtype(w))
    reflectors = n.where(
        op("less", indices(n, square, -1), n.scalar(columns)), _resized(n, factors, rows), square
    )
    u = orthogonal(n, reflectors, taus) * n.expand(sign, rank - 2)
    vt = n.swapped(v)
    if not full:
        u, vt = n.slice(u, rank - 1, 0, count), n.slice(vt, rank - 2, 0, count)
    return [n.slice(values, rank - 2, 0, count), u, vt]


def _resized(n: StableHLONode, x: Expr, columns: Dim) -> Expr:
    """Return matrices of the given number of columns; additional columns repeat the last one."""
    last = n.scalar(n.dim("subtract", n.size(x, n.rank(x) - 1), 1))
    return n.take(x, n.minimum(n.arange(columns), last), n.rank(x) - 1)


# -- custom calls ----------------------------------------------------------------------------------


def _syevd(n: StableHLONode) -> list[Expr]:
    values, vectors = symmetric(n, n[0], lapack_option(n, "uplo") == "L")
    return [vectors, values, failed(n, 2, vectors * n.expand(values, n.rank(values) - 1))]


def _gesdd(n: StableHLONode) -> list[Expr]:
    values, u, vt = singular(n, n[0], lapack_option(n, "mode") == "A")
    return [n[0], values, u, vt, failed(n, 4, n.expand(values, n.rank(values)))]


LAPACK: Mapping[str, Callable[[StableHLONode], object]] = {
    f"lapack_{letter}{name}_ffi": convert
    for name, convert in (
        ("geqrf", lambda n: householder(n, n[0])),
        ("orgqr", lambda n: orthogonal(n, n[0], n[1])),
        ("syevd", _syevd),
        ("gesdd", _gesdd),
    )
    for letter in "sd"
}

__all__ = ["LAPACK", "householder", "orthogonal", "singular", "symmetric"]
