"""Runs external tools: the linker, and the C compiler that drives it.

A tool may fail, hang, or report success although it wrote no file or only a part. Loading an
incomplete library would crash the process, so the file is checked before.
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
    """Run a command that writes the ELF file ``made``; return an error text, or None."""
    name = command[0]
    with tempfile.TemporaryFile() as said:  # a file, as the output may be large
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                start_new_session=True,  # so that its child processes can be killed with it
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
        return text or f"{name} exited with code {process.returncode} and printed nothing"
    if not is_whole(made):
        return f"{name} reported success, but did not write a complete file"
    return None


__all__ = ["make"]
