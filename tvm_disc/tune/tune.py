"""``tune``: measure a program's variants on its shapes and write the records to choose by."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from tvm_disc.codegen.program import Define, If, Launch, Loop, Region
from tvm_disc.compile import Prepared, context_of, prepare
from tvm_disc.debug import Trace
from tvm_disc.errors import Unsupported
from tvm_disc.options import Options
from tvm_disc.schedules.group import Group, Machine
from tvm_disc.schedules.learn import held_out_error
from tvm_disc.schedules.points import evaluate
from tvm_disc.schedules.records import Context, Journal, Record, Records, read_records
from tvm_disc.schedules.select import variant_space
from tvm_disc.schedules.signature import group_key
from tvm_disc.schedules.variant import Variant
from tvm_disc.shape import Solver
from tvm_disc.tune.entry import build_bench
from tvm_disc.tune.measure import Effort, Session, local_session
from tvm_disc.tune.shapes import Shapes, Weights, program_points

POINTS = 32  # shapes of the program that are measured


@dataclass
class Task:
    """A group to tune, and the points of its dims at which the program calls it."""

    group: Group
    key: str
    variants: list[Variant]
    points: list[tuple[int, ...]]

    def missing(self, records: Records) -> list[tuple[int, ...]]:
        """The points at which some variant was not measured."""
        wanted = {v.key for v in self.variants}
        known = records.group(self.key)
        return [p for p in self.points if not wanted <= set(known.get(p, {}))]


@dataclass
class Tuned:
    """What tuning did.

    Attributes:
        records: the file for ``Options(records=...)``.
        measured, reused: times taken now, and found in the file.
        left: points that the time budget did not allow.
        errors: kernel to median relative error (regressor, analytical) on held-out points.
    """

    records: Path
    measured: int = 0
    reused: int = 0
    left: int = 0
    seconds: float = 0.0
    errors: dict[str, tuple[float, float]] = field(default_factory=dict)
    warning: str = ""

    def __str__(self) -> str:
        lines = [
            f"{self.measured} times measured, {self.reused} found in {self.records}, "
            f"{self.left} points left, {self.seconds:.0f} s"
        ]
        lines += [self.warning] if self.warning else []
        if self.errors:
            learned, plain = np.median(np.array(list(self.errors.values())), axis=0)
            lines.append(
                f"error on held-out points: {learned:.1%} predicted, {plain:.1%} analytical"
            )
        return "\n".join(lines)


def tune(
    source: Any,
    *,
    records: str | Path,
    shapes: Shapes = None,
    weights: Weights = None,
    params: Mapping[str, np.ndarray] | None = None,
    target: Any = None,
    constraints: Sequence[str] = (),
    options: Options | None = None,
    points: int = POINTS,
    budget_s: float | None = None,
    effort: Effort | None = None,
    progress: bool = True,
) -> Tuned:
    """Measure the variants of every kernel of a program and append their times to ``records``.

    A file that is there already is continued: what it holds is not measured again, so that a
    run that was interrupted loses at most the point it was at.

    Args:
        source, params, target, constraints, options: as for :func:`tvm_disc.build`.
        shapes: values by dim name, such as ``{"b": [1, 8], "s": range(1, 513)}``; the path of a
            log that ``Executable.record_shapes`` wrote; None takes what the facts allow.
        weights: how often each value of a dim is met, by dim name.
        points: how many shapes are measured.
        budget_s: stop after this many seconds.

    Raises:
        BadInput: shapes that name no dim of the program, or a file that holds no records.
    """
    start = time.monotonic()
    options = replace(Options.from_env(options), records=None)
    front = prepare(source, params, target, constraints, options, Trace(0, None))
    inputs, solver = front.programs[-1].signature.inputs, front.versions[-1].solver
    chosen = program_points(inputs, solver, shapes, weights, points)
    tasks = tasks_of(front, chosen)
    result = Tuned(Path(records))
    deadline = None if budget_s is None else start + budget_s
    known = measure_tasks(front, tasks, result, effort or Effort(), deadline, progress)
    for task in tasks:
        error = held_out_error(
            task.group, task.variants, Solver(), front.machine.model, known.group(task.key)
        )
        if error is not None:
            result.errors[task.group.name] = error
    result.seconds = time.monotonic() - start
    return result


def measure_tasks(
    front: Prepared,
    tasks: Sequence[Task],
    result: Tuned,
    effort: Effort,
    deadline: float | None,
    progress: bool,
) -> Records:
    """Time what ``result.records`` lacks of the tasks; everything that is known then."""
    context = context_of(front.target)
    known = read_records(result.records, context)
    result.warning = known.problems(result.records)
    _Measuring(front, result.records, context, known, effort, result).run(tasks, deadline, progress)
    return known


class _Measuring:
    def __init__(
        self,
        front: Prepared,
        path: Path,
        context: Context,
        known: Records,
        effort: Effort,
        result: Tuned,
    ) -> None:
        self.front, self.known, self.effort, self.result = front, known, effort, result
        self.path, self.context = path, context
        self.sessions: dict[str, Session] = {}

    def run(self, tasks: Sequence[Task], deadline: float | None, progress: bool) -> None:
        """Every missing point, one of each group in turn, so that a budget is spread."""
        jobs = _interleaved([[(t, p) for p in t.missing(self.known)] for t in tasks])
        total = sum(len(t.points) * len(t.variants) for t in tasks)
        self.result.reused = total - sum(len(t.variants) for t, _ in jobs)
        if not jobs:
            return
        self.sessions = self._sessions([t for t in tasks if t.missing(self.known)])
        journal = Journal(self.path, self.context)
        bar = tqdm(total=len(jobs), desc="tuning", unit="point", disable=not progress)
        try:
            for done, (task, point) in enumerate(jobs):
                if deadline is not None and time.monotonic() > deadline:
                    self.result.left = len(jobs) - done
                    break
                bar.set_postfix_str(task.group.name)
                self._measure(task, point, journal)
                bar.update()
        finally:
            bar.close()
            journal.close()

    def _measure(self, task: Task, point: tuple[int, ...], journal: Journal) -> None:
        times = self.sessions[task.key].time(point, self.effort)
        for variant, ns in zip(task.variants, times, strict=True):
            if np.isfinite(ns):
                record = Record(task.key, variant.key, point, ns)
                self.known.add(record)
                journal.write(record)
                self.result.measured += 1

    def _sessions(self, tasks: Sequence[Task]) -> dict[str, Session]:
        front = self.front
        machine = Machine(front.machine.isa, front.machine.threads, front.machine.model)
        # Plans hold on to the machine's register-tile kernels: these are this module's own.
        spaces = [(t.group, variant_space(t.group, Solver(), machine).variants) for t in tasks]
        benches = build_bench(spaces, Solver(), machine, front.target)
        return {t.key: local_session(b) for t, b in zip(tasks, benches, strict=True)}


def _interleaved(lists: Sequence[Sequence[Any]]) -> list[Any]:
    longest = max(map(len, lists), default=0)
    return [row[k] for k in range(longest) for row in lists if k < len(row)]


def tasks_of(front: Prepared, points: Sequence[Mapping[Any, int]]) -> list[Task]:
    """The groups with more than one variant, and the dims that calls give them at ``points``."""
    tasks: dict[str, Task] = {}
    calls = [call for p in front.programs for call in _launches(p.region, {})]
    for launch, defined in calls:
        group = launch.kernel.group
        if group is None or launch.kernel.choice is None:
            continue
        key = group_key(group)
        if key not in tasks:
            space = variant_space(group, Solver(), front.machine)
            tasks[key] = Task(group, key, space.variants, [])
        seen = dict.fromkeys(tasks[key].points)
        for point in points:
            dims = _dims(launch, defined, point)
            if dims is not None and min(dims, default=1) > 0:
                seen.setdefault(dims)
        tasks[key].points = list(seen)
    return [t for t in tasks.values() if len(t.variants) > 1]


def _launches(region: Region, defined: dict[Any, Any]) -> Iterable[tuple[Launch, dict[Any, Any]]]:
    """Every kernel call, with what is defined before it."""
    for instruction in region.instructions:
        if isinstance(instruction, Launch):
            yield instruction, defined
        elif isinstance(instruction, Define):
            defined[instruction.var] = instruction.value
        elif isinstance(instruction, If):
            yield from _launches(instruction.then_region, dict(defined))
            yield from _launches(instruction.else_region, dict(defined))
        elif isinstance(instruction, Loop):
            for inner in (instruction.header, instruction.body, instruction.exit):
                yield from _launches(inner, dict(defined))


def _dims(
    launch: Launch, defined: Mapping[Any, Any], point: Mapping[Any, int]
) -> tuple[int, ...] | None:
    """The values of a kernel's dims at a point; None where they depend on data."""
    values = {k: np.float64(v) for k, v in point.items()}
    try:
        for var, value in defined.items():
            values[var] = np.float64(evaluate(value, values))
        return tuple(int(evaluate(s, values)) for s in launch.symbols)
    except Unsupported:
        return None
