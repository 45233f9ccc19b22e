"""BERT-base, compared to ONNX Runtime and PyTorch: processor time of a call by sequence length.

    python -m benchmarks.sequence_length bert.onnx --json times.json     # needs torch, onnxruntime
    python -m benchmarks.sequence_length --json times.json --plot docs/latency.svg    # matplotlib

`benchmarks/full_models.py export` writes the model. All engines run in one process, on one thread,
on the same inputs, and alternate. A time is the least processor time of a call over the rounds,
which other processes on the machine change little. The first calls at a length are not counted, and
neither is the compilation of `torch.compile(dynamic=True)`.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

LENGTHS = (8, 16, 32, 64, 128, 256, 512)
NAMES = ("tvm_disc", "ONNX Runtime", "torch.compile")
Call = Callable[[np.ndarray, np.ndarray], object]


def engines(path: Path) -> dict[str, Call]:
    """Return the call of each engine by the engine's name."""
    import torch

    import tvm_disc
    from benchmarks.full_models import module_of
    from benchmarks.ort_session import ort_session

    exe = tvm_disc.build(path, options=tvm_disc.Options(threads=1))
    session = ort_session(str(path))
    names = [x.name for x in session.get_inputs()]
    torch.set_num_threads(1)
    module = torch.compile(module_of("bert"), dynamic=True)

    def run_torch(*arrays: np.ndarray) -> Any:
        with torch.no_grad():
            return module(*map(torch.from_numpy, arrays))

    calls: Sequence[Call] = (
        exe,
        lambda *arrays: session.run(None, dict(zip(names, arrays, strict=True))),
        run_torch,
    )
    return dict(zip(NAMES, calls, strict=True))


def measure(path: Path, rounds: int) -> dict[str, list[float]]:
    """Return engine -> milliseconds of processor time, one value per length."""
    calls = engines(path)
    best: dict[str, list[float]] = {name: [] for name in calls}
    rng = np.random.default_rng(0)
    for length in LENGTHS:
        ids, mask = rng.integers(0, 30000, (1, length)), np.ones((1, length), "int64")
        least = dict.fromkeys(calls, float("inf"))
        for turn in range(rounds + 2):
            for name, call in calls.items():
                start = time.process_time()
                call(ids, mask)
                seconds = time.process_time() - start
                if turn > 1:
                    least[name] = min(least[name], seconds)
        for name, seconds in least.items():
            best[name].append(1e3 * seconds)
        print(length, {name: round(times[-1], 2) for name, times in best.items()}, flush=True)
    return best


def processor() -> str:
    """Return the name of this machine's processor."""
    cpus = Path("/proc/cpuinfo")
    found = re.search(r"model name\s*: (.*)", cpus.read_text()) if cpus.exists() else None
    return found[1].replace("(R)", "") if found else platform.processor()


def plot(found: Mapping[str, Any], path: Path) -> None:
    """Plot milliseconds over the length, a line for each engine."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="tight")
    axes = figure.subplots()
    for name, times in found["ms"].items():
        wide = 2.4 if name == NAMES[0] else 1.3
        axes.plot(found["lengths"], times, marker="o", linewidth=wide, label=name)
    axes.set(xscale="log", yscale="log", xlabel="sequence length (tokens)")
    axes.set(ylabel="milliseconds per call", title=f"BERT-base, one thread of {found['machine']}")
    axes.set_xticks(found["lengths"], map(str, found["lengths"]))
    ticks = [10, 20, 50, 100, 200, 500, 1000]
    axes.set_yticks(ticks, map(str, ticks))
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def main() -> None:
    """Measure if a model is given, and plot if an output file is given."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model", type=Path, nargs="?")
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--rounds", type=int, default=12)
    args = parser.parse_args()
    if args.model is not None:
        ms = measure(args.model, args.rounds)
        made = {"machine": processor(), "lengths": LENGTHS, "ms": ms}
        args.json.write_text(json.dumps(made, indent=1) + "\n")
    if args.plot is not None:
        plot(json.loads(args.json.read_text()), args.plot)


if __name__ == "__main__":
    main()
