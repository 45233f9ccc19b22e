"""Host time of a call of a GPU program: per kernel launch, and per call without a kernel.

    python -m benchmarks.cuda_launch [--target "cuda -arch=sm_90"] [--kernels 1,4,16] [--graphs]

Programs of one, four and sixteen kernels run on a few elements. Nothing waits for the device, so
that the time of a call is host time. A line fitted through the three times gives the microseconds
per kernel and of a call without a kernel. The programs alternate, and the median of the rounds is
printed. ``--graphs`` launches each call as a CUDA graph. Without a GPU the command prints an error
and exits with 2.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

import tvm_disc
from tvm_disc import relay
from tvm_disc.errors import DeviceError, Unsupported

CALLS, ROUNDS, ROWS = 200, 15, 4


def chain(count: int) -> Any:
    """Return ``count`` kernels that cannot be fused: prefix sums along alternating axes."""
    x = relay.var("x", shape=(relay.Any("n"), 8), dtype="float32")
    y: Any = x
    for k in range(count):
        y = relay.cumsum(y, axis=k % 2)
    return relay.Function([x], y)


def line(counts: Sequence[int], times: Sequence[float]) -> tuple[float, float]:
    """Return (time per kernel, time per call) by least squares."""
    slope, start = np.polyfit(counts, times, 1)
    return float(slope), float(start)


def seconds(exe: Any, there: Any) -> float:
    """Return the seconds of one call, as its caller measures them."""
    begin = time.perf_counter()
    for _ in range(CALLS):
        last = exe(there)
    spent = time.perf_counter() - begin
    exe._main.fetched(last)  # wait, so that the next round starts on an idle device
    return spent / CALLS


def main() -> int:
    """Print a line for each program, and the fitted times."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--target", default="cuda")
    parser.add_argument("--kernels", default="1,4,16")
    parser.add_argument("--graphs", action="store_true", help="a CUDA graph for each call")
    options = parser.parse_args()
    counts = [int(c) for c in options.kernels.split(",")]
    try:
        given = tvm_disc.Options(cuda_graphs=8 if options.graphs else 0)
        programs = [tvm_disc.build(chain(c), target=options.target, options=given) for c in counts]
        for exe in programs:
            exe(np.ones((ROWS, 8), "float32"))
    except (DeviceError, Unsupported) as error:
        print(f"nothing was measured: {error}", file=sys.stderr)
        return 2
    there = [exe._main.sent(np.ones((ROWS, 8), "float32")) for exe in programs]
    rounds = [[seconds(e, t) for e, t in zip(programs, there, strict=True)] for _ in range(ROUNDS)]
    medians = [statistics.median(times) * 1e6 for times in zip(*rounds, strict=True)]
    for count, took in zip(counts, medians, strict=True):
        print(f"{count:4} kernels {took:8.1f} us a call")
    if len(counts) > 1:
        kernel, call = line(counts, medians)
        print(f"{kernel:.1f} us a kernel, {call:.1f} us a call beyond")
    return 0


if __name__ == "__main__":
    sys.exit(main())
