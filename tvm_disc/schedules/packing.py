"""Layouts in which kernels read constants, written once, when the program is laid out."""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, Any]
Form: TypeAlias = tuple[tuple[int, ...], str]


class Packing(Protocol):
    """A layout of a constant; equal packings write equal bytes, so constants can share them."""

    def form(self, shape: tuple[int, ...], dtype: str) -> Form:
        """The shape and element type of a packed array."""

    def write(self, array: Array, out: Array) -> None:
        """Pack ``array`` into ``out``, which has the packed form and holds zeros."""


def pack_constant(packing: Packing, array: Array) -> Array:
    """An array in another layout."""
    shape, dtype = packing.form(array.shape, array.dtype.name)
    out = np.zeros(shape, dtype)
    packing.write(array, out)
    return out


__all__ = ["Array", "Form", "Packing", "pack_constant"]
