"""Every law has a row here and holds for every combination of small values."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from tvm import tirx

from tests.shape.oracle import Meaning, grid, to_tvm
from tvm_disc.shape import Solver
from tvm_disc.shape.laws import COND_LAWS, DIV_LAWS, FACT_LAWS, MINMAX_LAWS, SEL_LAWS, TDIV_LAWS
from tvm_disc.shape.prove import PROOF_LAWS

Tree = Any
ONE = 1


def ge(a: Tree, b: Tree) -> Tree:
    return ("<=", b, a)


# law, facts, claim that is true
ROWS: list[tuple[str, list[Tree], Tree]] = [
    ("constants divide", [("==", "n", 7)], ("==", ("//", "n", 2), 3)),
    ("x // 1 -> x", [], ("==", ("//", "n", 1), "n")),
    ("x // -k -> -x // k", [], ("==", ("//", "n", -2), ("//", ("-", 0, "n"), 2))),
    ("0 // k -> 0", [ge("k", 1)], ("==", ("//", ("-", "n", "n"), "k"), 0)),
    (
        "(k*a + b) // k -> a + b // k",
        [],
        ("==", ("//", ("+", ("*", 8, "n"), "m"), 8), ("+", "n", ("//", "m", 8))),
    ),
    (
        "(g*a + c) // (g*k) -> (a + c // g) // k",
        [],
        ("==", ("//", ("+", ("*", 2, "n"), 1), 4), ("//", "n", 2)),
    ),
    (
        "(a + b // k) // l -> (k*a + b) // (k*l)",
        [],
        ("==", ("//", ("+", ("//", "n", 2), "m"), 3), ("//", ("+", "n", ("*", 2, "m")), 6)),
    ),
    (
        "-a // k -> -((a + k - 1) // k)",
        [],
        ("==", ("-", 0, ("//", ("-", 0, "n"), 8)), ("//", ("+", "n", 7), 8)),
    ),
    ("c*k <= x < (c + 1)*k: x // k -> c", [("<", "n", "k")], ("==", ("//", "n", "k"), 0)),
    (
        "min(a, min(b, c)) -> min(a, b, c)",
        [],
        ("==", ("min", "n", ("min", "m", "k")), ("min", ("min", "k", "n"), "m")),
    ),
    ("a <= b: min(a, b) -> a, max(a, b) -> b", [("<=", "n", "m")], ("==", ("min", "m", "n"), "n")),
    (
        "min(a + c, b + c) -> min(a, b) + c",
        [],
        ("==", ("max", ("+", "n", "k"), ("+", "m", "k")), ("+", "k", ("max", "m", "n"))),
    ),
    (
        "0 <= c: min(c*a, c*b) -> c*min(a, b)",
        [],
        ("==", ("min", ("*", "n", "k"), ("*", "m", "k")), ("*", "k", ("min", "m", "n"))),
    ),
    ("a decided condition chooses", [ge("n", 2)], ("==", ("if", ("==", "n", 1), "m", "n"), "n")),
    ("c ? a : a -> a", [], ("==", ("if", ("==", "n", 1), "m", "m"), "m")),
    ("d | a - b: d == 0 ? a : b -> b", [], ("==", ("if", ("==", "n", 1), 1, "n"), "n")),
    (
        "c ? a : b -> !c ? b : a",
        [],
        ("==", ("if", ("!=", "n", 1), "m", "k"), ("if", ("==", "n", 1), "k", "m")),
    ),
    (
        "a <= b ? a : b -> min(a, b)",
        [],
        ("==", ("if", ("<", "n", "m"), "n", "m"), ("min", "m", "n")),
    ),
    (
        "c ? a + d : b + d -> (c ? a : b) + d",
        [],
        (
            "==",
            ("if", ("==", "n", 1), ("+", "m", "k"), ("*", 2, "k")),
            ("+", "k", ("if", ("==", "n", 1), "m", "k")),
        ),
    ),
    ("equal by normal form", [("==", "n", "m")], ("==", ("+", "n", "m"), ("*", 2, "n"))),
    ("decided by ranges", [ge("n", 3)], ("<", 2, "n")),
    ("the lower bound of p is at least 0: p >= 0", [], ("<=", ("//", "n", 2), "n")),
    ("n != 0, m != 0: n*m != 0", [ge("n", 1), ge("m", 1)], ("!=", ("*", "n", "m"), 0)),
    (
        "k | p - c, k does not divide c: p != 0",
        [("|", 2, "n")],
        ("!=", ("+", "n", 1), ("*", 4, "m")),
    ),
    ("p > 0 or p < 0: p != 0", [("<", "n", "m")], ("!=", "n", "m")),
    ("p != 0 is a fact", [("!=", "n", "m")], ("!=", ("*", 2, "m"), ("*", 2, "n"))),
    ("k | k*a", [], ("|", 4, ("*", "n", 8))),
    (
        "n*p == 0 where n == 0 or p == 0",
        [],
        (
            "==",
            ("*", "k", ("+", ("//", "n", 2), ("//", ("+", "n", 1), 2))),
            ("*", "n", "k"),
        ),
    ),
    (
        "p >= 0 and p <= 0: p == 0",
        [("<=", ("*", 8, "m"), "n"), ("<=", "n", ("+", ("*", 8, "m"), 3))],
        ("==", ("//", "n", 8), "m"),
    ),
    ("k > 0, k*p > -k: p >= 0", [ge("k", 1), ("<=", "n", "k")], ("<=", ("//", "n", "k"), 1)),
    (
        "x + k*p >= 0: x // k + p >= 0",
        [],
        ("<=", ("min", "n", "m"), ("//", ("+", "n", "m"), 2)),
    ),
    (
        "p - (a - q*b)**2 >= 0: p >= 0",
        [],
        ("<=", ("*", 6, ("*", "n", "m")), ("+", ("*", "n", "n"), ("*", ("*", 9, "m"), "m"))),
    ),
    ("n == 0 or p >= 0: n*p >= 0", [], ("<=", "n", ("*", "n", "n"))),
    (
        "each of a conjunction",
        [],
        (
            "and",
            ("==", ("+", ("//", "n", 2), ("//", ("+", "n", 1), 2)), "n"),
            ("<=", "n", ("*", "n", "n")),
        ),
    ),
    (
        "a disjunction known to hold",
        [("or", ("==", "n", 1), ("==", "n", "m"))],
        ("or", ("==", "n", 1), ("==", "n", "m")),
    ),
    ("one of a disjunction", [], ("or", ("==", "n", 0), ("<=", 1, "n"))),
    (
        "cases of min, max and choice",
        [],
        ("==", ("+", ("min", "n", "m"), ("max", "n", "m")), ("+", "n", "m")),
    ),
    (
        "cases of a disjunction known to hold",
        [("or", ("==", "n", 1), ("==", "n", 8))],
        ("!=", "n", 5),
    ),
    (
        "all remainders of x by k",
        [],
        ("==", ("+", ("//", "n", 2), ("//", ("+", "n", 1), 2)), "n"),
    ),
    ("k | e: e -> k*(e // k)", [("|", 8, "n")], ("==", ("*", 8, ("//", "n", 8)), "n")),
    (
        "n*a == n*b, n != 0: a == b",
        [("==", ("*", "n", "m"), ("*", "n", "k")), ge("n", 1)],
        ("==", "m", "k"),
    ),
    (
        "a*x == k*y, gcd(a, k) == 1: k | x",
        [("==", ("*", 2, "n"), ("*", 3, "m"))],
        ("|", 3, "n"),
    ),
    (
        "h*d == k: b*h*d -> b*k",
        [("==", ("*", "n", "m"), 8)],
        ("==", ("*", ("*", "m", "k"), "n"), ("*", 8, "k")),
    ),
    ("n*m == k > 0: n > 0, m > 0", [("==", ("*", "n", "m"), 8)], ("<=", 1, "n")),
    (
        "n*m <= k, m >= c > 0: n <= k // c",
        [("<=", ("*", "n", "m"), 64), ge("m", 3)],
        ("<=", "n", 21),
    ),
    (
        "n*n == m*m: n == m",
        [("==", ("*", ("*", 4, "n"), "n"), ("*", ("*", "m", "m"), ("*", "k", "k")))],
        ("==", ("*", 2, "n"), ("*", "m", "k")),
    ),
    ("n*m >= 1: n >= 1, m >= 1", [ge(("*", "n", "m"), 1)], ("<=", 1, "m")),
    ("n*m != 0: n != 0, m != 0", [("!=", ("*", "n", "m"), 0)], ("<=", 1, "m")),
    ("c <= min(a, b): c <= a, c <= b", [("<=", "k", ("min", "n", "m"))], ("<=", "k", "m")),
    ("x // k >= c: x >= k*c", [ge(("//", "n", 8), 1)], ("<=", 8, "n")),
    ("a + b >= 0, b <= c: a >= -c", [("<", "n", "m")], ("<=", 1, "m")),
]


def names() -> list[str]:
    tables = (DIV_LAWS, TDIV_LAWS, MINMAX_LAWS, SEL_LAWS)
    rewriting = [law.name for table in tables for law in table]
    return rewriting + [law.name for law in PROOF_LAWS] + [*COND_LAWS, *FACT_LAWS]


@pytest.mark.parametrize(("law", "facts", "claim"), ROWS, ids=[r[0] for r in ROWS])
def test_law(law: str, facts: list[Tree], claim: Tree) -> None:
    solver = Solver()
    symbols = {name: solver.symbol(name) for name in ("n", "m", "k")}
    for fact in facts:
        solver.assume(to_tvm(fact, symbols), "row")
    if claim[0] == "|":
        answer = solver.known_divides(*(to_tvm(t, symbols) for t in claim[1:]))
    else:
        answer = solver.known(to_tvm(claim, symbols))
    assert answer is True
    assert solver.law_hits.get(law), f"used instead: {solver.law_hits}"
    meaning = Meaning(grid(("n", "m", "k")))
    truth, ok = meaning.truth(claim)
    alive = meaning.holding(facts)
    assert (alive & ok).any()
    assert truth[alive & ok].all()


def test_division_towards_zero() -> None:
    solver = Solver()
    n, k = solver.symbol("n"), solver.symbol("k")
    assert solver.known_eq(tirx.Div(n, k), n // k) is None
    assert solver.known_eq(tirx.Div(n, k + 1), n // (k + 1)) is True
    assert solver.law_hits["0 <= a, 0 < k: truncdiv(a, k) -> a // k"]


def test_every_law_has_a_row_and_one_name() -> None:
    rows = {row[0] for row in ROWS} | {TDIV_LAWS[0].name}
    assert rows == set(names())
    assert max(Counter(names()).values()) == 1


@pytest.mark.parametrize("mutation", [0, 1, 2])
def test_the_oracle_notices_a_wrong_law(mutation: int) -> None:
    wrong = [
        ("==", ("//", ("*", "n", "m"), "m"), "m"),
        ("<", ("//", "n", 2), "n"),
        ("==", ("min", "n", "m"), "n"),
    ][mutation]
    truth, ok = Meaning(grid(("n", "m", "k"))).truth(wrong)
    assert not truth[ok].all()
