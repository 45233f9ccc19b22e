"""The predicted time of a kernel on several threads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from itertools import product as combinations
from typing import Any

import numpy as np
import pytest

from tvm_disc.schedules.dispatch.cost import THREADS, makespan, part_sizes, scaling
from tvm_disc.schedules.dispatch.cost_model import CostModel
from tvm_disc.schedules.dispatch.variant import Plan
from tvm_disc.tir.builder import i64

MODEL = CostModel(wake_ns=100.0, call_ns=10.0, parallel=0.9, parallel_fma=0.5)


def clocked(costs: Sequence[int], threads: int) -> int:
    """Return the makespan of a simulation in steps of one unit of time."""
    left, waiting, now = [0] * threads, list(costs), 0
    while waiting or any(left):
        for k in range(threads):
            while not left[k] and waiting:
                left[k] = waiting.pop(0)
        left = [max(0, n - 1) for n in left]
        now += 1
    return now


def best(costs: Sequence[int], threads: int) -> int:
    """Return the shortest makespan over all assignments of jobs to threads."""
    found = sum(costs)
    for places in combinations(range(threads), repeat=len(costs)):
        loads = [0] * threads
        for cost, place in zip(costs, places, strict=True):
            loads[place] += cost
        found = min(found, max(loads))
    return found


def test_list_scheduling_of_all_small_cases() -> None:
    """The result is that of a simulation, and within Graham's bound of the best schedule."""
    for threads in (1, 2, 3):
        for count in range(6):
            for costs in combinations((1, 2, 5), repeat=count):
                found = makespan(costs, threads)
                assert found == clocked(costs, threads)
                optimum = best(costs, threads)
                assert optimum <= found <= (2 - 1 / threads) * optimum


def test_parts_are_the_ranges_that_the_driver_cuts() -> None:
    for tasks in range(1, 40):
        for parts in range(1, 12):
            sizes = part_sizes(tasks, parts)
            chunk = (tasks + parts - 1) // parts
            begins = [min(tasks, k * chunk) for k in range(parts + 1)]
            assert sizes == [b - a for a, b in pairwise(begins)]
            assert sum(sizes) == tasks


def _plan(tasks: int, **fields: Any) -> Plan:
    cost = lambda points, model: np.array([1000.0 * tasks])  # noqa: E731
    return Plan(i64(tasks), i64(1), lambda body: None, **{"cost": cost, **fields})


@pytest.mark.parametrize("tasks", [1, 2, 3, 5, 16, 33, 64, 65, 100])
def test_a_kernel_takes_as_long_as_its_largest_part(tasks: int) -> None:
    ns, counts = scaling(_plan(tasks), {}, MODEL)
    assert counts == [tasks] and ns[0] == 1000 * tasks + 10
    for threads, found in zip(THREADS[1:], ns[1:], strict=True):
        longest = makespan([1000 * n for n in part_sizes(tasks, threads)], threads)
        on_threads = 100 + longest / MODEL.parallel_fma + 10
        assert found == pytest.approx(min(ns[0], on_threads if tasks > 1 else ns[0]))


def test_plans_that_cannot_be_split_are_serial() -> None:
    ns, _ = scaling(_plan(16, splits=False), {}, MODEL)
    assert len(set(ns)) == 1


def test_threads_that_lose_are_not_used() -> None:
    """Waking costs more than the work: the tree of a kernel selects the serial run."""
    ns, _ = scaling(_plan(16), {}, replace(MODEL, wake_ns=1e6))
    assert len(set(ns)) == 1
