"""Constants of a program: where each comes from, and how kernels read it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from tvm_disc.schedules.packing import Array, Form, Packing


@dataclass(frozen=True, eq=False)
class Constant:
    """An array that kernels read, as it is or packed; it is written once, into the section."""

    array: Array
    packing: Packing | None = None

    @cached_property
    def form(self) -> Form:
        """Shape and element type in the section."""
        shape, dtype = self.array.shape, self.array.dtype.name
        return (shape, dtype) if self.packing is None else self.packing.form(shape, dtype)

    @property
    def nbytes(self) -> int:
        """Bytes in the section."""
        shape, dtype = self.form
        return prod(shape) * np.dtype(dtype).itemsize if self.packing else self.array.nbytes

    def write(self, section: Array) -> None:
        """Fill this constant's bytes of the section, which are zeros."""
        if self.packing is None:
            section[:] = bytes_of(self.array)
        else:
            shape, dtype = self.form
            self.packing.write(self.array, section.view(dtype).reshape(shape))


def bytes_of(array: Array) -> Array:
    """The bytes of an array in row-major order."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


__all__ = ["Constant", "bytes_of"]
