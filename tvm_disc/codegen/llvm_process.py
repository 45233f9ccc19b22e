"""The program of the process that ``codegen.llvm_helper`` starts: modules in, objects out.

It needs TVM's libraries and ``tvm_ffi``, not the Python package ``tvm``, and so begins within a few
tenths of a second. It ends when its input does, which is when whoever started it is gone.

    llvm_process.py TEMPORARY FFI LIBRARY ...
    in    the target, then modules: the length in 8 bytes, and JSON
    out   for each module a byte, the length in 8 bytes, and the object; or the text of an error
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from typing import IO, Any

STACK_BYTES = 64 << 20  # LLVM recurses deeper than the stack that some systems give a thread
MADE, FAILED = b"+", b"-"
_SIZE_BYTES = 8


def write(file: IO[bytes], data: bytes) -> None:
    """Send a message."""
    file.write(len(data).to_bytes(_SIZE_BYTES, "little") + data)
    file.flush()


def read(file: IO[bytes]) -> bytes | None:
    """The next message; None where there is none that is whole."""
    head = file.read(_SIZE_BYTES)
    size = int.from_bytes(head, "little")
    data = file.read(size) if len(head) == _SIZE_BYTES else b""
    return data if len(head) == _SIZE_BYTES and len(data) == size else None


def _object(module: Any, path: str) -> bytes:
    module.write_to_file(path, "o")
    with open(path, "rb") as file:
        return file.read()


def _serve(sink: IO[bytes], path: str) -> None:
    import tvm_ffi
    from tvm_ffi.serialization import from_json_graph_str

    source = sys.stdin.buffer
    compiled: Any = tvm_ffi.get_global_func("target.build.llvm")
    target = from_json_graph_str((read(source) or b"").decode())
    while (told := read(source)) is not None:
        try:
            made = _object(compiled(from_json_graph_str(told.decode()), target), path)
        except Exception as error:  # whoever asked makes it again, and raises it
            sink.write(FAILED)
            write(sink, str(error).encode())
        else:
            sink.write(MADE)
            write(sink, made)


def _main(temporary: str, ffi: str, runtime: str, *libraries: str) -> None:
    sys.path[0] = ffi  # instead of this folder
    sink = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what LLVM says is no answer
    os.environ["TVM_FFI_DISABLE_TORCH_C_DLPACK"] = "1"  # which would import PyTorch
    import tvm_ffi  # noqa: F401

    ctypes.CDLL(runtime, ctypes.RTLD_GLOBAL)
    for library in libraries:
        ctypes.CDLL(library)
    threading.stack_size(STACK_BYTES)
    serving = threading.Thread(target=_serve, args=(sink, os.path.join(temporary, "unit.o")))
    serving.start()
    serving.join()


if __name__ == "__main__":
    _main(*sys.argv[1:])
