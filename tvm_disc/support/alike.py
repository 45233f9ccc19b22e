"""Map whose keys are compared by the structure of an expression.

Equal expressions of a program are usually different objects, and TVM compares objects by identity.
"""

from __future__ import annotations

from typing import Generic, TypeVar

import tvm_ffi

T = TypeVar("T")


class ByStructure(Generic[T]):
    """Map from expressions or functions to values; structurally equal keys have the same value.

    Args:
        map_free_vars: whether two free variables are equal if they occur at the same positions.

    Attributes:
        values: all values, in the order of ``add``.
    """

    def __init__(self, map_free_vars: bool = False) -> None:
        self._map_free_vars = map_free_vars
        self._entries: dict[int, list[tuple[object, T]]] = {}
        self.values: list[T] = []

    def get(self, key: object) -> T | None:
        """Return the value of a structurally equal key, or None."""
        if not self._entries:
            return None
        same = self._entries.get(self._hash(key), ())
        return next((value for other, value in same if self._equal(other, key)), None)

    def add(self, key: object, value: T) -> None:
        """Set the value of a key; the map must not contain an equal key."""
        self._entries.setdefault(self._hash(key), []).append((key, value))
        self.values.append(value)

    def _hash(self, key: object) -> int:
        return int(tvm_ffi.structural_hash(key, map_free_vars=self._map_free_vars))

    def _equal(self, one: object, other: object) -> bool:
        return bool(tvm_ffi.structural_equal(one, other, map_free_vars=self._map_free_vars))


__all__ = ["ByStructure"]
