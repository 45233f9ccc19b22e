"""Processor time of JAX functions at many shapes, and calls at one, beside ``jax.jit``.

    python -m benchmarks.jax_shapes [--match NAME] [--shapes 20] [--rounds 7]

Each function of ``tests/frontends/stablehlo/programs.py`` is called at random new shapes: once with
``jax.jit``, which compiles for each, and once with one program. Then both are called alternately at
the last shape. One thread each (``XLA_FLAGS`` is set before JAX is imported). The times of all
shapes are processor times of all threads and child processes.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import time
from typing import Any

os.environ.setdefault(
    "XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
)

import jax
import numpy as np

import tvm_disc
from tests.frontends.stablehlo.programs import PROGRAMS, Program, exported
from tvm_disc.jax import Compiled


def dims_of(program: Program, count: int) -> list[dict[str, int]]:
    """Return random dims, within the ranges of the program's own."""
    rng = np.random.default_rng(0)
    names = list(program.dims[0])
    least = {n: min(d[n] for d in program.dims) for n in names}
    most = {n: max(d[n] for d in program.dims) for n in names}
    if not names:
        return [{}]
    return [{n: int(rng.integers(least[n], most[n] + 1)) for n in names} for _ in range(count)]


def clock() -> float:
    """Return the processor time of this process and its children, in seconds."""
    now = os.times()
    return time.process_time() + now.children_user + now.children_system


def timed(function: Any, arguments: list[Any]) -> float:
    """Return the seconds of one call, with its results ready."""
    start = clock()
    jax.block_until_ready(function(*arguments))
    return clock() - start


def steady(ours: Any, theirs: Any, arguments: list[Any], rounds: int) -> float:
    """Return the ratio of the least times of alternating calls, theirs over ours.

    Other work of the machine lengthens most calls, but not the shortest.
    """
    least = [math.inf, math.inf]
    for _ in range(rounds):
        for k, function in enumerate((ours, theirs)):
            end = time.perf_counter() + 0.02
            while (start := time.perf_counter()) < end:
                jax.block_until_ready(function(*arguments))
                least[k] = min(least[k], time.perf_counter() - start)
    return least[1] / least[0]


def main() -> None:
    """Print a line for each function, and the geometric means."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--match", default="")
    parser.add_argument("--shapes", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    walls, rates = [], []
    print("function | jax.jit s | tvm_disc s | ratio | steady ratio")
    for name, program in PROGRAMS.items():
        if options.match not in name or not program.dims[0]:
            continue
        points = dims_of(program, options.shapes)
        start = clock()
        source = exported(program)
        built = tvm_disc.build(source, options=tvm_disc.Options(threads=1))
        exe = Compiled(source, built)
        own = clock() - start
        theirs, other = jax.jit(program.function), 0.0
        for seed, dims in enumerate(points):
            arguments = [jax.numpy.asarray(a) for a in program.arguments(dims, seed)]
            own += timed(exe, arguments)
            other += timed(theirs, arguments)
        walls.append(other / own)
        rates.append(steady(exe, theirs, arguments, options.rounds))
        print(f"{name} | {other:.2f} | {own:.2f} | {walls[-1]:.1f} | {rates[-1]:.2f}", flush=True)
    wall, rate = (statistics.geometric_mean(x) for x in (walls, rates))
    print(f"geometric mean | | | {wall:.1f} | {rate:.2f}; least {min(rates):.2f}")


if __name__ == "__main__":
    main()
