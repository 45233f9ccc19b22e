"""``tune``: measure a program's variants on its shapes and record the times."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from tqdm import tqdm
from tvm import tirx

from tvm_disc.abi.blas import expose
from tvm_disc.codegen.machine import card_context, context_of
from tvm_disc.codegen.plan.program import Conditional, Define, Launch, Loop, Program, Region
from tvm_disc.compile import Params, Prepared, build, prepare
from tvm_disc.errors import BadInput, Unsupported, shown
from tvm_disc.options import POINTS, Options, file_path
from tvm_disc.schedules.cuda.library import LibraryProduct, library_product
from tvm_disc.schedules.dispatch.cost import cost_table
from tvm_disc.schedules.dispatch.cost_model import CostModel
from tvm_disc.schedules.dispatch.learn import held_out_error, learner
from tvm_disc.schedules.dispatch.records import Journal, Record, Records, read_records
from tvm_disc.schedules.dispatch.sampling import evaluate
from tvm_disc.schedules.dispatch.signature import group_key
from tvm_disc.schedules.dispatch.variant import Variant
from tvm_disc.schedules.gemm.micro_kernel import MicroKernels
from tvm_disc.schedules.gemm.vendor import calls_vendor
from tvm_disc.schedules.group import Group, Machine
from tvm_disc.schedules.select import variant_space
from tvm_disc.shape import Solver
from tvm_disc.support.debug import Trace
from tvm_disc.tir.builder import i64
from tvm_disc.tuning.device import (
    AnyDevice,
    Build,
    DeviceKernel,
    LocalDevice,
    measured,
    require_card,
)
from tvm_disc.tuning.entry import build_bench, require_machine
from tvm_disc.tuning.measure import Effort, Session, Timing, disturbance, local_session, may_run
from tvm_disc.tuning.outliers import surprising
from tvm_disc.tuning.remote import Fleet, Place, answered
from tvm_disc.tuning.shapes import Shapes, Weights, check_shapes, program_points
from tvm_disc.tuning.share import shared_out
from tvm_disc.typing import Expr, TargetLike, Var

if TYPE_CHECKING:
    from tvm_disc.relay.expr import Function
    from tvm_disc.relay.module import IRModule


Job: TypeAlias = "tuple[Task, tuple[int, ...]]"
InputShapes: TypeAlias = tuple[tuple[int, ...], ...]

FEW = 4  # with fewer points, the share of disturbed points is computed as if there were this many
HOPELESS = 10.0  # a GPU variant is timed only if predicted at most this factor slower than the best
AGAIN = 2  # how often a disturbed point is measured again at the end


@dataclass
class Task:
    """A group to tune, and the values of its dims with which the program launches it."""

    group: Group
    key: str
    variants: list[Variant]
    points: list[tuple[int, ...]]

    def missing(self, records: Records) -> list[tuple[int, ...]]:
        """Return the points at which some variant was not measured."""
        known = records.group(self.key)
        return [p for p in self.points if not self._wanted(p) <= set(known.get(p, {}))]

    def _wanted(self, point: tuple[int, ...]) -> set[str]:
        dims = dict(zip(self.group.symbols(), map(np.float64, point), strict=True))
        return {v.key for v in self.variants if v.safe or may_run(v, dims)}


@dataclass
class Tuned:
    """The outcome of tuning.

    Attributes:
        records: the file for ``Options(records=...)``.
        measured, reused: number of times measured now, and found in the file.
        left: number of points that were not measured within the time budget.
        errors: kernel -> median relative error (regressor, analytical model) on held-out points.
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
            f"{self.measured} times measured, {self.reused} read from {self.records}, "
            f"{self.left} points not measured, {self.seconds:.0f} s"
        ]
        lines += [self.warning] if self.warning else []
        if self.errors:
            learned, plain = np.median(np.array(list(self.errors.values())), axis=0)
            lines.append(
                f"median error of predicted times, at sizes that were left out: {learned:.1%} "
                f"learned cost model, {plain:.1%} analytical cost model"
            )
        return "\n".join(lines)


