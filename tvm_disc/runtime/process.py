"""Programs in processes that fork or end while threads are in compiled code.

The child of a fork lacks the threads that held the locks of programs. The child therefore resets
these locks.

Before version 3.14, CPython ends a daemon thread that returns from compiled code during shutdown by
unwinding its stack. C++ frames do not permit this, and the process aborts. This module therefore
blocks daemon threads at shutdown.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

from tvm_disc.abi.state import MUTEX, MUTEX_WORDS

MOST_SECONDS = 10.0  # limit of the wait for active calls
PAUSE_S = 0.001
_HERE = str(Path(__file__).parent)


class CallsProgram(Protocol):
    """An object that calls compiled code."""

    def ends(self, closed: Callable[[Callable[..., object]], Callable[..., object]]) -> None:
        """Replace the entry by ``closed(entry)`` for all further calls."""


_CALLED: weakref.WeakSet[CallsProgram] = weakref.WeakSet()


def waits_at_the_end(program: CallsProgram) -> None:
    """Register ``program``, so that no daemon thread executes its code when the interpreter
    ends.
    """
    _CALLED.add(program)


def _closed(main: Callable[..., object]) -> Callable[..., object]:
    """Return an entry that blocks daemon threads forever."""

    def entry(*args: object) -> object:
        while threading.current_thread().daemon:
            time.sleep(MOST_SECONDS)
        return main(*args)

    return entry


def _calling() -> Iterator[int]:
    """Yield the identifiers of the other threads that execute a call of a program."""
    for thread, frame in sys._current_frames().items():
        name = frame.f_code.co_filename
        if thread != threading.get_ident() and name.startswith(_HERE) and name != __file__:
            yield thread


def _end() -> None:
    for program in list(_CALLED):
        program.ends(_closed)
    last = time.monotonic() + MOST_SECONDS
    while any(_calling()) and time.monotonic() < last:
        time.sleep(PAUSE_S)


if sys.version_info < (3, 14):
    atexit.register(_end)

# Programs with the address of their state, which contains a lock. The addresses are stored here,
# because a child that asked TVM's runtime for an address could block on the runtime's lock.
_STATES: weakref.WeakKeyDictionary[object, int] = weakref.WeakKeyDictionary()


def unlock_in_children(program: object, state: int) -> None:
    """Ensure that the child of a fork can call the program, even if another thread held the
    program's lock at the time of the fork.

    Args:
        state: the address of the program's state.
    """
    _STATES[program] = state


def _unlock() -> None:
    for state in _STATES.values():
        # An all-zero mutex is unlocked. The mutex protects counters and lists of blocks; a change
        # that the fork interrupted leaks at most one block.
        ctypes.memset(state + 8 * MUTEX, 0, 8 * MUTEX_WORDS)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_unlock)

__all__ = ["unlock_in_children", "waits_at_the_end"]
