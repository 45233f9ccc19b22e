"""Exceptions that a user's signal handler raises during a build reach the caller unchanged.

Python runs a signal handler between two instructions of the main thread, possibly below a C++ frame
of TVM. TVM passes an exception on as text and raises a new one, ``RuntimeError`` unless it knows
the class. Code that catches ``OSError`` or ``RuntimeError`` for a fallback may also catch a
handler's exception. During a build, Python handlers are therefore wrapped: the wrapper records the
exception, and the build raises that object at its next check or at its end.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any, TypeVar

from tvm_disc.support.deadline import watching

__all__ = ["handled", "with_handlers"]

T = TypeVar("T")
_CURRENT: list[_Handlers] = []


class _Handlers:
    """The wrapped handlers of one build, and the exception that one of them raised."""

    def __init__(self) -> None:
        self.raised: BaseException | None = None
        self._restoring = False
        self._wrapped: list[tuple[int, Any, Any]] = []

    def wrap(self) -> None:
        """Wrap every handler that is a Python function."""
        for number in signal.valid_signals():
            handler = signal.getsignal(number)
            if callable(handler) and not isinstance(handler, signal.Handlers):
                wrapper = partial(self._call, handler)
                self._wrapped.append((number, handler, wrapper))
                signal.signal(number, wrapper)

    def restore(self) -> None:
        """Restore the original handlers, except those that were replaced meanwhile."""
        self._restoring = True
        for number, handler, wrapper in self._wrapped:
            if signal.getsignal(number) is wrapper:
                signal.signal(number, handler)
        self._restoring = False

    def _call(self, handler: Callable[..., object], number: int, frame: FrameType | None) -> object:
        try:
            return handler(number, frame)
        except BaseException as error:
            self.raised = error
            if self._restoring:  # the build raises it afterwards
                return None
            raise

    def entered(self, stage: str) -> None:
        """Raise the exception of a handler, if other code caught it."""
        self.check()

    def at(self, task: str, count: tuple[int, int] | None) -> None:
        """Raise the exception of a handler, if other code caught it."""
        self.check()

    def check(self) -> None:
        """Raise the exception that a handler raised, if there is one."""
        if self.raised is not None:
            raise self.raised


def with_handlers(work: Callable[[], T]) -> T:
    """Return ``work()``; raise the original exception of a signal handler that raised meanwhile.

    Only the main thread runs signal handlers: on another thread ``work`` is called directly.
    """
    if threading.current_thread() is not threading.main_thread():
        return work()
    handlers = _Handlers()
    found: list[T] = []
    failed: BaseException | None = None
    _CURRENT.append(handlers)
    try:
        handlers.wrap()
        with watching(handlers):
            found.append(work())
    except BaseException as error:
        failed = error
    finally:
        _CURRENT.remove(handlers)
        handlers.restore()
    # Raised outside of the ``except`` block, so that the exception that TVM raised in its place
    # does not become its ``__context__``.
    failed = handlers.raised or failed
    try:
        if failed is not None:
            raise failed
    finally:
        del failed  # breaks a cycle: its traceback refers to this frame
    return found[0]


def handled() -> None:
    """Discard a handler's recorded exception. Called after a pass of the user, which may have
    caught the exception on purpose.
    """
    for handlers in _CURRENT:
        handlers.raised = None
