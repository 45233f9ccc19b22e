"""Shares of kernels in a profile, on an idle machine and while other processes use the cores.

    python benchmarks/profile_shares.py [--busy 2] [--runs 20] [--models bert,cnn] [--threads 2]

Each run profiles a recorded model in a separate process. Quiet and busy runs alternate; during a
busy run, processes run an empty loop. A run counts as good if the share of every kernel differs
from its median over the quiet runs by at most a tenth of the call. ``mean of ten calls`` are the
shares without rounds: from the mean time of ten consecutive calls.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)]
MODELS = ROOT / "tests" / "data" / "relay" / "models"
MOST, LARGE = 0.1, 0.05
Shares = dict[str, float]


def inputs(model: str) -> dict[str, Any]:
    """Return random inputs of a recorded model."""
    import numpy as np

    rng = np.random.default_rng(0)
    if model == "bert":
        return {"ids": rng.integers(0, 90, (4, 64)), "mask": np.ones((4, 64), "int64")}
    return {"x": rng.standard_normal((2, 3, 33, 41)).astype("float32")}


def measure(model: str, threads: int) -> None:
    """Print both kinds of shares as JSON; this runs in a child process."""
    import numpy as np

    import tvm_disc
    from tvm_disc.runtime.profile import new_record

    options = tvm_disc.Options(threads=threads)
    exe = tvm_disc.build(str(MODELS / f"{model}.relay"), options=options)
    given = inputs(model)
    profile = exe.profile(**given)
    call, record = exe.bind(**given), new_record(4096)
    times: dict[str, float] = {}
    total = 0.0
    for _ in range(10):
        record[0] = 0
        call(record.ctypes.data)  # type: ignore[call-arg]
        events, whole = exe.read_record(record)
        total += whole
        for e in events:
            name = f"{e.kernel} {e.variant}"
            times[name] = times.get(name, 0.0) + e.ns
    shares: Shares = {}
    for line in profile.lines():
        shares[f"{line.kernel} {line.variant}"] = line.share
    means = {name: float(np.float64(ns) / total) for name, ns in times.items()}
    told = [profile.discarded, profile.disturbed, profile.others]
    print(json.dumps({"medians": shares, "means": means, "told": told}))


def run(model: str, busy: int, threads: int) -> dict[str, Any]:
    """Return the measurements of a child process while ``busy`` processes run an empty loop."""
    from benchmarks.busy import neighbours

    command = [sys.executable, __file__, "--child", "--models", model, "--threads", str(threads)]
    with neighbours(busy):
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def middle(runs: Sequence[Shares]) -> Shares:
    """Return the median share of every kernel."""
    return {name: median(r.get(name, 0.0) for r in runs) for name in runs[0]}


def difference(found: Shares, expected: Shares) -> float:
    """Return the largest difference of a kernel's share."""
    return max(abs(found.get(name, 0.0) - expected.get(name, 0.0)) for name in found | expected)


def relative(found: Shares, expected: Shares) -> float:
    """Return the largest difference, in parts of the share, of kernels with 5 % or more."""
    large = [(name, share) for name, share in expected.items() if share >= LARGE]
    return max(abs(found.get(name, 0.0) / share - 1) for name, share in large)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--busy", type=int, default=2)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--models", default="bert,cnn")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        measure(args.models, args.threads)
        return
    for model in args.models.split(","):
        quiet, busy = [], []
        for _ in range(args.runs):
            quiet.append(run(model, 0, args.threads))
            busy.append(run(model, args.busy, args.threads))
        for kind, name in (("medians", "rounds"), ("means", "mean of ten calls")):
            expected = middle([r[kind] for r in quiet])
            for runs, how in ((quiet, "quiet"), (busy, f"{args.busy} busy")):
                found = sorted(difference(r[kind], expected) for r in runs)
                parts = sorted(relative(r[kind], expected) for r in runs)
                good, close = (sum(d <= MOST for d in ds) for ds in (found, parts))
                print(
                    f"{model:5} {name:18} {how:7} good {good} of {len(runs)}; largest difference "
                    f"of a share: median {median(found):.3f}, worst {found[-1]:.3f}; of its own "
                    f"size, good {close}, median {median(parts):.3f}, worst {parts[-1]:.3f}",
                    flush=True,
                )
        told = [r["told"] for r in busy]
        print(
            f"{model:5} busy runs: discarded calls {median(t[0] for t in told)}, disturbed calls "
            f"counted {median(t[1] for t in told)}, cores of others "
            f"{median(t[2] or 0.0 for t in told):.2f}"
        )


if __name__ == "__main__":
    main()
