"""Progress of a long build on standard error.

On a terminal, progress is one line, which is cleared when the build ends. In a log, lines are added
at growing intervals. A separate thread draws the line, because calls into TVM and LLVM may block
the build's thread. The separate thread reads the stage and task that the build reports
(``deadline.entered``, ``deadline.at``), holds no lock that the build waits for, and ends with the
build or the process. The child of a fork does not have this thread and does not wait for it.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar, TextIO
from weakref import WeakSet

from tqdm import tqdm

from tvm_disc.options import Options
from tvm_disc.support.deadline import watched_by, watching

DELAY_S, INTERVAL_S = 2.0, 0.25
# In a log: seconds before the first line, if the user did not enable it, and between two lines.
LOG_DELAY_S, LOG_INTERVAL_S = 10.0, 60.0
# Steps of a build after the first, which consists of the passes; each with its stages.
STEPS = (("kernels",), ("host program",), ("machine code", "description"), ("load", "keep"))
COUNTED = "{desc}, kernel {n_fmt} of {total_fmt} |{bar:10}| {elapsed}{postfix}"
UNCOUNTED = "{desc} {elapsed}"


class _Bar(tqdm):  # type: ignore[misc]
    """A progress bar that starts no monitor thread, and that shares no lock with the progress bars
    of the application.
    """

    monitor_interval = 0
    _instances: ClassVar[WeakSet[object]] = WeakSet()

    def refresh(self, nolock: bool = False, lock_args: object = None) -> bool:
        """Draw the bar. Unlike tqdm's method, this method releases the lock if the stream
        raises.
        """
        del nolock, lock_args
        with self.get_lock():
            self.display()
        return True

    @classmethod
    def new_lock(cls) -> None:
        """Replace the lock by a new, free lock."""
        cls.set_lock(threading.RLock())


_Bar.new_lock()
# The thread that held the lock does not exist in the child of a fork.
os.register_at_fork(after_in_child=_Bar.new_lock)


class ProgressLine:
    """The state of one build, and the thread that shows it.

    Args:
        log_after_s: seconds before the first line of a log; None for a terminal.
    """

    def __init__(self, stream: TextIO, log_after_s: float | None = None) -> None:
        self._stream, self._log_after_s = stream, log_after_s
        self._stage = "begin"
        self._task = ""
        self._count: tuple[int, int] | None = None
        self._done = threading.Event()
        self._process = os.getpid()
        self._thread = threading.Thread(target=self._show, name="tvm_disc progress")

    def entered(self, stage: str) -> None:
        """Record that the build enters a stage."""
        self._stage, self._task, self._count = stage, "", None

    def at(self, task: str, count: tuple[int, int] | None) -> None:
        """Record that the build begins an operator or kernel; ``count`` is (k, n) for the k-th of
        n.
        """
        self._task, self._count = task, count

    def start(self) -> None:
        """Start the thread; it shows the line after ``DELAY_S``."""
        try:
            self._thread.start()
        except RuntimeError:  # no thread can be started: build without a progress line
            self._process = 0

    def end(self) -> None:
        """Clear the line."""
        if os.getpid() == self._process:
            self._done.set()
            self._thread.join()

    def _show(self) -> None:
        try:
            if self._log_after_s is None:
                self._show_bar()
            else:
                self._log(self._log_after_s)
        except (OSError, ValueError):
            pass  # standard error was closed

    def _log(self, following: float) -> None:
        """Write lines to a log, the first after ``following`` seconds, later ones at growing
        intervals.
        """
        begun, logged = time.monotonic(), False
        while threading.main_thread().is_alive() and not self._done.wait(INTERVAL_S):
            passed = time.monotonic() - begun
            if passed >= following:
                self._write(self._described(), passed)
                following, logged = passed + min(passed, LOG_INTERVAL_S), True
        if logged and self._done.is_set():
            self._write("the build ended", time.monotonic() - begun)

    def _write(self, text: str, passed: float) -> None:
        count = "" if self._count is None else ", kernel {} of {}".format(*self._count)
        task = f", {self._task}" if self._task and not self._done.is_set() else ""
        count = "" if self._done.is_set() else count
        self._stream.write(f"tvm_disc: {text}{count}{task}, {passed:.0f} s\n")
        self._stream.flush()

    def _show_bar(self) -> None:
        waited, bar = 0.0, None  # tested with ``is None``: bool() of a bar without a total raises
        try:
            while threading.main_thread().is_alive() and not self._done.wait(INTERVAL_S):
                waited += INTERVAL_S
                if waited >= DELAY_S:
                    if bar is None:
                        bar = self._bar()
                    self._draw(bar)
        finally:
            if bar is not None:
                bar.close()

    def _bar(self) -> _Bar:
        bar = _Bar(
            desc=self._described(),
            file=self._stream,
            leave=False,
            dynamic_ncols=True,
            bar_format=UNCOUNTED,
        )
        bar.start_t -= DELAY_S
        return bar

    def _described(self) -> str:
        stage = self._stage.partition("/")[0]
        step = next((k for k, stages in enumerate(STEPS, 2) if stage in stages), 1)
        return f"building, {self._stage} (step {step} of {len(STEPS) + 1})"

    def _draw(self, bar: _Bar) -> None:
        count = self._count
        bar.bar_format = UNCOUNTED if count is None else COUNTED
        bar.n, bar.total = (0, None) if count is None else count
        bar.desc = self._described()
        bar.postfix = self._task
        bar.refresh()


def wanted(options: Options, stream: object) -> bool:
    """Return whether a build shows its progress. If the option is None, it does unless there is
    debug output.
    """
    if stream is None or getattr(stream, "closed", False):
        return False
    if options.progress is not None:
        return options.progress
    return not options.debug


@contextmanager
def shown(options: Options) -> Iterator[None]:
    """Show the progress of the build in this context, if wanted; a nested build shows none."""
    stream = sys.stderr
    if not wanted(options, stream) or watched_by(ProgressLine):
        yield
        return
    after = LOG_DELAY_S if options.progress is None else DELAY_S
    line = ProgressLine(stream, None if getattr(stream, "isatty", bool)() else after)
    line.start()
    try:
        with watching(line):
            yield
    finally:
        line.end()


__all__ = ["DELAY_S", "ProgressLine", "shown", "wanted"]
