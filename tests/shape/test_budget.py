"""Queries end within their budget, and what they answer without any left is never wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tvm import tirx

from tests.shape import fuzz
from tvm_disc.errors import ShapeConflict
from tvm_disc.shape import Solver, budget

OVERRUN = 3
"""A query may finish the step that it is at: no more than this many budgets in all."""


TWO = tirx.IntImm("int64", 2)


def half(size: Any) -> Any:
    """A convolution of stride 2 over `size`."""
    return (size - 1) // 2 + 1


def pyramid(solver: Solver, levels: int) -> None:
    """A detector whose input has a size from run-time arithmetic: the anchors of every level are
    joined, and each class selects some of all anchors."""
    numbers = [solver.symbol(f"number{k}") for k in range(8)]
    sides = []
    for a, b, c, d in (numbers[:4], numbers[4:]):
        solver.require((a + b - c - d) // 4 >= 0, "resize")
        sides.append(((a + b - c - d) // 4, c + d - a - b))
    anchors = tirx.IntImm("int64", 0)
    for k in range(levels):
        grown = [(s, (s * 8 + rest + 12) // (16 << k) + 20) for s, rest in sides]
        joined = [tirx.max(s, t) for s, t in grown]
        solver.require_eq(joined[0] * joined[1] * 6, grown[0][1] * grown[1][1] * 6, "concatenate")
        sides = [(half(t), rest) for (_, t), (_, rest) in zip(grown, sides, strict=True)]
        anchors = solver.simplify(anchors + grown[0][1] * grown[1][1] * 6)
        solver.known_le(1, anchors)
    for k in range(levels):
        chosen = solver.symbol(f"chosen{k}")
        solver.assume(chosen <= anchors, "nonzero")
        solver.known_eq(tirx.min(chosen, tirx.IntImm("int64", 300)), chosen)
        solver.const(solver.simplify(anchors))


def chain(solver: Solver, length: int) -> None:
    """Strided slices of slices, joined with what is left of the input."""
    n = solver.symbol("n")
    at = n
    for k in range(length):
        at = solver.simplify(tirx.max((at + k) // 2, (at - k) // 3))
        solver.require(at + 1 >= 0, "slice")
        solver.known_eq(at, n)


def joins(solver: Solver, count: int) -> None:
    """A sum of inputs whose dims are unrelated."""
    dims = [solver.symbol(f"d{k}") for k in range(count)]
    out = dims[0]
    for dim in dims[1:]:
        out = solver.broadcast_dim(out, dim, "add")


def up_and_down(solver: Solver, levels: int) -> None:
    """A U-Net: every level of the way up is joined with its level of the way down."""
    side = solver.symbol("side")
    sides = [side]
    for _ in range(levels):
        sides.append(solver.simplify(half(sides[-1])))
    for low, high in zip(sides[:0:-1], sides[-2::-1], strict=True):
        solver.require_eq(solver.simplify(low * 2), high, "concatenate")


def selections(solver: Solver, classes: int) -> None:
    """What is kept of each class is joined, and the best of all are kept."""
    total, best = tirx.IntImm("int64", 0), solver.symbol("best")
    for k in range(classes):
        total = total + tirx.min(solver.symbol(f"n{k}"), tirx.IntImm("int64", 300))
    solver.assume(best <= total, "topk")
    assert solver.known_le(best, total) is not False


PROGRAMS = (pyramid, chain, joins, up_and_down, selections)


@pytest.mark.parametrize("size", [4, 8, 16])
@pytest.mark.parametrize("program", PROGRAMS)
def test_no_query_goes_beyond_its_budget(program: Callable[[Solver, int], None], size: int) -> None:
    solver = Solver()
    program(solver, size)
    assert 0 < solver.budget.largest <= OVERRUN * budget.QUERY


@pytest.mark.parametrize("program", PROGRAMS)
def test_steps_per_operator_are_bounded(program: Callable[[Solver, int], None]) -> None:
    """Three times the operators, at most five times the steps of proofs for each."""

    def steps(size: int) -> float:
        solver = Solver()
        program(solver, size)
        return solver.steps / size

    assert steps(18) <= 5 * steps(6)


@pytest.mark.parametrize("count", [4, 10, 20])
def test_joins_over_known_guards_stay_within_the_budget(count: int) -> None:
    """A second walk over a program starts with the guards that the first one has found."""
    first = Solver()
    joins(first, count)
    guards = list(first.guards)
    assert len(guards) == count - 1
    assert first.budget.exhausted == 0
    for guard in guards:
        first.require(guard.cond, guard.context, guard.message)
    assert first.budget.exhausted == 0
    assert len(first.guards) == len(guards)


def test_facts_about_new_symbols_leave_other_results_valid() -> None:
    def work(count: int) -> int:
        solver = Solver()
        n, m = solver.symbol("n"), solver.symbol("m")
        size = ((n - m) // 4) * ((n + m) // 3) + n * m
        for k in range(count):
            chosen = solver.symbol(f"k{k}")
            solver.assume(chosen <= size, "nonzero")
            solver.simplify(size)
            assert solver.known_le(chosen, size) is True
            assert solver.known_le(chosen, size - 1) is None
        assert solver.known_le(0, size) is True
        return solver.steps

    assert work(40) <= 4.2 * work(10)


@pytest.mark.parametrize("limit", [0, 8, 40, 150, 600])
def test_answers_of_any_budget_are_right(monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    monkeypatch.setattr(budget, "QUERY", limit)
    done, failure = fuzz.run(seed=31 + limit, start=0, stop=120)
    assert failure is None
    assert done == 120


def test_what_the_budget_does_not_prove_is_a_guard(monkeypatch: pytest.MonkeyPatch) -> None:
    def guards(limit: int) -> list[str]:
        monkeypatch.setattr(budget, "QUERY", limit)
        solver = Solver()
        n, m = solver.symbol("n", "input 'x' axis 0"), solver.symbol("m", "input 'y' axis 0")
        solver.assume("n <= m", "user")
        solver.require(n * n <= n * m, "mul")
        return [guard.message for guard in solver.guards]

    assert guards(budget.QUERY) == []
    (message,) = guards(0)
    assert "n * n <= n * m must hold (n: input 'x' axis 0, m: input 'y' axis 0)" in message


def test_a_contradiction_of_ranges_needs_no_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "QUERY", 0)
    solver = Solver()
    n = solver.symbol("n")
    solver.assume_range(n, 2, 8, "user")
    with pytest.raises(ShapeConflict, match=r"'n == 9' .*contradicts '2 <= n <= 8'"):
        solver.assume_eq(n, 9, "user")


def test_a_question_without_an_answer_costs_its_budget_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(budget, "QUERY", 2)
    solver = Solver()
    dims = [solver.symbol(f"d{k}") for k in range(6)]
    claim = (dims[0] * dims[1]) // (dims[2] + 1) <= dims[3] * dims[4] + dims[5]
    assert solver.known(claim) is None
    assert solver.budget.exhausted == 1
    assert solver.known(claim) is None
    assert solver.budget.exhausted == 1


def test_cached_ranges_follow_later_facts() -> None:
    """Facts about the numerator, the divisor, a linked symbol, and the atom itself."""
    solver = Solver()
    n, m, k = (solver.symbol(name) for name in "nmk")
    size = tirx.min((n + m) // (k + 1), n)
    assert solver.range_of(size) == (0, None)
    solver.assume("n <= 40", "user")
    assert solver.range_of(size) == (0, 40)
    solver.assume("m <= n", "user")
    solver.assume("k >= 3", "user")
    assert solver.range_of(size) == (0, 20)
    solver.assume(m <= 8, "user")
    assert solver.range_of(size) == (0, 12)
    solver.assume((n + m) // (k + 1) >= 2, "user")
    assert solver.range_of((n + m) // (k + 1)) == (2, 12)


def test_cached_ranges_of_a_hypothesis_end_with_it() -> None:
    solver = Solver()
    n = solver.symbol("n")
    solver.assume("n <= 100", "user")
    with solver.trial():
        solver.assume("n <= 7", "trial")
        assert solver.range_of(n // 4) == (0, 1)
    assert solver.range_of(n // 4) == (0, 25)
    with pytest.raises(ShapeConflict, match="contradicts 'n <= 100'"):
        solver.assume(n // 4 >= 26, "user")
