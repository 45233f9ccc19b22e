"""Workers of a process: forks, cores, programs that go."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processor import linux_with_cores
from tvm_disc.abi.threads import NAME

ROOT = Path(__file__).parents[3]
needs_linux, needs_two = linux_with_cores(1), linux_with_cores(2)
START = """
import gc, json, os, sys, threading, time
import numpy as np, tvm_disc
from tvm_disc import relay
from tvm_disc.runtime.workers import statistics

def compiled(number):
    x = relay.var("x", shape=(relay.Any(), 256), dtype="float32")
    y = relay.exp(relay.add(x, relay.const(np.float32(number))))
    return tvm_disc.build(relay.Function([x], y), options=tvm_disc.Options(threads=2))

a = np.linspace(-4, 4, 4096 * 256, dtype="float32").reshape(4096, 256)

def check(exe, number, calls=20):
    expected = np.exp(a + np.float32(number))
    for _ in range(calls):
        np.testing.assert_allclose(exe(a), expected, rtol=1e-6)
"""


def run(script: str, *args: str, cores: int | None = None) -> dict[str, int]:
    """What a script prints last, in a process of its own on so many cores."""

    def bind() -> None:
        if cores is not None:
            os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])

    command = [sys.executable, "-c", START + script, *args]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "TVM_NUM_THREADS": "2"}
    done = subprocess.run(
        command, env=env, capture_output=True, text=True, timeout=300, preexec_fn=bind, check=False
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return found


@needs_linux
def test_one_core_has_no_workers() -> None:
    found = run("exe = compiled(0); check(exe, 0); print(json.dumps(statistics()))", cores=1)
    assert (found["cores"], found["workers"], found["launches"]) == (1, 0, 20)


@needs_two
def test_a_caller_that_is_bound_later_asks_nobody() -> None:
    found = run(
        """
exe = compiled(0); check(exe, 0)
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
check(exe, 0, 300)
print(json.dumps(statistics()))
"""
    )
    assert found["cores"] == 1


@needs_two
def test_a_child_of_a_fork_has_workers_of_its_own() -> None:
    found = run(
        """
exe = compiled(0); check(exe, 0)
parent = statistics()
child = os.fork()
if child == 0:
    before = statistics()
    check(exe, 0)
    after = statistics()
    one_more = os.fork()
    if one_more == 0:
        check(exe, 0)
        os._exit(0)
    os._exit(0 if before["workers"] == before["launches"] == 0 and after["launches"] == 20
             and after["workers"] == 1 and os.waitpid(one_more, 0)[1] == 0 else 1)
status = os.waitpid(child, 0)[1]
check(exe, 0)
print(json.dumps({"status": status, "more": statistics()["launches"] - parent["launches"]}))
"""
    )
    assert found == {"status": 0, "more": 20}


@needs_two
def test_forks_beside_calls() -> None:
    """A child begins with the words as they are in the middle of others' calls."""
    found = run(
        """
exe = compiled(0); end = time.time() + 2
def call():
    while time.time() < end:
        exe(a)
callers = [threading.Thread(target=call) for _ in range(3)]
for c in callers: c.start()
failed = forks = 0
while time.time() < end:
    child = os.fork()
    if child == 0:
        check(exe, 0, 2)
        os._exit(0)
    failed += os.waitpid(child, 0)[1] != 0
    forks += 1
for c in callers: c.join()
print(json.dumps({"failed": failed, "active": statistics()["active"], "some": forks > 0}))
"""
    )
    assert found == {"failed": 0, "active": 0, "some": True}


@needs_two
@pytest.mark.parametrize("saved", [False, True])
def test_the_program_whose_workers_run_may_go(saved: bool, tmp_path: Path) -> None:
    use = """
def use(make):
    exe = make(0); check(exe, 0)
    first = statistics()["workers"]
    del exe; gc.collect()
    exe = make(1); check(exe, 1)
    print(json.dumps({"first": first, "then": statistics()["workers"]}))
"""
    if not saved:
        assert run(use + "use(compiled)") == {"first": 1, "then": 1}
        return
    paths = [str(tmp_path / f"{k}.so") for k in range(2)]
    run("for k, p in enumerate(sys.argv[1:]): compiled(k).save(p)\nprint('{}')", *paths)
    found = run(use + "use(lambda k: tvm_disc.load(sys.argv[1 + k]))", *paths)
    assert found == {"first": 1, "then": 1}


@needs_linux
def test_the_runtime_alone_runs_a_saved_program_on_threads(tmp_path: Path) -> None:
    path = str(tmp_path / "exp.so")
    run("compiled(0).save(sys.argv[1])\nprint('{}')", path)
    script = """
import json, sys, numpy as np, tvm_ffi, tvm
main = tvm.runtime.load_module(sys.argv[1])["main"]
a = np.linspace(-4, 4, 4096 * 256, dtype="float32").reshape(4096, 256)
for _ in range(20):
    y = main(tvm.runtime.tensor(a))
np.testing.assert_allclose(y.numpy(), np.exp(a), rtol=1e-6)
print(tvm.get_global_func(sys.argv[2])() > 0)
"""
    env = {**os.environ, "TVM_USE_RUNTIME_LIB": "1"}
    done = subprocess.run(
        [sys.executable, "-c", script, path, NAME],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip() == "True", done.stderr
