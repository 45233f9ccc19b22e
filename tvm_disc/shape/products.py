"""Rules about whole shapes: broadcast of two dims, and grouping of the dims of a reshape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from tvm import tirx

from tvm_disc.typing import Expr

from .terms import Poly

Group = tuple[tuple[int, ...], tuple[int, ...]]


class Questions(Protocol):
    """The part of a solver's interface that these rules require."""

    joins: Joins

    def simplify(self, e: object) -> Any:
        """Return the canonical expression."""

    def key(self, e: object) -> Poly:
        """Return the normal form; dims with equal keys are proved equal."""

    def const(self, e: object) -> int | None:
        """Return the value if only one is possible, else None."""

    def name_of(self, e: object) -> str:
        """Return an expression in terms of the user's inputs."""

    def known(self, cond: object) -> bool | None:
        """Return whether a condition holds; None if unknown."""

    def known_eq(self, a: object, b: object) -> bool | None:
        """Return whether `a == b`; None if unknown."""

    def known_ne_one(self, e: object) -> bool | None:
        """Return whether `e != 1`; None if unknown."""

    def known_same_elements(
        self, shape_a: Sequence[object], shape_b: Sequence[object]
    ) -> bool | None:
        """Return whether the shapes have the same number of elements; None if unknown."""

    def define(self, name: str, value: object, source: str) -> Expr:
        """Return a new symbol for an expression."""

    def require(self, cond: object, context: str, message: str = "") -> None:
        """Prove the condition or add a guard."""

    def require_eq(self, a: object, b: object, context: str) -> None:
        """Prove `a == b` or add a guard."""

    def wish_eq(self, a: object, b: object, context: str) -> None:
        """Record that `a == b` would simplify the program."""


LONG = 4
"""Number of dims above which a broadcast dim is a symbol with a definition."""


class Joins:
    """Map from each broadcast dim to the dims that it combines.

    Broadcasting of compatible dims is associative, commutative and idempotent. Each set of dims
    therefore has one expression, whose size is linear in the number of dims. Otherwise the
    expression would double in length with each operator of a chain over three operands. The
    broadcast of more than `LONG` dims is a symbol, defined by the two dims that it joins, so that
    the work for a chain is linear in its length.
    """

    def __init__(self) -> None:
        # normal form of a dim -> normal form of each part -> part
        self._parts: dict[object, dict[Any, Any]] = {}
        self._made: dict[frozenset[Any], Any] = {}

    def __copy__(self) -> Joins:
        other = Joins()
        other._parts, other._made = dict(self._parts), dict(self._made)
        return other

    def parts(self, solver: Questions, dim: object) -> dict[Any, Any]:
        """Return the dims that ``dim`` combines, by normal form; only ``dim`` if it is no
        broadcast.
        """
        key = solver.key(dim)
        return self._parts.get(key, {key: dim})

    def known(self, solver: Questions, a: Expr, b: Expr) -> Any | None:
        """Return the earlier broadcast of the same set of dims, which is already guarded, or
        None.
        """
        together = self.parts(solver, a).keys() | self.parts(solver, b).keys()
        return self._made.get(frozenset(together))

    def of(self, solver: Questions, a: Expr, b: Expr) -> Any:
        """Return the broadcast of dims that a guard makes compatible: the first dim that is
        not 1, or 1 if all are 1.
        """
        parts = {**self.parts(solver, a), **self.parts(solver, b)}
        if len(parts) > LONG:
            return self._defined(solver, a, b, parts)
        *first, result = parts.values()
        for dim in reversed(first):
            result = tirx.Select(tirx.EQ(dim, _one()), result, dim)
        result = self._made[frozenset(parts)] = solver.simplify(result)
        self._parts[solver.key(result)] = parts
        return result

    def _defined(self, solver: Questions, a: Expr, b: Expr, parts: dict[Poly, Expr]) -> Expr:
        first = solver.name_of(next(iter(parts.values())))
        source = f"the broadcast of {first} and {len(parts) - 1} other dims"
        result = solver.define("joined", tirx.Select(tirx.EQ(a, _one()), b, a), source)
        self._made[frozenset(parts)] = result
        self._parts[solver.key(result)] = parts
        return result


