"""Standard error output of commands: one line for an error, one for each warning."""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tvm_disc.errors import DiscError

DONE, REFUSED, INTERRUPTED = 0, 1, 130


def outcome(command: Callable[[], None], traceback: bool) -> int:
    """Run a command and return its exit code.

    Args:
        traceback: do not catch exceptions, so that Python prints a traceback.
    """
    try:
        with short_warnings():
            command()
            if sys.stdout is not None:  # None if the process has no standard output
                sys.stdout.flush()
    except BrokenPipeError:
        # The reader closed the pipe. Discard the remaining output, including the output of the
        # flush at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return REFUSED
    except (Exception, KeyboardInterrupt) as error:
        if traceback:
            raise
        print(f"error: {described(error)}", file=sys.stderr)
        return INTERRUPTED if isinstance(error, KeyboardInterrupt) else REFUSED
    return DONE


def described(error: BaseException) -> str:
    """Return a one-line description of an exception. Exceptions other than DiscError, OSError,
    MemoryError and KeyboardInterrupt are reported as defects of this package.
    """
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    if isinstance(error, MemoryError):
        return one_line(str(error)) or "out of memory"
    if isinstance(error, DiscError | OSError):
        return one_line(str(error))
    found = one_line(str(error)) or "no message"
    return (
        f"internal error of tvm_disc, {type(error).__name__}: {found}; please report it with the "
        "output of --traceback"
    )


def one_line(message: str) -> str:
    """Join the lines of a message, without quoted source lines and the caret lines below them."""
    lines = message.rstrip().split("\n")
    marks = {k for k, line in enumerate(lines) if re.fullmatch(r" *\^+ *", line)}
    kept = [
        line.strip()
        for k, line in enumerate(lines)
        if k not in marks and k + 1 not in marks and line.strip()
    ]
    head, items = " ".join(kept[:1]), kept[1:]
    if not items:
        return head
    return f"{head}{' ' if head.endswith(':') else '; '}{'; '.join(items)}"


@contextmanager
def short_warnings() -> Iterator[None]:
    """Print warnings as one line each, without the source location."""

    def show(message: Warning | str, *_: object, **__: object) -> None:
        print(f"warning: {one_line(str(message))}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


__all__ = ["DONE", "INTERRUPTED", "REFUSED", "described", "one_line", "outcome", "short_warnings"]
