"""Rounds of timed calls: rounds that other processes disturbed are discarded.

A round is disturbed if the system preempted a thread of this process during its call, or if the
call took clearly longer than the fastest one, for instance because a hypervisor took the core.
"""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tvm_disc.abi.record import COUNT, ROOM
from tvm_disc.runtime.profile import Event, Profile, new_record

PATIENCE_S = 2.0  # time after which no rounds are added to replace disturbed ones
MOST_ROUNDS = 20  # maximum number of rounds per requested round
# A sleep before a round gives the process a fresh time slice. A call shorter than SHORT_NS fits
# into that slice.
PAUSE_S, SHORT_NS = 0.001, 1_000_000
LATE, LATE_NS = 1.25, 3_000  # a call is late beyond this factor of the fastest, plus this time
TICKED_S = 0.03  # the system counts core time in ticks: over shorter times the count is useless


@dataclass(frozen=True)
class Round:
    """One timed call.

    Attributes:
        events: its kernel calls.
        total_ns: nanoseconds inside the program.
        python_ns: nanoseconds measured in Python.
        preempted: how often the system took the core from a thread of this process.
    """

    events: list[Event]
    total_ns: int
    python_ns: int
    preempted: int


def timed_rounds(
    call: Callable[[int], object],
    read: Callable[[np.ndarray], tuple[list[Event], int]],
    repeat: int,
    size: int,
) -> Profile:
    """Return a profile of ``repeat`` calls.

    Rounds are added until ``repeat`` rounds are undisturbed, or until ``PATIENCE_S`` or
    ``MOST_ROUNDS`` is reached. At such a limit, the fastest disturbed rounds fill the profile.

    Args:
        call: calls the program with the address of a record.
        read: returns the events of a record, and the nanoseconds of its call.
        size: number of events for which the first record has space.
    """
    found: list[Round] = []
    others, end = Others(), time.monotonic() + PATIENCE_S
    record = new_record(size)
    while len(found) < repeat or (
        len(calm(found)) < repeat and len(found) < MOST_ROUNDS * repeat and time.monotonic() < end
    ):
        if not found or found[-1].python_ns < SHORT_NS:
            time.sleep(PAUSE_S)
            record[COUNT] = 0
            call(record.ctypes.data)  # wakes the threads of the pool
        record[COUNT] = 0
        before, start = preemptions(), time.perf_counter_ns()
        call(record.ctypes.data)
        python_ns = time.perf_counter_ns() - start
        preempted = preemptions() - before
        if record[COUNT] > record[ROOM]:  # a loop ran more kernels than the record holds
            record = new_record(2 * int(record[COUNT]))
            continue
        found.append(Round(*read(record), python_ns, preempted))
    return _profile(found, repeat, others.cores())


def calm(rounds: Sequence[Round]) -> list[Round]:
    """Return the rounds that were not disturbed, in order."""
    limit = LATE * min((r.python_ns for r in rounds), default=0) + LATE_NS
    return [r for r in rounds if not r.preempted and r.python_ns <= limit]


def _profile(rounds: Sequence[Round], repeat: int, others: float | None) -> Profile:
    undisturbed = calm(rounds)
    kept = undisturbed[:repeat]
    rest = sorted((r for r in rounds if r not in undisturbed), key=lambda r: r.python_ns)
    kept += rest[: repeat - len(kept)]
    return Profile(
        [r.events for r in kept],
        [r.total_ns for r in kept],
        [r.python_ns for r in kept],
        discarded=len(rounds) - len(kept),
        disturbed=max(0, repeat - len(undisturbed)),
        others=others,
    )


def preemptions() -> int:
    """Return how often the system has preempted a thread of this process; 0 if the system has no
    such counter.
    """
    if os.name != "posix":
        return 0
    resource = importlib.import_module("resource")
    return int(resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw)


class Others:
    """Measures how many cores other processes use from the creation of this object on."""

    def __init__(self, stat: Path = Path("/proc/stat")) -> None:
        self._stat = stat
        self._start, self._used = time.monotonic(), self._seconds()

    def cores(self) -> float | None:
        """Return the mean number of cores in use by other processes; None if the system does not
        report it, or if the measured time is too short.
        """
        elapsed, used = time.monotonic() - self._start, self._seconds()
        if used is None or self._used is None or elapsed < TICKED_S:
            return None
        return max(0.0, used - self._used) / elapsed

    def _seconds(self) -> float | None:
        """Return the core seconds that all other processes have used since boot; None if not
        known.
        """
        try:
            fields = self._stat.read_text().split("\n", 1)[0].split()
            user, nice, system, _, _, irq, softirq, steal = map(int, fields[1:9])
        except (OSError, ValueError):
            return None
        ticks = user + nice + system + irq + softirq + steal
        own = os.times()
        return ticks / os.sysconf("SC_CLK_TCK") - own.user - own.system
