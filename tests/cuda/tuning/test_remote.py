"""Tuning a GPU of other machines: servers on loopback, which have the emulated driver."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tvm import rpc
from tvm.rpc.tracker import Tracker

import tvm_disc
from tests.cuda import emulator
from tests.cuda.conftest import fake_library
from tests.cuda.tuning.products import LIBRARY
from tests.cuda.tuning.products import SIZES as DENSE_SIZES
from tests.cuda.tuning.products import tuned as dense_tuned
from tests.cuda.tuning.timed import BEST, SIZES, Clock, softmax, tuned, wanted, wave
from tests.models import function, rows
from tvm_disc import Options, relay
from tvm_disc.errors import ArtifactError, BadInput, DeviceError, WrongProcessor
from tvm_disc.support import processor
from tvm_disc.tuning import probe, remote_device, tune
from tvm_disc.tuning.remote import Remote

HOST, KEY = "127.0.0.1", "gpu"


@pytest.fixture(scope="module")
def tracked() -> Iterator[int]:
    """The port of a tracker with two machines that have a GPU."""
    source = (Path(__file__).parent / "clock.cc").read_text()
    clock = emulator.compiled("clock", source, "-O1", "-std=c++17", "-fPIC", "-shared")
    tracker = Tracker(HOST, 9190, 9290)
    libraries = f"{emulator.driver()._name}:{fake_library()._name}:{clock}"
    at = {"tracker_addr": (HOST, tracker.port), "key": KEY}
    servers = [rpc.Server(HOST, 9190, 9290, load_library=libraries, **at) for _ in range(2)]
    yield tracker.port
    for server in servers:
        server.terminate()
    tracker.terminate()


@pytest.fixture(scope="module")
def plain() -> Iterator[Any]:
    """A server of a machine without a GPU."""
    server = rpc.Server(HOST, 9190, 9290, key=KEY)
    yield server
    server.terminate()


def test_times_of_other_machines_decide(tmp_path: Path, tracked: int, clock: Clock) -> None:
    path = tmp_path / "r.jsonl"
    here = len(clock.threads)
    done = tuned(path, remote=Remote(HOST, tracked, KEY, machines=2))
    assert len(clock.threads) == here  # nothing was timed on this machine
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert done.left == 0 and done.measured == len(lines) > len(SIZES)
    assert {line["cpu"] for line in lines} == {"Emulated GPU; sm_80"}
    assert {line["ns"] for line in lines} == {1000.0, 5000.0}
    assert {tuple(line["dims"]) for line in lines} == {(n,) for n in SIZES}
    again = tuned(path, remote=Remote(HOST, tracked, KEY))
    assert (again.measured, again.left, again.reused) == (0, 0, done.measured)

    program = tvm_disc.build(softmax(), target="cuda", options=Options(records=path))
    program.profile(wave(7), repeat=1)
    assert clock.threads[-1] == BEST
    np.testing.assert_allclose(program(wave(7)), wanted(wave(7)), rtol=1e-5)


def test_the_library_of_other_machines_is_timed(
    tmp_path: Path, gpu: ctypes.CDLL, tracked: int
) -> None:
    fake_library().fake_present(False)  # here is none
    path = tmp_path / "r.jsonl"
    done = dense_tuned(path, remote=Remote(HOST, tracked, KEY))
    assert done.left == 0
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    theirs = [line for line in lines if line["variant"]["family"] == LIBRARY]
    assert {line["ns"] for line in theirs} == {5000.0} and len(theirs) == len(DENSE_SIZES)


def test_several_inputs_and_results(gpu: ctypes.CDLL, tracked: int) -> None:
    """Of types and ranks of all kinds, and none of a size."""
    x, k = rows("n", 3), relay.var("k", shape=(), dtype="int32")
    y = relay.var("y", shape=(relay.Any(),), dtype="float16")
    body = relay.Tuple([relay.add(x, relay.cast(k, "float32")), relay.exp(y)])
    program = tvm_disc.build(function(x, k, y, body), target="cuda")
    session = rpc.connect_tracker(HOST, tracked).request(KEY)
    device = remote_device.RemoteDevice(session, "there", None)
    assert device.card is not None and device.card.key == "Emulated GPU; sm_80"
    loaded = device.load(program)
    for n in (4, 0):
        given = [np.ones((n, 3), "float32"), np.int32(2).reshape(()), np.ones(5, "float16")]
        for events in loaded.times(given, 2):
            assert {e.kernel for e in events} == set(program.kernels)
            assert all(e.end_ns - e.start_ns in (0, 1000, 5000) for e in events)
    with pytest.raises(DeviceError, match=r"there: .*expected"):
        loaded.times([np.ones((2, 4), "float32"), *given[1:]], 1)


def test_no_such_machine(tmp_path: Path, gpu: ctypes.CDLL, tracked: int) -> None:
    path = tmp_path / "r.jsonl"
    for key, count in (("gup", 1), (KEY, 3)):
        with pytest.raises(
            ArtifactError, match=rf"expected {count} machines? of key '{key}' .*2 of 'gpu'"
        ):
            tuned(path, remote=Remote(HOST, tracked, key, machines=count))
    with pytest.raises(BadInput, match=r"expected a .*Remote, or a session .* found .*9190"):
        tuned(path, remote="localhost:9190")
    with pytest.raises(ArtifactError, match="found no no-such-compiler"):
        tuned(path, remote=Remote(HOST, tracked, KEY, compiler="no-such-compiler"))
    with pytest.raises(
        DeviceError, match=r"Emulated GPU is sm_80, the target has code for sm_90; tune with"
    ):
        tune(softmax(), target="cuda -arch=sm_90", records=path, remote=Remote(HOST, tracked, KEY))
    assert not path.exists()


def test_a_processor_that_lacks_what_the_host_program_wants(
    tmp_path: Path, gpu: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as there:
        there.setenv(processor.HIDDEN, "*")
        server = rpc.Server(HOST, 9190, 9290, load_library=emulator.driver()._name, key=KEY)
    with pytest.raises(WrongProcessor, match=r"tune: the session's machine: .*lacks"):
        tuned(tmp_path / "r.jsonl", remote=rpc.connect(HOST, server.port, key=KEY))
    server.terminate()


def test_a_machine_without_a_gpu_and_one_that_is_gone(
    tmp_path: Path, gpu: ctypes.CDLL, plain: Any
) -> None:
    path = tmp_path / "r.jsonl"
    session = rpc.connect(HOST, plain.port, key=KEY)
    with pytest.raises(DeviceError, match=r"no driver .* was found on the session's machine"):
        tuned(path, remote=session)
    plain.terminate()
    with pytest.raises(DeviceError, match="tune: the session's machine: "):
        tuned(path, remote=session)
    assert not path.exists() and probe.made(None).startswith(b"\x7fELF")
