"""Readable text of dims: `(h - 1) // 2 + 1`, not `(h - T.int64(1)) // T.int64(2)`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tvm_disc.typing import Expr

_CONSTANT = re.compile(r"T\.(?:int64|int32|bool)\((-?\w+)\)")


def show(e: object) -> str:
    """Return the text of a dim or condition."""
    if hasattr(e, "asobject"):
        e = e.asobject()
    return _CONSTANT.sub(r"\1", str(e)).replace("T.", "")


def show_shape(shape: Sequence[Expr]) -> str:
    """Return the text of a shape."""
    return f"({', '.join(show(d) for d in shape)})"
