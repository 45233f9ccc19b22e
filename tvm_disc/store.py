"""What was made once, kept on disk: bytes by key, for every process of a user.

Entries are files that are written beside their place and moved there whole, so that processes need
not know of each other, and carry a digest of their content and their key, so that one that is
damaged, or lies under another key's name, counts as missing. What is no plain file of this user's,
written by this user alone, counts as missing, too: code of others would run. The oldest used go
first when there is too much. Nothing here fails a build: a folder that cannot be used keeps
nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .options import Options

__all__ = ["DEFAULT_BYTES", "Store", "default_folder", "store_of"]

DEFAULT_BYTES = 1 << 30
_DIGEST_BYTES = 16
# Neither follow a link, nor wait for whoever writes to a pipe, nor take a terminal for one's own.
_OPEN = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
# What is looked through, and how often, when entries are added.
_PRUNE_EVERY = 64
_PRUNED_TO = 0.9


def default_folder() -> Path | None:
    """Where entries lie unless somebody says otherwise; None for a user without a home."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    # A relative path there counts for nothing, says the specification of base directories.
    if os.path.isabs(base):
        return Path(base) / "tvm_disc"
    try:
        return Path.home() / ".cache" / "tvm_disc"
    except RuntimeError:
        return None


@dataclass(frozen=True)
class Entry:
    """A file of the store."""

    path: Path
    size: int
    used: float


class Store:
    """Bytes by key in a folder.

    Args:
        folder: is made when something is put there, for this user alone.
        limit: bytes to keep.
    """

    def __init__(self, folder: Path, limit: int = DEFAULT_BYTES) -> None:
        self.folder, self.limit = folder, limit
        self._puts = 0

    def get(self, key: str) -> bytes | None:
        """What was put under a key, or None."""
        path = self._path(key)
        try:
            if not (_is_ours(self.folder.stat()) and _is_ours(path.parent.stat())):
                return None
            data = self._read(path)
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
            os.utime(path, follow_symlinks=False)  # used now
        return bytes(content)

    def put(self, key: str, content: bytes) -> None:
        """Keep ``content`` under a key, if that can be done."""
        path = self._path(key)
        if len(content) > self.limit:
            return
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not _is_ours(self.folder.stat()):
                return
            path.parent.mkdir(mode=0o700, exist_ok=True)
            if not _is_ours(path.parent.stat()):
                return
            handle, name = tempfile.mkstemp(dir=path.parent, prefix=".")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(_digest(key, content))
                    file.write(content)
                os.replace(name, path)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(name)
                raise
        except OSError:
            return
        self._puts += 1
        if self._puts % _PRUNE_EVERY == 1:
            self.prune(self.limit)

    def entries(self) -> Iterator[Entry]:
        """Every file of the store."""
        for path in self.folder.glob("??/*"):
            with contextlib.suppress(OSError):  # another process removed it meanwhile
                status = path.lstat()
                if not stat.S_ISDIR(status.st_mode):
                    yield Entry(path, status.st_size, status.st_mtime)

    def prune(self, limit: int) -> int:
        """Remove those not used for longest until a little less than ``limit`` bytes are left.

        Returns:
            the number of entries that were removed.
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

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / key

    def _read(self, path: Path) -> bytes | None:
        """The bytes of an entry; None if it is not one that :meth:`put` made.

        raises: OSError.
        """
        with open(os.open(path, _OPEN), "rb", buffering=0) as file:
            status = os.fstat(file.fileno())
            most = self.limit + _DIGEST_BYTES
            if not stat.S_ISREG(status.st_mode) or not _is_ours(status) or status.st_size > most:
                return None
            data = file.read(status.st_size)
        return data if data is not None and len(data) == status.st_size else None


def _is_ours(status: os.stat_result) -> bool:
    """Whether nobody else can put code there that we would run."""
    return status.st_uid == os.getuid() and not status.st_mode & 0o022


def store_of(options: Options) -> Store | None:
    """Where code that is compiled with these options is kept, if anywhere."""
    if options.cache is False:
        return None
    folder = default_folder() if options.cache is True else Path(options.cache)
    return None if folder is None else Store(folder)


def _digest(key: str, content: bytes | memoryview) -> bytes:
    found = hashlib.blake2b(key.encode() + b"\0", digest_size=_DIGEST_BYTES)
    found.update(content)
    return found.digest()
