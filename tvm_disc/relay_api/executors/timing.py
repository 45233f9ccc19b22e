"""Timed calls with TVM's result type."""

from __future__ import annotations

import time
from collections.abc import Callable

from tvm.runtime.module import BenchmarkResult

from tvm_disc.errors import BadInput


def timed(
    call: Callable[[], object],
    repeat: int = 5,
    number: int = 5,
    min_repeat_ms: int | None = None,
) -> BenchmarkResult:
    """Return the mean seconds per call of ``repeat`` runs, after one warm-up call.

    A run repeats ``number`` calls until it has taken ``min_repeat_ms``.

    Args:
        min_repeat_ms: minimum duration of a run.

    Raises:
        BadInput: a count is less than 1.
    """
    if repeat < 1 or number < 1:
        raise BadInput(
            f"expected repeat and number of at least 1, found repeat={repeat} and number={number}"
        )
    call()
    found = []
    for _ in range(repeat):
        calls, start = 0, time.perf_counter()
        while True:
            for _ in range(number):
                call()
            calls += number
            passed = time.perf_counter() - start
            if 1000 * passed >= (min_repeat_ms or 0):
                break
        found.append(passed / calls)
    return BenchmarkResult(found)


__all__ = ["timed"]
