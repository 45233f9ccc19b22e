"""Profiles: every kernel call is recorded, with its work; the sums are consistent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_disc
from tests.models import function, mlp, rows
from tvm_disc import relay
from tvm_disc.errors import BadInput
from tvm_disc.runtime.profile import Event, Profile


@pytest.fixture(scope="module")
def net() -> Any:
    return tvm_disc.build(mlp(hidden=64))


@pytest.mark.parametrize("n", [0, 1, 7, 64, 1000])
def test_every_launch_once_with_its_work(net: Any, n: int) -> None:
    x = np.ones((n, 16), "float32")
    profile = net.profile(x, repeat=3)
    assert [[e.kernel for e in call] for call in profile.calls] == [net.launches] * 3
    dot = next(e for e in profile.calls[0] if e.kind == "dot")
    assert dot.flops >= 2 * n * 16 * 64 and dot.bytes >= 4 * (16 * n + 64 * n + 64 * 16)
    for call, total in zip(profile.calls, profile.total_ns, strict=True):
        ends = [0, *(t for e in call for t in (e.start_ns, e.end_ns)), total]
        assert ends == sorted(ends)
    assert sum(line.share for line in profile.lines()) <= 1.0
    split = profile.split()
    parts = sum(v for k, v in split.items() if k != "total_us")
    np.testing.assert_allclose(parts, split["total_us"], rtol=1e-6)


def test_forms(net: Any) -> None:
    profile = net.profile(x=np.ones((9, 16), "float32"), repeat=2)
    text = str(profile)
    for word in ("kernel", "GFLOP/s", "share", "us per call: compute", net.kernels[0]):
        assert word in text
    data = json.loads(profile.to_json())
    assert data["calls"] == 2 and {k["kernel"] for k in data["kernels"]} == set(net.kernels)
    trace = json.loads(profile.to_chrome_trace())["traceEvents"]
    assert len(trace) == 2 * (1 + len(net.launches))
    assert all({"name", "ph", "ts", "dur", "pid", "tid"} <= event.keys() for event in trace)


def test_a_loaded_program(net: Any, tmp_path: Path) -> None:
    net.save(tmp_path / "net.so")
    profile = tvm_disc.load(tmp_path / "net.so").profile(np.ones((3, 16), "float32"), repeat=1)
    assert [e.kernel for e in profile.calls[0]] == net.launches


def test_loops_are_counted_as_they_run(data: Path) -> None:
    x, i = relay.var("x", shape=(relay.Any(), 4)), relay.var("i", shape=(), dtype="int32")

    def cond(i: Any, x: Any) -> Any:
        return relay.less(i, relay.const(50, "int32"))

    def body(i: Any, x: Any) -> list[Any]:
        return [relay.add(i, relay.const(1, "int32")), relay.tanh(x)]

    loop = relay.loops.while_loop(cond, [i, x], body)
    out = relay.TupleGetItem(loop(relay.const(0, "int32"), x), 1)
    exe = tvm_disc.build(function(x, out))
    profile = exe.profile(np.ones((5, 4), "float32"), repeat=1)
    assert len(profile.calls[0]) >= 100
    assert max(line.calls for line in profile.lines()) >= 50


def test_bad_inputs_are_told(net: Any) -> None:
    with pytest.raises(BadInput, match="input 'x' axis 1: expected 16"):
        net.profile(np.ones((3, 15), "float32"))
    y = rows("n", 3, name="y")
    assert tvm_disc.build(function(y, y)).profile(np.ones((2, 3), "float32")).lines() == []


def test_a_disturbance_in_every_call_adds_to_no_part() -> None:
    """Each call has one late kernel, another each time: the median of every kernel is as usual."""
    calls, totals = [], []
    for late in range(3):
        events, now = [], 100
        for k in range(3):
            end = now + (9_000 if k == late else 1_000)
            events.append(Event(f"k{k}", "dot", "", now, end, 0, 0))
            now = end + 10
        calls.append(events)
        totals.append(now)
    split = Profile(calls, totals, [t + 500 for t in totals]).split()
    assert split == {
        "compute_us": 3.0,
        "memory_us": 0.0,
        "host_us": pytest.approx(0.13),
        "python_us": 0.5,
        "total_us": pytest.approx(3.63),
    }
