"""Memory-bound kernels at many sizes, compared to ``torch.compile`` and a copy.

    python -m benchmarks.memory_bound --torch PYTHON --records times.json [--target x86-64-v3]
    python -m benchmarks.memory_bound --torch PYTHON --quick

One program per operator serves every shape; so does one ``torch.compile(dynamic=True)``. PyTorch
runs in a separate process, with the interpreter that ``--torch`` names. Both are measured
alternately on the same shapes. A time is the median of the rounds, in microseconds, of one call
from Python. Either each call allocates its result (``disc``, ``torch``, ``clone``), or it writes
into existing memory (``disc_into``, ``torch_into``, ``copy``: ``out=`` here, ``out.copy_(f(x))``
compiled there). ``clone`` and ``copy`` move as many bytes as the operator must. tvm_disc reuses the
memory of results that the caller has released; with ``--fresh-results`` all results come from the
allocator of the C library.

    python -m benchmarks.memory_bound --share --rounds 15

compares, on one thread, a call with ``out=`` to NumPy's copy of the same number of bytes between
the same arrays. Both alternate in one process, at all shapes that move more than 1 MiB. They must
use the same arrays, because the pages and cache lines that arrays occupy change times as much as
the code does. ``near`` is the time of the same program on fewer rows, which fit in the second-level
cache, scaled to the same number of elements: the time of the computation at any memory speed.

Idle threads of both runtimes spin for some time after a call, on cores that the next engine needs.
Every turn therefore begins with a pause that is longer, and with uncounted calls.
"""

# The environment must be set before the libraries load.
# ruff: noqa: E402
from __future__ import annotations

from benchmarks import level

level.hold()
import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

ROWS = (1, 8, 64, 512, 8192)
COLS = (1, 7, 64, 257, 1024, 8192)
LARGEST_ELEMS = 1 << 24
SAMPLE_S = 0.002
# Idle threads spin for up to 15 ms, in TVM (TVM_THREAD_POOL_SPIN_COUNT) and in libgomp.
PAUSE_S = 0.03
# A thread that wakes up on a busy core stays there until the next tick of the scheduler.
WARM_S = 0.01
THEIRS = ("torch", "torch_into", "clone", "copy")
MATRIX, VECTOR = "Tensor[(?, ?), float32]", "Tensor[(?), float32]"
ENOUGH = 0.8  # share of a copy's speed that is sufficient
NEAR_MIB = 0.5  # MiB that the `near` programs move, within the second-level cache


@dataclass(frozen=True)
class Case:
    """One operator: its operands, its body in Relay, and a lambda in PyTorch.

    ``operands`` has one letter per input: m for a matrix, v for a vector along the row.
    ``moved`` counts floats read and written, in matrices.
    """

    operands: str
    relay: str
    torch: str
    moved: float


CASES = {
    "softmax": Case("m", "nn.softmax(%x)", "lambda x: torch.softmax(x, -1)", 2),
    "layer_norm": Case(
        "mvv",
        "nn.layer_norm(%x, %y, %z)",
        "lambda x, y, z: F.layer_norm(x, x.shape[-1:], y, z)",
        2,
    ),
    "rms_norm": Case(
        "mv",
        "%0 = mean(power(%x, 2f), axis=[1], keepdims=True); "
        "multiply(multiply(%x, rsqrt(add(%0, 1e-6f))), %y)",
        "lambda x, y: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * y",
        2,
    ),
    "gelu": Case(
        "m",
        "multiply(multiply(%x, 0.5f), add(erf(multiply(%x, 0.70710678f)), 1f))",
        "lambda x: F.gelu(x)",
        2,
    ),
    "bias_gelu": Case(
        "mv",
        "%0 = add(%x, %y); multiply(multiply(%0, 0.5f), add(erf(multiply(%0, 0.70710678f)), 1f))",
        "lambda x, y: F.gelu(x + y)",
        2,
    ),
    "residual_layer_norm": Case(
        "mmvv",
        "nn.layer_norm(add(%x, %y), %z, %w)",
        "lambda x, y, z, w: F.layer_norm(x + y, x.shape[-1:], z, w)",
        3,
    ),
    "transpose": Case("m", "transpose(%x, axes=[1, 0])", "lambda x: x.t().contiguous()", 2),
    "sum_axis1": Case("m", "sum(%x, axis=[1])", "lambda x: x.sum(1)", 1),
    "sum_axis0": Case("m", "sum(%x, axis=[0])", "lambda x: x.sum(0)", 1),
    "sum_all": Case("m", "sum(%x)", "lambda x: x.sum()", 1),
}


