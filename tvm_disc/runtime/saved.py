"""Loading of saved programs from files and bytes.

The dynamic loader does not load a library whose name or inode equals that of a loaded one: it
returns the loaded library. Every file is therefore loaded under a new name. A file that was
overwritten in place since it was loaded is loaded from a copy, which has a new inode.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Any

import tvm_ffi
from tvm_ffi.libinfo import load_lib_ctypes

from tvm_disc.abi.artifact import check_library, machine_name, opened
from tvm_disc.abi.manifest import checked_manifest
from tvm_disc.errors import ArtifactError
from tvm_disc.support.locks import Lock

# checksum of the loaded content of each file, by device and inode
_LOADED: dict[tuple[int, int], int] = {}
_LOADING = Lock()


@dataclass(frozen=True)
class Saved:
    """A loaded library and its file."""

    path: Path
    crc: int
    manifest: Mapping[str, object]
    module: Any

    def read(self) -> bytes:
        """Return the bytes of the file.

        Raises:
            ArtifactError: the file was replaced since it was loaded.
        """
        with opened(self.path) as file:
            _, trailer = checked_manifest(self.path, file)
            if trailer.library_crc != self.crc:
                raise ArtifactError(
                    f"{self.path}: the file was replaced since this program was loaded; it "
                    "can no longer be pickled or copied"
                )
            file.seek(0)
            return file.read()


def load_saved(path: Path) -> Saved:
    """Check a saved program completely and load it.

    Raises:
        ArtifactError: the file is missing, not a saved program, damaged, or for a different version
            or processor.
    """
    with opened(path) as file, _LOADING:
        manifest, trailer = checked_manifest(path, file)
        check_library(path, file, trailer)
        machine = machine_name(file)
        if machine != platform.machine():
            raise ArtifactError(
                f"{path}: saved for {machine}, this machine is {platform.machine()}; build the "
                "model with this machine as target, and save it with a C compiler for that target"
            )
        status = os.fstat(file.fileno())
        key = (status.st_dev, status.st_ino)
        fresh = _LOADED.setdefault(key, trailer.library_crc) == trailer.library_crc
        return Saved(path.resolve(), trailer.library_crc, manifest, _module(path, file, fresh))


@cache
def _runtime() -> None:
    """Load TVM's runtime library, which some programs call, without importing the large Python
    package.
    """
    if "tvm" not in sys.modules:
        load_lib_ctypes("apache-tvm", "tvm_runtime", "RTLD_GLOBAL")


def _module(path: Path, file: IO[bytes], fresh: bool) -> object:
    """Load the library of an open file under a unique name."""
    try:
        _runtime()
        with tempfile.TemporaryDirectory(prefix="tvm_disc.") as folder:
            name = Path(folder) / "program.so"
            if fresh:
                # The path of the file may refer to a different file by now.
                name.symlink_to(f"/proc/{os.getpid()}/fd/{file.fileno()}")
            else:
                file.seek(0)
                with name.open("wb") as copy:
                    shutil.copyfileobj(file, copy, 1 << 20)
            return tvm_ffi.load_module(str(name))
    except (OSError, RuntimeError) as error:
        raise ArtifactError(f"{path}: cannot be loaded: {error}") from None


def load_bytes(data: bytes) -> Saved:
    """Load a program from the bytes of its file; the temporary file is removed with the program."""
    handle, name = tempfile.mkstemp(prefix="tvm_disc.", suffix=".so")
    with os.fdopen(handle, "wb") as file:
        file.write(data)
    saved = load_saved(Path(name))
    weakref.finalize(saved, _remove, name, os.getpid())
    return saved


def as_bytes(save: Callable[[Path], None]) -> bytes:
    """Return the bytes of the file that ``save`` writes."""
    with tempfile.TemporaryDirectory(prefix="tvm_disc.") as folder:
        path = Path(folder) / "program.so"
        save(path)
        return path.read_bytes()


def _remove(name: str, owner: int) -> None:
    if os.getpid() == owner:  # not in a forked child
        Path(name).unlink(missing_ok=True)
