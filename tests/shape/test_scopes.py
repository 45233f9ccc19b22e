"""Facts of a branch hold for its own symbols only; a discarded attempt leaves nothing behind."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from random import Random
from typing import Any

import pytest
from tvm import tirx

from tvm_disc.errors import ShapeConflict
from tvm_disc.shape import Solver
from tvm_disc.shape.printing import show


def outer() -> tuple[Solver, Any, Any]:
    solver = Solver()
    return solver, solver.symbol("n", "input 'x' axis 0"), solver.symbol("m", "input 'y' axis 0")


def test_a_branch_tells_nothing_about_outer_symbols() -> None:
    solver, n, m = outer()
    with solver.scope():
        k = solver.symbol("k", "the number of rows")
        solver.assume(k <= m, "rows of m")
        solver.require_eq(k, 8, "reshape")
        assert solver.known_le(8, m) is True
    assert solver.known_le(8, m) is None
    assert solver.range_of(m) == (0, None)
    assert solver.known_eq(k, 8) is True
    assert str(solver.simplify(k + n)) == "n + T.int64(8)"
    assert solver.known_le(8, m - k + k) is None
    assert [g.message for g in solver.guards] == ["the number of rows (k) must equal 8"]


def test_equal_to_one_symbol_of_a_branch_is_not_equal() -> None:
    solver, n, m = outer()
    with solver.scope():
        k, j = solver.symbol("k", "rows"), solver.symbol("j", "rows")
        solver.require_le(n, k, "a")
        solver.require_le(k, m, "b")
        solver.require_eq(k, j, "c")
    assert solver.known_le(n, m) is None
    assert solver.known_eq(k, j) is True
    assert solver.known_le(n, j) is True


def test_a_condition_on_outer_symbols_alone_is_a_fact_outside() -> None:
    solver, n, m = outer()
    with solver.scope():
        solver.require_eq(n, m, "stack")
    assert solver.known_eq(n, m) is True
    assert [g.context for g in solver.guards] == ["stack"]


def test_conditions_of_nested_branches_are_kept_once() -> None:
    solver, n, m = outer()
    with solver.scope():
        k = solver.symbol("k", "rows")
        with solver.scope():
            j = solver.symbol("j", "rows")
            solver.require_le(j, k, "inner")
            solver.require_le(n, m, "every call")
        solver.require_le(k, n, "outer")
        assert solver.known_le(j, k) is True
    assert [g.context for g in solver.guards] == ["inner", "every call", "outer"]
    assert solver.known_le(j, m) is True
    assert solver.known_le(n, m) is True


def test_later_facts_reach_a_closed_branch() -> None:
    solver, n, m = outer()
    with solver.scope():
        k = solver.symbol("k", "rows")
        solver.require_le(k, n, "slice")
    solver.assume(n <= m, "user")
    assert solver.known_le(k, m) is True
    solver.require_le(k, 4, "a later pass")
    assert solver.known_le(k, 4) is True
    assert solver.known_le(n, 4) is None
    with pytest.raises(ShapeConflict, match=r"'k == 9' \(pass\) contradicts 'k <= 4'"):
        solver.assume_eq(k, 9, "pass")
    assert solver.known_le(k, 4) is True


def test_branches_do_not_know_each_other() -> None:
    solver, n, _ = outer()
    found = []
    for size in (3, 5):
        with solver.scope():
            k = solver.symbol("k", "rows")
            solver.require_eq(k, size, "reshape")
            solver.require_le(k, n, "slice")
            found.append(k)
    assert [solver.const(k) for k in found] == [3, 5]
    assert solver.known_le(3, n) is None
    assert solver.known_le(*found) is None


@pytest.mark.parametrize("how", ["mark", "trial"])
def test_an_attempt_leaves_nothing(how: str) -> None:
    solver, n, m = outer()
    solver.require_le(n, 64, "kept")
    before = [str(f) for f in solver.facts()], list(solver.guards), list(solver.wishes)

    def attempt() -> None:
        solver.require_eq(n, m, "discarded")
        solver.assume(m >= 3, "discarded")
        solver.likely(n, [4])
        solver.unchecked.append("a condition")
        solver.notes.append("a note")
        solver.broadcast_dim(tirx.floordiv(n, 2), solver.symbol("j"), "discarded")
        with solver.scope():
            solver.require_divides(3, n, "discarded")
        assert solver.known_eq(n, m) is True
        assert solver.known_hard(tirx.EQ(n, m)) is True

    if how == "mark":
        undo = solver.mark()
        attempt()
        undo()
    else:
        with solver.trial():
            attempt()
    assert ([str(f) for f in solver.facts()], solver.guards, solver.wishes) == before
    assert not solver.unchecked and not solver.notes and not solver.definitions
    assert solver.known_eq(n, m) is None
    assert solver.known_hard(tirx.EQ(n, m)) is None
    assert solver.known_divides(3, n) is None
    solver.require_eq(n, m, "again")
    assert [g.context for g in solver.guards] == ["kept", "again"]


# -- random programs ---------------------------------------------------------------------------


def condition(rng: Random, symbols: list[Any]) -> Any:
    """A comparison of two random terms; at most one mentions each symbol twice."""

    def term() -> Any:
        dim = rng.choice(symbols) + rng.randrange(3)
        return rng.choice([dim, dim * 2, tirx.floordiv(dim, 2), dim + rng.choice(symbols)])

    sign = rng.choice([tirx.EQ, tirx.LE, tirx.GE, tirx.NE])
    other = rng.choice([term(), tirx.IntImm("int64", rng.randrange(4))])
    return sign(term(), other)


class Program:
    """Random conditions in nested branches, some of which are attempts that are discarded.

    Attributes:
        asked: for each symbol set that is bound together, the conditions that were required there.
    """

    def __init__(self, seed: int) -> None:
        self.rng, self.solver = Random(seed), Solver()
        self.inputs = [self.solver.symbol(s, f"input '{s}'") for s in "nm"]
        self.asked: list[tuple[tuple[Any, ...], Any]] = []
        self.branches: list[tuple[Any, ...]] = []
        self.block(tuple(self.inputs), 0)

    def block(self, bound: tuple[Any, ...], depth: int) -> None:
        for _ in range(self.rng.randrange(1, 4)):
            if depth < 2 and self.rng.random() < 0.5:
                kept = list(self.asked), list(self.branches)
                undo = self.solver.mark() if self.rng.random() < 0.3 else None
                with self.solver.scope():
                    inner = self.solver.symbol("k", "rows")
                    self.block((*bound, inner), depth + 1)
                    self.branches.append((*bound, inner))
                if undo is not None:
                    undo()
                    self.asked, self.branches = kept
                continue
            wanted = condition(self.rng, list(bound))
            try:
                self.solver.require(wanted, "a condition")
            except ShapeConflict:
                continue  # refused
            self.asked.append((bound, wanted))

    def points(self, symbols: tuple[Any, ...]) -> Iterator[dict[str, int]]:
        names = [str(s.name) for s in symbols]
        for values in product(range(5), repeat=len(names)):
            yield dict(zip(names, values, strict=True))


def holds(cond: Any, point: dict[str, int]) -> bool:
    return bool(eval(show(cond), {"__builtins__": {}}, dict(point)))


@pytest.mark.parametrize("seed", range(60))
def test_no_condition_of_a_random_program_is_lost(seed: int) -> None:
    program = Program(seed)
    solver = program.solver
    for bound in [tuple(program.inputs), *program.branches]:
        names = {str(s.name) for s in bound}
        guards = [g for g in solver.guards if {str(s.name) for s in g.symbols} <= names]
        asked = [c for where, c in program.asked if {str(s.name) for s in where} <= names]
        for point in program.points(bound):
            if not all(holds(g.cond, point) for g in guards):
                continue
            lost = [str(c) for c in asked if not holds(c, point)]
            assert not lost, (point, lost, [str(g.cond) for g in guards])
            # What is known of these symbols is true of every call that passes their guards.
            for a in bound:
                low, high = solver.range_of(a)
                assert (low or 0) <= point[str(a.name)], (point, str(a))
                assert high is None or point[str(a.name)] <= high
                for b in bound:
                    known = solver.known_le(a, b)
                    assert known in (None, point[str(a.name)] <= point[str(b.name)])


def test_discarded_conditions_are_not_checked() -> None:
    for seed in range(60):
        program = Program(seed)
        bound = {str(s.name) for b in [tuple(program.inputs), *program.branches] for s in b}
        for guard in program.solver.guards:
            assert {str(s.name) for s in guard.symbols} <= bound
