"""What a command says on standard error: one line for an error, one for a warning."""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .errors import DiscError

DONE, REFUSED, INTERRUPTED = 0, 1, 130


def outcome(command: Callable[[], None], traceback: bool) -> int:
    """Run a command; its exit code.

    Args:
        traceback: let exceptions out, so that Python shows where they came from.
    """
    try:
        with short_warnings():
            command()
            if sys.stdout is not None:  # which it is where a process began without one
                sys.stdout.flush()
    except BrokenPipeError:
        # Whoever reads has enough; what is still to be written, at the end of Python too, goes
        # nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return REFUSED
    except (Exception, KeyboardInterrupt) as error:
        if traceback:
            raise
        print(f"error: {described(error)}", file=sys.stderr)
        return INTERRUPTED if isinstance(error, KeyboardInterrupt) else REFUSED
    return DONE


def described(error: BaseException) -> str:
    """An exception as one line, in the user's terms where it is one of ours."""
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
        f"a defect of tvm_disc, {type(error).__name__}: {found}; --traceback shows where, please "
        "report it"
    )


def one_line(message: str) -> str:
    """A message of several lines as one: lists in a row, without the source that a caret marks."""
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
    """Warnings as one line each, without the place in our code that gave them."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        print(f"warning: {one_line(str(message))}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


__all__ = ["DONE", "INTERRUPTED", "REFUSED", "described", "one_line", "outcome", "short_warnings"]
