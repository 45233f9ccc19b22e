"""The figures of ``benchmarks/cliffs.py``."""

from __future__ import annotations

import pytest

pytest.importorskip("onnx", reason="onnx is not installed")

from benchmarks.cliffs import SWEEPS, cliffs, jump, worst

POINTS = [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("times", "wanted"),
    [
        ([1.0, 2.0, 3.0, 4.0, 5.0], []),
        ([1.0, 2.19, 3.0, 2.0, 5.0], [(2, 3)]),  # 2.19 is within ten percent of 2.0
        ([6.0, 2.21, 3.0, 2.0, 5.0], [(0, 3), (1, 3), (2, 3)]),
        ([1.0, 9.0, 3.0, 4.0, 3.5], [(1, 2), (3, 4)]),  # each with the least after it
        ([7.0], []),
    ],
)
def test_a_cliff_is_slower_than_a_larger_problem(
    times: list[float], wanted: list[tuple[int, int]]
) -> None:
    assert cliffs(times) == wanted


def test_the_worst_point_and_the_largest_jump_are_found() -> None:
    times = [1.0, 2.0, 6.0, 4.0, 5.0]
    assert worst(POINTS, times) == (1.5, 3)
    assert jump(POINTS, times) == (2.0, 3)


def test_a_coarse_sweep_has_the_neighbours_of_powers_of_two() -> None:
    sweep = SWEEPS["BERT 768x768"]
    assert sweep.points(1) == list(range(1, 513))
    coarse = sweep.points(50)
    assert {1, 51, 101, 63, 64, 65, 511, 512} <= set(coarse)
    assert max(coarse) == 512 and len(coarse) < 50


def test_every_sweep_is_a_model_of_one_unknown_dim() -> None:
    for sweep in SWEEPS.values():
        assert sweep.shapes(1) != sweep.shapes(2), sweep.name
