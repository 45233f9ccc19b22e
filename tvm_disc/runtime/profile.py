"""Times of calls per kernel and variant, compared with bytes moved and operations."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import zip_longest
from statistics import median
from typing import Any

import numpy as np

from tvm_disc.abi.record import EVENTS, FIELDS, ROOM, WHOLE_CALL
from tvm_disc.errors import counted
from tvm_disc.runtime.peaks import LAUNCH_US, Peaks

# kernels limited by arithmetic; all others are limited by memory bandwidth
COMPUTE_BOUND = ("dot", "conv", "attention")
COLUMNS = (
    *("kernel", "kind", "calls", "us", "quartiles", "share"),
    *("GB/s", "GFLOP/s", "limit", "of limit", "variant"),
)
LIMITS = {"arithmetic": "arithmetic", "memory": "reads and writes of memory", "launch": "launches"}
BUSY_CORES = 0.5  # the machine was busy if other processes used at least this number of cores


@dataclass(frozen=True)
class Event:
    """One kernel call: times in nanoseconds since the start of the program's call."""

    kernel: str
    kind: str
    variant: str
    start_ns: int
    end_ns: int
    bytes: int
    flops: int

    @property
    def ns(self) -> int:
        """Its duration in nanoseconds."""
        return self.end_ns - self.start_ns


@dataclass
class Line:
    """All calls of one variant of one kernel, per program call.

    Attributes:
        calls: number of launches of the variant per program call.
        us: microseconds per program call: the sum of the medians of its launches.
        low_us, high_us: lower and upper quartile of this time over the rounds.
        share: fraction of the time of the program call.
        bytes: bytes that must be moved.
        flops: number of operations.
        limit: the resource that limits the kernel on this machine: ``arithmetic``, ``memory``, or
            ``launch`` for calls shorter than ``LAUNCH_US``; empty if the machine's limits are not
            known.
        of_limit: the minimum time that ``limit`` permits, divided by the measured time.
    """

    kernel: str
    kind: str
    variant: str
    calls: float = 0.0
    us: float = 0.0
    low_us: float = 0.0
    high_us: float = 0.0
    share: float = 0.0
    bytes: float = 0.0
    flops: float = 0.0
    limit: str = ""
    of_limit: float = 0.0

    @property
    def gigabytes_per_second(self) -> float:
        """Bytes that must be moved, divided by time."""
        return self.bytes / self.us / 1e3 if self.us else 0.0

    @property
    def gigaflops(self) -> float:
        """Operations divided by time."""
        return self.flops / self.us / 1e3 if self.us else 0.0


