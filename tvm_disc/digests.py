"""Digests of what may be hundreds of megabytes, on all cores."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .processor import cores

__all__ = ["digest_of_bytes", "digest_of_file"]

_PIECE_BYTES = 8 << 20


def digest_of_bytes(data: memoryview) -> bytes:
    """A digest of contiguous bytes."""
    return _of_pieces(data.nbytes, lambda at: hashlib.sha256(data[at : at + _PIECE_BYTES]).digest())


def digest_of_file(path: Path) -> bytes:
    """The digest of a file's bytes.

    It is read, not mapped: a mapped file that somebody cuts short meanwhile would be a crash.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb", buffering=0) as file:
        handle = file.fileno()
        return _of_pieces(
            os.fstat(handle).st_size,
            lambda at: hashlib.sha256(os.pread(handle, _PIECE_BYTES, at)).digest(),
        )


def _of_pieces(size: int, digest: Callable[[int], bytes]) -> bytes:
    """A digest of the digests of pieces; hashing lets go of the interpreter."""
    places = range(0, size, _PIECE_BYTES)
    found = hashlib.sha256(size.to_bytes(8, "little"))
    if len(places) < 2:
        pieces = list(map(digest, places))
    else:
        with ThreadPoolExecutor(cores()) as workers:
            pieces = list(workers.map(digest, places))
    for piece in pieces:
        found.update(piece)
    return found.digest()
