"""The workers of this process, which all programs share (``abi.threads``)."""

from __future__ import annotations

import ctypes

import tvm_ffi

from tvm_disc.abi import threads


def statistics() -> dict[str, int]:
    """What the process's workers do now; empty before the first program that has parallel kernels.

    ``workers`` that were started, the ``cores`` that callers and workers may use together, workers
    that are ``spinning`` or ``parked``, calls that are ``active``; so far: ``launches``, those of
    which workers ``helped`` with parts, or held one up (``held_up``), and which had them ``woken``.
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
