"""Conversion between NumPy arrays and TVM literals. Large arrays are not copied if their memory can
be shared, because every pass reads the weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import relax

from tvm_disc.support.limits import FoldBudget
from tvm_disc.typing import Expr

ALIGNMENT = 64  # bytes; code from TVM assumes this alignment of tensors
_SMALL = 1 << 12  # bytes up to which a copy takes less time than sharing


def as_literal(array: np.ndarray, dtype: str) -> Expr:
    """Return a literal that shares the array's memory, or a copy if its type, layout or alignment
    does not permit sharing.

    A shared array must not be written afterwards.
    """
    kept = array.nbytes > _SMALL and array.dtype.name == dtype and array.dtype.kind in "biuf"
    if not kept or not array.flags.c_contiguous or array.ctypes.data % ALIGNMENT:
        return relax.const(array, dtype)
    return relax.const(tvm_ffi.from_dlpack(np.asarray(_Writable(array))))


def literal_value(expr: Any) -> np.ndarray[Any, Any]:
    """Return the elements of a literal as a view; the caller must not write to it."""
    try:
        return np.from_dlpack(expr.value)
    except (RuntimeError, BufferError):  # NumPy does not have the dtype
        return np.asarray(expr.value.numpy())


def aligned(array: np.ndarray) -> np.ndarray:
    """Return a row-major copy that literals can share."""
    made = room_for(array.shape, array.dtype)
    made[...] = array
    return made


def room_for(shape: Sequence[int], dtype: np.dtype[Any]) -> np.ndarray:
    """Return an uninitialized array that literals can share."""
    memory = np.from_dlpack(tvm.runtime.empty((prod(shape) * dtype.itemsize,), "uint8"))
    return memory.view(dtype).reshape(shape)


class Literals:
    """Cache of the literals of a module, shared by all traversals of it."""

    def __init__(self) -> None:
        # Keyed by the array's id. The array is kept alive so that its id is not reused.
        self._made: dict[int, tuple[np.ndarray, object]] = {}
        self._turned: dict[tuple[int, tuple[int, ...]], tuple[np.ndarray, np.ndarray]] = {}
        self.folding = FoldBudget()

    def __call__(self, array: np.ndarray) -> Any:
        """Return the literal of an array."""
        if id(array) not in self._made:
            self._made[id(array)] = array, as_literal(array, str(array.dtype))
        return self._made[id(array)][1]

    def turned(self, array: np.ndarray, order: tuple[int, ...]) -> np.ndarray:
        """Return ``array`` with its axes permuted to ``order``."""
        key = id(array), order
        if key not in self._turned:
            self._turned[key] = array, aligned(array.transpose(order))
        return self._turned[key][1]


class _Writable:
    """View of an array that claims to be writable: DLPack export refuses read-only arrays."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        told = array.__array_interface__
        self.__array_interface__ = {**told, "data": (told["data"][0], False)}


__all__ = ["ALIGNMENT", "Literals", "aligned", "as_literal", "literal_value"]
