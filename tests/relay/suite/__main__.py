"""How many cases pass, by family: ``python -m tests.relay.suite``.

A family is a part of what Relay's scripts lean on: names, nodes, types, the parser, the printer,
equality, operators by level, programs that run. A case that is known not to hold is marked
``xfail`` with its reason, and counts as one that does not pass. All cases of operators run here;
among the other tests only each fifth does. ``--match any,qnn`` counts some families alone.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.relay.suite.expressions import COUNTED

HERE = Path(__file__).parent


class _Tally:
    """Outcomes by file."""

    def __init__(self) -> None:
        self.every: Counter[str] = Counter()
        self.passed: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        family = Path(report.fspath).stem.removeprefix("test_")
        if report.when == "call":
            self.every[family] += 1
            self.passed[family] += report.outcome == "passed"
        elif report.failed:
            self.every[family] += 1


def main() -> int:
    """Print the table; 1 if a family has less than 95 of 100."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--match", default="", help="names of families, by commas")
    wanted = parser.parse_args().match.split(",")
    os.environ[COUNTED] = "1"
    tally = _Tally()
    files = [str(p) for p in sorted(HERE.rglob("test_*.py")) if any(w in p.stem for w in wanted)]
    pytest.main(["-q", "--no-header", "-p", "no:xdist", *files], plugins=[tally])
    print("| family | passed | all |\n|---|--:|--:|")
    for family, every in sorted(tally.every.items()):
        print(f"| {family.replace('_', ' ')} | {tally.passed[family]} | {every} |")
    short = [f for f, n in tally.every.items() if tally.passed[f] < 0.95 * n]
    return 1 if short else 0


if __name__ == "__main__":
    sys.exit(main())
