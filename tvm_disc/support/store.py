"""Persistent cache of bytes by key, shared by all processes of a user.

An entry is written to a temporary file in its folder and renamed, so that processes need no lock.
It contains a digest of its key and content: a damaged or misplaced entry counts as missing. A file
that is not regular, or that another user owns or may write to, also counts as missing, because the
process executes code from the cache. The least recently used entries are evicted above the size
limit. An error of the cache never fails a build: if the folder is unusable, nothing is cached.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import stat
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TypeAlias

import numpy as np

from tvm_disc.options import Options
from tvm_disc.support.digests import digest_of_bytes

__all__ = ["ALIGNMENT", "DEFAULT_BYTES", "Large", "Store", "default_folder", "store_of"]

Buffer: TypeAlias = bytes | memoryview

DEFAULT_BYTES = 4 << 30
ALIGNMENT = 64  # bytes; alignment of the body of a large entry
_DIGEST_BYTES = 16
_WHOLE_BYTES, _SIZE_BYTES = 32, 8  # header of a large entry: a digest, and the length of its body
# Do not follow links, wait for the writer of a pipe, or acquire a controlling terminal.
_OPEN = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
# A scan of all entries takes longer than a small build. Therefore a process scans only after it has
# added this fraction of the limit.
_PRUNE_AFTER = 1 / 64
_PRUNED_TO = 0.9


def default_folder() -> Path | None:
    """Return the default folder; None for a user without a home directory."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG specification ignores relative paths.
    if os.path.isabs(base):
        return Path(base) / "tvm_disc"
    try:
        return Path.home() / ".cache" / "tvm_disc"
    except RuntimeError:
        return None


@dataclass(frozen=True)
class StoredFile:
    """A file of the store."""

    path: Path
    size: int
    used: float


class Store:
    """A cache of bytes by key in a folder.

    Args:
        folder: created at the first write, accessible to this user only.
        limit: maximum size in bytes.
    """

    def __init__(self, folder: Path, limit: int = DEFAULT_BYTES) -> None:
        self.folder, self.limit = folder, limit
        # The count starts at a random value: otherwise processes that each add little would never
        # scan.
        self._added_bytes = random.random() * limit * _PRUNE_AFTER

    def get(self, key: str) -> bytes | None:
        """Return the content of a key, or None."""
        path = self._path(key)
        try:
            data = self._read(path) if self._is_usable(path) else None
        except OSError:
            return None
        if data is None:
            return None
        content = memoryview(data)[_DIGEST_BYTES:]
        if _digest(key, content) != data[:_DIGEST_BYTES]:
            with contextlib.suppress(OSError):
                path.unlink()
            return None
        with contextlib.suppress(OSError):
            os.utime(path, follow_symlinks=False)  # marks it as recently used
        return bytes(content)

    def put(self, key: str, content: bytes) -> None:
        """Store ``content`` under a key, if possible."""
        if len(content) > self.limit:
            return
        self._write(key, [_digest(key, content), content])
        self._added(len(content))

    def _added(self, size: int) -> None:
        """Evict entries if this process has added enough since the last scan."""
        self._added_bytes += size
        if self._added_bytes >= self.limit * _PRUNE_AFTER:
            self._added_bytes = 0
            self.prune(self.limit)

    def begin_large(self, key: str, body: np.ndarray) -> Large | None:
        """Begin to write a large entry, which readers map; ``Large.finish`` writes its head.

        Returns None if the entry cannot be written, or if it is larger than half of the limit, as
        it would evict nearly all other entries.
        """
        if body.nbytes > self.limit // 2:
            return None
        try:
            handle, name = self._begun(self._path(key))
        except OSError:
            return None
        return Large(self, key, body, handle, name)

    def get_large(self, key: str) -> tuple[bytes, np.ndarray] | None:
        """Return the head and the body of a large entry, or None.

        The body is a read-only mapping of the file, 64-byte aligned and shared between processes.
        """
        path = self._path(key)
        try:
            with open(os.open(path, _OPEN), "rb", buffering=0) as file:
                usable = self._is_usable(path) and self._is_entry(os.fstat(file.fileno()))
                if not usable:
                    return None
                size = os.fstat(file.fileno()).st_size  # an empty file cannot be mapped
                data = np.asarray(np.memmap(file, np.uint8, "r")) if size else np.empty(0, "uint8")
        except (OSError, ValueError):
            return None
        found = _taken_apart(key, data)
        with contextlib.suppress(OSError):
            if found is None:
                path.unlink()
            else:
                os.utime(path, follow_symlinks=False)  # marks it as recently used
        return found

    def entries(self) -> Iterator[StoredFile]:
        """Yield every file of the store."""
        with contextlib.suppress(OSError):  # the folder is not readable, or its name is too long
            for path in self.folder.glob("??/*"):
                with contextlib.suppress(OSError):  # another process removed it
                    status = path.lstat()
                    if not stat.S_ISDIR(status.st_mode):
                        yield StoredFile(path, status.st_size, status.st_mtime)

    def prune(self, limit: int) -> int:
        """Remove the least recently used entries until slightly less than ``limit`` bytes remain.

        Returns:
            the number of removed entries.
        """
        found = sorted(self.entries(), key=lambda entry: entry.used)
        size, removed = sum(entry.size for entry in found), 0
        if size <= limit:
            return 0
        for entry in found:
            if size <= limit * _PRUNED_TO:
                break
            with contextlib.suppress(OSError):
                entry.path.unlink()
                removed += 1
            size -= entry.size
        return removed

    def _write(self, key: str, parts: Sequence[Buffer]) -> None:
        """Write an entry atomically."""
        path = self._path(key)
        try:
            handle, name = self._begun(path)
            try:
                with os.fdopen(handle, "wb") as file:
                    for part in parts:
                        file.write(part)
                os.replace(name, path)
            except BaseException:
                _removed(name)
                raise
        except OSError:
            return

    def _begun(self, path: Path) -> tuple[int, str]:
        """Create a temporary file in the folder of an entry.

        Raises:
            OSError: it cannot be created, or others may write to the folder.
        """
        for folder in (self.folder, path.parent):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not _is_ours(folder.stat()):
                raise PermissionError(folder)
        return tempfile.mkstemp(dir=path.parent, prefix=".")

    def _is_usable(self, path: Path) -> bool:
        """Return whether only this user can write to the store's folder and to the folder of an
        entry; raises OSError if one is missing.
        """
        return _is_ours(self.folder.stat()) and _is_ours(path.parent.stat())

    def _is_entry(self, status: os.stat_result) -> bool:
        """Return whether a file has the type, owner and size of an entry."""
        most = self.limit + _DIGEST_BYTES
        return stat.S_ISREG(status.st_mode) and _is_ours(status) and status.st_size <= most

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / key

    def _read(self, path: Path) -> bytes | None:
        """Return the bytes of an entry; None if the file is not a valid entry.

        Raises:
            OSError: the file cannot be read.
        """
        with open(os.open(path, _OPEN), "rb", buffering=0) as file:
            status = os.fstat(file.fileno())
            if not self._is_entry(status):
                return None
            data = file.read(status.st_size)
        return data if data is not None and len(data) == status.st_size else None


