"""Layouts in which kernels read constants, written once, when the program is laid out."""

from __future__ import annotations

import math
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Joined:
    """A constant in several layouts of one element type, one behind the other."""

    parts: tuple[Packing, ...]

    def form(self, shape: tuple[int, ...], dtype: str) -> Form:
        """All elements in one row."""
        forms = [part.form(shape, dtype) for part in self.parts]
        return (sum(math.prod(kept) for kept, _ in forms),), forms[0][1]

    def write(self, array: Array, out: Array) -> None:
        """Pack ``array`` into ``out``, which holds zeros."""
        begin = 0
        for part in self.parts:
            shape, _ = part.form(array.shape, array.dtype.name)
            end = begin + math.prod(shape)
            part.write(array, out[begin:end].reshape(shape))
            begin = end


def pack_constant(packing: Packing, array: Array) -> Array:
    """An array in another layout."""
    shape, dtype = packing.form(array.shape, array.dtype.name)
    out = np.zeros(shape, dtype)
    packing.write(array, out)
    return out


__all__ = ["Array", "Form", "Joined", "Packing", "pack_constant"]
