"""What dispatch loses against the best variant, on shapes that were never measured.

    python benchmarks/dispatch.py measure --dir DIR [--cases dense,softmax] [--budget SECONDS]
    python benchmarks/dispatch.py report --dir DIR
    python benchmarks/dispatch.py cost --dir DIR
    python benchmarks/dispatch.py calibrate --dir DIR

``measure`` times every variant of every case on two sets of shapes, ``tune`` (to grow trees on)
and ``held`` (never learned from); it continues where it stopped. The held-out shapes are timed
twice: the first times say which variant is best, the second what each takes, because the least
of many noisy times lies below every true one. ``report`` grows the trees and prints, for the
held-out shapes, the time lost against the best variant: by the tuned tree, by the untuned one
(the analytical model alone) and by the best single variant. ``cost`` times kernels behind their
trees against the variant that the tree picks, called directly, at the smallest shape.
``calibrate`` fits the analytical model to the times of ``tune`` and writes the
file of the target's level (``DISC_TARGET``) among the shipped records.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
import tvm

from tvm_disc import Options, relay
from tvm_disc.compile import context_of, prepare
from tvm_disc.debug import Trace
from tvm_disc.schedules.choose import Choice, analytic, table
from tvm_disc.schedules.cost_model import CostModel
from tvm_disc.schedules.group import Machine
from tvm_disc.schedules.learn import choose_measured, time_table
from tvm_disc.schedules.levels import FOLDER, LEVELS
from tvm_disc.schedules.records import cpu_name, read_records
from tvm_disc.schedules.select import variant_space
from tvm_disc.schedules.tree import decide, depth
from tvm_disc.schedules.vendor import expose
from tvm_disc.shape import Solver
from tvm_disc.tune.calibrate import Sample, calibrate
from tvm_disc.tune.entry import build_bench
from tvm_disc.tune.measure import Effort, local_session
from tvm_disc.tune.tune import Task, Tuned, measure_tasks, tasks_of

LENGTHS = (5, 24, 43, 62, 81, 100, 119, 128)


def _input(*dims: Any) -> Any:
    return relay.var("x", shape=dims, dtype="float32")


def _dense(n: int, k: int) -> Any:
    x = _input(relay.Any(), k)
    weight = np.random.default_rng(0).uniform(-1, 1, (n, k)).astype("float32")
    return relay.Function([x], relay.nn.dense(x, relay.const(weight)))


def _batch_matmul(transposed: bool) -> Any:
    t = relay.Any("t")
    x = relay.var("x", shape=(192, t, 64 if transposed else t), dtype="float32")
    y = relay.var("y", shape=(192, t, 64), dtype="float32")
    return relay.Function([x, y], relay.nn.batch_matmul(x, y, transpose_b=transposed))


def _softmax() -> Any:
    x = _input(relay.Any(), relay.Any())
    return relay.Function([x], relay.nn.softmax(x))


def _layer_norm() -> Any:
    x = _input(relay.Any(), 768)
    scale, shift = (relay.const(np.ones(768, "float32")) for _ in range(2))
    return relay.Function([x], relay.nn.layer_norm(x, scale, shift))


def _attention() -> Any:
    q, k, v = (
        relay.var(name, shape=(relay.Any("b"), relay.Any("s"), 64), dtype="float32")
        for name in "qkv"
    )
    scores = relay.multiply(
        relay.nn.batch_matmul(q, k, transpose_b=True), relay.const(np.float32(0.125))
    )
    return relay.Function(
        [q, k, v], relay.nn.batch_matmul(relay.nn.softmax(scores), v, transpose_b=False)
    )


def _matmul() -> Any:
    x, y = (
        relay.var(name, shape=(relay.Any(), relay.Any()), dtype="float32") for name in ("x", "y")
    )
    return relay.Function([x, y], relay.nn.matmul(x, y))


def _transpose() -> Any:
    x = _input(relay.Any(), relay.Any(), 64)
    return relay.Function([x], relay.transpose(x, (2, 0, 1)))


@dataclass(frozen=True)
class Case:
    """A program of one kernel, and the range of its dims."""

    name: str
    make: Callable[[], Any]
    high: tuple[int, ...]
    listed: tuple[tuple[int, ...], ...] = ()

    def points(self, count: int, seed: int) -> list[tuple[int, ...]]:
        """Dims drawn over the whole range, evenly over their logarithms."""
        rng = np.random.default_rng(seed)
        draws = np.exp(rng.uniform(0, np.log(np.array(self.high) + 1), (4 * count, len(self.high))))
        unique = dict.fromkeys(tuple(int(v) for v in row) for row in draws)
        return list(unique)[:count]


_ROWS = tuple((16 * t,) for t in LENGTHS)
_SQUARE = tuple((t,) for t in LENGTHS)
CASES = (
    Case("dense 768x2304", lambda: _dense(2304, 768), (2048,), _ROWS),
    Case("dense 768x768", lambda: _dense(768, 768), (2048,), _ROWS),
    Case("dense 3072x768", lambda: _dense(768, 3072), (2048,), _ROWS),
    Case("dense 768x3072", lambda: _dense(3072, 768), (2048,), _ROWS),
    Case("batch matmul TxT", lambda: _batch_matmul(True), (160,), _SQUARE),
    Case("batch matmul Tx64", lambda: _batch_matmul(False), (160,), _SQUARE),
    Case("matmul", _matmul, (768, 768, 768)),
    Case("attention", _attention, (96, 512)),
    Case("softmax", _softmax, (2048, 2048)),
    Case("layer norm 768", _layer_norm, (4096,)),
    Case("transpose", _transpose, (256, 256)),
)


@dataclass
class Prepared:
    """A case's kernel: its group, its variants, and the two sets of shapes."""

    case: Case
    front: Any
    task: Task
    held: list[tuple[int, ...]]

    @staticmethod
    def of(case: Case, tune_points: int, held_points: int) -> Prepared:
        """Compile the case as far as its kernel."""
        front = prepare(case.make(), None, None, (), Options(), Trace(0, None))
        [task] = tasks_of(front, (), expose())
        listed = list(case.listed)
        drawn = case.points(tune_points + held_points, 1)
        held = [*listed, *[p for p in drawn[tune_points:] if p not in listed]]
        task.points = [case.high, *[p for p in drawn[:tune_points] if p not in held]]
        return Prepared(case, front, task, held)


