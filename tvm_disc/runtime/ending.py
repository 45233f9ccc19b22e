"""The end of the interpreter, which daemon threads may meet in the midst of a call.

Until CPython 3.14 a thread that comes back from compiled code then is ended by unwinding its stack,
through frames of C++ that let nothing pass: the process aborts.
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

MOST_SECONDS = 10.0  # that calls under way are waited for
PAUSE_S = 0.001
_HERE = str(Path(__file__).parent)


class Program(Protocol):
    """What calls compiled code."""

    def ends(self, closed: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        """Put ``closed`` around the entry, and have every call pass it."""


_PROGRAMS: weakref.WeakSet[Program] = weakref.WeakSet()


def waits_at_the_end(program: Program) -> None:
    """Let no daemon thread be in ``program`` when the interpreter ends."""
    _PROGRAMS.add(program)


def _closed(main: Callable[..., Any]) -> Callable[..., Any]:
    """An entry that daemon threads wait at for ever."""

    def entry(*args: Any) -> Any:
        while threading.current_thread().daemon:
            time.sleep(MOST_SECONDS)
        return main(*args)

    return entry


def _calling() -> Iterator[int]:
    """The threads that are in a call."""
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
