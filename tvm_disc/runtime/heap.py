"""Return of free memory of the C library's heap to the system."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any


@cache
def _function() -> Any:
    """Return ``malloc_trim``; None if the C library does not have it."""
    try:
        found = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None
    found.argtypes, found.restype = [ctypes.c_size_t], ctypes.c_int
    return found


def trim_heap() -> None:
    """Return free heap memory to the system.

    Otherwise freed blocks below glibc's threshold, which grows with the largest block ever freed,
    remain resident.
    """
    trim = _function()
    if trim is not None:
        trim(0)


__all__ = ["trim_heap"]
