"""Saved programs, as :class:`Executable`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tvm_disc.errors import WrongProcessor
from tvm_disc.options import file_path
from tvm_disc.runtime.code import Code
from tvm_disc.runtime.executable import Executable
from tvm_disc.runtime.saved import Saved, load_bytes, load_saved


def load(path: str | Path, level: str | None = None) -> Executable:
    """Load a saved program.

    Args:
        level: for a program with several targets, the one to run, such as ``x86-64-v2``; by default
            the best that this processor supports.

    Raises:
        ArtifactError: the file is missing, not a saved program, damaged, or of a different version.
        WrongProcessor: the program or that level was compiled for a different processor.
        BadOption: it has no such level.
    """
    return _of_file(load_saved(file_path("load", path)), level)


def restored(
    data: bytes, timings: Mapping[str, float] | None = None, level: str | None = None
) -> Executable:
    """Return a program from the bytes of its library.

    Raises:
        ArtifactError, WrongProcessor, BadOption: as :func:`load`.
    """
    return _of_file(load_bytes(data), level, timings)


def _of_file(
    saved: Saved, level: str | None, timings: Mapping[str, float] | None = None
) -> Executable:
    code = Code([saved.module], saved.manifest, level, saved=True)
    try:
        code.check()
    except WrongProcessor as error:
        raise WrongProcessor(f"{saved.path}: {error}") from None
    exe = Executable(code, timings=timings or {})
    exe._saved = saved
    return exe


__all__ = ["load", "restored"]