def tune(
    source: Function | IRModule | int,
    *,
    records: str | Path,
    shapes: Shapes = None,
    weights: Weights = None,
    params: Params = None,
    target: TargetLike = None,
    constraints: Sequence[str] = (),
    options: Options | None = None,
    points: int = POINTS,
    budget_s: float | None = None,
    effort: Effort | None = None,
    progress: bool = True,
    remote: Place | None = None,
) -> Tuned:
    """Measure the variants of each kernel of a program and append their times to ``records``.

    An existing file is continued: times in it are not measured again, so an interrupted run loses
    at most the current point.

    Args:
        source: a model, as for :func:`tvm_disc.build`; so are ``params``, ``target``,
            ``constraints`` and ``options``.
        records: a file of JSON lines, for ``Options(records=...)``.
        shapes: values by dim name, such as ``{"b": [1, 8], "s": range(1, 513)}``; the path of a
            log that ``Executable.record_shapes`` wrote; None derives shapes from the facts.
        weights: frequency of each value of a dim, by dim name.
        points: number of shapes to measure.
        budget_s: stop after this many seconds.
        effort: number and duration of the measurements, a ``tuning.measure.Effort``.
        progress: show a progress bar.
        remote: other machines to measure on, or a ``tvm.rpc`` session; ``target`` describes them.

    Raises:
        BadInput: ``shapes`` names an unknown dim, or the file contains no records.
        DeviceError: for a GPU: no driver, no device, or it cannot run code for the target.
        WrongProcessor: the measuring machine cannot run code for the target.
        ArtifactError: no machine of ``remote`` answers.
    """
    start = time.monotonic()
    check_shapes(shapes, weights, points, budget_s)
    file = file_path("records", records)
    if not isinstance(effort, Effort | None):
        raise BadInput(f"effort: expected an Effort, found {shown(effort)}")
    learner("tune")
    options = replace(Options.from_env(options), records=None)
    front = prepare(source, params, target, constraints, options, Trace(0, None))
    result = Tuned(file)
    deadline = None if budget_s is None else start + budget_s
    at, effort = input_shapes(front, shapes, weights, points), effort or Effort()
    on_device = front.machine.device is not None
    if on_device:
        devices = [LocalDevice()] if remote is None else Fleet(remote).devices()
        tasks = tasks_of(front, at, devices[0].library)

        def forced(trees: Path) -> object:
            own = replace(options, dispatch=trees, cuda_graphs=0)
            return build(source, params=params, target=target, constraints=constraints, options=own)

        known = measure_on_device(
            front, tasks, at, result, forced, effort, deadline, progress, devices
        )
    else:
        tasks = tasks_of(front, at, remote is None and expose())
        with answered() if remote is not None else nullcontext():
            known = measure_tasks(front, tasks, result, effort, deadline, progress, remote)
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
    remote: Place | None = None,
    library: Path | None = None,
) -> Records:
    """Measure the times of the tasks that ``result.records`` lacks; return all known records.

    The compiled variants are stored as ``library`` (see :func:`build_bench`).
    """
    fleet = None if remote is None else Fleet(remote)
    cpu = None if fleet is None else fleet.cpu_name()
    require_machine(front.target, cpu)
    context = context_of(front.target, cpu)
    known = read_records(result.records, context)
    result.warning = known.problems(result.records)
    jobs = _interleaved([[(t, p) for p in t.missing(known)] for t in tasks])
    total = sum(len(t.points) * len(t.variants) for t in tasks)
    result.reused = total - sum(len(t.variants) for t, _ in jobs)
    if not jobs:
        return known
    lanes = _lanes(front, [t for t in tasks if t.missing(known)], fleet, library)
    journal = Journal(result.records, context)
    bar = tqdm(total=len(jobs), desc="tune: variants at sizes", unit="size", disable=not progress)
    result.left = len(jobs)
    disturbed: dict[tuple[str, tuple[int, ...]], tuple[Task, Timing]] = {}

    def write(record: Record) -> None:
        known.add(record)
        journal.write(record)
        result.measured += 1

    def keep(task: Task, point: tuple[int, ...], timing: Timing) -> None:
        for variant, ns in zip(task.variants, timing.ns, strict=True):
            if np.isfinite(ns):
                write(Record(task.key, variant.key, point, ns))
        result.left -= 1
        bar.set_postfix_str(task.group.name, refresh=False)
        bar.update()

    def better(task: Task, point: tuple[int, ...], timing: Timing) -> None:
        """Keep the smaller of two times: disturbances only add time."""
        for variant, ns in zip(task.variants, timing.ns, strict=True):
            if ns < known.times.get((task.key, variant.key, point), 0.0):
                write(Record(task.key, variant.key, point, ns))
        bar.update()

    try:
        for done in _settled(jobs, lanes, effort, deadline, disturbed):
            keep(*done)
        for _ in range(effort.odd if result.left == 0 else 0):
            odd = _odd(tasks, known, front.machine.model)
            bar.total += len(odd)
            for task, point, timing in _timed(odd, lanes, effort, deadline):
                better(task, point, timing)
    finally:
        for (_, point), (task, timing) in disturbed.items():
            keep(task, point, timing)  # a disturbed time is better than none
        bar.close()
        journal.close()
    return known


