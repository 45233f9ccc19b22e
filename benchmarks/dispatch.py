"""Time lost by dispatch against the best variant, on shapes that were not measured for tuning.

    python benchmarks/dispatch.py compile --dir DIR [--cases dense,softmax]
    python benchmarks/dispatch.py measure --dir DIR [--budget SECONDS]
    python benchmarks/dispatch.py report --dir DIR
    python benchmarks/dispatch.py cost --dir DIR
    python benchmarks/dispatch.py sizes --dir DIR
    python benchmarks/dispatch.py calibrate --dir DIR
    python benchmarks/dispatch.py constants --dir DIR --processor [--points 16]

``measure`` times every variant of every case on two sets of shapes: ``tune``, from which dispatch
trees are grown, and ``held``, the held-out shapes. An interrupted run continues where it stopped;
``compile`` compiles the variants beforehand. The held-out shapes are timed six times. The first
times select the best variant, and the other five give the time of each variant, because the least
of many noisy times is below the true time. The six passes are minutes apart, because another
process can disturb a variant at one point for seconds; the median of the five is used.

``report`` grows the trees and prints for the held-out shapes the time lost against the best
variant: by the tuned tree, by the untuned tree (the analytical model alone) and by the best single
variant. It also prints how much the times of the best variant differ between passes.

``cost`` counts the instructions that the tree adds on the longest path to a variant, and times the
tree with variants whose bodies are empty. ``sizes`` compares the bytes of saved programs with those
of programs with one variant per kernel.

``calibrate`` fits the analytical model to the times of ``tune``. With ``--processor`` it writes the
file of the target's processor. Without, the target must be a level, as in
``DISC_TARGET="llvm -mcpu=x86-64-v4"``, and ``calibrate`` writes the file of this level, without
coefficients that belong to one processor. With ``--serial`` it fits only serial runs, for the level
of another machine whose constants of threads are already known. ``constants`` does everything that
a new processor needs: it measures the missing part of ``tune`` and then fits. If it is started
again, it continues.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from dispatch_cases import CASES, Prepared
from dispatch_cost import growth, tree_bench, tree_instructions, tree_ns

from tvm_disc import Options, relay
from tvm_disc.codegen.machine import context_of
from tvm_disc.errors import BadOption
from tvm_disc.schedules.dispatch.choose import analytic, table
from tvm_disc.schedules.dispatch.cost_model import CostModel
from tvm_disc.schedules.dispatch.learn import choose_measured, time_table
from tvm_disc.schedules.dispatch.records import read_records
from tvm_disc.schedules.dispatch.shipped import FOLDER, LEVELS, shipped
from tvm_disc.schedules.dispatch.tree import decide, depth
from tvm_disc.schedules.dispatch.variant import SERIAL, Choice
from tvm_disc.shape import Solver
from tvm_disc.support.processor import cpu_name
from tvm_disc.tuning.calibrate import OF_PROCESSOR, OF_THREADS, Sample, calibrate
from tvm_disc.tuning.entry import build_bench
from tvm_disc.tuning.measure import Effort, may_run
from tvm_disc.tuning.tune import Tuned, measure_tasks

MODELS = Path(__file__).parents[1] / "tests" / "data" / "relay" / "models"
TUNE = Effort()
# More precise than for tuning: the held-out times are the reference.
CAREFUL = Effort(20, disagreement=0.005, most_rounds=80, hopeless=1.6, patience_s=3.0, odd=0)
AGAIN = ("again", "again2", "again3", "again4", "again5")
PASSES = (("tune", TUNE), ("held", CAREFUL), *((name, CAREFUL) for name in AGAIN))


def measure(
    cases: list[Prepared], folder: Path, budget_s: float | None, passes: Any = PASSES
) -> bool:
    """Time the variants and points that have no record; return whether all have one."""
    folder.mkdir(parents=True, exist_ok=True)
    deadline = None if budget_s is None else time.monotonic() + budget_s
    left = 0
    for name, effort in passes:
        for p in cases:
            task = replace(p.task) if name == "tune" else replace(p.task, points=p.held)
            result = Tuned(folder / f"{name}.jsonl")
            library = p.library(folder)
            measure_tasks(p.front, [task], result, effort, deadline, True, library=library)
            left += result.left
    return left == 0


def keep_code(cases: list[Prepared], folder: Path) -> None:
    """Compile the variants, so that ``measure`` can begin at once."""
    for p in cases:
        machine = p.front.machine
        spaces = [(p.task.group, p.task.variants)]
        build_bench(spaces, Solver(), machine, p.front.target, p.library(folder))
        print(p.library(folder), flush=True)


# -- report ------------------------------------------------------------------------------------


def losses(choice: Choice, p: Prepared, dims: Any, times: Any, best: Any) -> np.ndarray:
    """Return the relative time lost by a choice at each point, against the best variant's time."""
    keys = [v.key for v in p.task.variants]
    points = dict(zip(p.task.group.symbols(), dims.T, strict=True))
    asked = table(choice.features, points, len(dims))
    lost = []
    for row, values in enumerate(asked):
        variant = choice.variants[decide(choice.tree, values.__getitem__)]
        if not may_run(variant, {s: column[row] for s, column in points.items()}):
            variant = choice.instead(variant)
        lost.append(times[row, keys.index(variant.key)] / best[row] - 1)
    return np.array(lost)