def measure(cases: list[Prepared], folder: Path, budget_s: float | None) -> bool:
    """Time what is missing; whether everything is there."""
    folder.mkdir(parents=True, exist_ok=True)
    deadline = None if budget_s is None else time.monotonic() + budget_s
    left = 0
    for name in ("tune", "held", "again"):
        for p in cases:
            task = (
                p.task
                if name == "tune"
                else Task(p.task.group, p.task.key, p.task.variants, p.held)
            )
            result = Tuned(folder / f"{name}.jsonl")
            measure_tasks(p.front, [task], result, Effort(), deadline, progress=True)
            left += result.left
    return left == 0


# -- report ------------------------------------------------------------------------------------


def losses(choice: Choice, p: Prepared, dims: Any, times: Any, best: Any) -> np.ndarray:
    """Time lost by a choice at each point, over the best variant's time there."""
    keys = [v.key for v in p.task.variants]
    points = dict(zip(p.task.group.symbols(), dims.T, strict=True))
    asked = table(choice.features, points, len(dims))
    lost = []
    for row, values in enumerate(asked):
        variant = choice.variants[decide(choice.tree, lambda f, v=values: v[f])]
        lost.append(times[row, keys.index(variant.key)] / best[row] - 1)
    return np.array(lost)


def report(cases: list[Prepared], folder: Path) -> None:
    """The tables."""
    print("| case | variants kept | depth | tuned: mean, p95 lost | untuned | one variant |")
    print("|---|---|---|---|---|---|")
    everything: dict[str, list[np.ndarray]] = {"tuned": [], "untuned": [], "one": []}
    for p in cases:
        context = context_of(p.front.target)
        learned = read_records(folder / "tune.jsonl", context).group(p.task.key)
        found = read_records(folder / "held.jsonl", context).group(p.task.key)
        again = read_records(folder / "again.jsonl", context).group(p.task.key)
        both = [d for d in p.held if d in found and d in again]
        dims, first = time_table(p.task.variants, {d: found[d] for d in both})
        _, times = time_table(p.task.variants, {d: again[d] for d in both})
        if not len(dims):
            continue
        group, variants, model = p.task.group, p.task.variants, p.front.machine.model
        tuned = choose_measured(group, variants, Solver(), model, learned)
        assert tuned is not None
        untuned = analytic(group, variants, Solver(), model)
        best = times[np.arange(len(dims)), np.nanargmin(first, axis=1)]
        relative = times / best[:, None] - 1
        fixed = int(np.argmin(np.where(np.isnan(relative), 1e9, relative).mean(axis=0)))
        lost = {
            "tuned": losses(tuned, p, dims, times, best),
            "untuned": losses(untuned, p, dims, times, best),
            "one": relative[:, fixed],
        }
        for name, values in lost.items():
            everything[name].append(values)
        cells = " | ".join(_cell(lost[n]) for n in everything)
        print(f"| {p.case.name} | {len(tuned.variants)} | {depth(tuned.tree)} | {cells} |")
    if everything["tuned"]:
        all_lost = {n: np.concatenate(v) for n, v in everything.items()}
        print("| all | | | " + " | ".join(_cell(v) for v in all_lost.values()) + " |")
        gain = np.exp(np.mean(np.log((1 + all_lost["one"]) / (1 + all_lost["tuned"]))))
        behind = np.mean((1 + all_lost["untuned"]) / (1 + all_lost["tuned"])) - 1
        print(f"\ngain over one variant: {gain:.3f}x; untuned behind tuned: {behind:.1%}")


