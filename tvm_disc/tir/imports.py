"""Registry of LLVM functions that TIR calls by name; a module gets the texts that it calls.

Names begin with ``disc.``. LLVM inlines the functions and emits none, so that each separately
compiled object contains its own copy.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import tvm
import tvm_ffi

PREFIX = "disc."
_DEFINED = re.compile(r"^define [^@\n]*@(disc\.[\w.]+)\(", re.MULTILINE)
_TEXTS: dict[str, str] = {}


def provide(text: str) -> str:
    """Register the functions that a text defines, for any target; return the text."""
    for name in _DEFINED.findall(text):
        _TEXTS[name] = text
    return text


def called_in(functions: Iterable[tvm.tirx.PrimFunc]) -> list[str]:
    """Return the names of registered-style functions that TIR calls."""
    found: dict[str, None] = {}

    def look(call: tvm.ir.Call) -> None:
        name = getattr(call.args[0], "value", None) if call.args else None
        if isinstance(name, str) and name.startswith(PREFIX):
            found[name] = None

    for function in functions:
        tvm_ffi.structural_walk(function.body, (tvm.ir.Call, look))
    return list(found)


def provided(names: Iterable[str]) -> list[str]:
    """Return the texts that define these functions, each once; unregistered names are ignored."""
    return list(dict.fromkeys(_TEXTS[name] for name in names if name in _TEXTS))


__all__ = ["PREFIX", "called_in", "provide", "provided"]