def relay_text(case: Case) -> str:
    """Return the Relay source of a case; every dim is ``?``."""
    kinds = {"m": MATRIX, "v": VECTOR}
    params = ", ".join(f"%{n}: {kinds[k]}" for n, k in zip("xyzw", case.operands, strict=False))
    body = case.relay.replace("; ", ";\n  ")
    return f'#[version = "0.0.5"]\ndef @main({params}) {{\n  {body}\n}}\n'


def constraints(case: Case) -> list[str]:
    """Return the facts that vectors have the length of a row, and that matrices have one shape."""
    facts = []
    for name, kind in zip("xyzw", case.operands, strict=False):
        if name != "x":
            facts += (
                [f"{name}.0 == x.1"] if kind == "v" else [f"{name}.{k} == x.{k}" for k in (0, 1)]
            )
    return facts


def inputs(case: Case, rows: int, cols: int) -> list[np.ndarray]:
    """Return random inputs of a case."""
    rng = np.random.default_rng(rows * 10007 + cols)
    shapes = [(rows, cols) if k == "m" else (cols,) for k in case.operands]
    return [rng.standard_normal(s, dtype=np.float32) for s in shapes]


def shapes(quick: bool = False) -> list[tuple[int, int]]:
    """Return the sweep, or a sample of it."""
    rows, cols = (ROWS[::2], COLS[1::2]) if quick else (ROWS, COLS)
    return [(r, c) for r in rows for c in cols if r * c <= LARGEST_ELEMS]


def timed(fn: Callable[[], Any]) -> float:
    """Return the microseconds of one call.

    A pause and uncounted calls come first, then enough calls to fill a sample.
    """
    time.sleep(PAUSE_S)
    once, end = math.inf, time.perf_counter() + WARM_S
    while once == math.inf or time.perf_counter() < end:
        once = min(once, _seconds(fn, 1))
    count = max(1, min(2000, int(SAMPLE_S / max(once, 1e-7))))
    return _seconds(fn, count) / count * 1e6


def _seconds(fn: Callable[[], Any], count: int) -> float:
    begin = time.perf_counter()
    for _ in range(count):
        fn()
    return time.perf_counter() - begin


# -- the other process -----------------------------------------------------------------------------


