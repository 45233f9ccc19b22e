"""Arrays between pages of memory that may not be touched: a read beyond them ends the process."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable
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


class Calls:
    """In the place of ``Executable.__call__``: arrays are given, and results taken, at borders.

    A program of arrays is called twice, with inputs at the one border and at the other, and the
    second time with results at a border, too; both times it must give the same bits.
    """

    def __init__(self, plain: Callable[..., Any]) -> None:
        self.plain, self.count, self.empty = plain, 0, 0

    def call(self, exe: Any, *args: Any, out: Any = None, **kwargs: Any) -> Any:
        """The call of a program."""
        given = [*args, *kwargs.values()]
        if out is not None or not all(type(a) is np.ndarray and _is_plain(a) for a in given):
            return self.plain(exe, *args, out=out, **kwargs)
        self.count += 1
        self.empty += any(a.size <= 1 for a in given)
        pages = Guarded()
        try:
            found = self._placed(exe, pages, args, kwargs, False)
            if _are_arrays(found):
                outs = pages.like(found, at_start=True)
                self._placed(exe, pages, args, kwargs, True, out=outs)
                assert _bits(found) == _bits(outs), "a second call gives other bits"
            return found
        finally:
            pages.release()

    def _placed(
        self, exe: Any, pages: Guarded, args: Any, kwargs: Any, at_start: bool, **more: Any
    ) -> Any:
        placed = [pages.array(a, at_start) for a in args]
        named = {n: pages.array(a, at_start) for n, a in kwargs.items()}
        found = self.plain(exe, *placed, **named, **more)
        for a, b in zip([*args, *kwargs.values()], [*placed, *named.values()], strict=True):
            assert a.tobytes() == b.tobytes(), "an input was written to"
        return found


def _is_plain(array: np.ndarray) -> bool:
    return array.dtype.isnative and array.dtype.kind in "biuf"


def _are_arrays(found: Any) -> bool:
    if isinstance(found, tuple):
        return bool(found) and all(map(_are_arrays, found))
    return type(found) is np.ndarray and _is_plain(found)


def _bits(found: Any) -> list[bytes]:
    return [b for f in found for b in _bits(f)] if isinstance(found, tuple) else [found.tobytes()]
