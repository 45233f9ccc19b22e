"""Readable text of dims: `(h - 1) // 2 + 1`, not `(h - T.int64(1)) // T.int64(2)`."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from keyword import iskeyword

from tvm_disc.support.late import Late
from tvm_disc.typing import Expr

_plain_formula = Late("tvm_disc.support.notation:plain_formula")

# Reserved: printed formulas use these names for intermediate values.
_OF_STEPS = re.compile(r"_[a-z]\d*")
_CONSTANT = re.compile(r"T\.(?:int64|int32|bool)\((-?\w+)\)")


def show(e: object) -> str:
    """Return the text of a dim or condition."""
    if hasattr(e, "asobject"):
        e = e.asobject()
    return _CONSTANT.sub(r"\1", str(e)).replace("T.", "")


def plain(text: str) -> str:
    """Return the text of a dim or condition for a message, with ``a if c else b``."""
    return str(_plain_formula(text)) if "Select(" in text else text


def show_shape(shape: Sequence[Expr]) -> str:
    """Return the text of a shape."""
    return f"({', '.join(plain(show(d)) for d in shape)})"


def legible(name: str) -> str:
    """Return a name as a valid identifier for formulas, which are parsed as Python expressions."""
    found = re.sub(r"\W", "_", unicodedata.normalize("NFKC", name))
    if not found.isidentifier() or _OF_STEPS.fullmatch(found):
        found = f"d{found}"
    return f"{found}_" if iskeyword(found) else found
