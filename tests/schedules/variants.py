"""Every variant of a program of one kernel, run by itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from tvm_disc import Options
from tvm_disc.compile import prepare
from tvm_disc.shape import Solver
from tvm_disc.support.debug import Trace
from tvm_disc.tuning.entry import Bench, build_bench
from tvm_disc.tuning.measure import local_session, may_run
from tvm_disc.tuning.tune import tasks_of


def bench_of(source: Any) -> Bench:
    front = prepare(source, None, None, (), Options(threads=2), Trace(0, None))
    [task] = tasks_of(front, (), False)
    [bench] = build_bench([(task.group, task.variants)], Solver(), front.machine, front.target)
    return bench


def results(bench: Bench, dims: tuple[int, ...]) -> dict[str, np.ndarray]:
    """What every variant leaves that may run at these dims, by its text."""
    points = {s: np.float64(d) for s, d in zip(bench.group.symbols(), dims, strict=True)}
    tensors = local_session(bench).arguments(points)
    found = {}
    for k, name in enumerate(bench.names):
        if not may_run(bench.variants[k], points):
            continue
        args = tensors(k)
        out = args[len(bench.group.params)]
        out.copyfrom(np.full(out.shape, np.nan, out.dtype))
        bench.module[name](*args, *dims)
        found[str(bench.variants[k])] = out.numpy()
    return found
