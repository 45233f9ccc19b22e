"""Locks that neither a fork nor a handler of a signal can leave held for ever."""

from __future__ import annotations

import os
import threading
import weakref
from types import TracebackType

_LOCKS: weakref.WeakSet[Lock] = weakref.WeakSet()


class Lock:
    """A lock for ``with``.

    The thread that holds it may take it again, as a handler of a signal does that runs in its
    midst; and the child of a fork finds it free, where the thread that held it does not exist.
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
        """Forget who holds it, unless it is this thread."""
        if not self._lock._is_owned():  # type: ignore[attr-defined]
            self._lock = threading.RLock()


def _unlock() -> None:
    for lock in list(_LOCKS):
        lock.unlock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_unlock)

__all__ = ["Lock"]