def report(cases: list[Prepared], folder: Path) -> None:
    """Print the tables."""
    print("| case | variants | depth | tuned: mean, p95 lost | untuned | one variant | noise |")
    print("|---|---|---|---|---|---|---|")
    names = ("tuned", "untuned", "one", "noise")
    everything: dict[str, list[np.ndarray]] = {n: [] for n in names}
    for p in cases:
        context = context_of(p.front.target)
        learned = read_records(folder / "tune.jsonl", context).group(p.task.key)
        found = read_records(folder / "held.jsonl", context).group(p.task.key)
        later = [read_records(folder / f"{n}.jsonl", context).group(p.task.key) for n in AGAIN]
        both = [d for d in p.held if all(d in records for records in (found, *later))]
        dims, first = time_table(p.task.variants, {d: found[d] for d in both})
        passes = [time_table(p.task.variants, {d: again[d] for d in both})[1] for again in later]
        if not len(dims):
            continue
        times = typical(passes)
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
            "noise": noise(first, times),
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


def typical(passes: list[np.ndarray]) -> np.ndarray:
    """Return the median of several timings of points x variants.

    A factor that is common to all variants of a point in one pass is removed first.
    """
    logs = [np.log(times) for times in passes]
    levels = [np.nanmedian(log, axis=1, keepdims=True) for log in logs]
    own = np.median([log - level for log, level in zip(logs, levels, strict=True)], axis=0)
    return np.asarray(np.exp(own + np.median(levels, axis=0)))


def noise(first: np.ndarray, again: np.ndarray) -> np.ndarray:
    """Return the relative difference of the best variant's first time at each point.

    A change that is common to all variants of the point is not counted.
    """
    best = np.nanargmin(first, axis=1)
    apart = np.log(again / first)
    own = apart[np.arange(len(best)), best] - np.nanmedian(apart, axis=1)
    return np.asarray(np.expm1(np.abs(own)))


def _cell(lost: np.ndarray) -> str:
    return f"{lost.mean():.1%}, {np.percentile(lost, 95):.1%}"


def choice_of(p: Prepared, folder: Path) -> tuple[Choice, str]:
    """Return a choice from the records in the folder, or the untuned choice if there are none."""
    learned = read_records(folder / "tune.jsonl", context_of(p.front.target)).group(p.task.key)
    given = (p.task.group, p.task.variants, Solver(), p.front.machine.model)
    tuned = choose_measured(*given, learned)
    return (analytic(*given), "untuned") if tuned is None else (tuned, "tuned")


def cost(cases: list[Prepared], folder: Path) -> None:
    """Print the cost of the decision trees, measured with empty bodies of variants."""
    print("| case | variants | questions | instructions | ns |")
    print("|---|---|---|---|---|")
    for p in cases:
        choice, by = choice_of(p, folder)
        bench = tree_bench(p.task.group, choice, p.front.machine, p.front.target)
        added, ns = tree_instructions(bench), tree_ns(bench, p.case.high)
        cells = f"{len(choice.variants)} | {depth(choice.tree)} | {added} | {ns:+.1f}"
        print(f"| {p.case.name}, {by} | {cells} |", flush=True)


def sizes(cases: list[Prepared], folder: Path) -> None:
    """Print the sizes of programs relative to programs with one variant per kernel."""
    records = folder / "tune.jsonl"
    options = Options(records=records if records.is_file() else None)
    print("| program | kernels | variants | bytes | one variant each | growth |")
    print("|---|---|---|---|---|---|")
    sources: list[tuple[str, Any, Options]] = [(p.case.name, p.case.make(), options) for p in cases]
    for path in sorted(MODELS.glob("*.relay")):
        sources.append((path.stem, relay.parse(path.read_text()), Options()))
    for name, source, given in sources:
        kernels, variants, several, one = growth(source, given)
        cells = f"{several} | {one} | {several / one - 1:.1%}"
        print(f"| {name} | {kernels} | {variants} | {cells} |", flush=True)


