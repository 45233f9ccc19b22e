"""A helper process that runs LLVM.

TVM sets LLVM's options per process, so a process can compile in one thread only. This process sends
a module as JSON of lowered TIR; the helper returns the object, which is equal to the one that this
process would compile. The helper is spawned, not forked. It runs in a separate session: an
interrupt from the terminal reaches only this process, which then ends the helper.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
from pathlib import Path

import tvm
import tvm.base
import tvm_ffi

from tvm_disc.codegen import llvm_process
from tvm_disc.codegen.llvm_process import MADE, read, write
from tvm_disc.typing import Target


class Helper:
    """A process that compiles for one target.

    Raises:
        OSError: no process can be started.
    """

    def __init__(self, target: Target) -> None:
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

    def object_of(self, lowered: object) -> bytes | None:
        """Return the object of a module; None if LLVM rejected the module or the process failed."""
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
        # the helper has ended, or its answer is not valid
        except (OSError, ValueError, OverflowError, MemoryError):
            return None
        return found if made else None

    def close(self) -> None:
        """Kill the process."""
        with contextlib.suppress(OSError):
            self._process.kill()
        self._process.wait()
        for file in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):
                assert file is not None
                file.close()
        self._folder.cleanup()


__all__ = ["Helper"]
