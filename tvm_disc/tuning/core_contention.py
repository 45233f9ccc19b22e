"""Detects whether each thread of this process has a physical core.

Two virtual cores may temporarily share one physical core, or one may be descheduled. The system
does not report this, so the time of multiply-adds on all threads is compared with that on one
thread. Time that the hypervisor takes from all cores equally does not change this ratio; Linux
reports it ("steal" in proc_stat(5)).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tvm

from tvm_disc.codegen.gauge import NAME, sums
from tvm_disc.target.isa import Isa

TURNS = 16000  # iterations of the loop that is timed: 20 us with AVX2, 50 us with AVX-512
WAKE = 16  # launches after which a sleeping worker is awake
CROWDED = 1.3  # above this ratio of the time on all threads to that on one, cores are shared
POLL_S = 0.005  # seconds between two polls
STOLEN = 0.1  # highest accepted share of stolen time
WINDOW_S = 0.1  # least seconds between readings; Linux counts stolen time in units of 0.01 s


class Gauge:
    """Measures core contention on a device with the functions of a compiled module."""

    def __init__(self, module: Any, device: Any, isa: Isa, threads: int) -> None:
        self.threads = threads
        memory = np.ones(threads * sums(isa) * isa.lanes_f32, "float32")
        self._memory = tvm.runtime.tensor(memory, device)
        self._time: Callable[..., Any] = module.time_evaluator(NAME, device, number=4, repeat=1)
        self._again: Callable[..., Any] = module.time_evaluator(NAME, device, number=WAKE, repeat=1)

    def wake(self) -> None:
        """Wake the workers; a sleeping worker may take longer to start than a kernel takes."""
        self._again(self._memory, self.threads, TURNS)

    def crowding(self) -> float:
        """Return the time on all threads divided by that on one; 1 if each thread has a core."""
        self.wake()
        alone, all_of_them = (
            float(self._time(self._memory, parts, TURNS).mean) for parts in (1, self.threads)
        )
        return all_of_them / alone


class Host:
    """Reads the share of the cores' busy time that the hypervisor has taken."""

    def __init__(self, path: Path = Path("/proc/stat")) -> None:
        self._path = path
        self._start = self._last = self._ticks()
        self._recent, self._asked = 0.0, time.monotonic()

    def recent(self) -> float:
        """Return the share between the two latest readings, at least 0.1 s apart.

        A new reading is made if the latest one is older.
        """
        if time.monotonic() - self._asked >= WINDOW_S:
            now = self._ticks()
            self._recent, self._last = _share(self._last, now), now
            self._asked = time.monotonic()
        return self._recent

    def in_all(self) -> float:
        """Return the share since this object was created."""
        return _share(self._start, self._ticks())

    def _ticks(self) -> tuple[int, int]:
        """Return (used, stolen) ticks of all cores since boot; (0, 0) if the system does not
        count them.
        """
        try:
            fields = self._path.read_text().split("\n", 1)[0].split()
            user, nice, system, _, _, irq, softirq, steal = map(int, fields[1:9])
        except (OSError, ValueError):
            return 0, 0
        return user + nice + system + irq + softirq, steal


def _share(before: tuple[int, int], after: tuple[int, int]) -> float:
    used, stolen = (b - a for a, b in zip(before, after, strict=True))
    return stolen / (used + stolen) if used + stolen > 0 else 0.0


class Wait:
    """Waits until each thread has a core, at most ``most_s`` seconds in total over all waits.

    Without ``gauge``, cores count as free. Without ``host``, no time counts as stolen.
    """

    def __init__(self, gauge: Gauge | None, most_s: float, host: Host | None = None) -> None:
        self._gauge, self._most_s, self._host = gauge, most_s, host
        self._found: list[float] = []
        self.waited_s = 0.0

    def until_calm(self) -> None:
        """Return when each thread has a core, or when the time limit is reached."""
        start = time.monotonic()
        while True:
            crowding = 1.0 if self._gauge is None else self._gauge.crowding()
            taken = 0.0 if self._host is None else self._host.recent()
            calm = crowding <= CROWDED and taken <= STOLEN
            if calm or self.waited_s >= self._most_s:
                break
            time.sleep(min(POLL_S, self._most_s))
            now = time.monotonic()
            start, self.waited_s = now, self.waited_s + now - start
        self._found.append(crowding)

    def crowding(self) -> float:
        """Return the median of the contention measured at the end of each wait."""
        return float(np.median(self._found)) if self._found else 1.0

    def stolen(self) -> float:
        """Return the share of time that the hypervisor has taken since ``host`` was created."""
        return 0.0 if self._host is None else self._host.in_all()
