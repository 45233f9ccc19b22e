"""File format of a saved program: a shared library, a manifest, and a trailer.

    [library][manifest, JSON][trailer]

The trailer contains the lengths and checksums of library and manifest. A truncated or damaged file
is therefore refused before it is mapped: loading an incomplete library would crash the process. The
manifest can be read without loading the library, which may be for a different processor.
"""

from __future__ import annotations

import json
import os
import struct
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tvm_disc.errors import ArtifactError

MAGIC = b"tvm_disc"
# Magic, ABI version, checksum and length of the library, length of the manifest; then a checksum of
# the manifest and of these fields.
_FIELDS = struct.Struct("<8sIIQQ")
_CHECK = struct.Struct("<I")
TRAILER_BYTES = _FIELDS.size + _CHECK.size
# The file is read in parts. If it were mapped, truncation by another process would crash this one.
_PART_BYTES = 1 << 20
_MACHINES = {3: "x86", 40: "arm", 62: "x86_64", 183: "aarch64", 243: "riscv64"}


@dataclass(frozen=True)
class Trailer:
    """The last bytes of the file."""

    abi: int
    library_crc: int
    library_bytes: int
    manifest_bytes: int

    def pack(self, manifest: bytes) -> bytes:
        """Return the bytes of the trailer after ``manifest``."""
        fields = _FIELDS.pack(
            MAGIC, self.abi, self.library_crc, self.library_bytes, self.manifest_bytes
        )
        return fields + _CHECK.pack(zlib.crc32(fields, zlib.crc32(manifest)))


def append_manifest(library: Path, manifest: Mapping[str, object], abi: int) -> None:
    """Append manifest and trailer to a linked library."""
    text = json.dumps(manifest).encode()
    with library.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        crc = _checksum(file, size)
        file.seek(size)
        file.write(text + Trailer(abi, crc, size, len(text)).pack(text))


def check_place(path: Path) -> Path:
    """Return the resolved path of a program to save.

    Raises:
        ArtifactError: the folder is missing or not writable, or ``path`` is not a regular file.
    """
    try:
        target = path.resolve()
        if not target.parent.is_dir():
            raise ArtifactError(f"{path}: there is no folder {target.parent}")
        if target.exists() and not target.is_file():
            raise ArtifactError(f"{path}: expected the name of a file, found a folder or a device")
    except OSError as error:  # the name is too long
        raise ArtifactError(f"{path}: cannot be written: {error.strerror or error}") from None
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise ArtifactError(f"{path}: the folder {target.parent} cannot be written to")
    return target


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside ``path``, which replaces ``path`` atomically at the end.

    A process that loaded the old file keeps it mapped; its pages are never overwritten.

    Raises:
        ArtifactError: the folder is missing or not writable, or ``path`` is not a regular file.
    """
    target = check_place(path)
    try:
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as folder:
            new = Path(folder) / "program.so"
            yield new
            os.replace(new, target)
    except OSError as error:
        raise ArtifactError(f"{path}: cannot be written: {error.strerror or error}") from None


def read_description(path: Path, file: IO[bytes]) -> tuple[dict[str, object], Trailer]:
    """Return the manifest and the trailer, both checked; the library is not read.

    Raises:
        ArtifactError: the file is not a saved program, or is incomplete, or its manifest is
            damaged.
    """
    size = file.seek(0, os.SEEK_END)
    trailer = _trailer(path, file, size)
    file.seek(trailer.library_bytes)
    text = file.read(trailer.manifest_bytes)
    file.seek(size - TRAILER_BYTES)
    if file.read() != trailer.pack(text):
        raise ArtifactError(
            f"{path}: damaged: the program's description does not have the checksum that was "
            "saved with it; save or copy it again"
        )
    try:
        manifest = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ArtifactError(f"{path}: the program's description is not JSON: {error}") from None
    if not isinstance(manifest, dict):
        found = type(manifest).__name__
        raise ArtifactError(
            f"{path}: expected the program's description as an object, found {found}"
        )
    return manifest, trailer


def check_library(path: Path, file: IO[bytes], trailer: Trailer) -> None:
    """Read the whole library and compare checksums.

    Raises:
        ArtifactError: the library is damaged.
    """
    found = _checksum(file, trailer.library_bytes)
    if found != trailer.library_crc:
        raise ArtifactError(
            f"{path}: damaged: expected checksum {trailer.library_crc:08x}, found {found:08x}; "
            "save or copy it again"
        )


def machine_name(file: IO[bytes]) -> str:
    """Return the processor family of a library, by the names of ``platform.machine``."""
    file.seek(0)
    head = file.read(20)
    if len(head) < 20 or head[:4] != b"\x7fELF":
        return "no ELF library"
    number = int.from_bytes(head[18:20], "little")
    return _MACHINES.get(number, f"machine {number}")


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """Open a file for reading.

    Raises:
        ArtifactError: the file is missing, not a regular file, or cannot be read.
    """
    try:
        if path.exists() and not path.is_file():  # opening a pipe would block
            raise ArtifactError(f"{path}: expected a saved program, found a folder or a device")
        file = path.open("rb")
    except FileNotFoundError:
        raise ArtifactError(f"{path}: no such file") from None
    except (OSError, ValueError) as error:  # ValueError: a name with a zero byte
        reason = getattr(error, "strerror", None) or error
        raise ArtifactError(f"{path}: cannot be read: {reason}") from None
    with file:
        try:
            yield file
        except OSError as error:
            if error.errno is None:  # raised by the context's body, not by the system
                raise
            raise ArtifactError(f"{path}: cannot be read: {error.strerror}") from None


def _trailer(path: Path, file: IO[bytes], size: int) -> Trailer:
    if size >= TRAILER_BYTES:
        file.seek(size - TRAILER_BYTES)
        magic, *fields = _FIELDS.unpack(file.read(_FIELDS.size))
        if magic == MAGIC:
            trailer = Trailer(*fields)
            expected = trailer.library_bytes + trailer.manifest_bytes + TRAILER_BYTES
            if expected == size:
                return trailer
            raise ArtifactError(
                f"{path}: damaged or truncated: expected {expected} bytes, found {size}; "
                "save or copy it again"
            )
    raise ArtifactError(
        f"{path}: not a program saved by tvm_disc, or truncated: its {size} bytes do not end "
        f"in the trailer of {TRAILER_BYTES} bytes; save or copy it again"
    )


def _checksum(file: IO[bytes], size: int) -> int:
    """Return the CRC-32 of the first ``size`` bytes."""
    file.seek(0)
    crc = 0
    read: Callable[[int], bytes] = file.read
    while size > 0 and (part := read(min(size, _PART_BYTES))):
        crc = zlib.crc32(part, crc)
        size -= len(part)
    return crc
