"""The solver's interface: three-valued answers, requirements, refusals, reasons."""

from __future__ import annotations

from typing import Any

import pytest
from tvm import tirx

from tests.shape import fuzz
from tvm_disc.abi.formula import evaluate
from tvm_disc.codegen.plan.formula import formula, readable_formula
from tvm_disc.errors import ShapeConflict
from tvm_disc.shape import Solver


def bert() -> tuple[Solver, Any, Any, Any]:
    solver = Solver()
    b = solver.symbol("b", "input 'ids' axis 0")
    s = solver.symbol("s", "input 'ids' axis 1")
    t = solver.symbol("s1", "input 'mask' axis 1")
    return solver, b, s, t


def test_unknown_is_not_false() -> None:
    solver, _, s, t = bert()
    assert solver.known_eq(s, t) is None
    assert solver.known_eq(s, s + 1) is False
    assert solver.known_le(s, t) is None
    assert solver.guards == []


def test_a_zero_factor_cancels_nothing() -> None:
    solver, b, s, t = bert()
    solver.assume_same_elements([b, s], [b, t], "reshape")
    assert solver.known_eq(s, t) is None
    assert solver.known_eq((b * s) // s, b) is None
    solver.assume_range(b, 1, None, "user")
    assert solver.known_eq(s, t) is True


def test_equal_dims_simplify_to_the_same_object() -> None:
    solver, b, s, t = bert()
    solver.assume_eq(t, s, "add")
    a = solver.simplify(b * s * 768 // 64)
    assert a.same_as(solver.simplify(t * 12 * b))
    assert str(solver.simplify(tirx.max(t, s))) == "s"


@pytest.mark.parametrize(
    ("name", "printed"),
    [
        ("a b", "a_b"), ("class", "class_"), ("None", "None_"), ("1", "d1"), ("", "d"),
        ("0x", "d0x"), ("_t0", "d_t0"), ("\ufb03", "ffi"), ("n\n", "n_"), ("\ud800", "_"),
        ("%x", "d_x"), ("_n1", "d_n1"), ("n", "n"), ("имя", "имя"), ("max", "max"),
    ],
)  # fmt: skip
def test_names_are_those_that_formulas_are_written_with(name: str, printed: str) -> None:
    s = Solver()
    first, second = s.symbol(name), s.symbol(name)
    assert [str(first.name), str(second.name)] == [printed, f"{printed}_1"]
    text = readable_formula(first * second + 1)
    assert evaluate(text, {str(first.name): 3, str(second.name): 5}) == 16


@pytest.mark.parametrize("count", [16, 17, 2000])
def test_sums_of_many_dims_are_trees(count: int) -> None:
    s = Solver()
    dims = [s.symbol(f"n{k}") for k in range(count)]
    leaning = sum(dims[1:], dims[0])
    for total in (leaning, s.simplify(leaning)):
        text = formula(total)
        assert evaluate(text, {f"n{k}": k for k in range(count)}) == count * (count - 1) // 2
    assert s.known_eq(leaning, sum(dims[-2::-1], dims[-1])) is True
    assert s.known_eq(leaning, sum(dims[2:], dims[1])) is None


def test_symbols_get_distinct_names() -> None:
    solver = Solver()
    assert [str(solver.symbol("n").name) for _ in range(3)] == ["n", "n_1", "n_2"]


def test_ranges() -> None:
    solver, b, s, _ = bert()
    assert solver.range_of(s) == (0, None)
    solver.assume("1 <= b <= 64", "user")
    assert solver.range_of(b * 2 - 1) == (1, 127)
    assert solver.range_of(s % 8) == (0, 7)
    assert solver.range_of(tirx.min(s, 512)) == (0, 512)
    assert solver.const(b - b + 3) == 3


def test_divisors() -> None:
    solver, b, s, _ = bert()
    solver.assume("s % 8 == 0", "user")
    assert solver.known_divides(4, b * s) is True
    assert solver.known_divides(16, s) is None
    assert solver.known_divides(2, s + 1) is False
    assert solver.known_divides(b, b * s) is True
    assert str(solver.simplify(s // 8 * 8)) == "s"


def test_likely_values_follow_equalities() -> None:
    solver, b, s, t = bert()
    solver.likely(s, [128, 256])
    solver.assume_eq(t, s + 1, "shift")
    assert solver.likely_values(t) == (129, 257)
    assert solver.likely_values(b) == ()


def test_a_guard_speaks_of_inputs_and_is_then_a_fact() -> None:
    solver, _, s, t = bert()
    solver.require_eq(s, t, "add")
    solver.require_eq(t, s, "multiply")
    (guard,) = solver.guards
    assert guard.message == "input 'ids' axis 1 (s) must equal input 'mask' axis 1 (s1)"
    assert guard.context == "add"
    assert {str(v.name) for v in guard.symbols} == {"s", "s1"}
    assert solver.known_eq(s, t) is True


def test_guards_of_each_kind() -> None:
    solver, _b, s, _ = bert()
    solver.require_le(s, 512, "positions")
    solver.require_divides(8, s, "tile")
    solver.require("b != 0", "mean")
    assert [g.message for g in solver.guards] == [
        "input 'ids' axis 1 (s) must be at most 512",
        "input 'ids' axis 1 (s) must be a multiple of 8",
        "b != 0 must hold (b: input 'ids' axis 0)",
    ]
    assert solver.range_of(s) == (0, 512)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("s <= 3", "s >= 5"),
        ("s == 4", "s % 8 == 0"),
        ("s == b", "s != b"),
        ("s % 2 == 0", "s % 4 == 1"),
        ("s == s1 + 1", "s1 == s + 1"),
        ("b*s == 7", "b == 0"),
        ("s < s1", "s1 < s"),
        ("min(s, 8) == 8", "s == 7"),
    ],
)
def test_contradictions_quote_both_statements(first: str, second: str) -> None:
    solver, _, _, _ = bert()
    solver.assume(first, "first")
    before = solver.describe()
    with pytest.raises(ShapeConflict, match=r"'.*' \(second\) contradicts '.*' \(first\)"):
        solver.assume(second, "second")
    assert solver.describe() == before


def test_an_impossible_statement_alone() -> None:
    solver, _, _s, _ = bert()
    with pytest.raises(ShapeConflict, match="cannot hold: every dimension is an integer"):
        solver.assume("s == -1", "user")


def test_a_refuted_requirement_says_why() -> None:
    solver, _, s, _ = bert()
    solver.assume("s <= 64", "user")
    with pytest.raises(
        ShapeConflict, match=r"concat: 65 must equal .* \(s\), which is impossible: s <="
    ):
        solver.require_eq(65, s, "concat")
    assert solver.guards == []


def test_likely_needs_a_symbol() -> None:
    solver, _, s, _ = bert()
    with pytest.raises(ShapeConflict, match="likely values: expected a symbol"):
        solver.likely(s * 2, [4])


def test_why_is_minimal() -> None:
    solver, _b, s, t = bert()
    solver.assume("b <= 64", "irrelevant")
    solver.assume("s % 8 == 0", "user")
    solver.assume_eq(t, s, "add")
    reasons = solver.why("s1 % 4 == 0")
    facts = [r for r in reasons if not r.startswith("by ")]
    assert facts == ["s % 8 == 0    [user]", "s1 == s    [add]"]
    assert solver.why("b == 3") == []


@pytest.mark.parametrize(
    ("a", "b", "facts", "result", "guard"),
    [
        ("n", "n", [], "n", None),
        ("n", 1, [], "n", None),
        (1, "m", [], "m", None),
        ("n", 5, [], "5", "must equal 5 or be 1"),
        ("n", "m", ["n >= 2", "m >= 2"], "n", "must equal"),
        ("n", "m", ["n == m"], "n", None),
        ("n", "m", [], "Select(n == 1, m, n)", "or one of them must be 1"),
    ],
)
def test_broadcast(a: Any, b: Any, facts: list[str], result: str, guard: str | None) -> None:
    solver = Solver()
    names = {n: solver.symbol(n, f"input '{n}' axis 0") for n in ("n", "m")}
    for fact in facts:
        solver.assume(fact, "test")
    out = solver.broadcast_dim(names.get(a, a), names.get(b, b), "add")
    text = str(out).replace("T.int64(1)", "1").replace("T.int64(5)", "5").replace("T.", "")
    assert text == result
    assert [guard in g.message for g in solver.guards] == ([] if guard is None else [True])


def test_broadcast_refuses_what_cannot_fit() -> None:
    solver = Solver()
    n = solver.symbol("n", "input 'x' axis 0")
    solver.assume("n >= 6", "user")
    with pytest.raises(ShapeConflict, match="add: "):
        solver.broadcast_dim(n, 5, "add")


def test_reshape_groups() -> None:
    solver, b, s, _ = bert()
    assert solver.reshape_groups([b, s, 12, 64], [b * s, 768]) == [((0, 1), (0,)), ((2, 3), (1,))]
    assert solver.reshape_groups([b, s, 768], [b, s, 12, 64]) == [
        ((0,), (0,)),
        ((1,), (1,)),
        ((2,), (2, 3)),
    ]
    assert solver.reshape_groups([b, 1, s], [b * s]) == [((0, 1, 2), (0,))]
    assert solver.reshape_groups([b, s], [s, b]) == [((0, 1), (0, 1))]
    assert solver.reshape_groups([b, s], [b, s + 1]) is None


def test_copies_of_a_variable_are_one_symbol() -> None:
    solver, _, s, _ = bert()
    assert solver.known_eq((s + 1).a, s) is True
    other = tirx.Var("s", "int64")
    solver.declare(other, "input 'y' axis 0")
    assert solver.known_eq(other, s) is None


def work(layers: int) -> int:
    """Proof steps for a chain of encoder layers, each with symbols of its own."""
    solver = Solver()
    b, s = solver.symbol("b"), solver.symbol("s")
    solver.assume("1 <= s <= 512", "user")
    for _ in range(layers):
        rows, heads = solver.symbol("rows"), solver.symbol("heads")
        solver.assume_eq(rows, b * s, "flatten")
        solver.assume_eq(heads, b * 12, "split")
        assert solver.known_same_elements([rows, 768], [b, s, 12, 64])
        assert solver.known_same_elements([heads, s, 64], [b, 12, s, 64])
        assert solver.known_eq(rows * 768 // 768, b * s)
        assert solver.known_le(tirx.min(s, 512), s)
        solver.reshape_groups([b, s, 768], [rows, 12, 64])
    return solver.steps


def test_work_grows_linearly() -> None:
    assert work(48) <= 4.6 * work(12)


def test_random_programs() -> None:
    done, failure = fuzz.run(seed=20, start=0, stop=300)
    assert failure is None
    assert done == 300


def test_fuzz_reports_a_minimal_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Solver, "known_le", lambda *_: True)
    _, failure = fuzz.run(seed=20, start=0, stop=200)
    assert failure is not None
    assert "seed 20 program" in failure and "minimal: Program(facts=()" in failure
