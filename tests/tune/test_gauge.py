"""The gauge of cores: it does its work on every thread, and rounds wait for it."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm.ir import GlobalVar

from tvm_disc.codegen.build import compile_tir
from tvm_disc.codegen.target import resolve_target
from tvm_disc.schedules.gemm_tile import isa_of
from tvm_disc.tune import gauge
from tvm_disc.tune.gauge import CROWDED, NAME, Gauge, Wait, gauge_function, sums

TARGET = resolve_target(None)
ISA = isa_of(TARGET)


@pytest.fixture(scope="module")
def module() -> object:
    return compile_tir(tvm.IRModule({GlobalVar(NAME): gauge_function(ISA)}), TARGET)


@pytest.mark.parametrize("parts", [1, 2, 3])
@pytest.mark.parametrize("turns", [0, 1, 5])
def test_every_part_does_the_same_work(module: object, parts: int, turns: int) -> None:
    elems = sums(ISA) * ISA.lanes_f32
    memory = tvm.runtime.tensor(np.full((parts + 1) * elems, 4.0, "float32"))
    module[NAME](memory, parts, turns)  # type: ignore[index]
    value = 4.0
    for _ in range(turns):
        value = 2.0 * value + 2.0
    found = memory.numpy().reshape(parts + 1, elems)
    assert (found[:parts] == value).all() and (found[parts] == 4.0).all()


def test_it_says_how_many_cores_there_are(module: object) -> None:
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
    monkeypatch.setattr(gauge, "POLL_S", 1e-4)


def test_rounds_wait_for_cores() -> None:
    script = Script(1.8, 1.7, 1.0, 1.1, 1.9, 1.2)
    wait = Wait(script, 60.0)  # type: ignore[arg-type]
    for _ in range(3):
        wait.until_calm()
    assert script.asked == 6 and wait.crowding() == pytest.approx(1.1)
    assert 3e-4 <= wait.waited_s < 60


def test_they_do_not_wait_for_ever() -> None:
    script = Script(1.8)
    wait = Wait(script, 1e-3)  # type: ignore[arg-type]
    wait.until_calm()
    asked = script.asked
    wait.until_calm()
    assert wait.crowding() == 1.8 > CROWDED
    assert script.asked == asked + 1  # the time for waiting is over


def test_one_thread_waits_for_nothing() -> None:
    wait = Wait(None, 60.0)
    wait.until_calm()
    assert wait.crowding() == 1.0 and wait.waited_s == 0
