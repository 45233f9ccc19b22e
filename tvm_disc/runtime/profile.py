"""Times of calls per kernel and variant, compared with bytes moved and operations."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from tvm_disc.abi.record import EVENTS, FIELDS, ROOM, WHOLE_CALL

# kernels limited by arithmetic; all others are limited by memory bandwidth
COMPUTE_BOUND = ("dot", "conv", "attention")


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


@dataclass
class Line:
    """All calls of one variant of one kernel; means per program call."""

    kernel: str
    kind: str
    variant: str
    calls: float = 0.0
    us: float = 0.0
    share: float = 0.0
    bytes: float = 0.0
    flops: float = 0.0

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
    """

    calls: list[list[Event]] = field(default_factory=list)
    total_ns: list[int] = field(default_factory=list)
    python_ns: list[int] = field(default_factory=list)

    def lines(self) -> list[Line]:
        """Return one line per kernel and variant, the most expensive first; times are means per
        call.
        """
        found: dict[tuple[str, str], Line] = {}
        for event in (e for events in self.calls for e in events):
            line = found.setdefault(
                (event.kernel, event.variant), Line(event.kernel, event.kind, event.variant)
            )
            line.calls += 1 / len(self.calls)
            line.us += (event.end_ns - event.start_ns) / 1e3 / len(self.calls)
            line.bytes += event.bytes / len(self.calls)
            line.flops += event.flops / len(self.calls)
        total = self.split()["total_us"]
        for line in found.values():
            line.share = line.us / total if total else 0.0
        return sorted(found.values(), key=lambda line: -line.us)

    def split(self) -> dict[str, float]:
        """Return the mean microseconds of a call by part.

        The parts are compute-bound kernels, memory-bound kernels, host code inside the program, and
        Python around it; ``total_us`` is their sum.
        """
        kernels = {"compute_us": 0.0, "memory_us": 0.0}
        count = max(1, len(self.calls))
        for event in (e for events in self.calls for e in events):
            key = "compute_us" if event.kind in COMPUTE_BOUND else "memory_us"
            kernels[key] += (event.end_ns - event.start_ns) / 1e3 / count
        inside, total = sum(self.total_ns) / 1e3 / count, sum(self.python_ns) / 1e3 / count
        host = max(0.0, inside - sum(kernels.values()))
        python = max(0.0, total - inside)
        return {**kernels, "host_us": host, "python_us": python, "total_us": total}

    def to_json(self) -> str:
        """Return lines and split as JSON."""
        lines = [
            {
                **asdict(line),
                "gigabytes_per_second": line.gigabytes_per_second,
                "gigaflops": line.gigaflops,
            }
            for line in self.lines()
        ]
        return json.dumps({"calls": len(self.calls), "kernels": lines, "split": self.split()})

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
        rows = [("kernel", "kind", "calls", "us", "share", "GB/s", "GFLOP/s", "variant")]
        for x in self.lines():
            numbers = (f"{x.calls:g}", f"{x.us:.2f}", f"{100 * x.share:.1f}%")
            speed = (f"{x.gigabytes_per_second:.1f}", f"{x.gigaflops:.1f}")
            rows.append((x.kernel, x.kind, *numbers, *speed, x.variant))
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
        return "\n".join([*(line.rstrip() for line in table), f"us per call: {parts}"])


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
    record: np.ndarray, kernels: Sequence[Mapping[str, Any]]
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
