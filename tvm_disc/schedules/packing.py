"""Layouts in which kernels read constants; constants are packed once per program."""

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
        """Return the shape and element type of the packed array."""

    def write(self, array: Array, out: Array) -> None:
        """Pack ``array`` into ``out``, which has the packed form and is zero-initialized."""


@dataclass(frozen=True)
class Joined:
    """A constant in several consecutive layouts of one element type."""

    parts: tuple[Packing, ...]

    def form(self, shape: tuple[int, ...], dtype: str) -> Form:
        """Return the form of one flat array that holds all layouts."""
        forms = [part.form(shape, dtype) for part in self.parts]
        return (sum(math.prod(kept) for kept, _ in forms),), forms[0][1]

    def write(self, array: Array, out: Array) -> None:
        """Pack ``array`` into ``out``, which is zero-initialized."""
        begin = 0
        for part in self.parts:
            shape, _ = part.form(array.shape, array.dtype.name)
            end = begin + math.prod(shape)
            part.write(array, out[begin:end].reshape(shape))
            begin = end


def pack_constant(packing: Packing, array: Array) -> Array:
    """Return the array in the packed layout."""
    shape, dtype = packing.form(array.shape, array.dtype.name)
    out = np.zeros(shape, dtype)
    packing.write(array, out)
    return out


__all__ = ["Array", "Form", "Joined", "Packing", "pack_constant"]
