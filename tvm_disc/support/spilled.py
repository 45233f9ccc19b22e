"""Large arrays in a temporary file, which the system keeps in memory only while they are read.

Weights of 4 bits are held as bytes from import to packing, twice the size of the model. A build
writes them into a file without a name and releases their pages; later reads load them from the
page cache or from disk.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import weakref
from contextlib import suppress

import numpy as np

from tvm_disc.support.literals import ALIGNMENT, aligned
from tvm_disc.support.locks import Lock
from tvm_disc.typing import Array

LEAST_BYTES = 1 << 20  # smaller arrays stay in memory
CHUNK_BYTES = 256 << 20  # size of a file; larger arrays have one each


class _Chunk(mmap.mmap):
    """A mapped file, which exists as long as arrays in it."""


_chunks: weakref.WeakSet[_Chunk] = weakref.WeakSet()
# The newest chunk, the bytes in use, and the process that made it: after a fork, two processes
# would write to the same bytes.
_last: list[tuple[weakref.ref[_Chunk], int, int]] = []
_reserving = Lock()


def spilled(array: Array) -> Array:
    """Return a row-major copy that literals can share: in a file if it is large, else in memory.

    It is in memory, too, if there is no space for a file.
    """
    room = _room(array.nbytes) if array.nbytes >= LEAST_BYTES else None
    if room is None:
        return aligned(array)
    made: Array = room.view(array.dtype).reshape(array.shape)
    made[...] = array
    release_pages()
    return made


def release_pages() -> None:
    """Let the system reclaim the memory of all spilled arrays; their elements are kept."""
    for chunk in list(_chunks):
        chunk.madvise(mmap.MADV_DONTNEED)


def _room(size_bytes: int) -> Array | None:
    """Return an array of unused bytes of a file; None if no file can be created."""
    if not hasattr(mmap, "MADV_DONTNEED") or not hasattr(os, "posix_fallocate"):
        return None
    size = -(-size_bytes // ALIGNMENT) * ALIGNMENT
    with _reserving:
        last, used, process = _last[0] if _last else (lambda: None, 0, 0)
        chunk = last() if process == os.getpid() else None
        if chunk is None or used + size > len(chunk):
            chunk, used = _new_chunk(max(size, CHUNK_BYTES)), 0
            if chunk is None:
                return None
        _last[:] = [(weakref.ref(chunk), used + size, os.getpid())]
    room: Array = np.frombuffer(chunk, np.uint8, size_bytes, used)
    return room


def _new_chunk(size_bytes: int) -> _Chunk | None:
    # Without reserved space, a write to a full disk would end the process by a signal.
    with suppress(OSError), tempfile.TemporaryFile(dir=_folder()) as file:
        os.posix_fallocate(file.fileno(), 0, size_bytes)
        chunk = _Chunk(file.fileno(), size_bytes)
        _chunks.add(chunk)
        return chunk
    return None


def _folder() -> str | None:
    """Return a folder on a disk; temporary folders are often in memory."""
    return "/var/tmp" if "TMPDIR" not in os.environ and os.path.isdir("/var/tmp") else None


__all__ = ["release_pages", "spilled"]
