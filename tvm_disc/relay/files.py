"""Modules in files: text or JSON, with the file's name in front of every error."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tvm_disc.errors import BadInput, ParseError

from .json_reader import load_json
from .module import IRModule
from .parser import parse

SUFFIXES = (".relay", ".txt", ".json")


def is_file_name(source: object) -> bool:
    """Whether this is a path, or text that can only be one."""
    if isinstance(source, str):
        return "\n" not in source and source.endswith(SUFFIXES)
    return isinstance(source, os.PathLike)


def load_file(path: str | os.PathLike[str]) -> IRModule:
    """The module of a file in Relay's text form, or in JSON if its name ends so.

    Raises:
        OSError: it cannot be opened.
        BadInput: it is not text.
        ParseError: at a line and column of the file.
    """
    path = Path(path)
    with located(path):
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise BadInput(f"{path}: expected Relay text or JSON, found a binary file") from None
        return load_json(text) if path.suffix == ".json" else parse(text)


@contextmanager
def located(path: Path) -> Iterator[None]:
    """Errors of parsing with the file's name in front of the position."""
    try:
        yield
    except ParseError as error:
        separator = ":" if error.line else ": "
        raise ParseError(f"{path}{separator}{error}") from error
