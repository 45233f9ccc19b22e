"""Digests of large data, computed on all cores, and of this package's source."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Callable
from functools import cache
from pathlib import Path

from tvm_disc.support.faults import mapped
from tvm_disc.support.processor import cores

__all__ = ["digest_of_bytes", "digest_of_file", "digest_of_package", "source_files"]

# O_NONBLOCK: opening a pipe must not wait for a writer
_OPEN = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_PIECE_BYTES = 8 << 20
PACKAGE = Path(__file__).parents[1]


def digest_of_bytes(data: memoryview) -> bytes:
    """Return a digest of contiguous bytes."""
    return _of_pieces(data.nbytes, lambda at: hashlib.sha256(data[at : at + _PIECE_BYTES]).digest())


def digest_of_file(path: Path) -> bytes:
    """Return a digest of a file's bytes.

    The file is read, not mapped: access to a mapped file that another process truncates would
    crash.

    Raises:
        OSError: the file cannot be read, or is not a regular file.
    """
    with open(os.open(path, _OPEN), "rb", buffering=0) as file:
        handle = file.fileno()
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "expected a regular file", str(path))
        return _of_pieces(
            os.fstat(handle).st_size,
            lambda at: hashlib.sha256(os.pread(handle, _PIECE_BYTES, at)).digest(),
        )


@cache
def digest_of_package(*places: str) -> str:
    """Return a digest of the names and contents of the files of :func:`source_files`.

    Args:
        places: files, and folders with a slash at the end; by default all files.
    """
    found = hashlib.sha256()
    for path in source_files():
        if places and not path.startswith(places):
            continue
        with open(PACKAGE / path, "rb", buffering=0) as file:
            text = file.read()
        found.update(f"{path}\0{len(text)}\0".encode() + text)
    return found.hexdigest()


def source_files() -> list[str]:
    """Return the Python, JSON and LLVM files of ``tvm_disc``, relative to its folder, in order."""
    found = []
    for folder, below, files in os.walk(PACKAGE):
        below.sort()
        names = (name for name in sorted(files) if name.endswith((".py", ".json", ".ll")))
        found += [os.path.relpath(os.path.join(folder, name), PACKAGE) for name in names]
    return found


def _of_pieces(size: int, digest: Callable[[int], bytes]) -> bytes:
    """Return a digest of the digests of pieces, hashed in parallel: hashlib releases the GIL."""
    places = range(0, size, _PIECE_BYTES)
    found = hashlib.sha256(size.to_bytes(8, "little"))
    for piece in mapped(digest, places, cores()):
        found.update(piece)
    return found.digest()
