"""Statistics of the process's thread pool, which all programs share (``abi.threads``)."""

from __future__ import annotations

import ctypes

import tvm_ffi

from tvm_disc.abi import threads


def statistics() -> dict[str, int]:
    """Return counters of the thread pool; empty if no program with parallel kernels was loaded.

    Current state: number of started ``workers``, ``cores`` that callers and workers may use
    together, ``spinning`` and ``parked`` workers, ``active`` calls. Totals: ``launches``, launches
    in which workers ``helped``, launches that a worker delayed (``held_up``), and launches that
    woke workers (``woken``).
    """
    address = tvm_ffi.get_global_func(threads.NAME, allow_missing=True)
    if address is None:
        return {}
    words = (ctypes.c_int64 * threads.SLOTS).from_address(address() + threads.PAGE_BYTES)
    names = (
        *("WORKERS", "CORES", "SPINNING", "PARKED", "ACTIVE"),
        *("LAUNCHES", "HELPED", "HELD_UP", "WOKEN"),
    )
    return {name.lower(): words[getattr(threads, name)] for name in names}