def serve_torch(threads: int) -> None:
    """Answer ``prepare`` and ``time`` requests, one JSON value per line."""
    import torch
    import torch.nn.functional as F

    torch.set_num_threads(threads)
    torch._dynamo.config.cache_size_limit = 64
    compiled: dict[str, tuple[Any, Any]] = {}
    current: dict[str, Callable[[], Any]] = {}
    print(json.dumps(torch.__version__), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        if "prepare" in request:
            name, rows, cols = request["prepare"]
            case = CASES[name]
            if name not in compiled:
                fn = eval(case.torch, {"torch": torch, "F": F})
                into = lambda out, *args, fn=fn: out.copy_(fn(*args))  # noqa: E731
                compiled[name] = (
                    torch.compile(fn, dynamic=True),
                    torch.compile(into, dynamic=True),
                )
            args = [torch.from_numpy(a) for a in inputs(case, rows, cols)]
            make, write = compiled[name]
            with torch.no_grad():
                out = make(*args)
                for _ in range(3):
                    make(*args)
                    write(out, *args)
            half = max(1, int(rows * cols * case.moved / 2))
            source, sink = torch.ones(half), torch.zeros(half)
            current = {
                "torch": lambda make=make, args=args: make(*args),
                "torch_into": lambda write=write, args=args, out=out: write(out, *args),
                "clone": lambda source=source: source.clone(),
                "copy": lambda source=source, sink=sink: sink.copy_(source),
            }
            answer: Any = None
        else:
            with torch.no_grad():
                answer = timed(current[request["time"]])
        print(json.dumps(answer), flush=True)


class Torch:
    """The process that runs PyTorch."""

    def __init__(self, python: str, threads: int) -> None:
        command = [python, "-m", "benchmarks.memory_bound", "--serve", str(threads)]
        env = {**os.environ, "OMP_NUM_THREADS": str(threads)}
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=env)
        self.version = self._read()

    def _read(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def ask(self, **request: Any) -> Any:
        """Send a request and return the answer."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return self._read()

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


# -- measuring -------------------------------------------------------------------------------------


def measure(
    names: Sequence[str],
    threads: int,
    torch_python: str | None,
    rounds: int,
    unfused: bool,
    sweep: Sequence[tuple[int, int]],
    fresh: bool = False,
) -> list[dict[str, Any]]:
    """Return a record per case and shape, with the median microseconds of every engine."""
    from tvm_disc.compile import build
    from tvm_disc.options import Options

    other = Torch(torch_python, threads) if torch_python else None
    records = []
    for name in names:
        case = CASES[name]
        text, facts = relay_text(case), constraints(case)
        programs = {"disc": build(text, constraints=facts, options=Options(threads=threads))}
        if unfused:
            options = Options(threads=threads, fuse=False)
            programs["unfused"] = build(text, constraints=facts, options=options)
        if fresh:
            for program in programs.values():
                program.keep_memory(1 << 30, results_bytes=0)
        for rows, cols in sweep:
            args = inputs(case, rows, cols)
            fns = {k: (lambda p=p, args=args: p(*args)) for k, p in programs.items()}
            ours = programs["disc"]
            out = ours(*args)
            fns["disc_into"] = lambda p=ours, out=out, args=args: p(*args, out=out)
            if other:
                other.ask(prepare=[name, rows, cols])
            times: dict[str, list[float]] = {}
            for _ in range(rounds):
                for key, fn in fns.items():
                    times.setdefault(key, []).append(timed(fn))
                for key in THEIRS if other else ():
                    times.setdefault(key, []).append(other.ask(time=key) if other else 0.0)
            record: dict[str, Any] = {"case": name, "rows": rows, "cols": cols, "threads": threads}
            record["mib"] = rows * cols * case.moved * 4 / 2**20
            record.update({k: statistics.median(v) for k, v in times.items()})
            records.append(record)
    if other:
        other.close()
    return records


def share(names: Sequence[str], rounds: int, sweep: Sequence[tuple[int, int]]) -> str:
    """Return a Markdown table of the share of a copy's speed: medians of ratios of
    alternating turns.
    """
    from tvm_disc.compile import build
    from tvm_disc.options import Options

    lines = [
        "| operator | shape | MiB | ours, us | near, us | copy, us | share |",
        "|---|---|---|---|---|---|---|",
    ]
    found: list[float] = []
    computing = 0
    for name in names:
        case = CASES[name]
        options = Options(threads=1)
        program = build(relay_text(case), constraints=constraints(case), options=options)
        for rows, cols in sweep:
            mib = rows * cols * case.moved * 4 / 2**20
            if mib <= 1:
                continue
            args = inputs(case, rows, cols)
            out = program(*args)
            few = max(1, min(rows, int(NEAR_MIB / mib * rows)))
            some = inputs(case, few, cols)
            part = program(*some)
            calls = (
                lambda p=program, a=args, o=out: p(*a, out=o),
                lambda p=program, a=some, o=part: p(*a, out=o),
                copy_of(case, args, out),
            )
            counts = [max(1, int(SAMPLE_S / _seconds(call, 1))) for call in calls]
            turns = [
                [_seconds(call, n) / n * 1e6 for call, n in zip(calls, counts, strict=True)]
                for _ in range(rounds)
            ]
            ours, near, copy = (statistics.median(t) for t in zip(*turns, strict=True))
            near *= rows / few
            found.append(statistics.median(theirs / mine for mine, _, theirs in turns))
            computing += found[-1] < ENOUGH and near * ENOUGH > copy
            cells = f"{rows} x {cols} | {mib:.1f} | {ours:.0f} | {near:.0f} | {copy:.0f}"
            lines.append(f"| {name} | {cells} | {found[-1]:.2f} |")
    enough = sum(f >= ENOUGH for f in found)
    summary = f"{enough} of {len(found)} reach {ENOUGH:.0%} of the copy"
    return "\n".join([*lines, "", f"{summary}, {computing} others would not near the core either"])


def copy_of(case: Case, args: Sequence[np.ndarray], out: np.ndarray) -> Callable[[], Any]:
    """Return a copy of as many bytes as the case moves, between the arrays of the case if
    they suffice.
    """
    half = int(args[0].size * case.moved / 2)
    whole = min(half, args[0].size)
    source = args[0].reshape(-1)[:whole]
    sink = out.reshape(-1) if out.size == whole else np.empty(whole, np.float32)
    rest = half - whole
    if not rest:
        return lambda: np.copyto(sink, source)
    more, there = args[1].reshape(-1)[:rest], np.empty(rest, np.float32)
    return lambda: (np.copyto(sink, source), np.copyto(there, more))


def geomean(values: Sequence[float]) -> float:
    """Return the geometric mean."""
    return math.exp(statistics.fmean(map(math.log, values))) if values else math.nan


def show(records: Sequence[dict[str, Any]]) -> str:
    """Return all records as a text table."""
    columns = ("disc", "unfused", "torch", "clone", "disc_into", "torch_into", "copy")
    head = "".join(f"{name:>11}" for name in columns)
    lines = [f"{'case':<20}{'rows':>6}{'cols':>6}{'thr':>4}{'MiB':>8}{head}"]
    for r in records:
        cells = "".join(f"{r.get(k, math.nan):11.2f}" for k in columns)
        lines.append(
            f"{r['case']:<20}{r['rows']:>6}{r['cols']:>6}{r['threads']:>4}{r['mib']:8.2f}{cells}"
        )
    return "\n".join(lines)


def summary(records: Sequence[dict[str, Any]]) -> str:
    """Return a Markdown table with one line per case and number of threads.

    A ratio above 1 means that tvm_disc is faster.
    """
    lines = [
        "| operator | threads | new result: vs torch | (least) | into memory: vs torch | (least) "
        "| share of copy speed, > 1 MiB | (least) | of clone's, new result | fused vs unfused |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    groups: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for r in records:
        groups.setdefault((r["case"], r["threads"]), []).append(r)
    for threads in sorted({r["threads"] for r in records}):
        groups[("all", threads)] = [r for r in records if r["threads"] == threads]
    for (name, threads), rows in groups.items():
        big = [r for r in rows if r["mib"] > 1]
        cells = []
        for theirs, ours, some, with_least in (
            ("torch", "disc", rows, True),
            ("torch_into", "disc_into", rows, True),
            ("copy", "disc_into", big, True),
            ("clone", "disc", big, False),
            ("unfused", "disc", [r for r in rows if "unfused" in r], False),
        ):
            ratios = [r[theirs] / r[ours] for r in some]
            cells.append(f"{geomean(ratios):.2f}")
            cells += [f"{min(ratios, default=math.nan):.2f}"] if with_least else []
        lines.append(f"| {name} | {threads} | {' | '.join(cells)} |")
    return "\n".join(lines)


def plot(records: Sequence[dict[str, Any]], path: Path) -> None:
    """Plot the speed relative to a clone of the same bytes, over bytes, with one panel per case."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    names = list(dict.fromkeys(r["case"] for r in records))
    figure, axes = pyplot.subplots(2, -(-len(names) // 2), figsize=(18, 7), sharex=True)
    for axis, name in zip(axes.flat, names, strict=False):
        chosen = [r for r in records if r["case"] == name and r["threads"] == 1]
        for key, mark in (("disc", "o"), ("torch", "x"), ("unfused", ".")):
            points = [(r["mib"], r["clone"] / r[key]) for r in chosen if key in r]
            if points:
                axis.loglog(*zip(*points, strict=True), mark, label=key, alpha=0.7)
        axis.axhline(1, color="grey", linewidth=0.5)
        axis.set_title(f"{name}, 1 thread")
        axis.set_xlabel("MiB moved")
    axes.flat[0].set_ylabel("speed relative to a copy, results allocated")
    axes.flat[0].legend()
    figure.tight_layout()
    figure.savefig(path, dpi=70)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--torch", help="interpreter that has PyTorch; without it only our times")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--shapes", nargs="+", help="rows x columns, such as 64x257; default: all")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="few shapes, one thread, fused only")
    level.add_option(parser)
    parser.add_argument("--fused-only", action="store_true")
    parser.add_argument("--fresh-results", action="store_true", help="keep no memory of results")
    parser.add_argument("--records", type=Path, help="write all times as JSON")
    parser.add_argument("--show", type=Path, nargs="+", help="records to show, measuring nothing")
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--share", action="store_true", help="of a copy between the same arrays")
    parser.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        serve_torch(args.serve)
        return
    records = [r for path in args.show or () for r in json.loads(path.read_text())]
    given = [tuple(map(int, s.split("x"))) for s in args.shapes or ()]
    sweep = [(rows, cols) for rows, cols in given] or shapes(args.quick)
    if args.quick:
        args.threads, args.fused_only = args.threads[:1], True
    if args.share:
        print(share(args.cases, args.rounds, sweep))
        return
    for threads in () if args.show else args.threads:
        unfused = not args.fused_only
        records += measure(
            args.cases, threads, args.torch, args.rounds, unfused, sweep, args.fresh_results
        )
    print(show(records))
    if args.torch or args.show:
        print(summary(records))
    if args.records:
        args.records.write_text(json.dumps(records))
    if args.plot:
        plot(records, args.plot)


if __name__ == "__main__":
    main()
