"""The C library's heap: what it holds free goes back to the system on request."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any


@cache
def _function() -> Any:
    """``malloc_trim``, None where the C library has none."""
    try:
        found = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None
    found.argtypes, found.restype = [ctypes.c_size_t], ctypes.c_int
    return found


def trim_heap() -> None:
    """Give back what lies free: without that, blocks below a threshold, which grows with the
    largest block that was ever freed, stay with the process."""
    trim = _function()
    if trim is not None:
        trim(0)


__all__ = ["trim_heap"]
