"""How long a build may take, and what it is at.

A build with a limit runs on a thread of its own, and the caller waits no longer than that. What
runs in Python asks before every operator and every kernel whether its time is over, and ends.
Calls into TVM and LLVM cannot be ended from outside: such a thread runs on until the call returns,
and what it made is dropped. The process does not end before that.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar

from .errors import BuildTimeout

__all__ = ["at", "entered", "stack_of_builds", "watched_by", "watching", "within"]

T = TypeVar("T")
# LLVM recurses deeper than the stack that some systems give a thread.
STACK_BYTES = 64 << 20

_of_thread = threading.local()


class Watcher(Protocol):
    """Who is told what the build of a thread is at."""

    def entered(self, stage: str) -> None: ...

    def at(self, task: str, count: tuple[int, int] | None) -> None: ...


class _Build(Generic[T]):
    """One build: what it is at, and what it gives."""

    def __init__(self, seconds: float, work: Callable[[], T]) -> None:
        self.seconds, self.end = seconds, time.monotonic() + seconds
        self.work = work
        self.stage, self.task, self.begun = "begin", "", time.monotonic()
        self.slowest = (0.0, "")
        self.result: list[T] = []
        self.error: BaseException | None = None
        self.done = threading.Event()

    def run(self, watchers: list[Watcher]) -> None:
        """On the thread of the build; ``watchers`` are those of the caller's."""
        _of_thread.watchers = [*watchers, self]
        try:
            self.result.append(self.work())
        except BaseException as error:  # the caller raises it
            self.error = error
        finally:
            self.done.set()

    def entered(self, stage: str) -> None:
        """A stage begins; raises if there is no time for it."""
        self._now_at(stage, "")

    def at(self, task: str, count: tuple[int, int] | None) -> None:
        """An operator or a kernel begins; raises if there is no time for it."""
        self._now_at(self.stage, task)

    def _now_at(self, stage: str, task: str) -> None:
        now = time.monotonic()
        if now > self.end:
            raise self.timeout()
        self.slowest = max(self.slowest, (now - self.begun, self.task))
        self.stage, self.task, self.begun = stage, task, now

    def timeout(self) -> BuildTimeout:
        """What the caller is told."""
        place = f"stage {self.stage!r}"
        if self.task:
            place += f" at {self.task}"
        elif self.slowest[1]:
            place += f", after {self.slowest[0]:.1f} s for {self.slowest[1]}, the longest so far"
        return BuildTimeout(
            f"the build took longer than time_limit={self.seconds:g} s; it was in {place}. Give it "
            "more time, or see what Options(fuse=False) makes of that place"
        )


def within(seconds: float, work: Callable[[], T]) -> T:
    """``work()``, or BuildTimeout after so many seconds, whatever it is at."""
    build = _Build(seconds, work)
    with stack_of_builds():
        # No daemon: Python would end such a thread inside of TVM's code, which aborts the process.
        threading.Thread(target=build.run, args=[_watchers()], name="tvm_disc build").start()
    try:
        finished = build.done.wait(seconds)
    except BaseException:  # raised by a signal handler: the build has no caller any more
        build.end = 0.0
        raise
    if not finished:
        raise build.timeout()
    if build.error is not None:
        raise build.error
    return build.result[0]


@contextmanager
def stack_of_builds() -> Iterator[None]:
    """Threads that are started inside have a stack on which LLVM can compile."""
    before = threading.stack_size(STACK_BYTES)
    try:
        yield
    finally:
        threading.stack_size(before)


def _watchers() -> list[Watcher]:
    """Those of this thread."""
    return getattr(_of_thread, "watchers", [])


@contextmanager
def watching(watcher: Watcher) -> Iterator[None]:
    """Tell ``watcher`` what the build inside is at."""
    before = _watchers()
    _of_thread.watchers = [*before, watcher]
    try:
        yield
    finally:
        _of_thread.watchers = before


def watched_by(kind: type) -> bool:
    """Whether the build of this thread, if there is one, has a watcher of a kind."""
    return any(isinstance(watcher, kind) for watcher in _watchers())


def entered(stage: str) -> None:
    """The build of this thread begins a stage. raises: BuildTimeout if its time is over."""
    for watcher in _watchers():
        watcher.entered(stage)


def at(task: str, count: tuple[int, int] | None = None) -> None:
    """The build of this thread comes to an operator or a kernel, perhaps the k-th of n.

    Raises:
        BuildTimeout: its time is over.
    """
    for watcher in _watchers():
        watcher.at(task, count)