@dataclass
class Profile:
    """Records of timed calls.

    Attributes:
        calls: the events of each call.
        total_ns: nanoseconds of each call inside the program.
        python_ns: nanoseconds of each call measured in Python.
        discarded: number of timed calls that were left out because other processes disturbed them.
        disturbed: number of disturbed calls in ``calls``, if too few calls were undisturbed.
        others: number of cores that other processes used meanwhile; None if it is not known.
        peaks: the limits of this machine; None if they were not measured.
        threads: number of threads that the program was limited to.
    """

    calls: list[list[Event]] = field(default_factory=list)
    total_ns: list[int] = field(default_factory=list)
    python_ns: list[int] = field(default_factory=list)
    discarded: int = 0
    disturbed: int = 0
    others: float | None = None
    peaks: Peaks | None = None
    threads: int = 1

    def lines(self) -> list[Line]:
        """Return one line per kernel and variant, the most expensive first.

        The time of a kernel call is the median over rounds.
        """
        groups: dict[tuple[str, str], list[list[Event]]] = {}
        for number, events in enumerate(self.calls):
            for event in events:
                key = event.kernel, event.variant
                groups.setdefault(key, [[] for _ in self.calls])[number].append(event)
        lines = [_line(rounds) for rounds in groups.values()]
        total = self._split(lines)["total_us"]
        for line in lines:
            line.share = line.us / total if total else 0.0
            if self.peaks is not None and line.us:
                self._limit(line, self.peaks)
        return sorted(lines, key=lambda line: -line.us)

    def _limit(self, line: Line, peaks: Peaks) -> None:
        """Set the limit of a kernel, and the fraction of that limit which it reaches."""
        flops, size = line.flops / line.calls, line.bytes / line.calls
        line.limit, us = peaks.limit(flops, size, self.threads)
        line.of_limit = us * line.calls / line.us
        if line.us / line.calls < LAUNCH_US:
            line.limit = "launch"

    def limits(self) -> list[tuple[str, float, float]]:
        """Return (limit, share of the call's time, fraction of that limit reached), largest first.

        Empty if the limits of this machine are not known.
        """
        found: dict[str, tuple[float, float]] = {}
        for line in self.lines():
            share, reached = found.get(line.limit, (0.0, 0.0))
            found[line.limit] = share + line.share, reached + line.share * line.of_limit
        found.pop("", None)
        rows = [(name, share, reached / share) for name, (share, reached) in found.items()]
        return sorted(rows, key=lambda row: -row[1])

    def split(self) -> dict[str, float]:
        """Return the microseconds of a call by part, from medians.

        The parts are compute-bound kernels, memory-bound kernels, host code of the program, and
        Python code around the call; ``total_us`` is their sum. Times are medians over the calls: a
        disturbance that hits a different kernel in each call changes no median.
        """
        return self._split(self.lines())

    def _split(self, lines: Iterable[Line]) -> dict[str, float]:
        kernels = {"compute_us": 0.0, "memory_us": 0.0}
        for line in lines:
            kernels["compute_us" if line.kind in COMPUTE_BOUND else "memory_us"] += line.us
        inside = [
            total - sum(event.ns for event in events)
            for total, events in zip(self.total_ns, self.calls, strict=True)
        ]
        python = [t - n for t, n in zip(self.python_ns, self.total_ns, strict=True)]
        around = {"host_us": _least_zero(inside), "python_us": _least_zero(python)}
        total = sum(kernels.values()) + sum(around.values())
        return {**kernels, **around, "total_us": total}

    def summary(self) -> list[str]:
        """Return sentences about the limits of the call on this machine."""
        if self.peaks is None:
            return ["The limits of this machine are not known: `tvm-disc peaks` measures them."]
        found = [
            f"{100 * share:.0f} % of the time is in kernels limited by {LIMITS[name]}"
            + ("." if name == "launch" else f", at {100 * reached:.0f} % of the limit.")
            for name, share, reached in self.limits()
        ]
        return [*found, f"Limits of this machine: {self.peaks}."]

    def warnings(self) -> list[str]:
        """Return one sentence for each reason why the times are uncertain."""
        found = []
        if self.others is not None and self.others >= BUSY_CORES:
            found.append(
                f"The machine was busy: other processes used {self.others:.1f} cores. Times of "
                "kernels on several threads are longer than on an idle machine."
            )
        if self.disturbed:
            found.append(
                f"Other processes disturbed {self.disturbed} of the {len(self.calls)} calls that "
                "are counted; repeat the profile on an idle machine."
            )
        return found

    def to_json(self) -> str:
        """Return the results of :meth:`lines` and :meth:`split` as JSON."""
        lines = [
            {
                **asdict(line),
                "gigabytes_per_second": line.gigabytes_per_second,
                "gigaflops": line.gigaflops,
            }
            for line in self.lines()
        ]
        rounds = {
            "calls": len(self.calls),
            "discarded": self.discarded,
            "disturbed": self.disturbed,
            "others": self.others,
            "peaks": None if self.peaks is None else asdict(self.peaks),
        }
        return json.dumps({**rounds, "kernels": lines, "split": self.split()})

    def to_chrome_trace(self) -> str:
        """Return the calls, one after another, as a trace for ``chrome://tracing`` and Perfetto."""
        begin, events = 0, []
        for call, total in zip(self.calls, self.total_ns, strict=True):
            events.append(_traced("call", "host", begin, total, {}))
            for e in call:
                work = {"variant": e.variant, "bytes": e.bytes, "flops": e.flops}
                length = e.end_ns - e.start_ns
                events.append(_traced(e.kernel, e.kind, begin + e.start_ns, length, work))
            begin += total + 1000
        return json.dumps({"traceEvents": events, "displayTimeUnit": "ns"})

    def __str__(self) -> str:
        rows = [COLUMNS]
        for x in self.lines():
            spread = f"{x.low_us:.2f}-{x.high_us:.2f}"
            numbers = (f"{x.calls:g}", f"{x.us:.2f}", spread, f"{100 * x.share:.1f}%")
            speed = (f"{x.gigabytes_per_second:.1f}", f"{x.gigaflops:.1f}")
            limit = (x.limit or "?", f"{100 * x.of_limit:.0f}%" if x.limit else "?")
            rows.append((x.kernel, x.kind, *numbers, *speed, *limit, x.variant))
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]) - 1)]
        table = [
            "  ".join(
                cell.ljust(width) if i < 2 else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(row, widths, strict=False))
            )
            + f"  {row[-1]}"
            for row in rows
        ]
        split = self.split()
        parts = ", ".join(f"{k.removesuffix('_us')} {v:.2f}" for k, v in split.items())
        rounds = (
            f"Medians of {counted(len(self.calls), 'call')}; {self.discarded} more were disturbed "
            "by other processes and discarded."
        )
        notes = [rounds, *self.summary(), *self.warnings()]
        return "\n".join([*(line.rstrip() for line in table), f"us per call: {parts}", *notes])


