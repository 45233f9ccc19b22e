"""What a parallel call loses on average to workers that begin late: ``late_ns`` of the cost model.

    python -m benchmarks.late_workers --rounds 40

RMS norm of one shape after another, by one thread and by all, in turn; every call is timed by
itself. As in ``memory_bound``, a turn begins with a pause, so that workers have gone to sleep, and
10 ms of calls; here these count. A typical time is a lower quartile. What calls take beyond it on
average, by all threads less by one, is the loss: other processes disturb both.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.memory_bound import CASES, PAUSE_S, constraints, inputs, relay_text

TURN_S = 0.02
SHAPES = ((64, 64), (64, 257), (512, 64), (64, 1024))  # short beside what a late worker costs


def programs(threads: int) -> dict[str, Any]:
    """RMS norm, always serial and always on all threads."""
    from tvm_disc.compile import build
    from tvm_disc.options import Options

    case = CASES["rms_norm"]
    text, facts = relay_text(case), constraints(case)
    tree = build(text, constraints=facts, options=Options(threads=threads)).dispatch
    (key,) = tree
    found = {}
    for name, parts in (("serial", 1), ("parallel", threads)):
        forced = {key: {"run": {"family": "row", "knobs": {}, "parts": parts}}}
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            file.write(json.dumps(forced))
            file.flush()
            options = Options(threads=threads, dispatch=Path(file.name))
            found[name] = build(text, constraints=facts, options=options)
    return found


def turn(fn: Callable[[], Any]) -> list[float]:
    """Nanoseconds of every call of a turn."""
    time.sleep(PAUSE_S)
    times, end = [], time.perf_counter() + TURN_S
    while not times or time.perf_counter() < end:
        begin = time.perf_counter()
        fn()
        times.append((time.perf_counter() - begin) * 1e9)
    return times


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=20)
    args = parser.parse_args()
    built = programs(args.threads)
    losses = []
    for shape in SHAPES:
        given = inputs(CASES["rms_norm"], *shape)
        out = built["serial"](*given)
        times: dict[str, list[float]] = {name: [] for name in built}
        for _ in range(args.rounds):
            for name, run in built.items():
                times[name] += turn(lambda run=run, given=given, out=out: run(*given, out=out))
        typical = {name: float(np.quantile(t, 0.25)) for name, t in times.items()}
        beyond = {name: float(np.mean(t)) - typical[name] for name, t in times.items()}
        losses.append(beyond["parallel"] - beyond["serial"])
        both = "  ".join(f"{n} {typical[n]:.0f} + {beyond[n]:.0f} ns" for n in built)
        print(f"{shape[0]:>5} x {shape[1]:<5} {both}  loss {losses[-1]:.0f} ns", flush=True)
    print(f"late_ns {np.mean(losses):.0f}")


if __name__ == "__main__":
    main()
