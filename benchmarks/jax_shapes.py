"""Time of JAX functions at many shapes, and of calls at one, compared to ``jax.jit``.

    python -m benchmarks.jax_shapes [--match NAME] [--shapes 20] [--rounds 7]

Each function of ``tests/frontends/stablehlo/{programs,models}.py`` with dynamic dims is called at
random shapes: once with ``jax.jit``, which compiles for each shape, and once with one program,
which is built first. Then both are called alternately at the last shape, and also the compiled code
without the conversion of arrays. One thread each (``XLA_FLAGS`` is set before JAX is imported).
Times of all shapes are wall times; processor times are in brackets.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field

os.environ.setdefault(
    "XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
)

import jax
import numpy as np

import tvm_disc
from tests.frontends.stablehlo.models import MODELS
from tests.frontends.stablehlo.programs import PROGRAMS, Program, exported
from tvm_disc.jax import Compiled

ALL = {**PROGRAMS, **MODELS}


def dims_of(program: Program, count: int) -> list[dict[str, int]]:
    """Return random dims, within the ranges of the dims of the program."""
    rng = np.random.default_rng(0)
    names = list(program.dims[0])
    least = {n: min(d[n] for d in program.dims) for n in names}
    most = {n: max(d[n] for d in program.dims) for n in names}
    return [{n: int(rng.integers(least[n], most[n] + 1)) for n in names} for _ in range(count)]


@dataclass
class Clock:
    """Sums of the wall time, and of the processor time of this process and its children."""

    wall: float = 0.0
    processor: float = 0.0
    _start: tuple[float, float] = field(default=(0.0, 0.0), repr=False)

    @staticmethod
    def _now() -> tuple[float, float]:
        now = os.times()
        children = now.children_user + now.children_system
        return time.perf_counter(), time.process_time() + children

    def __enter__(self) -> Clock:
        self._start = self._now()
        return self

    def __exit__(self, *_: object) -> None:
        wall, processor = self._now()
        self.wall += wall - self._start[0]
        self.processor += processor - self._start[1]

    def __str__(self) -> str:
        return f"{self.wall:.2f} ({self.processor:.2f})"


def steady(calls: list[Callable[[], object]], rounds: int) -> list[float]:
    """Return the least times of alternating calls, in microseconds.

    Other work of the machine makes most calls slower, but not the fastest one.
    """
    least = [math.inf] * len(calls)
    for _ in range(rounds):
        for k, function in enumerate(calls):
            end = time.perf_counter() + 0.02
            while (start := time.perf_counter()) < end:
                function()
                least[k] = min(least[k], time.perf_counter() - start)
    return [t * 1e6 for t in least]


def measured(name: str, program: Program, shapes: int, rounds: int) -> tuple[float, ...]:
    """Print the line of a function, and return its ratios."""
    points = dims_of(program, shapes)
    build, ours, theirs = Clock(), Clock(), Clock()
    with build:
        source = exported(program)
        built = tvm_disc.build(source, options=tvm_disc.Options(threads=1))
        exe = Compiled(source, built)
        built.ready()
    jitted = jax.jit(program.function)
    for seed, dims in enumerate(points):
        arguments = [jax.numpy.asarray(a) for a in program.arguments(dims, seed)]
        with ours:
            jax.block_until_ready(exe(*arguments))
        with theirs:
            jax.block_until_ready(jitted(*arguments))
    for _ in range(3000):  # after these calls, XLA itself converts the arrays
        exe(*arguments)
    bound = built.bind(*(np.asarray(a) for a in arguments))
    times = steady(
        [
            lambda: jax.block_until_ready(exe(*arguments)),
            lambda: jax.block_until_ready(jitted(*arguments)),
            bound,
        ],
        rounds,
    )
    whole = theirs.wall / (build.wall + ours.wall), theirs.wall / ours.wall, times[1] / times[0]
    row = [name, theirs, build, ours, *(f"{x:.2f}" for x in whole), *(f"{t:.1f}" for t in times)]
    print(" | ".join(map(str, row)), flush=True)
    spent = theirs.processor / (build.processor + ours.processor)
    return *whole, spent


def main() -> None:
    """Print a line for each function, and the geometric means."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--match", default="")
    parser.add_argument("--shapes", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    print(
        "function | jax.jit s | build s | calls s | jax.jit / (build + calls) | jax.jit / calls | "
        "steady | ours us | jax.jit us | compiled code us"
    )
    rows = [
        measured(name, program, options.shapes, options.rounds)
        for name, program in ALL.items()
        if options.match in name and program.dims[0]
    ]
    for title, column in zip(
        ("with the build", "after it", "steady", "processor time with the build"),
        zip(*rows, strict=True),
        strict=True,
    ):
        print(f"{title}: {statistics.geometric_mean(column):.2f}; least {min(column):.2f}")


if __name__ == "__main__":
    main()