def _least_zero(ns: Sequence[int]) -> float:
    """Return the median of nanoseconds as microseconds, at least 0."""
    return max(0.0, median(ns or [0]) / 1e3)


def _line(rounds: Sequence[Sequence[Event]]) -> Line:
    """Return the line of one variant of one kernel; ``rounds`` has its events of each round."""
    events, count = [e for round_ in rounds for e in round_], len(rounds)
    sums = [sum(e.ns for e in round_) / 1e3 for round_ in rounds]
    low, high = np.percentile(sums, (25, 75))
    occurrences = [[e.ns for e in same if e] for same in zip_longest(*rounds)]
    return Line(
        events[0].kernel,
        events[0].kind,
        events[0].variant,
        calls=len(events) / count,
        us=sum(median(ns) * len(ns) for ns in occurrences) / count / 1e3,
        low_us=float(low),
        high_us=float(high),
        bytes=sum(e.bytes for e in events) / count,
        flops=sum(e.flops for e in events) / count,
    )


def _traced(
    name: str, category: str, start_ns: int, length_ns: int, args: Mapping[str, object]
) -> dict[str, object]:
    times = {"ts": start_ns / 1e3, "dur": length_ns / 1e3}
    return {"name": name, "cat": category, "ph": "X", "pid": 0, "tid": 0, **times, "args": args}


def new_record(room: int) -> np.ndarray:
    """Allocate the record that a timed call writes."""
    record = np.zeros(EVENTS + room * len(FIELDS), "int64")
    record[ROOM] = room
    return record


def read_record(
    record: np.ndarray, kernels: Sequence[Mapping[str, object]]
) -> tuple[list[Event], int]:
    """Return the kernel events of a record, and the nanoseconds of the whole call."""
    rows = record[EVENTS:].reshape(-1, len(FIELDS))[: int(record[0])].tolist()
    whole = next(row for row in rows if row[0] == WHOLE_CALL)
    return list(_events(rows, kernels, whole[2])), whole[3] - whole[2]


def _events(
    rows: Iterable[Sequence[int]], kernels: Sequence[Mapping[str, Any]], begin: int
) -> Iterable[Event]:
    for number, variant, start, end, size, flops in rows:
        if number == WHOLE_CALL:
            continue
        kernel = kernels[number]
        name = _variant_name(kernel, variant)
        yield Event(kernel["name"], kernel["kind"], name, start - begin, end - begin, size, flops)


def _variant_name(kernel: Mapping[str, Any], number: int) -> str:
    names = kernel.get("variants") or []
    return names[number] if number < len(names) else ""
