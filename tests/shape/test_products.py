"""Broadcasts of several dims: one expression for a set of them, right for all small values."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pytest

from tvm_disc.errors import ShapeConflict
from tvm_disc.schedules.dispatch.sampling import evaluate
from tvm_disc.shape import Solver

NAMES = "abcd"
Tree = Any  # a name, or a pair of trees


def random_tree(rng: random.Random, depth: int) -> Tree:
    if depth == 0 or rng.random() < 0.2:
        return rng.choice(NAMES)
    return random_tree(rng, depth - 1), random_tree(rng, depth - 1)


def joined(solver: Solver, dims: dict[str, Any], tree: Tree) -> Any:
    if isinstance(tree, str):
        return dims[tree]
    a, b = (joined(solver, dims, part) for part in tree)
    return solver.broadcast_dim(a, b, "add")


def reference(values: dict[str, int], tree: Tree) -> int:
    """NumPy's own answer; a ValueError where dims do not fit."""
    if isinstance(tree, str):
        return values[tree]
    shapes = [(reference(values, part),) for part in tree]
    return int(np.broadcast_shapes(*shapes)[0])


@pytest.mark.parametrize("seed", range(25))
def test_nested_broadcasts_are_right_for_all_small_values(seed: int) -> None:
    tree = random_tree(random.Random(seed), 4)
    solver = Solver()
    dims = {n: solver.symbol(n) for n in NAMES}
    result = joined(solver, dims, tree)
    conditions = [g.cond for g in solver.guards]
    for values in itertools.product((0, 1, 2, 3), repeat=len(NAMES)):
        given = dict(zip(NAMES, values, strict=True))
        points = {dims[n]: np.float64(v) for n, v in given.items()}
        fits = all(bool(evaluate(c, points)) for c in conditions)
        try:
            wanted = reference(given, tree)
        except ValueError:
            assert not fits, (tree, given)
            continue
        assert fits, (tree, given)
        assert evaluate(result, points) == wanted, (tree, given)


def test_a_set_of_dims_has_one_broadcast_however_it_is_made() -> None:
    solver = Solver()
    dims = {n: solver.symbol(n) for n in NAMES}
    first = joined(solver, dims, (("a", "b"), "c"))
    guards = len(solver.guards)
    assert guards == 2
    for tree in ((("a", "b"), ("c", ("a", "b"))), ((("a", "b"), "c"), "b"), ("a", ("a", "b"))):
        made = joined(solver, dims, tree)
        assert str(made) == str(first) or tree[0] == "a"
    assert len(solver.guards) == guards  # what went in needs no further check
    other = joined(solver, dims, ("c", ("b", "a")))
    assert str(other) == str(first)


def test_a_chain_of_broadcasts_grows_with_its_operands_only() -> None:
    solver = Solver()
    dims = [solver.symbol(n) for n in NAMES]
    value = dims[0]
    for turn in range(40):
        value = solver.broadcast_dim(value, dims[turn % len(dims)], "add")
    assert str(value).count("Select") == len(NAMES) - 1


def test_dims_that_cannot_fit_are_still_refused() -> None:
    solver = Solver()
    a, b = solver.symbol("a"), solver.symbol("b")
    solver.require(a >= 2, "constraint")
    solver.require(b >= a + 1, "constraint")
    with pytest.raises(ShapeConflict, match="add"):
        solver.broadcast_dim(a, b, "add")