def measure_on_device(
    front: Prepared,
    tasks: Sequence[Task],
    shapes: Sequence[InputShapes],
    result: Tuned,
    forced: Build,
    effort: Effort,
    deadline: float | None,
    progress: bool,
    devices: Sequence[AnyDevice],
) -> Records:
    """Time kernels on GPUs, local or remote; return all known records.

    Args:
        forced: builds the program with the decision trees of a file.
    """
    assert front.machine.device is not None
    card = require_card(devices[0], front.machine.device.architectures)
    context = card_context(card.key)
    known = read_records(result.records, context)
    result.warning = known.problems(result.records)
    kernels = _device_kernels(front, tasks, shapes)
    jobs = _device_jobs(kernels, shapes, known, front.machine.model)
    total = sum(len(t.points) * len(t.variants) for t in tasks)
    result.reused = total if not jobs else sum(len(known.group(t.key)) for t in tasks)
    result.left = len(jobs)
    if not jobs:
        return known
    journal = Journal(result.records, context)
    inputs = front.programs[0].signature.inputs
    times = measured(
        kernels,
        jobs,
        inputs,
        forced,
        devices,
        effort.rounds,
        effort.quantile,
        deadline,
    )
    try:
        for found in tqdm(
            times, total=len(jobs), desc="tune: calls", unit="call", disable=not progress
        ):
            for record in found:
                known.add(record)
                journal.write(record)
                result.measured += 1
            result.left -= 1
    finally:
        journal.close()
    return known


def _device_kernels(
    front: Prepared, tasks: Sequence[Task], shapes: Sequence[InputShapes]
) -> list[DeviceKernel]:
    """Return the kernels of the tasks, with the dims of their launches by input shapes.

    As in the program, the special version is used for the shapes that it accepts.
    """
    by_key = {t.key: t for t in tasks}
    found: dict[str, DeviceKernel] = {}
    for given in shapes:
        program, point = next(
            (p, point) for p in front.programs if (point := _bind(p, given)) is not None
        )
        for launch, defined in _launches(program.region, {}):
            group = launch.kernel.group
            task = None if group is None else by_key.get(group_key(group))
            dims = None if task is None else _dims(launch, defined, point)
            if task is not None and dims is not None:
                name = launch.kernel.name
                library = _library(task.group, front.machine)
                new = DeviceKernel(name, task.key, task.group, task.variants, library)
                found.setdefault(name, new).calls.setdefault(given, []).append(dims)
    return list(found.values())


def _device_jobs(
    kernels: Sequence[DeviceKernel],
    shapes: Sequence[InputShapes],
    known: Records,
    model: CostModel,
) -> list[tuple[int, InputShapes]]:
    """Return the (variant number, shapes) pairs at which some kernel was not timed.

    Variants that are predicted to be fast come first, since the time budget may end before all
    variants are timed.
    """
    found: dict[int, list[InputShapes]] = {}
    slower: dict[int, float] = {}
    for number in range(max((len(k.variants) for k in kernels), default=0)):
        for given in shapes:
            ratios = {
                (k.key, k.variants[number].key, dims): _slower(k, number, dims, model)
                for k in kernels
                if number < len(k.variants)
                for dims in k.calls.get(given, [])
                if min(dims, default=1) > 0
            }
            if any(r <= HOPELESS and at not in known.times for at, r in ratios.items()):
                found.setdefault(number, []).append(given)
                slower[number] = slower.get(number, 0.0) + float(np.mean([*ratios.values()]))
    numbers = sorted(found, key=lambda n: slower[n] / len(found[n]))
    return [(number, given) for number in numbers for given in found[number]]


