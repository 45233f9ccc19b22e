"""Compile a dynamic model once, run every recorded case, and compare it to TVM's Relax VM.

``make demo`` runs this on BERT, ``make bench`` on all recorded models. Both programs are compiled
from the same imported Relax module for this machine's CPU, take and return TVM tensors, and are
called alternately. A time is the median over the rounds. A program that returns a wrong result on a
case is not timed on this case.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# TVM reads the variable once, when its library loads.
os.environ.setdefault("TVM_NUM_THREADS", str(min(2, os.cpu_count() or 1)))

import numpy as np
import tvm

import tvm_disc
from tvm_disc import relay
from tvm_disc.codegen.target import host_target

MODELS = Path(__file__).resolve().parents[1] / "tests" / "data" / "relay" / "models"
TOLERANCE = 1e-4
CASE_SECONDS = 10.0
MIN_ROUNDS = 5
SAMPLE_SECONDS = 5e-4
PROBE_SECONDS = 600.0

Program = Callable[..., Any]


@dataclass
class Case:
    """One recorded call: inputs by name, and the expected outputs in order."""

    inputs: dict[str, np.ndarray] = field(default_factory=dict)
    outputs: list[np.ndarray] = field(default_factory=list)

    def shape(self) -> str:
        """Return the shapes of the inputs as text; equal shapes are printed once."""
        shapes = dict.fromkeys("x".join(map(str, a.shape)) for a in self.inputs.values())
        return ", ".join(shapes)


@dataclass
class Row:
    """Measurements of one case; seconds are None if a program did not run."""

    shape: str
    error: float
    right: bool
    ours: float | None
    theirs: float | None


def read_cases(path: Path, names: Sequence[str]) -> list[Case]:
    """Return the cases of a file with arrays ``<case>.<name>``; arrays that are not inputs are
    outputs.
    """
    cases: dict[int, Case] = {}
    with np.load(path) as arrays:
        for key in arrays.files:
            number, _, name = key.partition(".")
            case = cases.setdefault(int(number), Case())
            if name in names:
                case.inputs[name] = arrays[key]
            else:
                case.outputs.append(arrays[key])
    return [cases[number] for number in sorted(cases)]


def relax_vm(mod: relay.IRModule) -> Program:
    """Return the program of TVM's default pipeline for the target, on its virtual machine."""
    from tvm import relax

    target = tvm.target.Target(host_target())
    imported = relay.to_relax(mod)
    library = relax.build(imported, target, relax_pipeline=relax.get_default_pipeline(target))
    return relax.VirtualMachine(library, tvm.cpu())["main"]


def tensors(case: Case, names: Sequence[str]) -> list[Any]:
    """Return the inputs in order, as TVM tensors."""
    return [tvm.runtime.tensor(case.inputs[name]) for name in names]


def leaves(value: Any) -> list[np.ndarray]:
    """Return the arrays of a result, with tuples flattened."""
    if hasattr(value, "numpy"):
        return [value.numpy()]
    if isinstance(value, np.ndarray):
        return [value]
    return [leaf for item in value for leaf in leaves(item)]


def compare(outputs: Sequence[np.ndarray], case: Case) -> tuple[float, bool]:
    """Return the largest absolute error, and whether all outputs are within the tolerance."""
    if [o.shape for o in outputs] != [e.shape for e in case.outputs]:
        return float("inf"), False
    pairs = list(zip(outputs, case.outputs, strict=True))
    gaps = (np.abs(o.astype("float64") - e.astype("float64")) for o, e in pairs if o.size)
    error = max((float(g.max()) for g in gaps), default=0.0)
    return error, all(np.allclose(o, e, rtol=TOLERANCE, atol=TOLERANCE) for o, e in pairs)