def check_fitted(mcpu: str, processor: bool) -> None:
    """Check that a fit for the target ``mcpu`` may write the file of its level or processor.

    A fit reads the constants of its target, and times of code for it. Those of a processor are not
    valid for a level, and those of a level are no description of a processor.

    Raises:
        BadOption: the target is of the other kind.
    """
    if not processor and mcpu not in LEVELS.values():
        raise BadOption(
            f"a fit for {mcpu!r} measures this processor, which is not valid for a level; add "
            f"--processor, or set DISC_TARGET to a level: {', '.join(LEVELS.values())}"
        )
    if processor and mcpu in LEVELS.values():
        raise BadOption(
            f"--processor: expected a processor as the target, found the level {mcpu!r}; "
            "unset DISC_TARGET, or leave --processor out"
        )


def starting_models(machine: CostModel, of_level: bool) -> list[CostModel]:
    """Return the models from which a fit starts: ``machine``, and the shipped complete ones.

    For a level, values that belong to the processor of a shipped file are those of ``machine``.
    """
    speeds = [shipped(p.stem)["model"] for p in sorted(FOLDER.glob("*.json"))]
    kept = OF_PROCESSOR if of_level else ()
    return [
        machine,
        *(
            replace(machine, **{k: v for k, v in found.items() if k not in kept})
            for found in speeds
            if "op_ns" in found
        ),
    ]


def fit(cases: list[Prepared], folder: Path, serial: bool, processor: bool) -> None:
    """Write the constants of the target's level, or of its processor.

    Raises:
        BadOption: the target does not fit ``processor``, see :func:`check_fitted`.
    """
    mcpu = str(cases[0].front.target.attrs["mcpu"])
    check_fitted(mcpu, processor)
    samples = []
    for p in cases:
        learned = read_records(folder / "tune.jsonl", context_of(p.front.target)).group(p.task.key)
        dims, times = time_table(p.task.variants, learned)
        if len(dims):
            samples.append(Sample(p.task.group.symbols(), p.task.variants, dims, times))
    machine = cases[0].front.machine
    fixed = (*(OF_THREADS if serial else ()), *(() if processor else OF_PROCESSOR))
    starts = starting_models(machine.model, not processor)
    starts = list(dict.fromkeys(starts if serial else [CostModel(), *starts]))
    # A fit may end in a local minimum: start from several models, and keep the best result.
    found = [calibrate(samples, s, fixed) for s in starts]
    before, after = (
        [float(np.mean([s.score(m) for s in samples])) for m in models]
        for models in (starts, found)
    )
    model = found[int(np.argmin(after))]
    constants = {k: v for k, v in asdict(model).items() if processor or k not in OF_PROCESSOR}
    path = FOLDER / f"{mcpu}.json"
    memory = {k: v for k, v in shipped(mcpu).items() if k == "memory"}
    of = {"processor" if processor else "level": mcpu}
    data = {**of, "measured on": cpu_name(), "model": constants, **memory}
    path.write_text(json.dumps(data, indent=1) + "\n")
    print(f"{path}: score {min(before):.3f} -> {min(after):.3f} on {len(samples)} kernels")


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "what", choices=("compile", "measure", "report", "cost", "sizes", "calibrate", "constants")
    )
    parser.add_argument("--dir", type=Path, required=True)
    parser.add_argument("--cases", help="names, or their beginnings, with commas between")
    parser.add_argument("--points", type=int, default=24)
    parser.add_argument("--held", type=int, default=16)
    parser.add_argument("--budget", type=float)
    parser.add_argument("--serial", action="store_true", help="one thread only, on a busy machine")
    parser.add_argument("--processor", action="store_true", help="calibrate for a processor")
    args = parser.parse_args()
    wanted = tuple(args.cases.split(",")) if args.cases else ("",)
    found = [Prepared.of(c, args.points, args.held) for c in CASES if c.name.startswith(wanted)]
    cases = [p for p in found if p is not None]
    for p in cases if args.serial else ():
        p.task.variants = [v for v in p.task.variants if v.run == SERIAL]
    if args.what == "measure":
        print("complete" if measure(cases, args.dir, args.budget) else "to be continued")
    elif args.what == "compile":
        keep_code(cases, args.dir)
    elif args.what == "calibrate":
        fit(cases, args.dir, args.serial, args.processor)
    elif args.what == "constants":
        if measure(cases, args.dir, args.budget, PASSES[:1]):
            fit(cases, args.dir, args.serial, args.processor)
        else:
            print("to be continued: start it again")
    elif args.what == "cost":
        cost(cases, args.dir)
    elif args.what == "sizes":
        sizes(cases, args.dir)
    else:
        report(cases, args.dir)


if __name__ == "__main__":
    main()