def _slower(kernel: DeviceKernel, number: int, dims: Sequence[int], model: CostModel) -> float:
    """Return a variant's predicted time divided by that of the best variant.

    The result exceeds ``HOPELESS`` if the variant cannot run. Such variants are not measured: a
    call times all kernels of a program at once, so a slow variant of one kernel delays the others.
    """
    symbols = kernel.group.symbols()
    points = dict(zip(symbols, map(np.float64, dims), strict=True))
    if not may_run(kernel.variants[number], points):
        return 2.0 * HOPELESS
    at = {s: np.array([d], np.float64) for s, d in zip(symbols, dims, strict=True)}
    costs = cost_table(kernel.variants, at, 1, model)[0]
    return float(costs[number] / costs.min())


def _odd(tasks: Sequence[Task], known: Records, model: CostModel) -> list[Job]:
    """Return the points whose times do not fit the other points of their task."""
    found = [[(t, p) for p in surprising(t.group, t.variants, model, known.group(t.key))]
             for t in tasks]  # fmt: skip
    return _interleaved(found)


def _settled(
    jobs: Sequence[Job],
    lanes: Sequence[dict[str, Session]],
    effort: Effort,
    deadline: float | None,
    disturbed: dict[tuple[str, tuple[int, ...]], tuple[Task, Timing]],
) -> Iterator[tuple[Task, tuple[int, ...], Timing]]:
    """Yield jobs with their times as they finish; disturbed jobs are repeated after all others.

    ``disturbed`` holds the provisional times of disturbed points. If most points are disturbed, the
    machine is assumed to be the cause, and no job is repeated.
    """
    pending = list(jobs)
    for turns_left in range(AGAIN, -1, -1):
        late: list[Job] = []
        for task, point, timing in _timed(pending, lanes, effort, deadline):
            _, earlier = disturbed.pop((task.key, point), (task, timing))
            before, now = (disturbance(task.variants, t) for t in (earlier, timing))
            best = earlier if before <= now else timing
            if turns_left and min(before, now):
                disturbed[task.key, point] = task, best
                late.append((task, point))
            else:
                yield task, point, best
        if turns_left == AGAIN and 2 * len(late) > max(len(pending), FEW):
            return
        pending = late


def _same_variants(task: Task, machine: Machine) -> list[Variant]:
    wanted = {v.key for v in task.variants}
    space = variant_space(task.group, Solver(), machine)
    return [v for v in space.variants if v.key in wanted]


def _lanes(
    front: Prepared, tasks: Sequence[Task], fleet: Fleet | None, library: Path | None
) -> list[dict[str, Session]]:
    """Return, for each machine, the sessions of the tasks by the key of the task."""
    given = front.machine
    machine = replace(given, records=None, trees={}, micro=MicroKernels())
    # Plans refer to micro-kernels of ``machine``, which must be created in this module.
    spaces = [(t.group, _same_variants(t, machine)) for t in tasks]
    benches = build_bench(spaces, Solver(), machine, front.target, library)
    rows = [[local_session(b) for b in benches]]
    if fleet is not None:
        rows = fleet.sessions(benches)
    return [{t.key: s for t, s in zip(tasks, row, strict=True)} for row in rows]


def _timed(
    jobs: Sequence[Job], lanes: Sequence[dict[str, Session]], effort: Effort, deadline: float | None
) -> Iterator[tuple[Task, tuple[int, ...], Timing]]:
    """Yield jobs with their times as they finish, until the deadline.

    Each machine runs one job at a time.
    """

    def late() -> bool:
        return deadline is not None and time.monotonic() > deadline

    def timed(lane: dict[str, Session], job: Job) -> Timing:
        return lane[job[0].key].time(job[1], effort)

    for (task, point), timing in shared_out(jobs, lanes, timed, late):
        yield task, point, timing


