"""Locks that remain usable after a fork and in signal handlers."""

from __future__ import annotations

import os
import threading
import weakref
from types import TracebackType

_LOCKS: weakref.WeakSet[Lock] = weakref.WeakSet()


class Lock:
    """A reentrant lock for ``with``.

    The lock is reentrant, because a signal handler may run while its thread holds the lock. In the
    child of a fork the lock is free, because the thread that held it does not exist there.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        _LOCKS.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._lock.release()

    def unlock(self) -> None:
        """Reset the lock, unless this thread holds it."""
        if not self._lock._is_owned():  # type: ignore[attr-defined]
            self._lock = threading.RLock()


def _unlock() -> None:
    for lock in list(_LOCKS):
        lock.unlock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_unlock)

__all__ = ["Lock"]
