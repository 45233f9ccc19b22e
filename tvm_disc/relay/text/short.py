"""``repr`` of the nodes of a program: what lies near the top, and no more.

A program shares its parts and is deep, so that the whole of it written as a tree has no bound;
``str`` gives all of it, as text.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from tvm_disc.errors import shown

LEVELS = 3  # of nodes inside of nodes
MOST = 6  # parts of one node
FEW = 8  # elements of an array that are shown


def brief(node: object, levels: int = LEVELS) -> str:
    """``Call(op=Op(name='add'), args=(Var(name_hint='x'), ...))``, with ``levels`` of parts."""
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
    """A list inside of a list may contain that one."""
    return shown(part) if isinstance(part, tuple | list | dict) else brief(part, levels)


def _joined(parts: Iterable[str], count: int) -> str:
    return ", ".join([*parts, "..."] if count > MOST else parts)


def _array(array: np.ndarray[Any, Any]) -> str:
    if array.size <= FEW:
        return f"array({array.tolist()}, {array.dtype})"
    return f"array of {array.dtype}[{', '.join(map(str, array.shape))}]"


def _has_own(node: object) -> bool:
    """Whether a class says by itself how it is shown; what dataclasses write is wrapped."""
    method: Any = type(node).__repr__
    return method is not bounded and not hasattr(method, "__wrapped__")


def _is_nothing(value: Any) -> bool:
    return value is None or (isinstance(value, tuple | dict) and not value)


def bounded(self: object) -> str:
    """The ``__repr__`` of a node."""
    return brief(self)


__all__ = ["bounded", "brief"]
