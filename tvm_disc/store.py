"""What was made once, kept on disk: bytes by key, for every process of a user.

Entries are files that are written beside their place and moved there whole, so that processes need
not know of each other, and carry a digest, so that a damaged one counts as missing. The oldest
used go first when there is too much. Nothing here fails a build: a folder that cannot be used keeps
nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .options import Options

__all__ = ["DEFAULT_BYTES", "Store", "default_folder", "store_of"]

DEFAULT_BYTES = 1 << 30
_DIGEST_BYTES = 16
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
            if not self._is_ours():
                return None
            data = path.read_bytes()
        except OSError:
            return None
        digest, content = data[:_DIGEST_BYTES], data[_DIGEST_BYTES:]
        if _digest(content) != digest:
            with contextlib.suppress(OSError):
                path.unlink()
            return None
        with contextlib.suppress(OSError):
            os.utime(path)  # used now
        return content

    def put(self, key: str, content: bytes) -> None:
        """Keep ``content`` under a key, if that can be done."""
        path = self._path(key)
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not self._is_ours():
                return
            path.parent.mkdir(mode=0o700, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=path.parent, prefix=".")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(_digest(content) + content)
                os.replace(name, path)
            except BaseException:
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
                status = path.stat()
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

    def _is_ours(self) -> bool:
        """Whether nobody else can put code there that we would run."""
        status = self.folder.stat()
        return status.st_uid == os.getuid() and not status.st_mode & 0o022


def store_of(options: Options) -> Store | None:
    """Where code that is compiled with these options is kept, if anywhere."""
    if options.cache is False:
        return None
    folder = default_folder() if options.cache is True else Path(options.cache)
    return None if folder is None else Store(folder)


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=_DIGEST_BYTES).digest()
