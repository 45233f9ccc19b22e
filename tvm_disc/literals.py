"""Arrays of NumPy as literals of TVM, and back, without a copy: every pass reads the weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm_ffi
from tvm import relax

_SMALL = 1 << 12  # bytes that are copied sooner than shared


def as_literal(array: np.ndarray, dtype: str) -> Any:
    """A literal tensor over the memory of an array, which is not to be written from now on."""
    if array.nbytes <= _SMALL or array.dtype.name != dtype or array.dtype.kind not in "biuf":
        return relax.const(array, dtype)
    shared = np.asarray(_Writable(np.require(array, requirements=["C", "A"])))
    return relax.const(tvm_ffi.from_dlpack(shared, require_alignment=0))


def literal_value(expr: Any) -> np.ndarray[Any, Any]:
    """The elements of a literal, not copied. Do not write."""
    try:
        return np.from_dlpack(expr.value)
    except RuntimeError:  # a type that NumPy itself does not have
        return np.asarray(expr.value.numpy())


class _Writable:
    """An array that says it may be written: DLPack cannot say of memory that it may not."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        told = array.__array_interface__
        self.__array_interface__ = {**told, "data": (told["data"][0], False)}


__all__ = ["as_literal", "literal_value"]
