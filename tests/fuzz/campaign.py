"""Many modules, judged each in a process of its own; what is found is made small and kept."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.fuzz.case import Case
from tests.fuzz.children import LIMITS, Child, Limits, run, start, wait
from tests.fuzz.judge import Finding, judge
from tests.fuzz.maker import Maker
from tests.fuzz.rows import ROWS
from tests.fuzz.shrink import ATTEMPTS, smallest
from tvm_disc.relay.ops.row import OpRow

Tell = Callable[[str], None]
Done = dict[str, Any]
TOGETHER = 8  # modules of one child: a fork and what every process learns anew are shared


@dataclass
class Report:
    """What a campaign did."""

    modules: int = 0
    calls: int = 0
    cpu_s: float = 0.0
    seconds: float = 0.0
    operators: Counter[str] = field(default_factory=Counter)
    findings: list[tuple[int, Finding]] = field(default_factory=list)
    refusals: dict[str, list[int]] = field(default_factory=dict)

    def __str__(self) -> str:
        perhaps = sum(map(len, self.refusals.values()))
        lines = [
            f"{self.modules} modules, {self.calls} calls, {len(self.operators)} of {len(ROWS)} "
            f"operators, {len(self.findings)} findings, {perhaps} variations refused, "
            f"{self.seconds:.0f} s"
        ]
        kinds: dict[str, list[int]] = {}
        for seed, finding in self.findings:
            kinds.setdefault(finding.kind, []).append(seed)
        for kind, seeds in sorted(kinds.items(), key=lambda item: -len(item[1])):
            lines.append(f"  {len(seeds)} x {kind}: seeds {', '.join(map(str, seeds[:6]))}")
        return "\n".join(lines)

    def refused(self) -> str:
        """Refusals of variations by class: some may be of legal modules."""
        ordered = sorted(self.refusals.items(), key=lambda item: -len(item[1]))
        return "\n".join(f"  {len(s)} x {k}: seeds {s[:4]}" for k, s in ordered)


def judged(case: Case, limits: Limits = LIMITS) -> Finding | None:
    """What is wrong with a case, found in a child."""
    return _outcome(run(lambda tell: _told(judge(case, tell)), limits))


def _told(finding: Finding | None) -> list[str] | None:
    return None if finding is None else [finding.kind, finding.detail]


def _outcome(child: Child) -> Finding | None:
    if child.end:
        return Finding(child.end, f"while: {child.stage}")
    answer = child.answer
    return None if answer is None else Finding(*answer)


def _modules(seeds: Sequence[int], table: Sequence[OpRow], tell: Tell) -> Iterator[Done]:
    """The work of a child: make modules, one after the other, and judge them."""
    for seed in seeds:
        tell("make")
        maker = Maker(seed, table)
        case = maker.make()
        tell("made")
        finding = judge(case, tell)
        yield {"used": maker.used, "finding": _told(finding), "calls": len(case.worlds)}


def campaign(
    seeds: Sequence[int],
    jobs: int = 1,
    table: Sequence[OpRow] = ROWS,
    limits: Limits = LIMITS,
    seconds: float = 1e9,
) -> Iterator[tuple[int, Finding | None, Done]]:
    """(seed, what was found, what was done) of every module, as they end."""
    begin, todo = time.monotonic(), _shared(seeds, jobs)
    running: list[tuple[list[int], Child]] = []
    while running or (todo and time.monotonic() - begin < seconds):
        while todo and len(running) < jobs and time.monotonic() - begin < seconds:
            part = todo.pop()
            running.append((part, start(lambda tell, p=part: _modules(p, table, tell), limits)))
        wait([child for _, child in running])
        for part, child in list(running):
            if child.look():
                continue
            running.remove((part, child))
            for seed, done in zip(part, child.answers, strict=False):
                yield seed, Finding(*done["finding"]) if done["finding"] else None, done
            rest = part[len(child.answers) :]
            if len(rest) == 1 and len(part) == 1:
                yield rest[0], Finding(child.end, f"while: {child.stage}"), {}
            elif rest:  # the one that ended the process is judged alone
                todo += [part for part in (rest[1:], rest[:1]) if part]


def _shared(seeds: Sequence[int], jobs: int) -> list[list[int]]:
    """The seeds by children, the first last."""
    size = max(1, min(TOGETHER, len(seeds) // jobs))
    return [list(seeds[k : k + size]) for k in range(0, len(seeds), size)][::-1]


def collect(
    seeds: Sequence[int],
    jobs: int = 1,
    seconds: float = 1e9,
    keep: Path | None = None,
    tell: Callable[[str], None] = print,
    table: Sequence[OpRow] = ROWS,
    limits: Limits = LIMITS,
    attempts: int = ATTEMPTS,
) -> Report:
    """A campaign with its report; of each class the first findings are made small and kept.

    ``attempts`` bounds how often each is tried smaller.
    """
    report, begin = Report(), time.monotonic()
    for seed, finding, done in campaign(seeds, jobs, table, limits, seconds):
        report.modules += 1
        report.calls += done.get("calls", 0)
        report.operators.update(done.get("used", ()))
        report.seconds = time.monotonic() - begin
        if finding is None:
            continue
        if not finding.counts:
            report.refusals.setdefault(finding.kind, []).append(seed)
            continue
        known = sum(f.kind == finding.kind for _, f in report.findings)
        report.findings.append((seed, finding))
        tell(f"seed {seed}: {finding}")
        if known < 2:
            small = reduced(Maker(seed, table).make(), finding, limits, attempts)
            tell(small.text)
            if keep is not None:
                keep.mkdir(parents=True, exist_ok=True)
                (keep / f"{seed}.json").write_text(small.to_json(), encoding="utf-8")
    report.seconds = time.monotonic() - begin
    return report


def reduced(
    case: Case, finding: Finding, limits: Limits = LIMITS, attempts: int = ATTEMPTS
) -> Case:
    """The case made small, with what was found written in it."""

    def fails(candidate: Case) -> bool:
        found = judged(candidate, limits)
        return found is not None and alike(found.kind, finding.kind)

    return replace(smallest(case, fails, attempts), kind=finding.kind, note=finding.detail)


def alike(found: str, wanted: str) -> bool:
    """Whether two findings are of one class, wherever their modules are sure."""
    return found.removeprefix("perhaps ") == wanted.removeprefix("perhaps ")
