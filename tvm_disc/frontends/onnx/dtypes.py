"""Element types of ONNX tensors, by their enum values."""

from __future__ import annotations

import numpy as np

from tvm_disc.errors import Unsupported

# Names of the supported element types, by their values in `TensorProto.DataType`.
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
    """Return the name of an element type, given its value in `TensorProto.DataType`.

    Raises:
        Unsupported: programs have no tensors of this type.
    """
    if code not in DTYPES:
        from onnx import TensorProto

        known = code in TensorProto.DataType.values()
        name = TensorProto.DataType.Name(code) if known else str(code)
        raise Unsupported(
            f"element type {name} is not supported; expected one of {', '.join(DTYPES.values())}"
        )
    return DTYPES[code]


def item_bytes(code: int) -> int:
    """Return the size of an element in bytes.

    Raises:
        Unsupported: programs have no tensors of this type.
    """
    name = dtype_of(code)
    return 2 if name == "bfloat16" else np.dtype(name).itemsize


__all__ = ["DTYPES", "dtype_of", "item_bytes"]