def broadcast(solver: Questions, a: Any, b: Expr, context: str) -> Any:
    """Return the common dim of `a` and `b` by the broadcasting of NumPy and Relay.

    proved                  result                      guard
    a == b                  a                           -
    a == 1                  b                           -
    joined before           the earlier result          -
    a != 1 and b != 1       a                           a == b
    a != 1                  a                           b == a or b == 1
    a == 1 implies b == a   a                           a == b or a == 1 or b == 1
    nothing                 Select(a == 1, b, a)        a == b or a == 1 or b == 1

    The rows also hold with a and b exchanged. "Joined before" means that the same set of dims, in
    any order, has been broadcast before.
    """
    a, b = solver.simplify(a), solver.simplify(b)
    if solver.known_eq(a, b):
        return _plainer(a, b)
    for one, other in ((a, b), (b, a)):
        if solver.const(one) == 1:
            return other
    before = solver.joins.known(solver, a, b)
    if before is not None:
        return before
    wide = [solver.known_ne_one(a), solver.known_ne_one(b)]
    if all(wide):
        solver.require_eq(a, b, context)
        return solver.simplify(a)
    # The first of the joined dims suffices: its equality to the others has been recorded already.
    first, second = (next(iter(solver.joins.parts(solver, dim).values())) for dim in (a, b))
    solver.wish_eq(first, second, f"{context}: no broadcast is then required")
    must = f"{solver.name_of(a)} must equal {solver.name_of(b)}"
    if any(wide):
        kept, other = (a, b) if wide[0] else (b, a)
        message = f"{solver.name_of(other)} must equal {solver.name_of(kept)} or be 1"
        solver.require(tirx.Or(tirx.EQ(other, kept), tirx.EQ(other, _one())), context, message)
        return solver.simplify(kept)
    fits = tirx.Or(tirx.Or(tirx.EQ(a, b), tirx.EQ(a, _one())), tirx.EQ(b, _one()))
    solver.require(fits, context, f"{must}, or one of them must be 1")
    for kept, other in ((a, b), (b, a)):
        # If the kept dim is 1, the other is 1 too, so broadcasting does not change it.
        if solver.known(tirx.Or(tirx.NE(kept, _one()), tirx.EQ(other, kept))):
            return kept
    return solver.joins.of(solver, a, b)


def _one() -> Expr:
    return tirx.IntImm("int64", 1)


def _plainer(a: Expr, b: Expr) -> object:
    return b if isinstance(b, tirx.IntImm) else a


def group_dims(solver: Questions, src: Sequence[Expr], dst: Sequence[Expr]) -> list[Group] | None:
    """Return minimal contiguous groups with equal products, or None if the totals may differ.

    before: (b, s, 12, 64) -> (b*s, 768)
    after:  [((0, 1), (0,)), ((2, 3), (1,))]

    A literal 1 joins the group before it, or the first one. A dim of unknown value never does,
    because it might be 0.
    """
    if solver.known_same_elements(src, dst) is not True:
        return None
    left = [i for i, d in enumerate(src) if solver.const(d) != 1]
    right = [j for j, d in enumerate(dst) if solver.const(d) != 1]
    groups = _grow(solver, src, dst, left, right)
    return _attach_ones(groups, len(src), len(dst))


def _grow(
    solver: Questions, src: Sequence[Expr], dst: Sequence[Expr], left: list[int], right: list[int]
) -> list[Group]:
    """Split after the fewest dims whose products are equal.

    The products of the remaining dims must be equal as well: if the head may be 0, equal heads do
    not imply equal tails.
    """
    groups: list[Group] = []
    while left or right:
        cut = _first_cut(solver, src, dst, left, right)
        groups.append((tuple(left[: cut[0]]), tuple(right[: cut[1]])))
        left, right = left[cut[0] :], right[cut[1] :]
    return groups


def _first_cut(
    solver: Questions,
    src: Sequence[object],
    dst: Sequence[object],
    left: list[int],
    right: list[int],
) -> tuple[int, int]:
    for total in range(2, len(left) + len(right)):
        for i in range(max(1, total - len(right)), min(len(left), total - 1) + 1):
            j = total - i
            heads = solver.known_same_elements(_pick(src, left[:i]), _pick(dst, right[:j]))
            if heads and solver.known_same_elements(_pick(src, left[i:]), _pick(dst, right[j:])):
                return i, j
    return len(left), len(right)


def _pick(shape: Sequence[object], axes: Sequence[int]) -> list[Any]:
    return [shape[i] for i in axes]


def _attach_ones(groups: list[Group], n_src: int, n_dst: int) -> list[Group]:
    if not groups:
        return [(tuple(range(n_src)), tuple(range(n_dst)))] if n_src or n_dst else []
    sides = []
    for side, count in ((0, n_src), (1, n_dst)):
        starts = [g[side][0] if g[side] else None for g in groups]
        owners: list[list[int]] = [[] for _ in groups]
        current = 0
        for axis in range(count):
            while current + 1 < len(groups) and _reached(starts, current + 1, axis):
                current += 1
            owners[current].append(axis)
        sides.append([tuple(o) for o in owners])
    return list(zip(sides[0], sides[1], strict=True))


def _reached(starts: list[int | None], group: int, axis: int) -> bool:
    start = starts[group]
    return start is not None and axis >= start
