"""Time a row's program and ONNX Runtime on one thread, alternately."""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch

import tvm_disc
from benchmarks.ort_session import ort_session
from benchmarks.zoo.check import PATHS, arguments
from benchmarks.zoo.export import kept_onnx
from benchmarks.zoo.row import Row

ROUNDS, SECONDS = 15, 0.02  # number of turns, and least seconds of a turn


def beside(row: Row, path: str, limit: float) -> dict[str, Any]:
    """Return the times of both for the largest combination of dims, and their ratio."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    module = row.make().eval()
    proto, _ = kept_onnx(row, module)
    model = proto if path == "onnx" else PATHS[path](row, module)[0]
    exe = tvm_disc.build(model, options=tvm_disc.Options(threads=1, time_limit=limit))
    session = ort_session(proto.SerializeToString())
    dims = max(row.combinations, key=lambda c: sum(c.values()))
    used = arguments(exe, row, dims)
    feeds = {
        i.name: row.at(dims)[list(row.inputs).index(i.name)].numpy() for i in session.get_inputs()
    }
    ours, theirs = in_turn(lambda: exe(*used), lambda: session.run(None, feeds))
    return {
        "row": row.name, "path": path, "status": "right", "ours_us": round(1e6 * ours, 1),
        "ort_us": round(1e6 * theirs, 1), "ratio": round(theirs / ours, 3), "timed_at": dict(dims),
    }  # fmt: skip


def in_turn(first: Callable[[], Any], second: Callable[[], Any]) -> tuple[float, float]:
    """Return the median seconds of a call of each; they are measured alternately (A B A B)."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(ROUNDS):
        for call, kept in zip((first, second), times, strict=True):
            kept.append(_mean(call))
    return statistics.median(times[0]), statistics.median(times[1])


def _mean(call: Callable[[], Any]) -> float:
    start, calls = time.perf_counter(), 0
    while time.perf_counter() - start < SECONDS:
        call()
        calls += 1
    return (time.perf_counter() - start) / calls


__all__ = ["beside", "in_turn"]
