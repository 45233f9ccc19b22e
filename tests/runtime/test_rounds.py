"""Rounds of a profile: disturbed ones are replaced and counted; medians, not means."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.models import mlp
from tvm_disc import build
from tvm_disc.runtime import rounds
from tvm_disc.runtime.profile import Event, Profile
from tvm_disc.runtime.rounds import LATE_NS, Others, Round, calm, timed_rounds

MS = 1_000_000


def event(start_ns: int, end_ns: int, kernel: str = "k") -> Event:
    return Event(kernel, "row", "v", start_ns, end_ns, 8, 16)


class Script:
    """A program whose calls take given milliseconds; some of them are preempted."""

    def __init__(self, *calls: tuple[float, bool]) -> None:
        self.calls = itertools.chain(calls[:1], calls, itertools.repeat(calls[-1]))
        self.now, self.preempted = 0, 0

    def call(self, _: int) -> None:
        length, preempted = next(self.calls)
        self.length = round(length * MS)
        self.now += self.length
        self.preempted += preempted

    def read(self, _: np.ndarray) -> tuple[list[Event], int]:
        return [event(0, self.length)], self.length


def profiled(script: Script, repeat: int, monkeypatch: pytest.MonkeyPatch) -> Profile:
    monkeypatch.setattr(rounds, "preemptions", lambda: script.preempted)
    monkeypatch.setattr(rounds.time, "perf_counter_ns", lambda: script.now)
    return timed_rounds(script.call, script.read, repeat, 64)


@pytest.mark.parametrize(
    ("calls", "discarded"),
    [
        ([(2, False)], 0),
        ([(2, True), (2, False)], 1),  # preempted, although it was as fast
        ([(2, False), (9, False), (2, False)], 1),  # late: a hypervisor took the core
        ([(9, False), (2, False)], 1),  # only later calls reveal it
        ([(2, False), (2.4, False)], 0),
    ],
)
def test_disturbed_rounds_are_replaced_and_counted(
    calls: list[tuple[float, bool]], discarded: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = profiled(Script(*calls), 5, monkeypatch)
    assert len(found.calls) == 5 and found.discarded == discarded and found.disturbed == 0
    assert max(found.total_ns) <= 2.4 * MS
    assert found.warnings() == [] or "busy" in found.warnings()[0]


def test_if_every_round_is_disturbed_the_profile_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "MOST_ROUNDS", 3)
    found = profiled(Script((7, True), (5, True), (3, True), (2, False), (2, True)), 2, monkeypatch)
    assert len(found.calls) == 2 and found.disturbed == 1 and found.discarded == 4
    assert found.total_ns == [2 * MS, 2 * MS]
    assert "Other processes disturbed 1 of the 2 calls" in "".join(found.warnings())
    assert "4 more were disturbed" in str(found)


def test_the_patience_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "PATIENCE_S", 0.0)
    assert profiled(Script((2, True)), 4, monkeypatch).discarded == 0


def test_one_long_call_does_not_decide() -> None:
    """One of ten calls takes 470 us instead of 50: a mean would give the kernel twice its time."""
    calls = [[event(0, 50_000, "a"), event(50_000, 100_000, "b")] for _ in range(10)]
    calls[3][0] = event(0, 470_000, "a")
    whole = [100_000] * 10
    first, second = Profile(calls, whole, whole).lines()
    assert first.us == second.us == 50.0 and first.share == second.share == 0.5
    assert (first.low_us, first.high_us) == (50.0, 50.0)


@pytest.mark.parametrize("times", [[1000], [1000, 3000], [1000, 2000, 3000, 4000, 9000]])
def test_quartiles_are_of_the_rounds(times: list[int]) -> None:
    calls = [[event(0, t), event(0, t)] for t in times]
    [line] = Profile(calls, [2 * t for t in times], [2 * t for t in times]).lines()
    low, high = np.percentile(times, (25, 75))
    assert line.calls == 2 and line.us == 2 * float(np.median(times)) / 1e3
    assert (line.low_us, line.high_us) == (2 * low / 1e3, 2 * high / 1e3)
    assert line.bytes == 16 and line.flops == 32


def test_rounds_of_different_kernels_count_by_how_often_they_ran() -> None:
    calls = [[event(0, 1000)], [event(0, 1000), event(1000, 4000)], [event(0, 1000)]]
    [line] = Profile(calls, [4000] * 3, [4000] * 3).lines()
    assert line.calls == pytest.approx(4 / 3) and line.us == pytest.approx(1 + 3 / 3)


def test_a_program_is_profiled_in_so_many_calls() -> None:
    exe = build(mlp(hidden=64))
    for n in (0, 1, 7, 64, 1000):
        found = exe.profile(np.ones((n, 16), "float32"), repeat=4)
        assert len(found.calls) == 4 and found.disturbed <= 4 and found.discarded >= 0


def test_rounds_that_need_more_room() -> None:
    def call(address: int) -> None:
        record = made[address]
        record[0] = 100

    made: dict[int, np.ndarray] = {}

    def new_record(room: int) -> np.ndarray:
        record = np.zeros(8 + 8 * room, "int64")
        record[rounds.ROOM] = room
        made[record.ctypes.data] = record
        return record

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rounds, "new_record", new_record)
        found = timed_rounds(call, lambda r: ([event(0, 1)], 1), 3, 64)
    assert len(found.calls) == 3 and len(made) == 2


class Stat:
    """/proc/stat of a machine on which others use a number of cores."""

    def __init__(self, *texts: str) -> None:
        self.texts = iter(texts)

    def read_text(self) -> str:
        return next(self.texts)


def others(texts: Iterable[str], monkeypatch: pytest.MonkeyPatch) -> float | None:
    stat: Any = Stat(*texts)
    found = Others(stat)
    monkeypatch.setattr(rounds, "TICKED_S", 0.0)
    time.sleep(0.01)
    return found.cores()


def test_cores_that_others_use(monkeypatch: pytest.MonkeyPatch) -> None:
    idle = "cpu 100 0 0 900 0 0 0 0\n"
    assert others([idle, idle], monkeypatch) == 0.0
    busy = others([idle, "cpu 200 0 0 900 0 0 0 50\n"], monkeypatch)
    assert busy is not None and busy > 1.0
    found = Profile([[event(0, 1)]], [1], [1], others=1.94)
    assert "other processes used 1.9 cores" in str(found)


@pytest.mark.parametrize("text", ["", "cpu", "cpu a b c d e f g h"])
def test_a_system_that_does_not_count(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert others([text, text], monkeypatch) is None
    assert Others(Path("/nonexistent")).cores() is None


def test_a_short_time_says_nothing() -> None:
    assert Others().cores() is None


@pytest.mark.parametrize("count", [0, 1, 3])
def test_calm_rounds(count: int) -> None:
    made = [Round([], 2 * MS, 2 * MS, 0)] * count + [Round([], MS, MS, 1)]
    assert len(calm(made)) == (0 if count and made[0].python_ns > 1.25 * MS + LATE_NS else count)