def _interleaved(lists: Sequence[Sequence[object]]) -> list[Any]:
    longest = max(map(len, lists), default=0)
    return [row[k] for k in range(longest) for row in lists if k < len(row)]


def input_shapes(
    front: Prepared, shapes: Shapes, weights: Weights, count: int
) -> list[InputShapes]:
    """Return the input shapes of the points to measure.

    If a program has a special and a general version, most points are chosen for the special one.
    """
    found: dict[InputShapes, None] = {}
    for program, version in zip(front.programs, front.versions, strict=True):
        inputs = program.signature.inputs
        share = count if program is front.programs[0] else max(count // 4, 1)
        for point in program_points(inputs, version.solver, shapes, weights, share):
            dims = {k: np.float64(v) for k, v in point.items()}
            rows = (tuple(int(evaluate(i64(d), dims)) for d in shape) for _, shape, _ in inputs)
            found.setdefault(tuple(rows))
    return list(found)


def _bind(program: Program, shapes: InputShapes) -> dict[Any, int] | None:
    """Return the program's dims for input shapes; None if the program does not accept them."""
    point: dict[object, int] = {}
    for (_, declared, _), shape in zip(program.signature.inputs, shapes, strict=True):
        for dim, size in zip(declared, shape, strict=True):
            if isinstance(dim, tirx.Var) and point.setdefault(dim, size) != size:
                return None
    return point


def tasks_of(front: Prepared, shapes: Sequence[InputShapes], vendor: bool) -> list[Task]:
    """Return the groups with several variants, and their dims when called with ``shapes``.

    Variants that call a library are included only if ``vendor``.
    """
    tasks: dict[str, Task] = {}
    for program in front.programs:
        points = [p for s in shapes if (p := _bind(program, s)) is not None]
        for launch, defined in _launches(program.region, {}):
            group = launch.kernel.group
            if group is None or launch.kernel.choice is None:
                continue
            key = group_key(group)
            if key not in tasks:
                space = variant_space(group, Solver(), front.machine)
                found = [v for v in space.variants if vendor or not calls_vendor(v.plan)]
                library = _library(group, front.machine) if vendor else None
                found += [] if library is None else [library.variant]
                tasks[key] = Task(group, key, found, [])
            seen = dict.fromkeys(tasks[key].points)
            for point in points:
                dims = _dims(launch, defined, point)
                if dims is not None and min(dims, default=1) > 0:
                    seen.setdefault(dims)
            tasks[key].points = list(seen)
    return [t for t in tasks.values() if len(t.variants) > 1]


def _library(group: Group, machine: Machine) -> LibraryProduct | None:
    """Return the matmul of a group that a device's library can compute; None if there is none."""
    found = library_product(group, Solver(), machine)
    return found if isinstance(found, LibraryProduct) else None


def _launches(region: Region, defined: dict[Any, Any]) -> Iterable[tuple[Launch, dict[Expr, Expr]]]:
    """Yield each kernel launch, with the definitions before it."""
    for instruction in region.instructions:
        if isinstance(instruction, Launch):
            yield instruction, defined
        elif isinstance(instruction, Define):
            defined[instruction.var] = instruction.value
        elif isinstance(instruction, Conditional):
            yield from _launches(instruction.then_region, dict(defined))
            yield from _launches(instruction.else_region, dict(defined))
        elif isinstance(instruction, Loop):
            for inner in (instruction.header, instruction.body, instruction.exit):
                yield from _launches(inner, dict(defined))


def _dims(
    launch: Launch, defined: Mapping[Any, Any], point: Mapping[Var, int]
) -> tuple[int, ...] | None:
    """Return the values of a kernel's dims at a point; None if they depend on data."""
    values = {k: np.float64(v) for k, v in point.items()}
    try:
        for var, value in defined.items():
            values[var] = np.float64(evaluate(value, values))
        return tuple(int(evaluate(s, values)) for s in launch.symbols)
    except Unsupported:
        return None
