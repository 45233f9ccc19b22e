"""Tensors in Relay's storage format: base64 entries of JSON files, and ``.params`` files."""

from __future__ import annotations

import base64
import math
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import BadNode, ParseError, Unsupported, shown
from .expr import Constant, HostArray

_ARRAY_MAGIC = 0xDD5E40F096B4A13F
_LIST_MAGIC = 0xF7E58D4F05049CB7
_MOST_DIMS = 32
_HEADER = struct.Struct("<QQiiiBBH")
_KINDS = {0: "i", 1: "u", 2: "f"}
_CODES = {"i": 0, "u": 1, "f": 2, "b": 1}


def decode_array(data: bytes, offset: int = 0) -> tuple[NDArray[Any], int]:
    """Return the tensor stored at ``offset`` and the offset after it; ParseError if it is
    damaged.
    """
    try:
        magic, _, _, _, ndim, code, bits, lanes = _HEADER.unpack_from(data, offset)
        offset += _HEADER.size
        if magic != _ARRAY_MAGIC:
            text = f"expected the magic number {_ARRAY_MAGIC:#x}, found {magic:#x}"
            raise ParseError(f"not a stored tensor: {text}")
        shape = struct.unpack_from(f"<{ndim}q", data, offset)
        offset += 8 * ndim
        (nbytes,) = struct.unpack_from("<q", data, offset)
        offset += 8
    except struct.error as error:
        raise ParseError(
            "a stored tensor is truncated or damaged: its header continues past the end, "
            f"byte {len(data)}"
        ) from error
    dtype = _dtype(code, bits, lanes)
    if ndim > _MOST_DIMS or any(d < 0 for d in shape):
        raise ParseError(
            f"a stored tensor: expected at most {_MOST_DIMS} dims of at least 0, "
            f"found {str(shape)[:80]}"
        )
    count = math.prod(shape)
    if nbytes != count * dtype.itemsize or offset + nbytes > len(data):
        raise ParseError(
            f"a stored tensor of shape {shape} and type {dtype}: expected "
            f"{count * dtype.itemsize} bytes, found a declared size of {nbytes} bytes and "
            f"{max(0, len(data) - offset)} bytes in the file"
        )
    array = np.frombuffer(data, dtype, count, offset).reshape(shape).copy()
    return array, offset + nbytes


def encode_array(array: NDArray[Any]) -> bytes:
    """Return the stored form of a tensor; Unsupported for types that Relay cannot store."""
    array = np.asarray(array)
    if array.dtype.kind not in _CODES:
        raise Unsupported(
            f"Relay's format: expected bools, integers or floats, found {array.dtype}; cast them"
        )
    bits = 1 if array.dtype.kind == "b" else 8 * array.dtype.itemsize
    code = _CODES[array.dtype.kind]
    head = _HEADER.pack(_ARRAY_MAGIC, 0, 1, 0, array.ndim, code, bits, 1)
    little = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"), copy=False))
    return head + struct.pack(f"<{array.ndim}qq", *array.shape, array.nbytes) + little.tobytes()


def decode_base64(text: object) -> NDArray[Any]:
    """Return the tensor in one ``b64ndarrays`` entry of a JSON file."""
    if not isinstance(text, str):
        raise ParseError(f"a stored tensor: expected base64 text, found {type(text).__name__}")
    try:
        return decode_array(base64.b64decode(text, validate=True))[0]
    except ValueError as error:
        raise ParseError(f"a stored tensor is not base64: {error}") from None


def encode_base64(array: NDArray[Any]) -> str:
    """Return the ``b64ndarrays`` entry of a tensor."""
    return base64.b64encode(encode_array(array)).decode("ascii")


def load_param_dict(data: bytes) -> dict[str, NDArray[Any]]:
    """Return the tensors of a ``.params`` file by name: NumPy arrays that also have ``numpy()``.

    Raises:
        ParseError: ``data`` is not a ``.params`` file, or it is truncated.
    """
    if not isinstance(data, bytes | bytearray | memoryview):
        found = type(data).__name__
        raise BadNode(f"expected the bytes of a parameter file, found {found}")
    try:
        magic, _, count = struct.unpack_from("<QQQ", data, 0)
        if magic != _LIST_MAGIC:
            text = f"expected the magic number {_LIST_MAGIC:#x}, found {magic:#x}"
            raise ParseError(f"not a parameter file: {text}")
        names, offset = [], 24
        for _ in range(count):
            (length,) = struct.unpack_from("<Q", data, offset)
            names.append(data[offset + 8 : offset + 8 + length].decode("utf-8"))
            offset = min(offset + 8 + length, len(data))
        (arrays,) = struct.unpack_from("<Q", data, offset)
    except struct.error as error:
        raise ParseError(
            "a parameter file is truncated or damaged: its list of names continues past the end, "
            f"byte {len(data)}"
        ) from error
    except UnicodeDecodeError:
        place = f"byte {offset + 8}"
        raise ParseError(
            f"a parameter file: {place}: the name of a tensor is not UTF-8 text"
        ) from None
    if arrays != count:
        raise ParseError(
            f"a parameter file: expected as many names as tensors, found {count} and {arrays}"
        )
    offset += 8
    params: dict[str, NDArray[Any]] = {}
    for name in names:
        try:
            array, offset = decode_array(data, offset)
        except ParseError as error:
            raise ParseError(f"a parameter file: byte {offset}: '{name}': {error}") from None
        params[name] = array.view(HostArray)
    return params


def save_param_dict(params: Mapping[str, object]) -> bytes:
    """Return the bytes of a ``.params`` file, which TVM's ``load_param_dict`` reads as well.

    Values are NumPy arrays, TVM tensors, Relay constants or scalars.
    """
    if not isinstance(params, Mapping) or not all(isinstance(name, str) for name in params):
        raise BadNode(f"expected a mapping from names to arrays, found {shown(params)}")
    parts = [struct.pack("<QQQ", _LIST_MAGIC, 0, len(params))]
    for name in params:
        raw = name.encode("utf-8")
        parts += [struct.pack("<Q", len(raw)), raw]
    parts.append(struct.pack("<Q", len(params)))
    parts += [encode_array(_host_array(value)) for value in params.values()]
    return b"".join(parts)


def _host_array(value: object) -> NDArray[Any]:
    """Return a parameter as a NumPy array."""
    value = value.data if isinstance(value, Constant) else value
    return np.asarray(value.numpy() if hasattr(value, "numpy") else value)


def _dtype(code: int, bits: int, lanes: int) -> np.dtype[Any]:
    if lanes == 1 and code == 1 and bits == 1:
        return np.dtype(np.bool_)
    if lanes != 1 or code not in _KINDS or bits not in (8, 16, 32, 64):
        kind = {0: "int", 1: "uint", 2: "float", 4: "bfloat"}.get(code, f"type code {code}, ")
        raise Unsupported(
            f"a stored tensor: expected a number type of 8 to 64 bits, "
            f"found {kind}{bits}{'' if lanes == 1 else f'x{lanes}'}"
        )
    return np.dtype(f"<{_KINDS[code]}{bits // 8}")
