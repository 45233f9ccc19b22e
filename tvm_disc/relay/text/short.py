"""Bounded ``repr`` of program nodes: the nodes near the root only.

Programs are deep and share subexpressions, so a full tree would be unbounded. ``str`` prints the
whole program in the text format.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from tvm_disc.errors import shown

LEVELS = 3  # maximum depth of nested nodes that are printed
MOST = 6  # maximum number of printed parts of one node
FEW = 8  # elements of the largest array printed in full


def brief(node: object, levels: int = LEVELS) -> str:
    """Return ``Call(op=Op(name='add'), args=(Var(name_hint='x'), ...))``, nested ``levels``
    deep.
    """
    if isinstance(node, np.ndarray):
        return _array(node)
    if isinstance(node, tuple | list):
        end = ",)" if len(node) == 1 else ")"
        return f"({_joined((_part(part, levels) for part in node[:MOST]), len(node))}{end}"
    if isinstance(node, dict):
        items = [f"{shown(k)}: {_part(v, levels)}" for k, v in list(node.items())[:MOST]]
        return "{" + _joined(items, len(node)) + "}"
    if not is_dataclass(node) or _has_own(node):
        return shown(node)
    name = type(node).__name__
    if levels == 0:
        return f"{name}(...)"
    told = [(f.name, getattr(node, f.name)) for f in fields(node) if f.repr]
    parts = [f"{k}={brief(v, levels - 1)}" for k, v in told if not _is_nothing(v)]
    return f"{name}({', '.join(parts)})"


def _part(part: object, levels: int) -> str:
    """Return the text of a part; nested containers use ``shown``, since a list may contain
    itself.
    """
    return shown(part) if isinstance(part, tuple | list | dict) else brief(part, levels)


def _joined(parts: Iterable[str], count: int) -> str:
    return ", ".join([*parts, "..."] if count > MOST else parts)


def _array(array: np.ndarray[Any, Any]) -> str:
    if array.size <= FEW:
        return f"array({array.tolist()}, {array.dtype})"
    return f"array of {array.dtype}[{', '.join(map(str, array.shape))}]"


def _has_own(node: object) -> bool:
    """Return whether the class defines ``__repr__``; dataclasses generate a wrapped function."""
    method: object = type(node).__repr__
    return method is not bounded and not hasattr(method, "__wrapped__")


def _is_nothing(value: object) -> bool:
    return value is None or (isinstance(value, tuple | dict) and not value)


def bounded(self: object) -> str:
    """Return the ``__repr__`` of a node."""
    return brief(self)


__all__ = ["bounded", "brief"]
