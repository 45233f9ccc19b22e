"""Arrays of NumPy as literals of TVM, and back, without a copy: every pass reads the weights."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import relax

ALIGNMENT = 64  # bytes; machine code that TVM makes loads from tensors as if they were
_SMALL = 1 << 12  # bytes that are copied sooner than shared


def as_literal(array: np.ndarray, dtype: str) -> Any:
    """A literal tensor, over the memory of an array that lies as TVM wants it, else over a copy.

    An array that is shared is not to be written from now on.
    """
    kept = array.nbytes > _SMALL and array.dtype.name == dtype and array.dtype.kind in "biuf"
    if not kept or not array.flags.c_contiguous or array.ctypes.data % ALIGNMENT:
        return relax.const(array, dtype)
    return relax.const(tvm_ffi.from_dlpack(np.asarray(_Writable(array))))


def literal_value(expr: Any) -> np.ndarray[Any, Any]:
    """The elements of a literal, not copied. Do not write."""
    try:
        return np.from_dlpack(expr.value)
    except RuntimeError:  # a type that NumPy itself does not have
        return np.asarray(expr.value.numpy())


def aligned(array: np.ndarray) -> np.ndarray:
    """A copy, in row-major order, that literals can share."""
    made = room_for(array.shape, array.dtype)
    made[...] = array
    return made


def room_for(shape: Sequence[int], dtype: np.dtype[Any]) -> np.ndarray:
    """An array whose elements are yet to be written, and that literals can share."""
    memory = np.from_dlpack(tvm.runtime.empty((prod(shape) * dtype.itemsize,), "uint8"))
    return memory.view(dtype).reshape(shape)


class Literals:
    """The literals of a module, each made once for all walks over it."""

    def __init__(self) -> None:
        # With what they were made of, so that no other array takes its place.
        self._made: dict[int, tuple[np.ndarray, Any]] = {}
        self._turned: dict[tuple[int, tuple[int, ...]], tuple[np.ndarray, np.ndarray]] = {}

    def __call__(self, array: np.ndarray) -> Any:
        """The literal of an array."""
        if id(array) not in self._made:
            self._made[id(array)] = array, as_literal(array, str(array.dtype))
        return self._made[id(array)][1]

    def turned(self, array: np.ndarray, order: tuple[int, ...]) -> np.ndarray:
        """``array`` with its axes in ``order``."""
        key = id(array), order
        if key not in self._turned:
            self._turned[key] = array, aligned(array.transpose(order))
        return self._turned[key][1]


class _Writable:
    """An array that says it may be written: DLPack cannot say of memory that it may not."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        told = array.__array_interface__
        self.__array_interface__ = {**told, "data": (told["data"][0], False)}


__all__ = ["ALIGNMENT", "Literals", "aligned", "as_literal", "literal_value"]
