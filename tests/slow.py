"""The mark ``slow``, set from measured processor time; ``make quick`` runs the tests without it.

    python -m pytest -p no:xdist --measure-slow [tests/relay ...]    # update tests/slow.json

``tests/slow.json`` names the slow functions of each module; ``*`` are all tests of a module that
was not measured. Tests that the file does not name, such as new ones, are not slow.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Generator, Iterable, Mapping
from pathlib import Path

import pytest

MARK = "slow"
ALL = "*"
# Processor seconds of all cases of a test function, and of fixtures that it is the first to use.
LIMIT = 0.4
FILE = Path(__file__).with_name("slow.json")

Names = dict[str, list[str]]


def read() -> Names:
    """Return the names of the slow functions by path of their module."""
    found: Names = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def place(item: pytest.Item) -> tuple[str, str]:
    """Return the path of a test's module, and the name of the test without parameters."""
    module, _, name = item.nodeid.partition("::")
    return module, name.partition("[")[0]


def mark_slow(items: Iterable[pytest.Item]) -> None:
    """Mark the tests of functions that the file names."""
    slow = read()
    for item in items:
        module, name = place(item)
        if slow.get(module) == [ALL] or name in slow.get(module, ()):
            item.add_marker(MARK)


def updated(slow: Names, seconds: Mapping[tuple[str, str], float]) -> Names:
    """Return the slow functions after a measurement.

    Functions that were not measured, because they were not selected, stay slow.
    """
    measured = {module for module, _ in seconds}
    found = {m: set(names) - ({ALL} if m in measured else set()) for m, names in slow.items()}
    for (module, name), used in seconds.items():
        names = found.setdefault(module, set())
        names.discard(name)
        if used > LIMIT:
            names.add(name)
    return {module: sorted(names) for module, names in sorted(found.items()) if names}


class Measurement:
    """Plugin that measures each test function and updates the file.

    The remaining cases of a function are skipped once the function is known to be slow.
    """

    def __init__(self) -> None:
        self.seconds: defaultdict[tuple[str, str], float] = defaultdict(float)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Add the time of a test, with its child processes, to that of its function."""
        key = place(item)
        if self.seconds[key] > LIMIT:
            item.add_marker(pytest.mark.skip(reason="the function is known to be slow"))
        before = sum(os.times()[:4])
        result = yield
        self.seconds[key] += sum(os.times()[:4]) - before
        return result

    def pytest_sessionfinish(self) -> None:
        """Write the file."""
        text = json.dumps(updated(read(), self.seconds), indent=1)
        FILE.write_text(f"{text}\n", encoding="utf-8")


__all__ = ["ALL", "LIMIT", "MARK", "Measurement", "mark_slow", "read", "updated"]
