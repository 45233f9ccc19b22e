"""Fork safety: resets the locks of programs in the child, which lacks the threads that held
them.
"""

from __future__ import annotations

import ctypes
import os
import weakref

from tvm_disc.abi.state import MUTEX, MUTEX_WORDS

# Programs with the address of their state, which contains a lock. The address is stored here,
# because in the child the lock of TVM's runtime might be held, and asking it would block.
_PROGRAMS: weakref.WeakKeyDictionary[object, int] = weakref.WeakKeyDictionary()


def unlock_in_children(program: object, state: int) -> None:
    """Let the child of a fork call the program, whatever other threads do at the time of the fork.

    Args:
        state: the address of the program's state.
    """
    _PROGRAMS[program] = state


def _unlock() -> None:
    for state in _PROGRAMS.values():
        # An all-zero mutex is unlocked. It guards counters and lists of blocks; an interrupted
        # change leaks one block at worst.
        ctypes.memset(state + 8 * MUTEX, 0, 8 * MUTEX_WORDS)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_unlock)
