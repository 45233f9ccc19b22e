"""Wishes, and the version of a program under all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from tvm import tirx

from tvm_disc.errors import ShapeConflict
from tvm_disc.shape import Solver, special_version


def inputs(*names: str) -> tuple[Solver, list[Any]]:
    """A solver, and a symbol per name that stands for an input's dim."""
    solver = Solver()
    return solver, [solver.symbol(n, f"input '{n}' axis 0") for n in names]


def wished(solver: Solver) -> list[str]:
    return [w.text for w in solver.wishes]


def test_a_broadcast_of_two_input_dims_is_a_wish() -> None:
    solver, (n, m) = inputs("n", "m")
    solver.broadcast_dim(n, m, "add")
    solver.broadcast_dim(m, n, "multiply")
    assert wished(solver) == ["n == m"]
    assert (
        str(solver.wishes[0])
        == "input 'n' axis 0 equals input 'm' axis 0    [add: no broadcast is then required]"
    )


def test_a_wish_is_no_fact() -> None:
    solver, (n, m) = inputs("n", "m")
    solver.wish_eq(n, m, "add")
    assert solver.known_eq(n, m) is None
    assert solver.facts() == [] and solver.guards == []


def test_products_wish_for_the_factor_that_differs() -> None:
    solver, (b, s, c) = inputs("b", "s", "c")
    solver.wish_eq(b * s * 4, c * s * 4, "take")
    assert wished(solver) == ["b == c"]


@pytest.mark.parametrize(
    "pair",
    [
        lambda n, m, v: (n, tirx.IntImm("int64", 4)),
        lambda n, m, v: (n, n + 1),
        lambda n, m, v: (n, m * 2),
        lambda n, m, v: (n + m, v + m),
        lambda n, m, v: (n, v),
        lambda n, m, v: (n * n, m * m),
        lambda n, m, v: (n, n),
    ],
)
def test_only_two_dims_of_inputs_can_be_wished_equal(pair: Any) -> None:
    solver, (n, m) = inputs("n", "m")
    value = solver.symbol("v", "value 'v' axis 0")
    solver.wish_eq(*pair(n, m, value), "add")
    assert wished(solver) == []


def test_what_would_help_is_described_until_it_is_known() -> None:
    solver, (n, m) = inputs("n", "m")
    solver.broadcast_dim(n, m, "add")
    assert (
        "constraints that would simplify the program\n  input 'n' axis 0 equals input 'm' axis 0"
        in solver.describe()
    )
    solver.assume("n == m", "user")
    assert "constraints that would simplify the program" not in solver.describe()


@dataclass
class Source:
    """A stand-in for an imported program."""

    solver: Solver
    premises: Sequence[str] = ()


def program(constraints: Sequence[str], operands: Sequence[tuple[str, str]]) -> Any:
    """Reads a program that broadcasts these pairs of input dims."""

    def read(premises: Sequence[str]) -> Source:
        names = sorted({n for pair in operands for n in pair})
        solver, dims = inputs(*names)
        for text in (*constraints, *premises):
            solver.assume(text, "told")
        by_name = dict(zip(names, dims, strict=True))
        for a, b in operands:
            solver.broadcast_dim(by_name[a], by_name[b], "add")
        return Source(solver, premises)

    return read


def test_the_special_version_holds_all_wishes() -> None:
    read = program((), [("a", "b"), ("b", "c")])
    found = special_version(read, read(()))
    assert found is not None
    version, premises = found
    assert [p.text for p in premises] == ["a == b", "b == c"]
    assert version.premises == ["a == b", "b == c"]
    assert version.solver.guards == []
    assert version.solver.known("a == c") is True


def test_a_wish_that_only_a_premise_reveals() -> None:
    def read(premises: Sequence[str]) -> Source:
        solver, (a, b, c) = inputs("a", "b", "c")
        for text in premises:
            solver.assume(text, "told")
        solver.wish_eq(a, b, "add")
        solver.wish_eq(a * c, b * b, "take")
        return Source(solver, premises)

    found = special_version(read, read(()))
    assert found is not None
    assert [p.text for p in found[1]] == ["a == b", "a == c"] or [p.text for p in found[1]] == [
        "a == b",
        "b == c",
    ]


@pytest.mark.parametrize(
    ("constraints", "operands"),
    [
        (["a == b"], [("a", "b")]),
        (["a + 1 == b"], [("a", "b")]),
        ([], [("a", "a")]),
        (["a >= 2", "b == 1"], [("a", "b")]),
    ],
)
def test_no_version_where_nothing_is_open(constraints: Any, operands: Any) -> None:
    read = program(constraints, operands)
    try:
        general = read(())
    except ShapeConflict:
        pytest.fail("the program itself is legal")
    assert special_version(read, general) is None


def test_wishes_that_exclude_each_other_give_no_version() -> None:
    def read(premises: Sequence[str]) -> Source:
        solver, (a, b, c) = inputs("a", "b", "c")
        for text in (*premises, "a < c"):
            solver.assume(text, "told")
        solver.wish_eq(a, b, "add")
        solver.wish_eq(b, c, "add")
        return Source(solver, premises)

    assert special_version(read, read(())) is None


@pytest.mark.parametrize("count", [2, 3, 5, 12])
def test_joined_dims_wish_that_all_of_them_are_equal(count: int) -> None:
    solver = Solver()
    dims = [solver.symbol(f"d{k}", f"input 'x{k}' axis 0") for k in range(count)]
    out = dims[0]
    for dim in dims[1:]:
        out = solver.broadcast_dim(out, dim, "add")
    assert [w.text for w in solver.wishes] == [f"d0 == d{k}" for k in range(1, count)]
