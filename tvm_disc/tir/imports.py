"""Registry of LLVM functions that TIR calls by name.

The text of each function that a module calls is added to the module. Names begin with ``disc.``.
LLVM inlines the functions and emits no symbols for them, so that objects compiled separately do not
conflict.
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
    """Register the LLVM functions that ``text`` defines; return the text.

    The functions must be valid for any target.
    """
    for name in _DEFINED.findall(text):
        _TEXTS[name] = text
    return text


def called_in(functions: Iterable[tvm.tirx.PrimFunc]) -> list[str]:
    """Return the names, beginning with ``disc.``, of the functions that TIR calls."""
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
