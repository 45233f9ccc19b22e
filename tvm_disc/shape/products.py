"""Rules about whole shapes: broadcasting two dims, and grouping the dims of a reshape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from tvm import tirx

from .terms import Poly

Group = tuple[tuple[int, ...], tuple[int, ...]]


class Questions(Protocol):
    """What these rules ask of a solver, and require of it; its methods say what each means."""

    joins: Joins

    def simplify(self, e: Any) -> Any:
        """The canonical expression."""

    def key(self, e: Any) -> Poly:
        """The normal form: dims of one key are proved equal."""

    def const(self, e: Any) -> int | None:
        """The value, if only one is possible."""

    def name_of(self, e: Any) -> str:
        """An expression in the user's words."""

    def known(self, cond: Any) -> bool | None:
        """Whether a condition holds."""

    def known_eq(self, a: Any, b: Any) -> bool | None:
        """`a == b`."""

    def known_ne_one(self, e: Any) -> bool | None:
        """`e != 1`."""

    def known_same_elements(self, shape_a: Sequence[Any], shape_b: Sequence[Any]) -> bool | None:
        """Whether the products are equal."""

    def require(self, cond: Any, context: str, message: str = "") -> None:
        """The condition, guarded where it is not proved."""

    def require_eq(self, a: Any, b: Any, context: str) -> None:
        """`a == b`, guarded where it is not proved."""

    def wish_eq(self, a: Any, b: Any, context: str) -> None:
        """Note that `a == b` would help."""


class Joins:
    """Which dims a dim is the broadcast of.

    Among dims that fit each other broadcasting is associative, commutative and idempotent. So a set
    of them has one expression, linear in their number: spelled operator by operator, the dims of a
    chain over three operands double in length with every step.
    """

    def __init__(self) -> None:
        self._parts: dict[Any, dict[Any, Any]] = {}  # normal form -> parts by theirs
        self._made: dict[frozenset[Any], Any] = {}

    def parts(self, solver: Questions, dim: Any) -> dict[Any, Any]:
        """The dims that were joined to ``dim``, by normal form; itself if none were."""
        key = solver.key(dim)
        return self._parts.get(key, {key: dim})

    def known(self, solver: Questions, a: Any, b: Any) -> Any | None:
        """What ``a`` and ``b`` gave before, perhaps with others between: it is guarded already."""
        together = self.parts(solver, a).keys() | self.parts(solver, b).keys()
        return self._made.get(frozenset(together))

    def of(self, solver: Questions, a: Any, b: Any) -> Any:
        """The broadcast of dims that a guard makes fit: the first that is not 1, or 1."""
        parts = {**self.parts(solver, a), **self.parts(solver, b)}
        *first, result = parts.values()
        for dim in reversed(first):
            result = tirx.Select(tirx.EQ(dim, _one()), result, dim)
        result = self._made[frozenset(parts)] = solver.simplify(result)
        self._parts[solver.key(result)] = parts
        return result


def broadcast(solver: Questions, a: Any, b: Any, context: str) -> Any:
    """The common dim of `a` and `b`, as NumPy and Relay broadcast.

    proved                  result                      guard
    a == b                  a                           -
    a == 1                  b                           -
    joined before           what that gave              -
    a != 1 and b != 1       a                           a == b
    a != 1                  a                           b == a or b == 1
    a == 1 implies b == a   a                           a == b or a == 1 or b == 1
    nothing                 Select(a == 1, b, a)        a == b or a == 1 or b == 1

    The rows hold with a and b exchanged. "Joined before" are the dims that `a` is the broadcast of
    with those that `b` is of, in any order.
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
    # Of joined dims the first speak for all: that the others equal them is wished already.
    first, second = (next(iter(solver.joins.parts(solver, dim).values())) for dim in (a, b))
    solver.wish_eq(first, second, f"{context}: no broadcast")
    must = f"{solver.name_of(a)} must equal {solver.name_of(b)}"
    if any(wide):
        kept, other = (a, b) if wide[0] else (b, a)
        message = f"{solver.name_of(other)} must equal {solver.name_of(kept)} or be 1"
        solver.require(tirx.Or(tirx.EQ(other, kept), tirx.EQ(other, _one())), context, message)
        return solver.simplify(kept)
    fits = tirx.Or(tirx.Or(tirx.EQ(a, b), tirx.EQ(a, _one())), tirx.EQ(b, _one()))
    solver.require(fits, context, f"{must}, or one of them be 1")
    for kept, other in ((a, b), (b, a)):
        # Where the kept dim is 1 so is the other: broadcasting cannot change it.
        if solver.known(tirx.Or(tirx.NE(kept, _one()), tirx.EQ(other, kept))):
            return kept
    return solver.joins.of(solver, a, b)


def _one() -> Any:
    return tirx.IntImm("int64", 1)


def _plainer(a: Any, b: Any) -> Any:
    return b if isinstance(b, tirx.IntImm) else a


def group_dims(solver: Questions, src: Sequence[Any], dst: Sequence[Any]) -> list[Group] | None:
    """Minimal contiguous groups with equal products.

    before: (b, s, 12, 64) -> (b*s, 768)
    after:  [((0, 1), (0,)), ((2, 3), (1,))]

    A literal 1 joins the group before it, or the first one. A dim of unknown value never does:
    it might be 0.
    """
    if solver.known_same_elements(src, dst) is not True:
        return None
    left = [i for i, d in enumerate(src) if solver.const(d) != 1]
    right = [j for j, d in enumerate(dst) if solver.const(d) != 1]
    groups = _grow(solver, src, dst, left, right)
    return _attach_ones(groups, len(src), len(dst))


def _grow(
    solver: Questions, src: Sequence[Any], dst: Sequence[Any], left: list[int], right: list[int]
) -> list[Group]:
    """Cut after the fewest dims whose products agree; the rest must agree as well, since equal
    heads say nothing about the tails where the head may be 0."""
    groups: list[Group] = []
    while left or right:
        cut = _first_cut(solver, src, dst, left, right)
        groups.append((tuple(left[: cut[0]]), tuple(right[: cut[1]])))
        left, right = left[cut[0] :], right[cut[1] :]
    return groups


def _first_cut(
    solver: Questions, src: Sequence[Any], dst: Sequence[Any], left: list[int], right: list[int]
) -> tuple[int, int]:
    for total in range(2, len(left) + len(right)):
        for i in range(max(1, total - len(right)), min(len(left), total - 1) + 1):
            j = total - i
            heads = solver.known_same_elements(_pick(src, left[:i]), _pick(dst, right[:j]))
            if heads and solver.known_same_elements(_pick(src, left[i:]), _pick(dst, right[j:])):
                return i, j
    return len(left), len(right)


def _pick(shape: Sequence[Any], axes: Sequence[int]) -> list[Any]:
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
