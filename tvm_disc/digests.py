"""Digests of what may be hundreds of megabytes, on all cores, and of this package."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Callable
from functools import cache
from pathlib import Path

from .faults import mapped
from .processor import cores

__all__ = ["digest_of_bytes", "digest_of_file", "digest_of_package"]

# Without waiting for whoever writes to a pipe.
_OPEN = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_PIECE_BYTES = 8 << 20


def digest_of_bytes(data: memoryview) -> bytes:
    """A digest of contiguous bytes."""
    return _of_pieces(data.nbytes, lambda at: hashlib.sha256(data[at : at + _PIECE_BYTES]).digest())


def digest_of_file(path: Path) -> bytes:
    """The digest of a file's bytes.

    It is read, not mapped: a mapped file that somebody cuts short meanwhile would be a crash.

    Raises:
        OSError: it cannot be read, or is no regular file.
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
def digest_of_package() -> str:
    """Of every file of this package that decides what code a build makes."""
    found = hashlib.sha256()
    package = os.path.dirname(__file__)
    for folder, below, files in os.walk(package):
        below.sort()
        for name in sorted(files):
            if name.endswith((".py", ".json")):
                path = os.path.join(folder, name)
                with open(path, "rb", buffering=0) as file:
                    text = file.read()
                found.update(f"{os.path.relpath(path, package)}\0{len(text)}\0".encode() + text)
    return found.hexdigest()


def _of_pieces(size: int, digest: Callable[[int], bytes]) -> bytes:
    """A digest of the digests of pieces; hashing lets go of the interpreter."""
    places = range(0, size, _PIECE_BYTES)
    found = hashlib.sha256(size.to_bytes(8, "little"))
    for piece in mapped(digest, places, cores()):
        found.update(piece)
    return found.digest()
