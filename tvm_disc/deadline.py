"""How long a build may take.

A build with a limit runs on a thread of its own, and the caller waits no longer than that. What
runs in Python asks before every operator and every kernel whether its time is over, and ends.
Calls into TVM and LLVM cannot be ended from outside: such a thread runs on until the call returns,
and what it made is dropped. The process does not end before that.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from .errors import BuildTimeout

__all__ = ["at", "entered", "within"]

T = TypeVar("T")
# LLVM recurses deeper than the stack that some systems give a thread.
STACK_BYTES = 64 << 20

_of_thread = threading.local()


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

    def run(self) -> None:
        """On the thread of the build."""
        _of_thread.build = self
        try:
            self.result.append(self.work())
        except BaseException as error:  # the caller raises it
            self.error = error
        finally:
            self.done.set()

    def now_at(self, stage: str, task: str) -> None:
        """Note what comes next; raises if there is no time for it."""
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
    before = threading.stack_size(STACK_BYTES)
    try:
        # No daemon: Python would end such a thread inside of TVM's code, which aborts the process.
        threading.Thread(target=build.run, name="tvm_disc build").start()
    finally:
        threading.stack_size(before)
    if not build.done.wait(seconds):
        raise build.timeout()
    if build.error is not None:
        raise build.error
    return build.result[0]


def entered(stage: str) -> None:
    """The build of this thread begins a stage. raises: BuildTimeout if its time is over."""
    build = getattr(_of_thread, "build", None)
    if build is not None:
        build.now_at(stage, "")


def at(task: str) -> None:
    """The build of this thread comes to an operator or a kernel. raises: BuildTimeout, as above."""
    build = getattr(_of_thread, "build", None)
    if build is not None:
        build.now_at(build.stage, task)
