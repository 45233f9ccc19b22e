"""LLVM in a process beside this one.

TVM sets options of LLVM's for the whole process, so that one process compiles in one thread. A
module travels as JSON of lowered TIR, and its object, the same as this process would make, comes
back. The process is started with pipes alone, not as a fork; it has a session of its own, so that an
interrupt reaches only us, who end it.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import tvm
import tvm.base
import tvm_ffi

from tvm_disc.codegen import llvm_process
from tvm_disc.codegen.llvm_process import MADE, read, write


class Helper:
    """A process that compiles for one target.

    Raises:
        OSError: no process can be started.
    """

    def __init__(self, target: Any) -> None:
        libraries = [library._name for library in tvm.base._LOADED_LIBS.values()]
        ffi = Path(tvm_ffi.__file__).parents[1]
        self._folder = tempfile.TemporaryDirectory(prefix="tvm_disc.")
        command = [sys.executable, llvm_process.__file__, self._folder.name, str(ffi), *libraries]
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except BaseException:
            self._folder.cleanup()
            raise
        self._target: bytes | None = tvm.ir.save_json(target).encode()

    def object_of(self, lowered: Any) -> bytes | None:
        """The object of a module; None if the process has not made one, and never will again."""
        source, sink = self._process.stdin, self._process.stdout
        assert source is not None and sink is not None
        told = tvm.ir.save_json(lowered).encode()
        try:
            if self._target is not None:
                write(source, self._target)
                self._target = None
            write(source, told)
            made = sink.read(1) == MADE
            found = read(sink)
        except (OSError, ValueError):  # it is gone, or was closed
            return None
        return found if made else None

    def close(self) -> None:
        """End the process, whatever it is at."""
        with contextlib.suppress(OSError):
            self._process.kill()
        self._process.wait()
        for file in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):
                assert file is not None
                file.close()
        self._folder.cleanup()


__all__ = ["Helper"]