def _is_ours(status: os.stat_result) -> bool:
    """Return whether only this user can write to the file or folder."""
    return status.st_uid == os.getuid() and not status.st_mode & 0o022


def store_of(options: Options) -> Store | None:
    """Return the store that the options select, or None."""
    if options.cache is False:
        return None
    folder = default_folder() if options.cache is True else Path(options.cache)
    return None if folder is None else Store(folder)


def _digest(key: str, content: bytes | memoryview) -> bytes:
    found = hashlib.blake2b(key.encode() + b"\0", digest_size=_DIGEST_BYTES)
    found.update(content)
    return found.digest()


class Large:
    """A large entry that is being written; a separate thread writes its body."""

    def __init__(self, store: Store, key: str, body: np.ndarray, handle: int, name: str) -> None:
        self._store, self._key, self._body, self._name = store, key, body, name
        self._file = os.fdopen(handle, "wb", buffering=0)
        self._writer = ThreadPoolExecutor(1, "tvm_disc store")
        self._digest: Future[bytes] | None = None
        with contextlib.suppress(RuntimeError):  # no thread can be started: nothing is cached
            self._digest = self._writer.submit(self._written)

    def _written(self) -> bytes:
        self._file.seek(ALIGNMENT)
        _write_all(self._file, self._body.data)
        return digest_of_bytes(self._body.data)

    def finish(self, head: bytes) -> None:
        """Write ``head``, which describes the body, and rename the entry to its final path."""
        if self._digest is None:
            return
        try:
            digest = _whole_digest(self._key, head, self._digest.result())
            _write_all(self._file, memoryview(head))
            self._file.seek(0)
            told = digest + self._body.nbytes.to_bytes(_SIZE_BYTES, "little")
            _write_all(self._file, memoryview(told.ljust(ALIGNMENT, b"\0")))
            os.replace(self._name, self._store._path(self._key))
        except OSError:
            return
        self._store._added(self._body.nbytes)

    def __enter__(self) -> Large:
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.shutdown()
        self._file.close()
        _removed(self._name)  # no effect if the file was renamed to its final path


def _write_all(file: IO[bytes], data: memoryview) -> None:
    while data:
        data = data[file.write(data) :]


def _removed(name: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(name)


def _taken_apart(key: str, data: np.ndarray) -> tuple[bytes, np.ndarray] | None:
    """Return the head and body of a large entry; None if it is damaged."""
    told = bytes(data[: _WHOLE_BYTES + _SIZE_BYTES])
    end = ALIGNMENT + int.from_bytes(told[_WHOLE_BYTES:], "little")
    if end > len(data):
        return None
    body, head = data[ALIGNMENT:end], bytes(data[end:])
    digest = _whole_digest(key, head, digest_of_bytes(body.data))
    return (head, body) if digest == told[:_WHOLE_BYTES] else None


def _whole_digest(key: str, head: bytes, body: bytes) -> bytes:
    """Return a digest of an entry; ``body`` is the digest of its body."""
    found = hashlib.sha256(key.encode() + b"\0" + body)
    found.update(head)
    return found.digest()
