"""Diagnostics of a build: a timer per stage, numbered dumps, and messages up to a chosen level.

Levels of ``Options.debug`` or ``DISC_DEBUG``; each includes the lower ones:

==  =====================================================================
1   time per stage
2   one summary line per stage
3   facts about shapes, with their reasons
4   the intermediate representation after every stage
5   generated code
==  =====================================================================
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from tvm_disc.errors import BadOption
from tvm_disc.support.deadline import entered

__all__ = [
    "CODE",
    "FACTS",
    "IR",
    "SUMMARY",
    "TIMINGS",
    "Dumper",
    "StageTimer",
    "Trace",
    "format_timings",
    "text_of",
]

TIMINGS, SUMMARY, FACTS, IR, CODE = range(1, 6)
INDEX = "index.txt"


def text_of(thing: object) -> str:
    """Return ``thing`` as text: a string unchanged, ``thing.script()`` if it exists, or
    ``str(thing)``.
    """
    if isinstance(thing, str):
        return thing
    script = getattr(thing, "script", None)
    return str(script()) if callable(script) else str(thing)


def format_timings(timings: Mapping[str, float]) -> str:
    """Return a table of milliseconds and percent per stage, in the given order.

    ``timings`` is in seconds. A name ``a/b`` is a part of stage ``a``: it is indented and not added
    to the total.
    """
    total = sum(seconds for name, seconds in timings.items() if "/" not in name)
    rows = [(_label(name), seconds) for name, seconds in timings.items()]
    rows.append(("total", total))
    width = max(len(label) for label, _ in rows)
    share = 100.0 / total if total else 0.0
    return "\n".join(f"{label:<{width}} {s * 1e3:10.2f} ms {s * share:5.1f} %" for label, s in rows)


def _label(name: str) -> str:
    outer, _, last = name.rpartition("/")
    return "  " * (outer.count("/") + bool(outer)) + last


class StageTimer:
    """Seconds per named stage, in program order.

    Stages nest: a stage ``plan`` inside ``fuse`` is recorded as ``fuse/plan``. Repeated names
    accumulate. ``timings`` is ordered by first start, outer stage before inner.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.timings: dict[str, float] = {}
        self._clock = clock
        self._open: list[str] = []

    @contextmanager
    def stage(self, name: str) -> Iterator[str]:
        """Time the body and yield the recorded name. The time is also recorded if the body
        raises.
        """
        path = "/".join([*self._open, name])
        self.timings.setdefault(path, 0.0)
        self._open.append(name)
        start = self._clock()
        try:
            yield path
        finally:
            self.timings[path] += self._clock() - start
            self._open.pop()

    def report(self) -> str:
        """Return the table of ``format_timings``."""
        return format_timings(self.timings)


class Dumper:
    """Writer of numbered text files: ``00_propagate.relax.py``, ``01_bfloat16.relax.py`` ...

    ``index.txt`` lists the written files. The first dump deletes the files that an earlier index in
    the directory lists, so that no stale files remain. Without a directory nothing is written.
    """

    def __init__(self, directory: str | Path | None) -> None:
        self.directory = None if directory is None else Path(directory)
        self._written: list[str] = []

    def dump(self, name: str, thing: object) -> Path | None:
        """Write ``thing`` under the next number and return the path; return None if no directory is
        set. ``name`` includes the suffix.
        """
        if self.directory is None:
            return None
        try:
            if not self._written:
                self._start(self.directory)
            path = self.directory / f"{len(self._written):02d}_{name}"
            path.write_text(text_of(thing).rstrip("\n") + "\n", encoding="utf-8")
            self._written.append(path.name)
            index = "".join(f"{written}\n" for written in self._written)
            (self.directory / INDEX).write_text(index, encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise BadOption(f"dump_dir: {self.directory} cannot be written: {reason}") from None
        return path

    @staticmethod
    def _start(directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        index = directory / INDEX
        stale = index.read_text(encoding="utf-8").splitlines() if index.exists() else []
        for name in stale:
            if re.fullmatch(r"\d\d+_[^/\\]+", name):
                (directory / name).unlink(missing_ok=True)


class Trace:
    """Timer, dumper and message level of one build.

    create: trace = Trace(options.debug, options.dump_dir)
    stage:  with trace.stage("import"): mod = to_relax(source)
    dump:   trace.show("imported.relax.py", mod)
    end:    trace.finish()
    """

    def __init__(
        self, level: int = 0, dump_dir: str | Path | None = None, stream: TextIO | None = None
    ) -> None:
        self.level = level
        self.timer = StageTimer()
        self.dumper = Dumper(dump_dir)
        self._stream = stream

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time the body as stage ``name``; an exception gets a note that names the stage."""
        with self.timer.stage(name) as path:
            try:
                entered(path)
                yield
            except Exception as error:
                self._note(error, f"in stage {path!r} of the build")
                raise

    def say(self, level: int, text: str | Callable[[], str]) -> None:
        """Print ``text`` if the debug level is at least ``level``. If ``text`` is a function, it is
        called only in this case.
        """
        stream = self._stream or sys.stderr
        if self.level >= level and stream is not None and not getattr(stream, "closed", False):
            print(text if isinstance(text, str) else text(), file=stream)

    def show(self, name: str, thing: object, level: int = IR) -> None:
        """Dump ``thing`` if there is a dump directory; print it if the debug level is at least
        ``level``.
        """
        self.dumper.dump(name, thing)
        self.say(level, lambda: f"--- {name}\n{text_of(thing)}")

    def finish(self) -> dict[str, float]:
        """Print the time table at debug level 1 or higher, and return the timings."""
        self.say(TIMINGS, self.timer.report)
        return self.timer.timings

    def _note(self, error: Exception, note: str) -> None:
        add_note = getattr(error, "add_note", None)  # exists in Python 3.11 and later
        if add_note is not None:
            add_note(note)
            if self.dumper.directory is not None:
                add_note(f"dumps of the stages before it: {self.dumper.directory}")
