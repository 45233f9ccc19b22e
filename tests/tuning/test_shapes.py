"""The points at which ``tune`` measures."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from tvm import tirx

from tvm_disc.shape import Solver
from tvm_disc.tuning.shapes import Shapes, Weights, program_points

B, S = (tirx.Var(name, "int64") for name in "bs")
INPUTS = [("x", [B, S, tirx.IntImm("int64", 64)], "float32")]


def drawn(shapes: Shapes, weights: Weights, count: int) -> list[tuple[int, int]]:
    points = program_points(INPUTS, Solver(), shapes, weights, count)
    return [(p[B], p[S]) for p in points]


def test_the_smallest_and_the_largest_sizes_come_first() -> None:
    assert drawn({"b": range(2, 9), "s": [3, 500]}, None, 8)[:2] == [(2, 3), (8, 500)]


@pytest.mark.parametrize("count", [16, 24, 40])
def test_points_leave_no_large_gap(count: int) -> None:
    points = drawn({"b": [1], "s": range(1, 2049)}, None, count)
    sizes = sorted(s for _, s in points)
    assert len(sizes) == count
    # Half of the points are log-uniform; the first seven leave gaps of an eighth of the range.
    assert max(b / a for a, b in pairwise(sizes)) <= 1.25 * 2048 ** (1 / 8)


def test_fewer_points_are_the_first_of_more() -> None:
    shapes = {"b": range(1, 33), "s": range(1, 513)}
    assert drawn(shapes, None, 20) == drawn(shapes, None, 50)[:20]


def test_all_combinations_of_few_sizes_are_drawn() -> None:
    found = drawn({"b": [1, 4, 9], "s": [7, 8]}, None, 32)
    assert sorted(found) == [(b, s) for b in (1, 4, 9) for s in (7, 8)]


def test_weights_are_frequencies() -> None:
    shapes, odds = {"b": range(1, 1001), "s": [10, 20, 30]}, [0.0, 3.0, 1.0]
    found = [s for _, s in drawn(shapes, {"s": odds}, 200)[2:]]
    assert 10 not in found
    assert np.isclose(found.count(20) / len(found), 0.75, atol=0.05)
