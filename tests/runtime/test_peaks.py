"""Kernels beside the limits of a machine: what limits them, and how near they are."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import tvm_disc
from tests.models import mlp
from tvm_disc.runtime.peaks import Peaks, Reads, key_of_machine, store_peaks, stored_peaks
from tvm_disc.runtime.profile import Event, Profile
from tvm_disc.support.store import Store

# 100 GFLOP/s a thread; 1 MiB at 50 GB/s from a cache, more at 10 GB/s
PEAKS = Peaks(
    "a processor", 2, 100.0, 180.0, [Reads(1 << 20, 50.0, 90.0), Reads(1 << 27, 10.0, 15.0)]
)


@pytest.mark.parametrize(
    ("flops", "size", "threads", "limit", "us"),
    [
        (1e6, 1000, 1, "arithmetic", 10.0),
        (1e6, 1000, 2, "arithmetic", 1e6 / 180e3),
        (0, 500_000, 1, "memory", 10.0),
        (0, 10_000_000, 1, "memory", 1000.0),
        (0, 10_000_000, 2, "memory", 10_000 / 15),
        (0, 1 << 30, 1, "memory", (1 << 30) / 1e4),  # larger than what was measured
        (0, 0, 1, "memory", 0.0),
    ],
)
def test_the_larger_of_two_times_limits(
    flops: float, size: int, threads: int, limit: str, us: float
) -> None:
    found, least = PEAKS.limit(flops, size, threads)
    assert found == limit and least == pytest.approx(us)


def profile(peaks: Peaks | None) -> Profile:
    events = [
        Event("dot", "dot", "", 0, 20_000, 1000, 1_000_000),
        Event("sum", "row", "", 20_000, 60_000, 500_000, 1000),
        Event("add", "loop", "", 60_000, 60_500, 100, 10),
    ]
    return Profile([events], [61_000], [62_000], peaks=peaks)


def test_lines_tell_what_limits_them() -> None:
    lines = {line.kernel: line for line in profile(PEAKS).lines()}
    assert lines["dot"].limit == "arithmetic" and lines["dot"].of_limit == pytest.approx(0.5)
    assert lines["sum"].limit == "memory" and lines["sum"].of_limit == pytest.approx(0.25)
    assert lines["add"].limit == "launch"
    assert [name for name, _, _ in profile(PEAKS).limits()] == ["memory", "arithmetic", "launch"]
    text = str(profile(PEAKS))
    assert "32 % of the time is in kernels limited by arithmetic, at 50 % of the limit." in text
    assert "limited by launches." in text and "Limits of this machine: a processor" in text
    data = json.loads(profile(PEAKS).to_json())
    assert data["peaks"]["one"] == 100.0 and data["kernels"][0]["limit"] == "memory"


def test_without_limits_a_profile_tells_how_to_get_them() -> None:
    found = profile(None)
    assert found.limits() == [] and {line.limit for line in found.lines()} == {""}
    assert "`tvm-disc peaks` measures them" in str(found)
    assert json.loads(found.to_json())["peaks"] is None


def test_limits_are_stored_by_machine(tmp_path: Path) -> None:
    store = Store(tmp_path)
    assert stored_peaks(store) is None
    store_peaks(PEAKS, store)
    assert stored_peaks(store) == PEAKS


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b'{"reads": []}', b'{"reads": [{"a": 1}]}'])
def test_a_damaged_entry_counts_as_missing(data: bytes, tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.put(key_of_machine(), data)
    assert stored_peaks(store) is None


def test_a_loaded_program_reads_stored_limits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tvm_disc.build(mlp(hidden=64)).save(tmp_path / "net.so")
    x = np.ones((3, 16), "float32")
    monkeypatch.setenv("DISC_CACHE", str(tmp_path / "cache"))
    assert tvm_disc.load(tmp_path / "net.so").profile(x, repeat=1).peaks is None
    store_peaks(PEAKS, Store(tmp_path / "cache"))
    assert tvm_disc.load(tmp_path / "net.so").profile(x, repeat=1).peaks == PEAKS
