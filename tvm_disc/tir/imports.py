"""LLVM code that TIR calls by name: who needs such functions gives their text once, here, and a
module gets the texts whose functions it calls.

Their names begin with ``disc.``. LLVM inlines them and emits none, so that every object that is
compiled apart has its own.
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
    """Make the functions of a text known by their names, for any target; gives the text."""
    for name in _DEFINED.findall(text):
        _TEXTS[name] = text
    return text


def called_in(functions: Iterable[tvm.tirx.PrimFunc]) -> list[str]:
    """The functions of imported code that TIR calls."""
    found: dict[str, None] = {}

    def look(call: tvm.ir.Call) -> None:
        name = getattr(call.args[0], "value", None) if call.args else None
        if isinstance(name, str) and name.startswith(PREFIX):
            found[name] = None

    for function in functions:
        tvm_ffi.structural_walk(function.body, (tvm.ir.Call, look))
    return list(found)


def provided(names: Iterable[str]) -> list[str]:
    """The texts that define such functions, each once; a name that nobody gave has none here."""
    return list(dict.fromkeys(_TEXTS[name] for name in names if name in _TEXTS))


__all__ = ["PREFIX", "called_in", "provide", "provided"]
