"""Witnesses satisfy every fact, evaluate as the oracle does, and lose no proof."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
from tvm import tirx

from tests.shape import fuzz
from tests.shape.oracle import Meaning, to_tvm
from tvm_disc.errors import ShapeConflict
from tvm_disc.shape import Solver
from tvm_disc.shape.terms import Poly, Terms, cond_eq, cond_ge
from tvm_disc.shape.witness import Undefined, Witness, Witnesses


def points(solver: Solver) -> list[Witness]:
    witnesses = solver._store.state.witnesses
    witnesses.refute(lambda _: False)
    return [*witnesses._points, *witnesses._found]


def test_a_claim_that_may_hold_or_not_needs_no_search() -> None:
    solver = Solver()
    n, m = solver.symbol("n"), solver.symbol("m")
    solver.known_eq(n, m)
    before = solver.steps
    for question in (solver.known_eq(n, 3), solver.known_le(m, n), solver.known_divides(8, n)):
        assert question is None
    assert solver.steps <= before + 12


def test_work_grows_as_the_dims_that_may_broadcast_do() -> None:
    """The n-th join has n choices inside: the whole is quadratic."""

    def work(count: int) -> int:
        solver = Solver()
        dims = [solver.symbol(f"d{i}") for i in range(count)]
        out = dims[0]
        for dim in dims[1:]:
            out = solver.broadcast_dim(out, dim, "add")
            assert solver.known_eq(out, dim) is None
            assert solver.known_ne_one(out) is None
        return solver.steps

    assert work(24) <= 4 * work(12)


@pytest.mark.parametrize("text", ["n == 7", "n == m + 3", "n % 8 == 0", "n * m == 768", "n <= m"])
def test_facts_are_kept(text: str) -> None:
    solver = Solver()
    n, m = solver.symbol("n"), solver.symbol("m")
    solver.assume(text, "user")
    found = points(solver)
    assert len(found) >= 2
    symbols = {name: solver._p(v).as_atom for name, v in (("n", n), ("m", m))}
    for witness in found:
        values = {name: witness.of(atom) for name, atom in symbols.items() if atom is not None}
        assert eval(text, {}, values), (text, values)


def test_a_contradiction_leaves_none() -> None:
    terms = Terms()
    n = terms.poly("sym", "n")
    witnesses = Witnesses()
    witnesses.add(cond_ge(n.plus(-9)))
    witnesses.add(cond_ge((-n).plus(8)))
    assert not witnesses.refute(lambda _: True)


def test_a_division_by_zero_says_nothing() -> None:
    terms = Terms()
    n, m = terms.poly("sym", "n"), terms.poly("sym", "m")
    quotient = terms.poly("div", n, m)
    zero = Witness(lambda _: 0, {})
    with pytest.raises(Undefined):
        zero.at(quotient)
    witnesses = Witnesses()
    witnesses._points = [zero]
    assert not witnesses.zero(quotient)
    assert not witnesses.undecided(cond_eq(quotient))


def test_a_symbol_is_set_and_what_is_made_of_it_follows() -> None:
    terms = Terms()
    n = terms.poly("sym", "n")
    half = terms.poly("div", n, Poly.const(2))
    atom = n.as_atom
    assert atom is not None
    witness = Witness(lambda _: 9, {})
    assert witness.at(half) == 4
    other = witness.copy()
    other.set(atom, 21)
    assert other.at(half) == 10 and witness.at(half) == 4


@pytest.mark.parametrize("seed", range(4))
def test_random_programs_lose_no_answer(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every answer is the same as without witnesses, and every witness satisfies the facts."""
    asked = [_answers(_program(seed, i), _check_points) for i in range(60)]
    with monkeypatch.context() as patch:
        patch.setattr(Witnesses, "refute", lambda *_: False)
        patch.setattr(Witnesses, "search", lambda *_: False)
        plain = [_answers(_program(seed, i), lambda *_: None) for i in range(60)]
    assert asked == plain
    assert sum(None in answers for answers in asked) >= 20


def _program(seed: int, i: int) -> fuzz.Program:
    return fuzz.random_program(random.Random(f"witness {seed}:{i}"))


def _answers(program: fuzz.Program, check: Callable[..., None]) -> list[bool | None]:
    solver = Solver()
    symbols = {name: solver.symbol(name) for name in fuzz.NAMES}
    try:
        for fact in program.facts:
            solver.assume(to_tvm(fact, symbols), "user")
    except ShapeConflict:
        return []
    check(solver, symbols, program)
    relations = [q for q in program.questions if q[0] in ("==", "<=", "<", "!=", "|")]
    return [solver.known(to_tvm(q, symbols)) for q in relations]


def _check_points(solver: Solver, symbols: dict[str, tirx.Var], program: fuzz.Program) -> None:
    for witness in points(solver):
        values = {name: np.array([witness.at(solver._p(v))]) for name, v in symbols.items()}
        for fact in program.facts:
            truth, defined = Meaning(values).truth(fact)
            assert (truth | ~defined).all(), (fact, values)
