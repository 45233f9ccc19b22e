"""Observers: functions that are called in place of a program's main function, and call it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeAlias

from tvm_disc.runtime.arrays import not_direct
from tvm_disc.support.locks import Lock

Main: TypeAlias = Callable[..., Any]
#: Returns a function that calls ``main`` with the same arguments.
Entry: TypeAlias = Callable[[Main], Main]
#: The main function, the function for NumPy arrays, and the cache of result shapes.
Entries: TypeAlias = tuple[Main, Callable[..., int], dict[tuple[Any, ...], Any]]


class ObservedProgram(Protocol):
    """A program whose entries can be replaced."""

    observers: list[Entry]

    def entries(self) -> Entries:
        """Return the entries."""

    def set_entries(self, entries: Entries) -> None:
        """Replace the entries."""


class _Observed:
    """The main function with all observers around it."""

    def __init__(self, plain: Entries) -> None:
        self.plain, self.main = plain, plain[0]

    def __call__(self, *args: object) -> Any:
        return self.main(*args)

    def compose(self, observers: list[Entry]) -> None:
        main = self.plain[0]
        for entry in observers:
            main = entry(main)
        self.main = main


@contextmanager
def observing(program: ObservedProgram, lock: Lock, entry: Entry) -> Iterator[None]:
    """Call ``entry(main)`` instead of a program's main function in this context.

    Contexts of one program may overlap, also in several threads; the last one to end restores the
    program's entries.
    """
    with lock:
        program.observers.append(entry)
        main = program.entries()[0]
        if not isinstance(main, _Observed):
            main = _Observed(program.entries())
            # Without cached result shapes every call goes through the observers.
            program.set_entries((main, not_direct, {}))
        main.compose(program.observers)
    try:
        yield
    finally:
        with lock:
            program.observers.remove(entry)
            main.compose(program.observers)
            if not program.observers and program.entries()[0] is main:
                program.set_entries(main.plain)


__all__ = ["Entries", "Entry", "Main", "observing"]
