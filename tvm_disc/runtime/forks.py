"""Programs in the child of a fork, where the threads that held their locks do not exist."""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from typing import Protocol

from tvm_disc.codegen.host_memory import MUTEX, MUTEX_WORDS


class Program(Protocol):
    """What holds a lock of Python's, and one in the state of its machine code."""

    _binding: threading.Lock

    def _state_address(self) -> int: ...


_PROGRAMS: weakref.WeakSet[Program] = weakref.WeakSet()


def unlock_in_children(program: Program) -> None:
    """Whatever other threads do when this process forks, the child can call the program."""
    _PROGRAMS.add(program)


def _unlock() -> None:
    for program in _PROGRAMS:
        program._binding = threading.Lock()
        # A mutex that is all zeros is one that nobody holds. What it guards is counters and lists
        # of blocks: half of a change loses a block at worst.
        ctypes.memset(program._state_address() + 8 * MUTEX, 0, 8 * MUTEX_WORDS)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_unlock)
