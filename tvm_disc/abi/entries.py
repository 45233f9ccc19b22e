"""Names of a program's packed functions, and their arguments: tensors as 64-bit words."""

from __future__ import annotations

import numpy as np

ENTRY = "main"
BIND = "tvm_disc_bind"
POOL = "tvm_disc_pool"
DIRECT = "tvm_disc_direct"
CHECK = "tvm_disc_check"  # saved programs: checks whether they run here
UPLOAD = "tvm_disc_upload"  # GPU programs: copies a host array to a device tensor
DOWNLOAD = "tvm_disc_download"  # GPU programs: copies a device tensor to the host
CLOSE = "tvm_disc_close"  # GPU programs: frees device memory until the next call
GENERATE = "tvm_disc_generate"  # programs of language models: generates tokens

#: Type codes of DLPack.
DTYPE_CODES = {"int": 0, "uint": 1, "float": 2, "bfloat": 4, "bool": 6}
CPU = 1
#: TVM's type index of a borrowed tensor.
DL_TENSOR = 7
TENSOR_WORDS, ANY_WORDS = 6, 2


def dtype_fields(dtype: str) -> tuple[int, int]:
    """Return (DLPack type code, bits) of a dtype."""
    if dtype == "bool":
        return DTYPE_CODES["bool"], 8
    kind = dtype.rstrip("0123456789")
    return DTYPE_CODES[kind], int(dtype[len(kind) :])


def tensor_words(data: int, shape: int, rank: int, dtype: str) -> list[int]:
    """Return the words of a contiguous CPU tensor.

    Args:
        data: address of the elements.
        shape: address of the sizes, int64.
    """
    code, bits = dtype_fields(dtype)
    return [data, CPU, rank | (code | bits << 8 | 1 << 16) << 32, shape, 0, 0]


def arguments_of(tensors: np.ndarray) -> np.ndarray:
    """Return the arguments of a packed call, ``int64[n, ANY_WORDS]``.

    They borrow ``tensors``, ``int64[n, TENSOR_WORDS]``, which the caller keeps alive.
    """
    found = np.empty((len(tensors), ANY_WORDS), np.int64)
    found[:, 0] = DL_TENSOR
    found[:, 1] = tensors.ctypes.data + 8 * TENSOR_WORDS * np.arange(len(tensors))
    return found
