"""Programs in the child of a fork, where the threads that held their locks do not exist."""

from __future__ import annotations

import ctypes
import os
import weakref

from tvm_disc.abi.state import MUTEX, MUTEX_WORDS

# With where the state of its machine code lies, which holds a lock: a child that asked the runtime
# for it would find that one's own held.
_PROGRAMS: weakref.WeakKeyDictionary[object, int] = weakref.WeakKeyDictionary()


def unlock_in_children(program: object, state: int) -> None:
    """Whatever other threads do when this process forks, the child can call the program.

    Args:
        state: the address of the state of its machine code.
    """
    _PROGRAMS[program] = state


def _unlock() -> None:
    for state in _PROGRAMS.values():
        # A mutex that is all zeros is one that nobody holds. What it guards is counters and lists
        # of blocks: half of a change loses a block at worst.
        ctypes.memset(state + 8 * MUTEX, 0, 8 * MUTEX_WORDS)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_unlock)
