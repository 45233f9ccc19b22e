"""Memory that a build no longer uses, returned to the system."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable
from functools import cache
from typing import cast

LARGE = 64 << 20  # bytes of weights from which this is worth its time, about 0.1 s


def release(weights: int) -> None:
    """Free unreachable objects, and return free memory to the system, if a program has ``weights``
    bytes of weights.

    Graphs of nodes are cyclic, so that weights that a pass has replaced are freed by the cycle
    collector alone; and the C library keeps freed blocks.
    """
    if weights >= LARGE:
        gc.collect()
        trim = _trim()
        if trim is not None:
            trim(0)


@cache
def _trim() -> Callable[[int], int] | None:
    """Return ``malloc_trim`` of glibc, or None on other systems."""
    try:
        return cast(Callable[[int], int], ctypes.CDLL("libc.so.6").malloc_trim)
    except (OSError, AttributeError):
        return None


__all__ = ["release"]
