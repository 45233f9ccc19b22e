"""Damaged files of every format: each must be read, or refused by a ``DiscError``, in time.

    python -m tests.files.fuzz --cases 50000 --seed 0 --formats text json --keep failures

A case is named by format, seed and number, which make it again. Cases run in a process of their
own, with a limit of time and memory each: a crash and a hang are findings like any other.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import select
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.files.formats import FORMATS
from tvm_disc.errors import DiscError

LIMIT_S = 20.0  # of a case, on a machine with other work
MEMORY_BYTES = 3 << 30  # more than the process has before
ROUND = 4000  # cases of a process


@dataclass
class Report:
    """What a campaign found in one format."""

    format: str
    cases: int = 0
    refused: int = 0
    seconds: float = 0.0
    slowest: tuple[float, str] = (0.0, "")
    findings: dict[str, list[str]] = field(default_factory=dict)

    def add(self, kind: str, case: str) -> None:
        """Note a case under what happened, and where."""
        place = ": ".join(kind.split(": ")[:1]) if " at " in kind else kind
        found = self.findings.setdefault(place, [])
        found.append(case if found else f"{case} {kind.removeprefix(place)}")

    def __str__(self) -> str:
        found = sum(map(len, self.findings.values()))
        lines = [
            f"{self.format}: {self.cases} cases, {self.refused} refused, {found} findings, "
            f"slowest {self.slowest[0]:.2f} s ({self.slowest[1]}), {self.seconds:.0f} s"
        ]
        for kind, cases in sorted(self.findings.items(), key=lambda item: -len(item[1])):
            lines.append(f"  {len(cases)} x {kind}: {', '.join(cases[:2])}")
        return "\n".join(lines)


def judge(name: str, data: bytes) -> str:
    """Empty for a file that is read, ``refused``, or what else was raised and where."""
    try:
        FORMATS[name].read(data)
    except DiscError:
        return "refused"
    except (Exception, RecursionError) as error:
        frames = traceback.extract_tb(error.__traceback__)
        own = [f for f in frames if "tvm_disc" in f.filename] or frames
        place = f"{type(error).__name__} at {Path(own[-1].filename).name}:{own[-1].lineno}"
        return f"{place}: {str(error)[:100]!r}"
    return ""


def campaign(name: str, seed: int, cases: int, first: int = 0, keep: Path | None = None) -> Report:
    """Judge ``cases`` damaged files of a format."""
    report, start = Report(name), time.monotonic()
    FORMATS[name].seeds()  # made once, before processes share them
    numbers = list(range(first, first + cases))
    while numbers:
        done = 0
        for number, outcome, seconds in _round(name, seed, numbers[:ROUND]):
            case, done = f"{name}:{seed}:{number}", done + 1
            report.cases += 1
            report.slowest = max(report.slowest, (seconds, case))
            if outcome == "refused":
                report.refused += 1
            elif outcome:
                report.add(outcome, case)
                if keep is not None:
                    keep.mkdir(parents=True, exist_ok=True)
                    (keep / case.replace(":", "_")).write_bytes(FORMATS[name].case(case))
        numbers = numbers[done:]
    report.seconds = time.monotonic() - start
    return report


def _round(name: str, seed: int, numbers: Sequence[int]) -> Iterator[tuple[int, str, float]]:
    """Outcomes up to the first crash or hang, that one included."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read_end)
        _work(name, seed, numbers, write_end)
    os.close(write_end)
    at, rest, hangs = 0, b"", False
    try:
        while at < len(numbers):
            ready, _, _ = select.select([read_end], [], [], LIMIT_S)
            hangs = not ready
            part = os.read(read_end, 1 << 16) if ready else b""
            if not part:
                break
            *lines, rest = (rest + part).split(b"\n")
            for line in lines:
                outcome, seconds = json.loads(line)
                yield numbers[at], outcome, seconds
                at += 1
    finally:
        os.close(read_end)
        if at < len(numbers):
            os.kill(child, signal.SIGKILL)  # or it has ended already
        code = os.waitpid(child, 0)[1]
    if at < len(numbers):
        outcome = f"no end within {LIMIT_S:.0f} s" if hangs else f"process ended: {code}"
        yield numbers[at], outcome, LIMIT_S if hangs else 0.0


def _work(name: str, seed: int, numbers: Sequence[int], write_end: int) -> None:
    """The child: one line per case; never returns."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY_BYTES,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for stream in (1, 2):  # a library's own complaints
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
    try:
        for number in numbers:
            data = FORMATS[name].case(f"{name}:{seed}:{number}")
            start = time.perf_counter()
            outcome = judge(name, data)
            line = json.dumps([outcome, time.perf_counter() - start])
            os.write(write_end, line.encode() + b"\n")
    finally:
        os._exit(0)


def main(argv: Sequence[str] | None = None) -> int:
    """Run campaigns; 1 if anything was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--formats", nargs="+", choices=list(FORMATS), default=list(FORMATS))
    parser.add_argument("--cases", type=int, default=1000, help="of each format")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="write what was found as files")
    parser.add_argument("--case", metavar="FORMAT:SEED:NUMBER", help="print one case and judge it")
    args = parser.parse_args(argv)
    if args.case:
        name = args.case.split(":")[0]
        data = FORMATS[name].case(args.case)
        sys.stdout.buffer.write(data + b"\n")
        FORMATS[name].read(data)
        return 0
    found: Counter[str] = Counter()
    for name in args.formats:
        report = campaign(name, args.seed, args.cases, args.first, args.keep)
        print(report, flush=True)
        found[name] = sum(map(len, report.findings.values()))
    return int(bool(sum(found.values())))


if __name__ == "__main__":
    sys.exit(main())
