"""Reads tensors of an ONNX model as arrays."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from tvm_disc.errors import BadInput
from tvm_disc.frontends.onnx.dtypes import DTYPES, dtype_of
from tvm_disc.frontends.onnx.external import is_external, read_elements
from tvm_disc.support.literals import aligned
from tvm_disc.typing import TensorProto


def array_of(tensor: TensorProto, folder: str) -> np.ndarray:
    """Return the elements of a tensor, which may be external.

    Raises:
        BadInput: an external file is missing, not accepted or too short; or the number of elements
            does not match the dims.
        Unsupported: programs have no tensors of the element type.
    """
    from onnx.numpy_helper import to_array

    dtype = dtype_of(tensor.data_type)
    read = tensor
    if is_external(tensor):
        found = read_elements(tensor, folder)
        if isinstance(found, np.ndarray):
            return found
        read = type(tensor)(data_type=tensor.data_type, dims=tensor.dims, raw_data=found)
    try:
        array = to_array(read)
    except Exception as error:  # ONNX raises several classes for a wrong number of elements
        raise BadInput(f"ONNX tensor {tensor.name!r}: {error}") from error
    return aligned(array if str(array.dtype) == dtype else array.astype(dtype))


def dense_of(sparse: Any, folder: str) -> np.ndarray:
    """Return a sparse tensor as a dense array."""
    values = array_of(sparse.values, folder)
    where = array_of(sparse.indices, folder)
    dims = tuple(sparse.dims)
    dense = np.zeros(dims, values.dtype)
    if where.ndim == 1:
        dense.reshape(-1)[where] = values
    else:
        dense[tuple(where.T)] = values
    return np.asarray(dense)


class Lazy(partial[Any]):
    """A value that a graph reads when it is first used, and then replaces by the result."""


__all__ = ["DTYPES", "Lazy", "array_of", "dense_of", "dtype_of"]
