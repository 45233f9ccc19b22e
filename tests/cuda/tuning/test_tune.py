"""Tuning on a GPU: what the driver's events tell is kept by card, and decides."""

from __future__ import annotations

import ctypes
import json
from pathlib import Path

import numpy as np
import pytest

import tvm_disc
from tests.cuda.tuning.timed import BEST, SIZES, Clock, softmax, tuned, wanted, wave
from tvm_disc import Options
from tvm_disc.errors import BadInput, DeviceError
from tvm_disc.tuning import device


def test_times_decide(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "records.jsonl"
    untuned = tvm_disc.build(softmax(), target="cuda")
    untuned.profile(wave(7), repeat=1)
    assert clock.threads[-1] != BEST

    # Interrupted before it begins, then continued: every variant at every point, and each once.
    none = tuned(path, budget_s=0)
    assert none.measured == 0 and none.left > len(SIZES)
    first = tuned(path)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert first.left == 0 and first.measured == len(lines) == none.left
    assert {line["cpu"] for line in lines} == {"Emulated GPU; sm_80"}
    assert {line["ns"] for line in lines} == {1000.0, 5000.0}
    assert {tuple(line["dims"]) for line in lines} == {(n,) for n in SIZES}
    again = tuned(path)
    assert (again.measured, again.left) == (0, 0) and again.reused == first.measured

    program = tvm_disc.build(softmax(), target="cuda", options=Options(records=path))
    program.profile(wave(7), repeat=1)
    assert clock.threads[-1] == BEST
    for n in (*SIZES, 0, 2, 100):
        np.testing.assert_allclose(program(wave(n)), wanted(wave(n)), rtol=1e-5)
    _check_cards(path, clock)


def _check_cards(path: Path, clock: Clock) -> None:
    """Times of several cards: this machine's count, and if it has none of them, the only one's."""
    text, options = path.read_text(), Options(records=path)

    def threads() -> int:
        program = tvm_disc.build(softmax(), target="cuda", options=options)
        program.profile(wave(7), repeat=1)
        return clock.threads[-1]

    path.write_text(text + text.replace("Emulated GPU", "Fast GPU").replace("1000.0", "9000.0"))
    assert threads() == BEST
    path.write_text(text.replace("Emulated GPU", "Slow GPU"))
    assert threads() == BEST
    path.write_text(text.replace("sm_80", "sm_75"))  # runs no code for sm_80
    assert threads() != BEST
    path.write_text("".join(text.replace("Emulated", name) for name in ("Fast", "Slow")))
    with pytest.raises(BadInput, match=r"of one GPU .* several .*: Fast GPU; sm_80, Slow GPU; sm_"):
        threads()


def test_no_card(tmp_path: Path, gpu: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch) -> None:
    gpu.emulated_device(75)
    with pytest.raises(
        DeviceError, match=r"Emulated GPU is sm_75, the target has code for sm_80, sm_90"
    ):
        tuned(tmp_path / "r.jsonl")
    monkeypatch.setattr(device, "local_card", lambda: None)
    with pytest.raises(
        DeviceError, match=r"no driver \(libcuda.so.1\) with a device was found on this machine"
    ):
        tuned(tmp_path / "r.jsonl")
    assert not (tmp_path / "r.jsonl").exists()


@pytest.mark.parametrize("call", ["cuEventCreate", "cuEventRecord", "cuEventElapsedTime"])
def test_without_events_the_host_tells(gpu: ctypes.CDLL, clock: Clock, call: str) -> None:
    program = tvm_disc.build(softmax(), target="cuda")
    [[event]] = program.profile(wave(7), repeat=1).calls
    assert event.end_ns - event.start_ns == 5000
    gpu.emulated_fail(call.encode(), 719)
    [[event]] = program.profile(wave(7), repeat=1).calls
    assert event.end_ns > event.start_ns and event.end_ns - event.start_ns != 5000
    assert gpu.emulated_handles() == 0
