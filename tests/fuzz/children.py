"""Work in a process of its own, with limits of time and memory: a crash and a hang are answers."""

from __future__ import annotations

import faulthandler
import json
import os
import resource
import select
import signal
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MEMORY_BYTES = 6 << 30  # more than the process has before
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Limits:
    """Seconds of processor time of one stage, and of any time, which no stage of work takes."""

    cpu_s: float = 60.0
    wall_s: float = 600.0


LIMITS = Limits()


@dataclass
class Child:
    """A process at work; ``answers`` are what the function gave, ``end`` how it ended else."""

    pid: int
    pipe: int
    limits: Limits
    stage: str = "begin"
    answers: list[Any] = field(default_factory=list)
    done: bool = False
    end: str = ""
    raised: str = ""
    _rest: bytes = b""
    _since: float = field(default_factory=time.monotonic)
    _spent: float = 0.0

    @property
    def answer(self) -> Any:
        """The first, None if there is none."""
        return self.answers[0] if self.answers else None

    def look(self) -> bool:
        """Read what it said; whether it is still at work."""
        ready, _, _ = select.select([self.pipe], [], [], 0)
        part = os.read(self.pipe, 1 << 16) if ready else None
        if part:
            self._read(part)
        elif part == b"":
            self._ended()
            return False
        elif self._late():
            os.kill(self.pid, signal.SIGKILL)
            self.end = f"no end in {self.stage.rstrip(' 0123456789')}"
            self._wait()
            return False
        return True

    def _read(self, part: bytes) -> None:
        *lines, self._rest = (self._rest + part).split(b"\n")
        for line in lines:
            what, value = json.loads(line)
            if what == "stage":
                self.stage, self._since, self._spent = value, time.monotonic(), self._cpu()
            elif what == "raised":
                self.raised = value
            elif what == "done":
                self.done = True
            else:
                self.answers.append(value)

    def _late(self) -> bool:
        if time.monotonic() - self._since > self.limits.wall_s:
            return True
        return self._cpu() - self._spent > self.limits.cpu_s

    def _cpu(self) -> float:
        try:
            fields = Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            return self._spent
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def _ended(self) -> None:
        status = self._wait()
        if self.done:
            return
        where = self.stage.rstrip(" 0123456789")
        if os.WIFSIGNALED(status):
            name = signal.Signals(os.WTERMSIG(status)).name
            self.end = f"{name} in {where}"
        elif self.raised:
            self.end = f"{self.raised} in {where}"
        else:
            self.end = f"exit {os.WEXITSTATUS(status)} in {where}"

    def _wait(self) -> int:
        os.close(self.pipe)
        return os.waitpid(self.pid, 0)[1]


def start(work: Callable[[Callable[[str], None]], Any], limits: Limits = LIMITS) -> Child:
    """Begin ``work(tell)`` in a child; its result, or each of an iterator's, must be JSON."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid:
        os.close(write_end)
        return Child(pid, read_end, limits)
    try:
        os.close(read_end)
        _prepare()

        def say(what: str, value: Any) -> None:
            os.write(write_end, json.dumps([what, value]).encode() + b"\n")

        try:
            given = work(lambda stage: say("stage", stage))
            for answer in given if isinstance(given, Iterator) else [given]:
                say("answer", answer)
            say("done", None)
        except BaseException as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            say("raised", f"{type(error).__name__} of {Path(where.filename).stem}.{where.name}")
            raise
        os._exit(0)
    finally:
        os._exit(99)


def _prepare() -> None:
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY_BYTES,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    faulthandler.disable()
    for stream in (1, 2):  # a library's own complaints
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream)


def wait(children: Sequence[Child], seconds: float = 0.5) -> None:
    """Until one of them says something, or the time is over."""
    select.select([c.pipe for c in children], [], [], seconds)


def run(work: Callable[[Callable[[str], None]], Any], limits: Limits = LIMITS) -> Child:
    """The child of ``work``, ended."""
    child = start(work, limits)
    while child.look():
        wait([child])
    return child
