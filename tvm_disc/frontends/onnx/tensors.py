"""Tensors of an ONNX model as arrays, read where they lie."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tvm_disc.errors import BadInput, Unsupported
from tvm_disc.frontends.onnx.external import read_elements
from tvm_disc.literals import aligned

# Element types of ONNX by number, as they are called here.
DTYPES = {
    1: "float32",
    2: "uint8",
    3: "int8",
    4: "uint16",
    5: "int16",
    6: "int32",
    7: "int64",
    9: "bool",
    10: "float16",
    11: "float64",
    12: "uint32",
    13: "uint64",
    16: "bfloat16",
}


def dtype_of(code: int) -> str:
    """The name of an element type.

    Raises:
        Unsupported: programs have no tensors of it.
    """
    if code not in DTYPES:
        from onnx import TensorProto

        known = code in TensorProto.DataType.values()
        name = TensorProto.DataType.Name(code) if known else str(code)
        raise Unsupported(f"element type {name}")
    return DTYPES[code]


def array_of(tensor: Any, folder: str) -> np.ndarray:
    """The elements of a tensor; those that lie in a file beside the model are read from there.

    Raises:
        BadInput: there is no such file, or it is too short.
    """
    from onnx.numpy_helper import to_array

    dtype = dtype_of(tensor.data_type)
    if (found := read_elements(tensor, folder)) is not None:
        return found
    try:
        array = to_array(tensor, folder)
    except Exception as error:  # the checker's own class: no file, or a short one
        why = _missing(tensor, folder) or error
        raise BadInput(f"ONNX tensor {tensor.name!r}: {why}") from error
    return aligned(array if str(array.dtype) == dtype else array.astype(dtype))


def _missing(tensor: Any, folder: str) -> str | None:
    """What to say of elements whose file is not there."""
    place = next((e.value for e in tensor.external_data if e.key == "location"), None)
    if place is None or Path(folder, place).is_file():
        return None
    return (
        f"its elements lie in a file of their own, {str(Path(folder, place))!r}, which is not "
        "there; keep it beside the model"
    )


def dense_of(sparse: Any, folder: str) -> np.ndarray:
    """A sparse tensor with its zeros."""
    values = array_of(sparse.values, folder)
    where = array_of(sparse.indices, folder)
    dims = tuple(sparse.dims)
    dense = np.zeros(dims, values.dtype)
    if where.ndim == 1:
        dense.reshape(-1)[where] = values
    else:
        dense[tuple(where.T)] = values
    return np.asarray(dense)


class Lazy:
    """An array that is read when it is first wanted."""

    def __init__(self, read: Callable[[], Any]) -> None:
        self._read, self._value = read, None

    def __call__(self) -> Any:
        """The value."""
        if self._value is None:
            self._value = self._read()
        return self._value


__all__ = ["DTYPES", "Lazy", "array_of", "dense_of", "dtype_of"]
