"""Arrays between pages of memory that may not be touched: a read beyond them ends the process."""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np

PAGE = mmap.PAGESIZE


class Guarded:
    """Makes arrays with a forbidden page before and behind; ``release`` allows the pages again.

    An array touches one of them: the page behind its last byte, or, ``at_start``, the page before
    its first one.
    """

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._kept: list[tuple[int, mmap.mmap]] = []

    def array(self, value: np.ndarray, at_start: bool = False) -> np.ndarray:
        """A copy of ``value`` at the border of forbidden memory."""
        whole = -(-max(value.nbytes, 1) // PAGE) * PAGE
        memory = mmap.mmap(-1, whole + 2 * PAGE)
        start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        for page in (start, start + PAGE + whole):
            self._protect(page, 0)
            self._kept.append((page, memory))
        offset = PAGE if at_start else PAGE + whole - value.nbytes
        flat = np.frombuffer(memory, value.dtype, value.size, offset)
        result = flat.reshape(value.shape)
        result[...] = value
        return result

    def like(self, value: Any, at_start: bool = False) -> Any:
        """Arrays for results shaped as ``value``, tuples for tuples."""
        if isinstance(value, tuple):
            return tuple(self.like(v, at_start) for v in value)
        return self.array(np.zeros(value.shape, value.dtype), at_start)

    def release(self) -> None:
        """Allow every page, so that the memory can be given back."""
        for page, _ in self._kept:
            self._protect(page, mmap.PROT_READ | mmap.PROT_WRITE)
        self._kept.clear()

    def _protect(self, page: int, allowed: int) -> None:
        failed = self._libc.mprotect(ctypes.c_void_p(page), ctypes.c_size_t(PAGE), allowed)
        assert failed == 0, ctypes.get_errno()
