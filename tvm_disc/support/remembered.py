"""Weak references to models and weights, which may be large."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Mapping


def remembered(value: object) -> Callable[[], object]:
    """Return a function that returns ``value``, or None if no other reference to the object exists.

    Text, paths and None are kept. For an object that does not support weak references, the function
    returns None. For a mapping, the function returns all values, or None if one of them is gone.
    """
    if value is None or isinstance(value, str | os.PathLike):
        return lambda: value
    if isinstance(value, Mapping):
        parts = {name: remembered(part) for name, part in value.items()}
        return lambda: _complete({name: part() for name, part in parts.items()})
    try:
        return weakref.ref(value)
    except TypeError:
        return lambda: None


def _complete(found: dict[object, object]) -> object:
    return None if any(part is None for part in found.values()) else found


__all__ = ["remembered"]
