"""The limits of this machine: every part does its work, and they are measured once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm.ir import GlobalVar

from tvm_disc.codegen import roofline
from tvm_disc.codegen.gauge import READ, READS, read_function
from tvm_disc.codegen.machine_code import compile_tir
from tvm_disc.codegen.roofline import measured_peaks, peaks_of_machine
from tvm_disc.codegen.target import resolve_target
from tvm_disc.runtime.peaks import Peaks, stored_peaks
from tvm_disc.support.store import Store
from tvm_disc.target.isa import isa_of

TARGET = resolve_target(None)
ISA = isa_of(TARGET)
STEP = READS * ISA.lanes_f32


@pytest.fixture(scope="module")
def module() -> Any:
    return compile_tir(tvm.IRModule({GlobalVar(READ): read_function(ISA)}), TARGET)


@pytest.mark.parametrize("parts", [1, 2, 3])
@pytest.mark.parametrize(("steps", "passes"), [(0, 1), (1, 1), (5, 3), (64, 2)])
def test_every_part_reads_its_own_memory(module: Any, parts: int, steps: int, passes: int) -> None:
    elems, first = steps * STEP, 7
    values = np.random.default_rng(0).integers(0, 9, first + parts * elems + 1).astype("float32")
    results = np.full((parts + 1) * ISA.lanes_f32, -1.0, "float32")
    given, out = tvm.runtime.tensor(values), tvm.runtime.tensor(results)
    module[READ](given, out, first, parts, elems, passes)
    found = out.numpy().reshape(parts + 1, -1)
    expected = values[first : first + parts * elems].reshape(parts, -1).sum(axis=1) * passes
    np.testing.assert_array_equal(found[:parts].sum(axis=1), expected)
    assert (found[parts] == -1).all()


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[Peaks]:
    """Every measurement of this test, each of 1 ms; the process has none yet."""
    found: list[Peaks] = []

    def measure(store: Store | None) -> Peaks:
        found.append(measured_peaks(store))
        return found[-1]

    monkeypatch.setattr(roofline, "LIMIT_S", 1e-3)
    monkeypatch.setattr(roofline, "measured_peaks", measure)
    monkeypatch.setattr(roofline, "_FOUND", {})
    return found


def test_limits_are_measured_once_and_stored(
    tmp_path: Path, measured: list[Peaks], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(roofline.Others, "cores", lambda _: 0.0)
    store = Store(tmp_path)
    first = peaks_of_machine(store)
    assert first.one > 0 and first.all > 0 and all(r.one > 0 and r.all > 0 for r in first.reads)
    assert [r.bytes for r in first.reads] == sorted(r.bytes for r in first.reads)
    assert peaks_of_machine(store) is first
    roofline._FOUND.clear()  # another process
    assert peaks_of_machine(store) == first == stored_peaks(store) and len(measured) == 1
    assert first.cpu in str(first) and "GFLOP/s on one thread" in str(first)


def test_limits_of_a_busy_machine_are_not_stored(
    tmp_path: Path, measured: list[Peaks], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(roofline.Others, "cores", lambda _: 1.9)
    assert peaks_of_machine(Store(tmp_path)) is measured[0]
    assert stored_peaks(Store(tmp_path)) is None


def test_without_a_cache_each_process_measures(measured: list[Peaks]) -> None:
    assert peaks_of_machine(None) is peaks_of_machine(None) is measured[0]
