"""LLVM in a second process: the same code, and no trace of it whatever happens to it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm

import tvm_disc
from tvm_disc import relay
from tvm_disc.codegen import llvm_helper, machine_code
from tvm_disc.codegen.llvm_helper import Helper
from tvm_disc.codegen.machine_code import Compiling, _lowered, _object_of
from tvm_disc.codegen.target import resolve_target
from tvm_disc.options import Options

TWICE = """
@T.prim_func
def twice(x: T.Buffer((16,), "float32"), y: T.Buffer((16,), "float32")):
    T.func_attr({"global_symbol": "twice"})
    for i in range(16):
        y[i] = x[i] * T.float32(2)
"""


def layers() -> relay.Function:
    x = relay.var("x", shape=(relay.Any("n"), 8))
    weight = relay.const(np.linspace(-1, 1, 64).reshape(8, 8).astype("float32"))
    return relay.Function([x], relay.nn.softmax(relay.nn.relu(relay.nn.dense(x, weight))))


def module() -> Any:
    target = resolve_target(None)
    mod = tvm.IRModule({"twice": tvm.script.from_source(TWICE)})
    return _lowered(mod, target, ()), target


@pytest.fixture
def helpers(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Helper]]:
    """Every program is large; the helpers that were started."""
    found: list[Helper] = []

    class Noted(Helper):
        def __init__(self, target: Any) -> None:
            super().__init__(target)
            found.append(self)

    monkeypatch.setattr(machine_code, "Helper", Noted)
    monkeypatch.setattr(machine_code, "HELPED_BYTES", 1)
    monkeypatch.setattr(machine_code, "cores", lambda: 2)
    yield found
    assert all(h._process.poll() is not None for h in found), "nobody is left behind"
    assert not any(Path(h._folder.name).exists() for h in found)


def test_its_objects_are_those_of_this_process() -> None:
    lowered, target = module()
    helper = Helper(target)
    try:
        assert helper.object_of(lowered) == _object_of(lowered, target)
        assert helper.object_of(lowered) == helper.object_of(lowered)
    finally:
        helper.close()


def test_a_program_that_both_compile(helpers: list[Helper], tmp_path: Path) -> None:
    exe = tvm_disc.build(layers(), options=Options(cache=tmp_path / "two"))
    assert helpers
    plain = tvm_disc.build(layers(), options=Options(cache=False))
    for rows in (0, 1, 7, 15, 16, 300):
        x = np.linspace(-1, 1, rows * 8).reshape(rows, 8).astype("float32")
        np.testing.assert_allclose(exe(x), plain(x), rtol=1e-6)


@pytest.mark.parametrize("fate", ["killed", "mute", "lies"])
def test_a_helper_that_fails_is_done_without(
    fate: str, helpers: list[Helper], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if fate == "killed":
        start = Helper.object_of
        monkeypatch.setattr(
            Helper, "object_of", lambda self, m: self._process.kill() or start(self, m)
        )
    else:
        script = tmp_path / "helper.py"
        script.write_text({"mute": "", "lies": "print('+' + '~' * 60)"}[fate])
        monkeypatch.setattr(llvm_helper.llvm_process, "__file__", str(script))
    exe = tvm_disc.build(layers(), options=Options(cache=tmp_path / "cache"))
    assert helpers
    assert exe(np.ones((3, 8), "float32")).shape == (3, 8)


def test_where_no_process_can_be_started_one_thread_compiles(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(machine_code, "HELPED_BYTES", 1)
    monkeypatch.setattr(machine_code, "cores", lambda: 2)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "nothing"))
    exe = tvm_disc.build(layers(), options=Options(cache=tmp_path, debug=2))
    assert exe(np.ones((3, 8), "float32")).shape == (3, 8)
    assert "LLVM runs in one thread: a helper process cannot be started" in capfd.readouterr().err


def test_a_build_that_ends_early_ends_it(helpers: list[Helper], tmp_path: Path) -> None:
    class Stopped(Exception):
        pass

    lowered, target = module()
    with pytest.raises(Stopped), Compiling(target, machine_code.Store(tmp_path)) as compiling:
        compiling._help(2)
        asked = threading.Thread(target=helpers[0].object_of, args=(lowered,))
        asked.start()
        raise Stopped
    asked.join(60)
    assert not asked.is_alive()


def test_a_small_program_has_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(machine_code, "cores", lambda: 2)
    monkeypatch.setattr(machine_code, "Helper", lambda target: pytest.fail("not worth its start"))
    tvm_disc.build(layers(), options=Options(cache=tmp_path))


def test_it_ends_when_whoever_started_it_is_killed() -> None:
    code = (
        "import time\nfrom tvm_disc.codegen.llvm_helper import Helper\n"
        "from tvm_disc.codegen.target import resolve_target\n"
        "print(Helper(resolve_target(None))._process.pid, flush=True)\ntime.sleep(600)"
    )
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.send_signal(signal.SIGKILL)
    end = time.monotonic() + 60
    while Path(f"/proc/{pid}").exists() and _state(pid) != "Z" and time.monotonic() < end:
        time.sleep(0.05)
    assert not Path(f"/proc/{pid}").exists() or _state(pid) == "Z"


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"
