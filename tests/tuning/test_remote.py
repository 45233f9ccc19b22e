"""Measuring on other machines: two servers on loopback, behind a tracker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tvm import rpc
from tvm.rpc.tracker import Tracker

import tvm_disc
from tests.models import mlp, mlp_reference
from tvm_disc import Options
from tvm_disc.errors import ArtifactError, BadInput
from tvm_disc.tuning import tune
from tvm_disc.tuning.measure import Effort
from tvm_disc.tuning.remote import Remote

HOST = "127.0.0.1"


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    tracker = Tracker(HOST, 9190, 9290)
    address = (HOST, tracker.port)
    servers = [rpc.Server(HOST, 9190, 9290, tracker_addr=address, key="board") for _ in range(2)]
    yield tracker.port
    for server in servers:
        server.terminate()
    tracker.terminate()


def test_machines_measure_at_once_and_a_build_uses_it(port: int, tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    result = tune(
        mlp(),
        records=path,
        shapes={"x.0": range(1, 65)},
        points=6,
        effort=Effort(rounds=1, round_ns=1e3, most_rounds=1, wait_s=0.0),
        progress=False,
        remote=Remote(HOST, port, "board", machines=2),
    )
    assert result.measured > 0 and result.left == 0
    exe = tvm_disc.build(mlp(), options=Options(records=path))
    x = np.ones((33, 16), "float32")
    np.testing.assert_allclose(exe(x), mlp_reference(x), rtol=1e-5)


def test_a_session_is_a_machine(port: int, tmp_path: Path) -> None:
    session = rpc.connect_tracker(HOST, port).request("board")
    effort = Effort(rounds=1, round_ns=1e3, most_rounds=1, wait_s=0.0, odd=0)
    given = {"shapes": {"x.0": [3]}, "points": 1, "effort": effort, "progress": False}
    result = tune(mlp(), records=tmp_path / "r.jsonl", remote=session, **given)
    assert result.measured > 0 and result.left == 0


def test_a_machine_whose_time_is_up(port: int, tmp_path: Path) -> None:
    remote = Remote(HOST, port, "board", timeout_s=1)
    given = {"shapes": {"x.0": range(1, 200)}, "points": 200, "progress": False}
    said = r"tune: a remote machine failed: .*expired, give Remote a larger timeout_s; measured"
    with pytest.raises(ArtifactError, match=said):
        tune(mlp(), records=tmp_path / "r.jsonl", remote=remote, **given)


def test_a_server_that_tells_no_processor(
    port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = rpc.connect_tracker(HOST, port).request("board")
    known = session.get_function
    absent = lambda name: known(name if "llvm" not in name else "no.such.function")  # noqa: E731
    monkeypatch.setattr(session, "get_function", absent)
    with pytest.raises(ArtifactError, match=r"the session's machine did not report its processor"):
        tune(mlp(), records=tmp_path / "r.jsonl", progress=False, remote=session)


@pytest.mark.parametrize(
    ("remote", "kind", "said"),
    [
        (
            lambda port: Remote(HOST, 1, "board"),
            ArtifactError,
            "expected 1 machine of key 'board' at",
        ),
        (
            lambda port: Remote(HOST, port, "x"),
            ArtifactError,
            "1 machine of key 'x' at .*, found 2 of 'bo",
        ),
        (
            lambda port: Remote(HOST, port, "board", 3),
            ArtifactError,
            "expected 3 machines of key 'board' at .*, found 2 of",
        ),
        (lambda port: HOST, BadInput, "remote: expected a .*Remote, or a session of tvm.rpc.conn"),
    ],
)
def test_what_is_no_machine(port: int, tmp_path: Path, remote: Any, kind: Any, said: str) -> None:
    with pytest.raises(kind, match=said):
        tune(mlp(), records=tmp_path / "r.jsonl", progress=False, remote=remote(port))
    assert not (tmp_path / "r.jsonl").exists()
