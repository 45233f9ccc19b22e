"""A short campaign per format, and whether campaigns see what they are for."""

from __future__ import annotations

import os
import signal
import time

import pytest

from tests.files import fuzz
from tests.files.formats import FORMATS, Format
from tests.files.mutations import mutate_bytes

CASES = {"text": 150, "json": 60, "onnx": 100}


@pytest.mark.parametrize("name", list(FORMATS))
def test_damaged_files_are_read_or_refused(name: str) -> None:
    if name == "onnx":
        pytest.importorskip("onnx")
    report = fuzz.campaign(name, seed=7, cases=CASES.get(name, 300))
    assert report.findings == {}, str(report)
    assert report.cases == CASES.get(name, 300)
    # Few survive unharmed, but for records, which lose the damaged lines only.
    assert report.refused > (0 if name == "records" else report.cases // 3)


def test_a_case_is_made_again_from_its_name() -> None:
    first, second = (FORMATS["text"].case("text:3:4") for _ in range(2))
    assert first == second != FORMATS["text"].case("text:3:5")


def hostile(data: bytes) -> object:
    """A reader with every fault that a campaign must tell."""
    kind = data[0] % 4
    if kind == 0:
        raise KeyError("foreign")
    if kind == 1:
        os.kill(os.getpid(), signal.SIGSEGV)
    if kind == 2:
        time.sleep(60)
    return None


def test_foreign_errors_crashes_and_hangs_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    seeds = lambda: [b"\x00", b"\x01", b"\x02", b"\x03"]  # noqa: E731
    same = lambda data, rng: data or mutate_bytes(data, rng)  # noqa: E731
    monkeypatch.setitem(FORMATS, "text", Format(seeds, (same,), hostile))
    monkeypatch.setattr(fuzz, "LIMIT_S", 0.3)
    report = fuzz.campaign("text", seed=0, cases=12)
    assert report.cases == 12
    kinds = sorted(report.findings)
    assert [k.split(" at ")[0] for k in kinds] == [
        "KeyError",
        "no end within 0 s",
        f"process ended: {signal.SIGSEGV.value}",
    ]
