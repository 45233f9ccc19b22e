"""Shutdown of the interpreter while daemon threads are in compiled code.

Before CPython 3.14 a daemon thread that returns from compiled code during shutdown is ended by
unwinding its stack. C++ frames do not permit that, and the process aborts.
"""

from __future__ import annotations

import atexit
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

MOST_SECONDS = 10.0  # limit of the wait for active calls
PAUSE_S = 0.001
_HERE = str(Path(__file__).parent)


class CallsProgram(Protocol):
    """An object that calls compiled code."""

    def ends(self, closed: Callable[[Callable[..., object]], Callable[..., object]]) -> None:
        """Replace the entry by ``closed(entry)`` for all further calls."""


_PROGRAMS: weakref.WeakSet[CallsProgram] = weakref.WeakSet()


def waits_at_the_end(program: CallsProgram) -> None:
    """Register ``program``, so that no daemon thread is inside of it when the interpreter ends."""
    _PROGRAMS.add(program)


def _closed(main: Callable[..., object]) -> Callable[..., object]:
    """Return an entry that blocks daemon threads forever."""

    def entry(*args: object) -> Any:
        while threading.current_thread().daemon:
            time.sleep(MOST_SECONDS)
        return main(*args)

    return entry


def _calling() -> Iterator[int]:
    """Yield the threads that are inside of a call."""
    for thread, frame in sys._current_frames().items():
        name = frame.f_code.co_filename
        if thread != threading.get_ident() and name.startswith(_HERE) and name != __file__:
            yield thread


def _end() -> None:
    for program in list(_PROGRAMS):
        program.ends(_closed)
    last = time.monotonic() + MOST_SECONDS
    while any(_calling()) and time.monotonic() < last:
        time.sleep(PAUSE_S)


if sys.version_info < (3, 14):
    atexit.register(_end)

__all__ = ["waits_at_the_end"]
