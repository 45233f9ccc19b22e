"""Time limit of a build, and tracking of its current stage and task.

A build with a limit runs on a separate thread; the caller waits until the limit. Python code of the
build checks the limit before every operator and kernel and raises when it is exceeded. Calls into
TVM and LLVM cannot be cancelled: the thread continues until the call returns, and its result is
discarded. The process cannot exit before that.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar

from tvm_disc.errors import BuildTimeout

__all__ = ["at", "entered", "stack_of_builds", "watched_by", "watching", "within"]

T = TypeVar("T")
# LLVM's recursion needs more than the default thread stack of some systems
STACK_BYTES = 64 << 20

_of_thread = threading.local()


class Watcher(Protocol):
    """Interface that receives the current stage and task of the build of a thread."""

    def entered(self, stage: str) -> None: ...

    def at(self, task: str, count: tuple[int, int] | None) -> None: ...


class _Build(Generic[T]):
    """One build with a time limit: its current stage, and its result or error."""

    def __init__(self, seconds: float, work: Callable[[], T]) -> None:
        self.seconds, self.end = seconds, time.monotonic() + seconds
        self.work = work
        self.stage, self.task, self.begun = "begin", "", time.monotonic()
        self.slowest = (0.0, "")
        self.result: list[T] = []
        self.error: BaseException | None = None
        self.done = threading.Event()

    def run(self, watchers: list[Watcher]) -> None:
        """Run on the build's thread; ``watchers`` are those of the calling thread."""
        _of_thread.watchers = [*watchers, self]
        try:
            self.result.append(self.work())
        except BaseException as error:  # re-raised by the caller
            self.error = error
        finally:
            self.done.set()

    def entered(self, stage: str) -> None:
        """Record the start of a stage; raise if the time limit is exceeded."""
        self._now_at(stage, "")

    def at(self, task: str, count: tuple[int, int] | None) -> None:
        """Record the start of an operator or kernel; raise if the time limit is exceeded."""
        self._now_at(self.stage, task)

    def _now_at(self, stage: str, task: str) -> None:
        now = time.monotonic()
        if now > self.end:
            raise self.timeout()
        self.slowest = max(self.slowest, (now - self.begun, self.task))
        self.stage, self.task, self.begun = stage, task, now

    def timeout(self) -> BuildTimeout:
        """Return the error for the caller; it names the current stage, and the current or
        slowest task.
        """
        place = f"stage {self.stage!r}"
        if self.task:
            place += f" at {self.task}"
        elif self.slowest[1]:
            place += f", after {self.slowest[0]:.1f} s for {self.slowest[1]}, the slowest so far"
        return BuildTimeout(
            f"the build took longer than time_limit={self.seconds:g} s; it was in {place}. "
            "Increase time_limit, or try Options(fuse=False)"
        )


def within(seconds: float, work: Callable[[], T]) -> T:
    """Return ``work()``; raise BuildTimeout after ``seconds``."""
    build = _Build(seconds, work)
    with stack_of_builds():
        # Not a daemon thread: Python would kill it at exit inside TVM's code, which aborts the
        # process.
        threading.Thread(target=build.run, args=[_watchers()], name="tvm_disc build").start()
    try:
        finished = build.done.wait(seconds)
    except BaseException:  # raised by a signal handler: end the build at its next check
        build.end = 0.0
        raise
    if not finished:
        raise build.timeout()
    if build.error is not None:
        raise build.error
    return build.result[0]


@contextmanager
def stack_of_builds() -> Iterator[None]:
    """Give threads that are started in this context a stack large enough for LLVM."""
    before = threading.stack_size(STACK_BYTES)
    try:
        yield
    finally:
        threading.stack_size(before)


def _watchers() -> list[Watcher]:
    """Return the watchers of this thread."""
    return getattr(_of_thread, "watchers", [])


@contextmanager
def watching(watcher: Watcher) -> Iterator[None]:
    """Report stages and tasks of the build in this context to ``watcher``."""
    before = _watchers()
    _of_thread.watchers = [*before, watcher]
    try:
        yield
    finally:
        _of_thread.watchers = before


def watched_by(kind: type) -> bool:
    """Return whether the build of this thread has a watcher of class ``kind``."""
    return any(isinstance(watcher, kind) for watcher in _watchers())


def entered(stage: str) -> None:
    """Report that the build of this thread enters a stage; raises BuildTimeout after the limit."""
    for watcher in _watchers():
        watcher.entered(stage)


def at(task: str, count: tuple[int, int] | None = None) -> None:
    """Report that the build of this thread begins an operator or kernel.

    Args:
        count: ``(k, n)`` for the k-th of n kernels.

    Raises:
        BuildTimeout: the time limit is exceeded.
    """
    for watcher in _watchers():
        watcher.at(task, count)
