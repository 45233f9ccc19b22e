"""Points at which threads were disturbed are measured again, when all others are done."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.models import mlp
from tvm_disc.options import Options
from tvm_disc.schedules.dispatch.records import Records
from tvm_disc.schedules.dispatch.variant import SERIAL, Run
from tvm_disc.tuning.measure import LATE_NS, Effort, Timing, disturbance, late_ns

tuning: Any = sys.modules["tvm_disc.tuning.tune"]  # the package has a function of that name
PARALLEL = Run(2)
QUIET = [40_000.0, 25_000.0]
LATE = [41_000.0, 3_000_000.0]


def variants() -> list[Any]:
    plan = SimpleNamespace(key="row")
    return [
        SimpleNamespace(plan=plan, run=run, key=json.dumps(str(run)), safe=True)
        for run in (SERIAL, PARALLEL)
    ]


@pytest.mark.parametrize(
    ("times", "late"),
    [
        (QUIET, 0.0),
        ([5_000.0, 9_000.0], 0.0),  # waking threads
        ([1e6, 1.09e6], 0.0),  # no gain, but no loss
        ([1e6, float("inf")], 0.0),  # it must not run there
        (LATE, 3_000_000 - 41_000 * 1.1),
        ([5_000.0, 5_500.0 + 2 * LATE_NS], 2 * LATE_NS),
    ],
)
def test_what_counts_as_late(times: list[float], late: float) -> None:
    assert late_ns(variants(), times) == pytest.approx(late)


def test_variants_of_threads_alone_are_never_late() -> None:
    assert late_ns(variants()[1:], [3e6]) == 0.0


@pytest.mark.parametrize(
    ("timing", "found"),
    [
        (Timing(QUIET), 0.0),
        (Timing(QUIET, 1.2, 0.05), 0.0),  # they share a cache
        (Timing(QUIET, 1.8), 0.8),
        (Timing(QUIET, 1.0, 0.4), 0.4),
        (Timing([1e6, 1e6]), 0.0),  # the kernel gains nothing, though threads have cores
        (Timing([1e6, 1.6e6]), 0.5),
        (Timing([1e6, 1.6e6], 1.8, 0.4), 0.8),
    ],
)
def test_what_disturbs(timing: Timing, found: float) -> None:
    assert disturbance(variants(), timing) == pytest.approx(found)


class Script:
    """A machine whose times are given: for each point a list, the last of which stays."""

    def __init__(self, times: dict[tuple[int, ...], list[list[float] | Timing]]) -> None:
        self.times, self.asked = times, []

    def time(self, point: tuple[int, ...], _: Effort) -> Timing:
        self.asked.append(point)
        left = self.times[point]
        times = left.pop(0) if len(left) > 1 else left[0]
        return times if isinstance(times, Timing) else Timing(times)


def run(script: Script, path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Records]:
    front = tuning.prepare(mlp(), None, None, (), Options(), tuning.Trace(0, None))
    task = tuning.tasks_of(front, (), False)[0]
    task.variants = variants()
    task.points = list(script.times)
    monkeypatch.setattr(tuning, "_lanes", lambda *_: [{task.key: script}])
    result = tuning.Tuned(path)
    known = tuning.measure_tasks(front, [task], result, Effort(), None, False)
    return result, known


def _points(count: int) -> list[tuple[int, ...]]:
    return [(n,) for n in range(1, count + 1)]


def test_late_points_come_again_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    times = {p: [QUIET] for p in _points(6)}
    times[2,] = [LATE, QUIET]
    times[4,] = [LATE, LATE, QUIET]
    script = Script(times)
    result, known = run(script, tmp_path / "r.jsonl", monkeypatch)
    assert script.asked == [*_points(6), (2,), (4,), (4,)]
    assert sorted(known.times.values()) == sorted(QUIET * 6)
    assert (result.measured, result.left) == (12, 0)
    assert len((tmp_path / "r.jsonl").read_text().splitlines()) == 12


def test_points_where_threads_shared_a_core_come_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    equal = Timing([40_000.0, 40_000.0], crowding=1.8)
    script = Script({p: [QUIET] for p in _points(5)} | {(6,): [equal, QUIET]})
    _, known = run(script, tmp_path / "r.jsonl", monkeypatch)
    assert script.asked.count((6,)) == 2
    assert sorted(known.times.values()) == sorted(QUIET * 6)


def test_the_calmest_times_count_where_none_is_calm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worse = [LATE[0], 2 * LATE[1]]
    script = Script({p: [QUIET] for p in _points(5)} | {(6,): [worse, LATE, worse]})
    _, known = run(script, tmp_path / "r.jsonl", monkeypatch)
    assert script.asked.count((6,)) == 3
    assert max(known.times.values()) == LATE[1]


def test_a_machine_on_which_threads_are_always_late_is_taken_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = Script({p: [LATE] for p in _points(6)})
    result, known = run(script, tmp_path / "r.jsonl", monkeypatch)
    assert script.asked == _points(6)
    assert (len(known.times), result.left) == (12, 0)


def test_an_interrupt_keeps_what_is_known_of_late_points(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = Script({p: [QUIET] for p in _points(5)} | {(6,): [LATE]})
    plain = script.time

    def time(point: tuple[int, ...], effort: Effort) -> Timing:
        if script.asked.count((6,)):
            raise KeyboardInterrupt
        return plain(point, effort)

    monkeypatch.setattr(script, "time", time)
    with pytest.raises(KeyboardInterrupt):
        run(script, tmp_path / "r.jsonl", monkeypatch)
    assert len((tmp_path / "r.jsonl").read_text().splitlines()) == 12


def test_points_that_do_not_fit_come_again_and_lesser_times_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, fast = [40_000.0, 39_000.0], [41_000.0, 22_000.0]
    script = Script({p: [QUIET] for p in _points(5)} | {(6,): [slow, fast, fast]})
    odd = iter([[(6,), (2,)], [(6,)]])
    monkeypatch.setattr(tuning, "surprising", lambda *_: next(odd))
    result, known = run(script, tmp_path / "r.jsonl", monkeypatch)
    assert script.asked == [*_points(6), (6,), (2,), (6,)]
    assert {v: ns for (_, v, p), ns in known.times.items() if p == (6,)} == dict(
        zip([v.key for v in variants()], [40_000.0, 22_000.0], strict=True)
    )
    assert (result.measured, result.left) == (13, 0)  # one time was less than before
    assert len((tmp_path / "r.jsonl").read_text().splitlines()) == 13


def test_no_point_comes_again_after_a_deadline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuning, "surprising", lambda *_: pytest.fail("there is no time"))
    script = Script({p: [QUIET] for p in _points(3)})
    front = tuning.prepare(mlp(), None, None, (), Options(), tuning.Trace(0, None))
    task = tuning.tasks_of(front, (), False)[0]
    task.variants, task.points = variants(), _points(3)
    monkeypatch.setattr(tuning, "_lanes", lambda *_: [{task.key: script}])
    result = tuning.Tuned(tmp_path / "r.jsonl")
    tuning.measure_tasks(front, [task], result, Effort(), 0.0, False)
    assert (script.asked, result.left) == ([], 3)
