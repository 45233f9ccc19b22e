"""Measures the limits of this machine: the throughput of multiply-adds and of memory reads."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import cycle
from typing import Any

import numpy as np
import tvm
from tvm.ir import GlobalVar

from tvm_disc.codegen.gauge import (
    NAME,
    READ,
    READS,
    gauge_function,
    read_function,
    sums,
)
from tvm_disc.codegen.machine_code import compile_tir
from tvm_disc.codegen.target import has_threads, resolve_target
from tvm_disc.codegen.threads.glue import USE_WORKERS, use_workers_function
from tvm_disc.codegen.threads.module import home_of_process
from tvm_disc.runtime.peaks import Peaks, Reads, store_peaks, stored_peaks
from tvm_disc.runtime.profile import BUSY_CORES
from tvm_disc.runtime.rounds import Others
from tvm_disc.support.locks import Lock
from tvm_disc.support.processor import cores, cpu_name
from tvm_disc.support.store import Store
from tvm_disc.target.isa import Isa, isa_of

TURNS = 32_000  # iterations of multiply-adds in one burst, about 0.1 ms
BURST_BYTES = 1 << 21  # minimum bytes that a burst reads; about 0.1 ms
SIZES = (1 << 18, 1 << 21, 1 << 25, 1 << 27)  # sizes of the memory that is read, in bytes
CACHED = 4  # bursts over cached memory read this multiple of BURST_BYTES
# Maximum bursts of a measurement, of which the fastest counts; no burst starts after LIMIT_S.
BURSTS, LIMIT_S = 200, 0.08

_FOUND: dict[int, Peaks] = {}
_MEASURING = Lock()


def peaks_of_machine(store: Store | None) -> Peaks:
    """Return the limits of this machine: measured by this process, stored, or measured now.

    A measurement that other busy processes disturbed is used by this process, but not stored.

    Args:
        store: cache for the limits and the code of the workers.
    """
    with _MEASURING:
        found = _FOUND.get(0) or (None if store is None else stored_peaks(store))
        if found is None:
            others = Others()
            found = measured_peaks(store)
            if store is not None and (others.cores() or 0.0) < BUSY_CORES:
                store_peaks(found, store)
        return _FOUND.setdefault(0, found)


def measured_peaks(store: Store | None) -> Peaks:
    """Measure the limits of this machine, in about a second."""
    target = resolve_target(None)
    isa, threads = isa_of(target), cores()
    makers = {NAME: gauge_function(isa), READ: read_function(isa)}
    makers[USE_WORKERS] = use_workers_function()
    module = compile_tir(tvm.IRModule({GlobalVar(n): f for n, f in makers.items()}), target)
    if threads > 1 and has_threads(target):
        module[USE_WORKERS](home_of_process(store))
    one, every = (_flops(module, isa, n) for n in (1, threads))
    memory = tvm.runtime.tensor(np.ones(SIZES[-1] // 4, "float32"))
    reads = [
        Reads(size, *(_bandwidth(module, isa, memory, size, n) for n in (1, threads)))
        for size in SIZES
    ]
    return Peaks(cpu_name(), threads, one, every, reads)


def _flops(module: Any, isa: Isa, threads: int) -> float:
    """Return the GFLOP/s of float32 multiply-adds on ``threads`` threads."""
    elems = sums(isa) * isa.lanes_f32
    memory = tvm.runtime.tensor(np.ones(threads * elems, "float32"))
    seconds = _best(lambda: module[NAME](memory, threads, TURNS))
    return 2 * threads * elems * TURNS / seconds / 1e9


def _bandwidth(module: Any, isa: Isa, memory: object, size: int, threads: int) -> float:
    """Return the GB/s at which ``threads`` threads together read a buffer of ``size`` bytes.

    A burst must be shorter than a time slice, so it reads only a part of a large buffer. The next
    burst reads the next part.
    """
    step = READS * isa.lanes_f32
    elems = min(size, BURST_BYTES) // 4 // threads // step * step
    passes = max(1, CACHED * BURST_BYTES // size)
    results = tvm.runtime.tensor(np.zeros(threads * isa.lanes_f32, "float32"))
    begins = cycle(range(0, size // 4 - elems * threads + 1, elems * threads))
    seconds = _best(lambda: module[READ](memory, results, next(begins), threads, elems, passes))
    return 4 * elems * threads * passes / seconds / 1e9


def _best(run: Callable[[], object]) -> float:
    """Return the seconds of the fastest burst, as other processes can only make bursts slower."""
    best, end = float("inf"), time.perf_counter() + LIMIT_S
    for _ in range(BURSTS):
        start = time.perf_counter()
        run()
        now = time.perf_counter()
        best = min(best, now - start)
        if now > end:
            break
    return best


__all__ = ["measured_peaks", "peaks_of_machine"]
