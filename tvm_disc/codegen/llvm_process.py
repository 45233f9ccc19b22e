"""Main program of the process that ``codegen.llvm_helper`` starts: reads modules, writes objects.

The process needs TVM's libraries, ``tvm_ffi`` and this package, but not the Python package ``tvm``,
and therefore starts within a few tenths of a second. It ends when its input is closed, which also
happens if its parent dies.

    llvm_process.py TEMPORARY FFI LIBRARY ...
    in    the target, then modules: the length in 8 bytes, and JSON
    out   for each module a byte, the length in 8 bytes, and the object; or the text of an error
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import sys
import tempfile
import threading
from typing import IO, Any

from tvm_disc.typing import RuntimeModule

STACK_BYTES = 64 << 20  # LLVM's recursion needs more than the default thread stack of some systems
# Free disk space required on systems without memfd; larger than any object.
LEAST_FREE_BYTES = 256 << 20
MADE, FAILED = b"+", b"-"
_SIZE_BYTES = 8


def write(file: IO[bytes], data: bytes) -> None:
    """Write a message: its length and its bytes."""
    file.write(len(data).to_bytes(_SIZE_BYTES, "little") + data)
    file.flush()


def read(file: IO[bytes]) -> bytes | None:
    """Return the next message; None at the end of the file or for an incomplete message."""
    head = file.read(_SIZE_BYTES)
    size = int.from_bytes(head, "little")
    data = file.read(size) if len(head) == _SIZE_BYTES else b""
    return data if len(head) == _SIZE_BYTES and len(data) == size else None


def object_file(module: RuntimeModule, folder: str | None = None) -> bytes:
    """Return the object file of an LLVM module.

    LLVM calls ``abort`` if a write fails. Therefore LLVM writes to a file in memory, which needs no
    disk space. The caller writes the returned bytes to disk, where a failure is an ``OSError``.

    Args:
        folder: folder of the file on a system without files in memory; by default that of
            ``tempfile``.

    Raises:
        OSError: the system has no files in memory, and the disk has little space left.
    """
    file = _memory_file()
    if file is not None:
        with file:
            module.write_to_file(f"/proc/self/fd/{file.fileno()}", "o")
            return file.read()
    with tempfile.TemporaryDirectory(prefix="tvm_disc.", dir=folder) as inside:
        if shutil.disk_usage(inside).free < LEAST_FREE_BYTES:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), inside)
        path = os.path.join(inside, "unit.o")
        module.write_to_file(path, "o")
        with open(path, "rb") as written:
            return written.read()


def _memory_file() -> IO[bytes] | None:
    """Return a new file in memory that has a path; None if the system does not support this."""
    try:
        file = os.fdopen(os.memfd_create("unit.o"), "rb")
    except (AttributeError, OSError):
        return None
    if os.access(f"/proc/self/fd/{file.fileno()}", os.W_OK):
        return file
    file.close()
    return None


def _lift_file_limit() -> None:
    """Raise the limit on file sizes to the hard limit: objects are written to memory files only."""
    import resource

    most = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _serve(sink: IO[bytes], folder: str) -> None:
    import tvm_ffi
    from tvm_ffi.serialization import from_json_graph_str

    source = sys.stdin.buffer
    compiled: Any = tvm_ffi.get_global_func("target.build.llvm")
    target = from_json_graph_str((read(source) or b"").decode())
    while (told := read(source)) is not None:
        try:
            made = object_file(compiled(from_json_graph_str(told.decode()), target), folder)
        except Exception as error:  # the parent compiles the module itself and raises the error
            sink.write(FAILED)
            write(sink, str(error).encode())
        else:
            sink.write(MADE)
            write(sink, made)


def _main(temporary: str, ffi: str, runtime: str, *libraries: str) -> None:
    sys.path[0] = ffi  # replaces the folder of this file
    sink = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # LLVM may print to standard output, which the protocol uses
    _lift_file_limit()
    os.environ["TVM_FFI_DISABLE_TORCH_C_DLPACK"] = "1"  # the adapter would import PyTorch
    import tvm_ffi  # noqa: F401

    ctypes.CDLL(runtime, ctypes.RTLD_GLOBAL)
    for library in libraries:
        ctypes.CDLL(library)
    threading.stack_size(STACK_BYTES)
    serving = threading.Thread(target=_serve, args=(sink, temporary))
    serving.start()
    serving.join()


if __name__ == "__main__":
    _main(*sys.argv[1:])
