"""The workers of this process, which all programs share (``codegen.threads``)."""

from __future__ import annotations

import ctypes

import tvm

from tvm_disc.codegen.threads import home, state


def statistics() -> dict[str, int]:
    """What the process's workers do now; empty before the first program that has parallel kernels.

    ``workers`` that were started, the ``cores`` that callers and workers may use together, workers
    that are ``spinning`` or ``parked``, calls that are ``active``; so far: ``launches``, those of
    which workers ``helped`` with parts, or held one up (``held_up``), and which had them ``woken``.
    """
    address = tvm.get_global_func(home.NAME, allow_missing=True)
    if address is None:
        return {}
    words = (ctypes.c_int64 * state.SLOTS).from_address(address() + state.PAGE_BYTES)
    names = (
        *("WORKERS", "CORES", "SPINNING", "PARKED", "ACTIVE"),
        *("LAUNCHES", "HELPED", "HELD_UP", "WOKEN"),
    )
    return {name.lower(): words[getattr(state, name)] for name in names}
