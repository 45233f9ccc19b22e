"""Decision trees as tables: every size runs the same variant by the tree and by the table."""

from __future__ import annotations

import itertools
from random import Random
from typing import Any

import pytest

from tvm_disc.abi.formula import evaluate
from tvm_disc.runtime.decisions import (
    Decision,
    chosen,
    decisions,
    letters,
    running_row,
    table,
    variant_text,
)

Tree = dict[str, Any]


def leaf(name: str, parts: int | None = None) -> Tree:
    return {"run": {"family": name, "knobs": {}, "parts": parts}}


def split(formula: str, below: int, then: Tree, other: Tree) -> Tree:
    return {"if": formula, "below": below, "then": then, "else": other}


A, B = leaf("a"), leaf("b")
TREES = [
    A,
    split("n", 8, A, B),
    split("n", 8, split("n", 4, A, B), B),
    split("n", 8, split("n", 4, B, A), split("n", 64, A, B)),
    split("n", 8, split("m", 4, A, B), split("m", 64, A, B)),
    split("n * m", 50, split("n", 4, A, split("m", 5, B, A)), split("n * m", 90, A, B)),
    split("n", 8, A, A),
    split("n", 8, split("n * Select(m >= 3, 1, Div(m + 4, 2))", 4, A, B), A),
]


def by_tree(tree: Tree, dims: dict[str, int]) -> str:
    while "if" in tree:
        tree = tree["then" if evaluate(tree["if"], dims) < tree["below"] else "else"]
    return variant_text(tree)


def holds(row: Decision, dims: dict[str, int]) -> bool:
    values = [(evaluate(formula, dims), low, high) for formula, (low, high) in row.bounds.items()]
    return all((low is None or v >= low) and (high is None or v < high) for v, low, high in values)


@pytest.mark.parametrize("number", range(len(TREES)))
def test_the_first_row_that_matches_is_the_variant_of_the_tree(number: int) -> None:
    rows = decisions(TREES[number])
    for n, m in itertools.product((0, 1, 3, 4, 7, 8, 13, 63, 64, 65, 1000), repeat=2):
        dims = {"n": n, "m": m}
        assert next(r.run for r in rows if holds(r, dims)) == by_tree(TREES[number], dims)


@pytest.mark.parametrize(
    ("number", "conditions"),
    [
        (0, ["other sizes"]),
        (1, ["n < 8", "other sizes"]),
        (2, ["n < 4", "other sizes"]),
        (3, ["4 <= n < 64", "other sizes"]),
        (6, ["other sizes"]),
    ],
)
def test_rows_of_one_variant_are_joined(number: int, conditions: list[str]) -> None:
    assert [row.condition({}) for row in decisions(TREES[number])] == conditions


def test_long_formulas_get_letters() -> None:
    long = "n * ceil(m / 4) * ceil(m / 4) * 32"
    rows = decisions(
        split("n * Div(m + 4 - 1, 4) * ((m + 3) // 4) * 32", 7, A, split("n", 2, B, A))
    )
    assert letters(rows) == {long: "(a)"}
    assert rows[0].condition(letters(rows)) == "(a) >= 7 and n < 2"


def test_rows_list_only_what_differs() -> None:
    def gemm(algorithm: str, parts: int) -> Tree:
        return {
            "run": {"family": "gemm", "knobs": {"m_r": 6, "algorithm": algorithm}, "parts": parts}
        }

    common, rows = table(split("n", 8, gemm("panels", 1), gemm("inner", 1)))
    assert common == "gemm(m_r=6), serial"
    assert [text for _, text in rows] == ["algorithm=panels", "algorithm=inner"]
    common, rows = table(split("n", 8, gemm("panels", 1), gemm("panels", 2)))
    assert common == "gemm(m_r=6, algorithm=panels)"
    assert [text for _, text in rows] == ["serial", "2 threads"]
    common, rows = table(split("n", 8, gemm("panels", 1), leaf("reduce", 1)))
    assert common == ""
    assert [text for _, text in rows] == ["gemm(m_r=6, algorithm=panels), serial", "reduce, serial"]


def test_tables_of_random_trees() -> None:
    """A table may order its rows, and choose the last one, freely."""
    random = Random(0)

    def tree(depth: int) -> Tree:
        if depth == 0 or random.random() < 0.2:
            return leaf(random.choice("abc"), random.choice([1, 2]))
        formula = random.choice(["n", "m", "n * m"])
        return split(formula, random.randrange(1, 40), tree(depth - 1), tree(depth - 1))

    for _ in range(200):
        made = tree(4)
        rows, shown = decisions(made), table(made)[1]
        assert [row for row, _ in shown] == rows
        for n, m in itertools.product((0, 1, 3, 6, 9, 17, 38, 50), repeat=2):
            dims = {"n": n, "m": m}
            assert next(r.run for r in rows if holds(r, dims)) == by_tree(made, dims)


def test_variants_are_named_with_their_threads() -> None:
    assert variant_text(leaf("row", 1)) == "row, serial"
    assert variant_text(leaf("row", 4)) == "row, 4 threads"
    assert variant_text({"library": "cublas"}) == "{'library': 'cublas'}"
    run = {"run": {"family": "gemm", "knobs": {"m_r": 6, "n_r": 64}}}
    assert variant_text(run) == "gemm(m_r=6, n_r=64)"


@pytest.mark.parametrize("tree", TREES)
def test_the_row_that_runs_has_the_variant_of_the_tree(tree: Tree) -> None:
    rows = [row for row, _ in table(tree)[1]]
    for n, m in itertools.product((0, 1, 4, 5, 8, 20, 64, 99), (1, 3, 5, 64)):
        dims = {"n": n, "m": m}
        found = running_row(tree, rows, dims)
        assert found is not None and rows[found].run == by_tree(tree, dims) == chosen(tree, dims)
    assert running_row(split("k", 8, A, B), rows, {"n": 1}) is None
