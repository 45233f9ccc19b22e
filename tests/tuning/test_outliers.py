"""Which points of a group fit the others worst."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from tests.models import mlp
from tvm_disc.options import Options
from tvm_disc.schedules.dispatch.cost import cost_table
from tvm_disc.tuning.outliers import MOST, surprise, surprising

tuning: Any = sys.modules["tvm_disc.tuning.tune"]


def test_how_far_points_are_off() -> None:
    usual = np.array([[10.0, 20.0, 12.0]])
    assert surprise(usual, usual).tolist() == [0.0]
    assert surprise(usual * 3, usual) == pytest.approx(0.0)  # all alike: nothing to choose by
    odd = usual * [[1.0, 1.0, 1.5]]
    assert surprise(odd, usual) == pytest.approx(np.log(1.5) * 2 / 3)
    assert surprise(usual, odd) == pytest.approx(np.log(1.5) * 2 / 3)
    hopeless = usual * [[1.0, 4.0, 1.0]]
    level = np.log(4.0) / 3  # of the variants that matter only this is seen
    assert surprise(hopeless, usual) == pytest.approx(level)
    assert surprise(np.array([[10.0, np.nan, np.inf]]), usual) == pytest.approx(0.0)


@pytest.fixture(scope="module")
def task() -> Any:
    front = tuning.prepare(mlp(), None, None, (), Options(threads=2), tuning.Trace(0, None))
    found = tuning.tasks_of(front, (), False)[0]
    found.model = front.machine.model
    return found


def times_of(task: Any, points: list[tuple[int, ...]]) -> dict[tuple[int, ...], dict[str, float]]:
    """The analytical model's times, with some noise."""
    dims = np.array(points, np.float64)
    symbols = dict(zip(task.group.symbols(), dims.T, strict=True))
    noise = np.random.default_rng(0).uniform(0.98, 1.02, (len(points), len(task.variants)))
    times = cost_table(list(task.variants), symbols, len(points), task.model) * noise
    keys = [v.key for v in task.variants]
    return {
        p: dict(zip(keys, row, strict=True)) for p, row in zip(points, times.tolist(), strict=True)
    }


def test_a_point_that_was_disturbed_is_found(task: Any) -> None:
    points = [(n,) for n in range(20, 420, 10)]
    found = times_of(task, points)
    assert surprising(task.group, task.variants, task.model, found) == []
    slowed = [v.key for v in task.variants if v.run.parts > 1]
    assert slowed
    for key in slowed:
        found[200,][key] *= 1.6
    odd = surprising(task.group, task.variants, task.model, found)
    assert (200,) in odd
    assert set(odd) <= {(190,), (200,), (210,)}  # those beside it are predicted from it


def test_a_task_without_a_pattern_is_not_measured_for_ever(task: Any) -> None:
    points = [(n,) for n in range(20, 420, 10)]
    found = times_of(task, points)
    rng = np.random.default_rng(1)
    for row in found.values():
        for key in row:
            row[key] *= float(np.exp(rng.normal(0, 0.5)))
    odd = surprising(task.group, task.variants, task.model, found)
    assert len(odd) <= MOST * len(points)


def test_few_points_have_no_pattern(task: Any) -> None:
    found = times_of(task, [(n,) for n in range(1, 16)])
    found[7,] = dict.fromkeys(found[7,], 1.0)
    assert surprising(task.group, task.variants, task.model, found) == []
