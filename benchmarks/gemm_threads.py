"""Products with constant weights on two threads, compared to one thread and to other libraries.

    python benchmarks/gemm_threads.py [--only 3072x64] [--rows 1,8,64] [--rounds 15]

A dense layer is compiled for one thread and for two, each for every M. A round calls all engines at
all sizes, one after another; times are wall seconds, including a Python call. Every turn begins
with a pause, in which the threads of the previous engine stop spinning, and with some warm-up
calls. The time of an engine is the lower quartile of its turns: the host of a virtual machine may
run its two cores as two hyper-threads of one core for some time, and then all FMAs take twice as
long. Other processes disturb this table, so it requires an idle machine.
"""

# The thread counts must be set before the libraries load.
# ruff: noqa: E402
from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
import level

level.hold()
THREADS = 2
for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "TVM_NUM_THREADS"):
    os.environ[_name] = str(THREADS)

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tvm
from gemm_peers import onnx_peer, openvino_peer, torch_peer

import tvm_disc
from tvm_disc import relay

LAYERS = [(768, 768), (768, 3072), (3072, 768), (512, 256), (3072, 64), (8192, 48)]  # (K, N)
ROWS = [1, 2, 4, 8, 16, 64, 128, 512]
TURN_S, PAUSE_S = 5e-3, 0.04
PEERS = ("ort", "ov", "torch")
Call = Callable[[], Any]


def layer(w: np.ndarray, threads: int) -> Any:
    """Return ``x @ w`` for any number of rows."""
    x = relay.var("x", shape=(relay.Any(), w.shape[0]), dtype="float32")
    y = relay.nn.dense(x, relay.const(np.ascontiguousarray(w.T)))
    return tvm_disc.build(relay.Function([x], y), options=tvm_disc.Options(threads=threads))


def turn(call: Call, repeat: int) -> float:
    """Return the seconds per call."""
    time.sleep(PAUSE_S)
    for _ in range(1 + repeat // 4):
        call()
    start = time.perf_counter()
    for _ in range(repeat):
        call()
    return (time.perf_counter() - start) / repeat


@dataclass
class Point:
    """One size: the calls of the engines, tvm_disc first, and the seconds of their turns."""

    k: int
    n: int
    m: int
    calls: dict[str, Call]
    repeat: dict[str, int] = field(default_factory=dict)
    turns: dict[str, list[float]] = field(default_factory=dict)

    def prepare(self) -> None:
        """Determine the number of calls per turn of each engine."""
        for name, call in self.calls.items():
            # The first turn creates the thread pools.
            seconds = min(turn(call, 10) for _ in range(3))
            self.repeat[name] = max(1, int(TURN_S / max(seconds, 1e-6)))

    def round(self) -> None:
        """Run one turn of each engine."""
        for name, call in self.calls.items():
            self.turns.setdefault(name, []).append(turn(call, self.repeat[name]))

    def ratios(self) -> dict[str, float]:
        """Print a line, and return the time of each other engine divided by that of the first."""
        seconds = {name: float(np.quantile(t, 0.25)) for name, t in self.turns.items()}
        first = seconds.pop(next(iter(seconds)))
        found = {name: s / first for name, s in seconds.items()}
        text = "  ".join(f"{name} {ratio:5.2f}x" for name, ratio in found.items())
        rate, size = 2e-9 * self.m * self.n * self.k / first, f"{self.k}x{self.n} M={self.m}"
        print(f"{size:>16} {first * 1e6:9.1f} us {rate:7.1f} GF/s  {text}", flush=True)
        peers = [ratio for name, ratio in found.items() if name in PEERS]
        return {**found, "the fastest peer": min(peers)} if peers else found


def points(k: int, n: int, rows: list[int]) -> list[Point]:
    """Return the points of all M for one matrix of weights."""
    rng = np.random.default_rng(0)
    w = rng.standard_normal((k, n)).astype("float32")
    ours = {f"{t} threads": layer(w, t) for t in (THREADS, 1)}
    binds = {
        "ort": onnx_peer([None, k], w, THREADS),
        "ov": openvino_peer([None, k], w, threads=THREADS),
        "torch": torch_peer(w, threads=THREADS),
    }
    found = []
    for m in rows:
        a = rng.standard_normal((m, k)).astype("float32")
        out = np.empty((m, n), np.float32)
        given = tvm.runtime.tensor(a)
        for exe in ours.values():
            np.testing.assert_allclose(exe(a), a @ w, rtol=1e-3, atol=1e-2)
        calls: dict[str, Call] = {name: lambda e=e, x=given: e(x) for name, e in ours.items()}
        calls |= {name: bind({"a": a}, out) for name, bind in binds.items() if bind is not None}
        found.append(Point(k, n, m, calls))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="")
    parser.add_argument("--rows", default=",".join(map(str, ROWS)))
    parser.add_argument("--rounds", type=int, default=15)
    level.add_option(parser)
    options = parser.parse_args()
    rows = [int(m) for m in options.rows.split(",")]
    sizes = [
        point for k, n in LAYERS if options.only in ("", f"{k}x{n}") for point in points(k, n, rows)
    ]
    for point in sizes:
        point.prepare()
    for _ in range(options.rounds):
        for point in sizes:
            point.round()
    found = [point.ratios() for point in sizes]
    for peer in found[0] if found else ():
        ratios = np.array([r[peer] for r in found])
        mean = float(np.exp(np.log(ratios).mean()))
        print(f"# over {peer}: geometric mean {mean:.2f}, least {ratios.min():.2f}")


if __name__ == "__main__":
    main()