def _cell(lost: np.ndarray) -> str:
    return f"{lost.mean():.1%}, {np.percentile(lost, 95):.1%}"


def cost(cases: list[Prepared], folder: Path) -> None:
    """Nanoseconds of the questions, in alternating rounds."""
    print("| case | questions | variant alone, ns | behind the tree, ns | difference |")
    print("|---|---|---|---|---|")
    for p in cases:
        front, group = p.front, p.task.group
        learned = read_records(folder / "tune.jsonl", context_of(front.target)).group(p.task.key)
        machine = Machine(front.machine.isa, front.machine.threads, front.machine.model)
        space = variant_space(group, Solver(), machine).variants
        choice = choose_measured(group, space, Solver(), machine.model, learned)
        assert choice is not None
        points = {s: np.float64(1) for s in group.symbols()}
        values = table(choice.features, points, 1)[0]
        alone = choice.variants[decide(choice.tree, lambda f, v=values: v[f])]
        spaces = [(group, [alone, choice])]
        [bench] = build_bench(spaces, Solver(), machine, front.target)
        tensors = local_session(bench).arguments(points)
        timers = [
            bench.module.time_evaluator(n, tvm.cpu(0), number=2000, repeat=1) for n in bench.names
        ]
        dims = [1] * len(points)
        rounds = [
            [t(*tensors(k), *dims).mean * 1e9 for k, t in enumerate(timers)] for _ in range(51)
        ]
        first, second = np.median(rounds, axis=0)
        difference = np.median(np.diff(rounds, axis=1))
        cells = f"{first:.1f} | {second:.1f} | {difference:+.1f}"
        print(f"| {p.case.name} | {depth(choice.tree)} | {cells} |")


def fit_level(cases: list[Prepared], folder: Path) -> None:
    """Write the constants of the target's level."""
    samples = []
    for p in cases:
        learned = read_records(folder / "tune.jsonl", context_of(p.front.target)).group(p.task.key)
        dims, times = time_table(p.task.variants, learned)
        if len(dims):
            samples.append(Sample(p.task.group.symbols(), p.task.variants, dims, times))
    start, isa = CostModel(), cases[0].front.machine.isa
    model = calibrate(samples, start)
    scores = [float(np.mean([s.score(m) for s in samples])) for m in (start, model)]
    path = FOLDER / f"{LEVELS[isa]}.json"
    data = {"level": LEVELS[isa], "measured on": cpu_name(), "model": asdict(model)}
    path.write_text(json.dumps(data, indent=1) + "\n")
    print(f"{path}: score {scores[0]:.3f} -> {scores[1]:.3f} on {len(samples)} kernels")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("measure", "report", "cost", "calibrate"))
    parser.add_argument("--dir", type=Path, required=True)
    parser.add_argument("--cases", help="names, or their beginnings, with commas between")
    parser.add_argument("--points", type=int, default=24)
    parser.add_argument("--held", type=int, default=16)
    parser.add_argument("--budget", type=float)
    args = parser.parse_args()
    wanted = tuple(args.cases.split(",")) if args.cases else ("",)
    cases = [Prepared.of(c, args.points, args.held) for c in CASES if c.name.startswith(wanted)]
    if args.what == "measure":
        print("complete" if measure(cases, args.dir, args.budget) else "to be continued")
    elif args.what == "calibrate":
        fit_level(cases, args.dir)
    elif args.what == "cost":
        cost(cases, args.dir)
    else:
        report(cases, args.dir)


if __name__ == "__main__":
    main()
