"""Engines for tests, named ``FILE.py:FUNCTION``: some that serve, some that fail in all ways."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

Opened = tuple[Callable[[Mapping[str, Any]], Callable[[], Any]], str]


def _serving(result: Callable[[Any], Any]) -> Opened:
    def bind(given: Mapping[str, Any]) -> Callable[[], Any]:
        (x,) = given.values()
        return lambda: result(x)

    return bind, "1.2"


def right(path: str, threads: int) -> Opened:
    """Twice its input; it prints, as engines do."""
    print("hello from the engine")
    os.write(1, b"and from below Python\n")
    return _serving(lambda x: 2 * x)


def wrong(path: str, threads: int) -> Opened:
    """A little more than twice its input."""
    return _serving(lambda x: 2.5 * x)


def nested(path: str, threads: int) -> Opened:
    """Twice its input, and the threads it was told, in a tuple and a list."""
    return _serving(lambda x: (2 * x, [int(os.environ["OMP_NUM_THREADS"]), {"t": threads}]))


def absent(path: str, threads: int) -> Opened:
    """Needs a package that is nowhere."""
    import no_such_package_at_all  # type: ignore[import-not-found]  # noqa: F401

    raise AssertionError


def refuses(path: str, threads: int) -> Opened:
    """Does not take the model."""
    raise RuntimeError("operator Foo\n  is not known")


def refuses_one(path: str, threads: int) -> Opened:
    """Does not take an input of one row."""

    def result(x: Any) -> Any:
        if len(x) == 1:
            raise ValueError("one row is too few")
        return 2 * x

    return _serving(result)


def dies(path: str, threads: int) -> Opened:
    """Takes the process down with a word on standard error."""

    def result(x: Any) -> Any:
        print("stack smashed", file=sys.stderr, flush=True)
        os.abort()

    return _serving(result)


def sleeps(path: str, threads: int) -> Opened:
    """Never answers."""
    time.sleep(600)
    raise AssertionError
