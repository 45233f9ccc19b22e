"""Modules in text or JSON files; every error starts with the file's name."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from tvm_disc.errors import BadInput, ParseError
from tvm_disc.relay.text.parser import parse
from tvm_disc.support.late import Late

from .expr import Expr
from .module import IRModule

_load_json = Late("tvm_disc.relay.json.reader:load_json")
_load_param_dict = Late("tvm_disc.relay.ndarray:load_param_dict")

SUFFIXES = (".relay", ".txt", ".json")


def is_file_name(source: object) -> bool:
    """Return whether ``source`` is a path, or a string that can only be a path."""
    if isinstance(source, str):
        return "\n" not in source and source.endswith(SUFFIXES)
    return isinstance(source, os.PathLike)


def load_file(path: str | os.PathLike[str]) -> IRModule:
    """Return the module in a file of Relay text, or of JSON if the name ends in ``.json``.

    Raises:
        BadInput: the file cannot be read, or is not text.
        ParseError: with line and column in the file.
    """
    path = Path(path)
    with located(path):
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise BadInput(f"{path}: expected Relay text or JSON, found a binary file") from None
        except (OSError, ValueError) as error:
            raise unreadable(path, error) from None
        return as_module(_load_json(text)) if path.suffix == ".json" else parse(text)


def load_params(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """Return the arrays of a parameter file by name.

    Raises:
        BadInput: the file cannot be read.
        ParseError: it is not a parameter file, or it is damaged.
    """
    path = Path(path)
    try:
        data = path.read_bytes()
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from None
    with located(path):
        found: dict[str, np.ndarray] = _load_param_dict(data)
        return found


def unreadable(path: Path, error: OSError | ValueError) -> BadInput:
    """Return the error for a file that cannot be read; ValueError means a zero byte in its name."""
    why = (error.strerror if isinstance(error, OSError) else None) or error
    return BadInput(f"{path}: {why}")


def as_module(loaded: object) -> IRModule:
    """Return a module for an object read from JSON.

    A module is returned unchanged, a function becomes ``main``, and another expression becomes the
    body of ``main``.

    Raises:
        ParseError: the JSON holds a Relay object of the wrong kind.
    """
    if isinstance(loaded, Expr):
        return IRModule.from_expr(loaded)
    if not isinstance(loaded, IRModule):
        found = getattr(loaded, "type_key", type(loaded).__name__)
        text = f"expected a module or an expression, found {found}"
        raise ParseError(f"the root of the graph: {text}")
    return loaded


@contextmanager
def located(path: Path) -> Iterator[None]:
    """Add the file's name to parse errors raised inside."""
    try:
        yield
    except ParseError as error:
        raise ParseError(error.message, error.line, error.column, str(path)) from error
