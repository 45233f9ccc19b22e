"""A function that returns free memory of the C library's heap to the system."""

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

    Without this call, freed blocks that are smaller than glibc's mmap threshold remain resident.
    The threshold grows with the largest block that was freed.
    """
    trim = _function()
    if trim is not None:
        trim(0)


__all__ = ["trim_heap"]
