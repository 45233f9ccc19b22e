"""Calls in the midst of which a handler of a signal runs, or the process forks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tvm_disc
from tests.models import function, rows
from tvm_disc import relay
from tvm_disc.errors import BadInput
from tvm_disc.options import Options
from tvm_disc.runtime import saved
from tvm_disc.support.locks import Lock

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="signals and forks are POSIX's")

ONES = np.ones((3, 4), "float32")
SECONDS = 20  # after which a child counts as stuck


class Late(TimeoutError):
    """What a server's handler raises to end a call that takes too long."""


@pytest.fixture(scope="module")
def exe() -> Any:
    x = rows("n", 4)
    return tvm_disc.build(function(x, relay.exp(x)))


@pytest.fixture
def on_signal() -> Iterator[Callable[[Callable[[], None]], None]]:
    """Sets what runs at SIGUSR1."""
    before = signal.getsignal(signal.SIGUSR1)
    yield lambda action: signal.signal(signal.SIGUSR1, lambda *_: action()) and None
    signal.signal(signal.SIGUSR1, before)


def raise_late() -> None:
    raise Late("too long")


class Interrupting:
    """A tensor of another library, which takes long: the signal comes while it is given."""

    shape, dtype = ONES.shape, ONES.dtype

    def __dlpack__(self, **_: Any) -> Any:
        os.kill(os.getpid(), signal.SIGUSR1)
        return ONES.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return ONES.__dlpack_device__()


@pytest.mark.parametrize("given", [ONES, ONES[:, ::-1]], ids=["compact", "copied"])
@pytest.mark.parametrize("into", [False, True])
def test_what_a_handler_raises_is_what_the_caller_gets(
    exe: Any, on_signal: Any, given: Any, into: bool
) -> None:
    on_signal(raise_late)
    exe.ready()
    main = exe._main

    def interrupted(*args: Any) -> Any:
        os.kill(os.getpid(), signal.SIGUSR1)
        return main(*args)

    exe._main = interrupted
    try:
        with pytest.raises(Late, match="too long"):
            exe(given, **({"out": np.zeros_like(ONES)} if into else {}))
    finally:
        exe._main = main
    np.testing.assert_allclose(exe(ONES), np.exp(ONES), rtol=1e-6)


def test_a_handler_may_call_the_program(exe: Any, on_signal: Any) -> None:
    found: list[Any] = []
    on_signal(lambda: found.append(exe(ONES)))
    exe(Interrupting())
    np.testing.assert_allclose(found[0], np.exp(ONES), rtol=1e-6)


def in_a_child(action: Callable[[], Any]) -> int:
    """The status of a child that ran ``action``; SIGALRM ends one that is stuck."""
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(SECONDS)
        try:
            action()
        except BaseException:
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1]


def test_a_handler_may_make_the_first_call_within_the_first_call(on_signal: Any) -> None:
    x = rows("n", 4)
    new = tvm_disc.build(function(x, relay.tanh(x)), options=Options(load=False))

    def first() -> None:
        bind, found = new._bind_code, []

        def interrupted() -> None:
            new._bind_code = bind
            os.kill(os.getpid(), signal.SIGUSR1)
            bind()

        new._bind_code = interrupted
        on_signal(lambda: found.append(new(ONES)))
        for result in (new(ONES), *found, new(ONES)):
            np.testing.assert_allclose(result, np.tanh(ONES), rtol=1e-5)
        assert len(found) == 1

    assert in_a_child(first) == 0


def held_elsewhere(lock: Lock) -> tuple[threading.Thread, threading.Event]:
    """A thread that holds a lock until the event."""
    taken, done = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            taken.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    taken.wait()
    return thread, done


def test_a_child_loads_while_a_thread_of_its_parent_did(exe: Any, tmp_path: Any) -> None:
    path = tmp_path / "program.so"
    exe.save(path)
    thread, done = held_elsewhere(saved._LOADING)
    try:
        assert in_a_child(lambda: tvm_disc.load(path)(ONES)) == 0
    finally:
        done.set()
        thread.join()


def test_a_lock_is_its_thread_s_own() -> None:
    lock = Lock()
    with lock, lock:
        lock.unlock()  # as in the child of a fork by the thread that holds it
    thread, done = held_elsewhere(lock)
    other = threading.Thread(target=lock.__enter__)
    other.start()
    other.join(0.05)
    assert other.is_alive(), "two threads held one lock"
    done.set()
    thread.join()
    other.join()


def test_a_tensor_that_fails_is_refused_whatever_it_raises(exe: Any) -> None:
    class Failing(Interrupting):
        def __dlpack__(self, **_: Any) -> Any:
            raise KeyError("gone\nand a stack of another language")

    message = r"input 'x': expected a tensor with DLPack export, found Failing \(KeyError: 'gone"
    with pytest.raises(BadInput, match=message):
        exe(Failing())
    with pytest.raises(BadInput, match="output 0: expected a tensor with DLPack export"):
        exe(ONES, out=Failing())


ENDING = """
import atexit, sys, threading, time
import numpy as np
import tvm_disc

exe = tvm_disc.load(sys.argv[1])
x = np.ones((3000, 4), "float32")


def calls():
    while True:
        exe(x)
        exe([[1.0] * 4])


for _ in range(3):
    threading.Thread(target=calls, daemon=True).start()
atexit.register(lambda: print("at exit", exe(x[:1]).shape, flush=True))
time.sleep(0.2)
"""


def test_daemon_threads_may_call_when_the_interpreter_ends(exe: Any, tmp_path: Any) -> None:
    path = tmp_path / "program.so"
    exe.save(path)
    command = [sys.executable, "-c", ENDING, str(path)]
    for _ in range(3):
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        assert done.stdout == "at exit (1, 4)\n"
