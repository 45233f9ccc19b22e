"""Other programs that make code of ours: the linker and the compiler that drives it.

They are not ours: one may fail, never end, or say that all is well and have written nothing, or
half a file. A library with holes crashes the process that loads it, so that it is looked at first.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tvm_disc.codegen.elf import is_whole

MOST_SECONDS = 120.0
_MOST_TEXT = 4000


def make(command: Sequence[str], made: Path) -> str | None:
    """Run a command that writes the ELF file ``made``; what went wrong, or None."""
    name = command[0]
    with tempfile.TemporaryFile() as said:  # in no memory of ours, however much it is
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                start_new_session=True,  # to end the programs that it has started with it
            )
        except OSError as error:
            return f"{name} could not be run: {error.strerror or error}"
        try:
            process.wait(MOST_SECONDS)
        except BaseException as error:
            with contextlib.suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            return f"{name} did not end within {MOST_SECONDS:g} s"
        said.seek(0)
        told = said.read(_MOST_TEXT)
    if process.returncode:
        text = told.decode(errors="replace").strip()
        return text or f"{name} ended with {process.returncode} and said nothing"
    if not is_whole(made):
        return f"{name} said that all was well, and wrote no whole file"
    return None


__all__ = ["make"]
