"""The gauge of cores: it does its work on every thread, and rounds wait for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm.ir import GlobalVar

from tvm_disc.codegen.gauge import NAME, gauge_function, sums
from tvm_disc.codegen.machine_code import compile_tir
from tvm_disc.codegen.target import resolve_target
from tvm_disc.target.isa import isa_of
from tvm_disc.tuning import core_contention
from tvm_disc.tuning.core_contention import CROWDED, Gauge, Host, Wait

TARGET = resolve_target(None)
ISA = isa_of(TARGET)


@pytest.fixture(scope="module")
def module() -> Any:
    return compile_tir(tvm.IRModule({GlobalVar(NAME): gauge_function(ISA)}), TARGET)


@pytest.mark.parametrize("parts", [1, 2, 3])
@pytest.mark.parametrize("turns", [0, 1, 5])
def test_every_part_does_the_same_work(module: Any, parts: int, turns: int) -> None:
    elems = sums(ISA) * ISA.lanes_f32
    memory = tvm.runtime.tensor(np.full((parts + 1) * elems, 4.0, "float32"))
    module[NAME](memory, parts, turns)
    value = 4.0
    for _ in range(turns):
        value = 2.0 * value + 2.0
    found = memory.numpy().reshape(parts + 1, elems)
    assert (found[:parts] == value).all() and (found[parts] == 4.0).all()


def test_it_says_how_many_cores_there_are(module: Any) -> None:
    crowding = Gauge(module, tvm.cpu(0), ISA, 1).crowding()
    assert crowding > 0 and np.isfinite(crowding)


class Script:
    """A gauge whose answers are given; the last stays."""

    def __init__(self, *answers: float) -> None:
        self.answers, self.asked = list(answers), 0

    def crowding(self) -> float:
        self.asked += 1
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@pytest.fixture(autouse=True)
def short_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core_contention, "POLL_S", 1e-4)


def test_rounds_wait_for_cores() -> None:
    script: Any = Script(1.8, 1.7, 1.0, 1.1, 1.9, 1.2)
    wait = Wait(script, 60.0)
    for _ in range(3):
        wait.until_calm()
    assert script.asked == 6 and wait.crowding() == pytest.approx(1.1)
    assert 3e-4 <= wait.waited_s < 60


def test_they_do_not_wait_for_ever() -> None:
    script: Any = Script(1.8)
    wait = Wait(script, 1e-3)
    wait.until_calm()
    asked = script.asked
    wait.until_calm()
    assert wait.crowding() == 1.8 > CROWDED
    assert script.asked == asked + 1  # the time for waiting is over


class Ticks:
    """A host that takes what it is told to, in hundredths of a second."""

    def __init__(self, path: Path) -> None:
        self.path, self.used, self.stolen = path, 1000, 50
        self.add(0, 0)

    def add(self, used: int, stolen: int) -> None:
        self.used, self.stolen = self.used + used, self.stolen + stolen
        line = f"cpu  {self.used} 0 0 77777 99 0 0 {self.stolen} 0 0"
        self.path.write_text(f"{line}\ncpu0 1 2 3 4 5 6 7 8 9 0\n")


@pytest.fixture
def ticks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ticks:
    monkeypatch.setattr(core_contention, "WINDOW_S", 0.0)
    return Ticks(tmp_path / "stat")


def test_what_a_host_takes_is_a_share_of_what_was_used(ticks: Ticks) -> None:
    host = Host(ticks.path)
    assert host.recent() == host.in_all() == 0.0
    ticks.add(15, 5)
    assert host.recent() == host.in_all() == 0.25
    ticks.add(60, 0)
    assert host.recent() == 0.0 and host.in_all() == 5 / 80


def test_rounds_wait_for_the_host(ticks: Ticks, monkeypatch: pytest.MonkeyPatch) -> None:
    wait = Wait(None, 60.0, Host(ticks.path))
    naps = iter([(10, 10), (20, 0)])
    monkeypatch.setattr(core_contention.time, "sleep", lambda _: ticks.add(*next(naps)))
    ticks.add(10, 10)
    wait.until_calm()
    assert next(naps, None) is None and wait.waited_s > 0
    assert wait.stolen() == 20 / 60


@pytest.mark.parametrize("text", ["", "cpu 1 2 3\n", "cpu a b c d e f g h i j\n", None])
def test_nothing_is_taken_where_nobody_counts(text: str | None, tmp_path: Path) -> None:
    path = tmp_path / "stat"
    if text is not None:
        path.write_text(text)
    host = Host(path)
    assert host.recent() == host.in_all() == 0.0


def test_one_thread_waits_for_nothing() -> None:
    wait = Wait(None, 60.0)
    wait.until_calm()
    assert wait.crowding() == 1.0 and wait.waited_s == 0
