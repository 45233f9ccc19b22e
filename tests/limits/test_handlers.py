"""What a signal handler raises during a build reaches the caller as the very object."""

from __future__ import annotations

import contextlib
import errno
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import tvm
import tvm_ffi
from tvm import tirx

import tvm_disc
from tests.models import function, rows
from tvm_disc import relay
from tvm_disc.errors import TypeMismatch
from tvm_disc.support.deadline import at, entered
from tvm_disc.support.handlers import with_handlers

SIGNAL = signal.SIGUSR1


class Own(Exception):
    """An exception that takes two arguments and whose text says nothing."""

    def __init__(self, first: int, second: int) -> None:
        self.pair = first, second

    def __str__(self) -> str:
        return ""


RAISED = [
    TimeoutError("mine"),
    KeyboardInterrupt(),
    SystemExit(3),
    Own(1, 2),
    OSError(errno.ENOSPC, "mine"),
    MemoryError("mine"),
    RuntimeError("can't start new thread"),
    TypeMismatch("mine"),
]


@pytest.fixture(params=RAISED, ids=lambda error: type(error).__name__)
def raised(request: pytest.FixtureRequest) -> Iterator[BaseException]:
    error = request.param

    def handler(*_: object) -> None:
        raise error

    before = signal.signal(SIGNAL, handler)
    yield error
    assert signal.getsignal(SIGNAL) is handler, "the user's handler is not back"
    signal.signal(SIGNAL, before)


def send() -> None:
    signal.raise_signal(SIGNAL)


def below_tvm() -> None:
    """The handler runs in a callback, between two C++ frames of TVM."""
    x = tirx.Var("x", "int64")
    tvm_ffi.structural_walk(x + 1, (tirx.Var, lambda _: send()))


def below_a_pass() -> None:
    tvm.transform.module_pass(lambda mod, _: send() or mod, opt_level=0)(tvm.IRModule())


def swallowed() -> None:
    with contextlib.suppress(BaseException):
        send()


def swallowed_before_a_stage() -> None:
    swallowed()
    entered("kernels")
    raise AssertionError("the build went on")


def swallowed_before_a_kernel() -> None:
    swallowed()
    at("kernel 'f'")
    raise AssertionError("the build went on")


def told_as_another() -> None:
    try:
        send()
    except BaseException as error:
        raise ValueError("a file cannot be read") from error


PLACES = [
    send,
    below_tvm,
    below_a_pass,
    swallowed,
    swallowed_before_a_stage,
    swallowed_before_a_kernel,
    told_as_another,
]


@pytest.mark.parametrize("place", PLACES)
def test_the_caller_gets_what_the_handler_raised(
    raised: BaseException, place: Callable[[], None]
) -> None:
    with pytest.raises(type(raised)) as caught:
        with_handlers(place)
    assert caught.value is raised
    assert raised.__context__ is None


def soft(mod: Any) -> Any:
    """A user's pass that limits its own time and deals with the end of it."""
    try:
        send()
    except BaseException:
        return mod
    raise AssertionError("no signal")


def hard(mod: Any) -> Any:
    send()
    return mod


def program() -> Any:
    x = rows("n", 4)
    return function(x, relay.exp(x))


def test_a_build_raises_what_the_handler_raised(raised: BaseException) -> None:
    with pytest.raises(type(raised)) as caught:
        tvm_disc.build(program(), passes={"before fuse": [hard]})
    assert caught.value is raised


def test_a_pass_of_the_users_may_deal_with_its_own_signals(raised: BaseException) -> None:
    exe = tvm_disc.build(program(), passes={"before fuse": [soft]})
    assert exe([[0.0] * 4]).tolist() == [[1.0] * 4]


def test_a_handler_that_the_build_replaces_stays(raised: BaseException) -> None:
    before = signal.getsignal(SIGNAL)
    with_handlers(lambda: signal.signal(SIGNAL, signal.SIG_IGN))
    assert signal.getsignal(SIGNAL) is signal.SIG_IGN
    signal.signal(SIGNAL, before)


def test_a_signal_while_handlers_are_put_back_is_not_lost(
    raised: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = signal.signal
    # a process that a shell started in the background ignores SIGINT
    before = put(signal.SIGINT, signal.default_int_handler)
    sent: list[int] = []

    def interrupted(number: int, handler: Any) -> Any:
        if handler is signal.default_int_handler and not sent:  # SIGINT comes before SIGUSR1
            sent.append(number)
            send()
        return put(number, handler)

    monkeypatch.setattr(signal, "signal", interrupted)
    with pytest.raises(type(raised)) as caught:
        with_handlers(lambda: None)
    monkeypatch.undo()
    put(signal.SIGINT, before)
    assert caught.value is raised and sent


def test_other_threads_leave_handlers_alone(raised: BaseException) -> None:
    before, seen = signal.getsignal(SIGNAL), []
    thread = threading.Thread(
        target=lambda: with_handlers(lambda: seen.append(signal.getsignal(SIGNAL)))
    )
    thread.start()
    thread.join()
    assert seen == [before]


def test_other_errors_stay_what_they_are(raised: BaseException) -> None:
    with pytest.raises(TypeMismatch, match="source: expected a Relay module"):
        tvm_disc.build(5)