def one_line(error: Exception) -> str:
    """Return an exception as text of at most 100 characters."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:100]


# --- TVM's Relax VM ------------------------------------------------------------------------------


def probe(name: str) -> None:
    """Run every case on the Relax VM.

    This is done in a separate process, because the VM may crash.
    """
    mod = relay.parse((MODELS / f"{name}.relay").read_text(encoding="utf-8"))
    names = [p.name_hint for p in mod["main"].params]
    program = relax_vm(mod)
    for i, case in enumerate(read_cases(MODELS / f"{name}.npz", names)):
        try:
            error, right = compare(leaves(program(*tensors(case, names))), case)
            print(f"probe {i} {'' if right else f'wrong answer, error {error:.1e}'}", flush=True)
        except Exception as failure:
            print(f"probe {i} {one_line(failure)}", flush=True)


def probe_report(name: str, count: int) -> list[str]:
    """Return for each case why the Relax VM cannot be timed on it, or an empty text."""
    argv = [sys.executable, __file__, "--probe", name]
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, timeout=PROBE_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return [f"no answer within {PROBE_SECONDS:.0f} s"] * count
    reasons = [
        line.split(" ", 2)[2] for line in done.stdout.splitlines() if line.startswith("probe ")
    ]
    if len(reasons) < count:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1][:100]
        ended = f"killed by signal {-done.returncode}" if done.returncode < 0 else last
        reasons += [ended] * (count - len(reasons))
    return reasons


# --- measuring -----------------------------------------------------------------------------------


def paired_seconds(programs: Sequence[Program], args: Sequence[Any], rounds: int) -> list[float]:
    """Return the median seconds per call of each program; the programs alternate."""
    calls = []
    for program in programs:
        program(*args)
        calls.append(max(1, round(SAMPLE_SECONDS / max(seconds(program, args, 1), 1e-7))))
    samples: list[list[float]] = [[] for _ in programs]
    start = time.perf_counter()
    for done in range(rounds):
        if done >= MIN_ROUNDS and time.perf_counter() - start > CASE_SECONDS:
            break
        for program, count, kept in zip(programs, calls, samples, strict=True):
            kept.append(seconds(program, args, count))
    return [statistics.median(kept) for kept in samples]


def seconds(program: Program, args: Sequence[Any], calls: int) -> float:
    """Return the seconds per call, from ``calls`` consecutive calls."""
    start = time.perf_counter()
    for _ in range(calls):
        program(*args)
    return (time.perf_counter() - start) / calls


def measure(ours: Program, theirs: Program | None, names: Sequence[str], case: Case, n: int) -> Row:
    """Return one row of the table; ``theirs`` is None if the Relax VM does not run."""
    args = tensors(case, names)
    error, right = compare(leaves(ours(*args)), case)
    running = [p for p in (ours if right else None, theirs) if p is not None]
    times = iter(paired_seconds(running, args, n))
    return Row(
        case.shape(),
        error,
        right,
        next(times) if right else None,
        next(times) if theirs is not None else None,
    )


# --- the table -----------------------------------------------------------------------------------


def milliseconds(value: float | None) -> str:
    return "-" if value is None else f"{value * 1e3:.3f}"


def table(rows: Sequence[Row]) -> str:
    """Return the table: shape, error, both times, and the speed-up of tvm_disc."""
    lines = [("shape", "largest error", "ours ms", "Relax VM ms", "x faster")]
    for row in rows:
        faster = f"{row.theirs / row.ours:.1f}" if row.ours and row.theirs else "-"
        error = f"{row.error:.1e}" + ("" if row.right else " WRONG")
        lines.append((row.shape, error, milliseconds(row.ours), milliseconds(row.theirs), faster))
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def busy() -> str:
    """Return a warning if other processes compete for the cores, which delays parallel kernels."""
    processors = os.cpu_count() or 1
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    if load <= 0.75 * processors:
        return ""
    return (
        f"note: load {load:.1f} on {processors} processors before the start: times are unreliable"
    )


def demo(name: str, rounds: int) -> bool:
    """Compile, check and time one model; return whether every case agrees."""
    mod = relay.parse((MODELS / f"{name}.relay").read_text(encoding="utf-8"))
    start = time.perf_counter()
    exe = tvm_disc.build(mod)
    compile_seconds = time.perf_counter() - start
    names = [input_name for input_name, _, _ in exe.signature]
    cases = read_cases(MODELS / f"{name}.npz", names)
    print(
        f"{name}: compiled once in {compile_seconds:.1f} s, {len(exe.kernels)} kernels", flush=True
    )

    reasons = probe_report(name, len(cases))
    vm = None if all(reasons) else relax_vm(mod)
    rows = [
        measure(exe, None if reason else vm, names, case, rounds)
        for case, reason in zip(cases, reasons, strict=True)
    ]
    print(table(rows))
    for reason in dict.fromkeys(r for r in reasons if r):
        shapes = "; ".join(c.shape() for c, r in zip(cases, reasons, strict=True) if r == reason)
        print(f"Relax VM, at {shapes}: {reason}")
    ratios = [row.theirs / row.ours for row in rows if row.ours and row.theirs]
    if ratios:
        print(f"geometric mean of x faster: {statistics.geometric_mean(ratios):.1f}")
    return all(row.right for row in rows)


def main() -> int:
    """Run the command; the exit code is 1 if any case disagrees."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    known = sorted(path.stem for path in MODELS.glob("*.relay"))
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"of {', '.join(known)}")
    parser.add_argument("--repeat", type=int, default=30, help="timing rounds per case")
    parser.add_argument("--probe", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.probe:
        probe(args.probe)
        return 0
    models = args.models or ["bert"]
    if unknown := sorted(set(models) - set(known)):
        parser.error(f"no recorded model {', '.join(unknown)}; there are {', '.join(known)}")
    cpu, threads = host_target()["mcpu"], os.environ["TVM_NUM_THREADS"]
    print(f"CPU {cpu}, {threads} threads, apache-tvm {tvm.__version__}")
    if note := busy():
        print(note)
    agreed = [demo(name, max(args.repeat, 1)) for name in models]
    return 0 if all(agreed) else 1


if __name__ == "__main__":
    sys.exit(main())
