"""Constants of a program and their layout."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from tvm_disc.support.late import Late

if TYPE_CHECKING:
    from tvm_disc.schedules.packing import Array, Form, Packing

_release_pages = Late("tvm_disc.support.spilled:release_pages")


@dataclass(eq=False)
class ProgramConstant:
    """An array that kernels read, unchanged or packed; it is written into the section once.

    The array is released after it was written, so that a build does not hold all weights and their
    packed copies at the same time.
    """

    array: Array
    packing: Packing | None = None
    written: bool = False

    @cached_property
    def form(self) -> Form:
        """The shape and dtype in the section."""
        shape, dtype = self.array.shape, self.array.dtype.name
        return (shape, dtype) if self.packing is None else self.packing.form(shape, dtype)

    @property
    def nbytes(self) -> int:
        """The number of bytes in the section."""
        shape, dtype = self.form
        return prod(shape) * np.dtype(dtype).itemsize if self.packing else self.array.nbytes

    def write(self, section: Array) -> None:
        """Write this constant into its zero-initialized part of the section, and release it."""
        assert not self.written, "a constant is written once"
        if self.packing is None:
            section[:] = bytes_of(self.array)
        else:
            shape, dtype = self.form
            self.packing.write(self.array, section.view(dtype).reshape(shape))
        self.release()

    def release(self) -> None:
        """Drop the elements; shape and dtype are kept."""
        self.array = np.broadcast_to(np.zeros((), self.array.dtype), self.array.shape)
        self.written = True
        _release_pages()


def bytes_of(array: Array) -> Array:
    """Return the bytes of an array in row-major order."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


__all__ = ["ProgramConstant", "bytes_of"]
