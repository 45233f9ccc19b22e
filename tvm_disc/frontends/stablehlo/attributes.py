"""Converts attributes and types of MLIR operations to Python values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import ml_dtypes
import numpy as np

from tvm_disc.errors import Unsupported
from tvm_disc.support.literals import aligned

T = TypeVar("T")

_DTYPES = {
    "f64": "float64",
    "f32": "float32",
    "f16": "float16",
    "bf16": "bfloat16",
    "i1": "bool",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "ui8": "uint8",
    "ui16": "uint16",
    "ui32": "uint32",
    "ui64": "uint64",
}


def dtype_of(ty: Any) -> str:
    """Return the element type of a tensor type.

    Raises:
        Unsupported: the element type is not supported.
    """
    name = str(ty.element_type)
    if name not in _DTYPES:
        raise Unsupported(f"element type {name}: expected one of {', '.join(_DTYPES)}")
    return _DTYPES[name]


def part_of(ty: Any) -> str | None:
    """Return the dtype of the real part of complex elements, or None for real elements."""
    name = str(ty.element_type)
    return _DTYPES[name[8:-1]] if name.startswith("complex<") else None


def checked_dtype(dtype: str, owner: str) -> str:
    """Return ``dtype``, the element type of an input in JAX, if programs have it.

    Raises:
        Unsupported: the element type is not supported; the message names ``owner``.
    """
    if dtype not in _DTYPES.values():
        known = ", ".join(_DTYPES.values())
        raise Unsupported(f"{owner}: element type {dtype}: expected one of {known}")
    return dtype


def dims_of(ty: Any) -> list[int | None]:
    """Return the dims of a tensor type, with None for each dynamic dim."""
    return [None if ty.is_dynamic_dim(k) else ty.get_dim_size(k) for k in range(ty.rank)]


def tensor_type(ty: object) -> object:
    """Return a type as a ranked tensor type.

    Raises:
        Unsupported: the type is not a ranked tensor type, for example a token or a tuple.
    """
    from jaxlib.mlir import ir

    try:
        return ir.RankedTensorType(ty)
    except ValueError:
        raise Unsupported(f"expected a tensor with a known rank, found type {ty}") from None


def numbers(attribute: Any) -> list[Any]:
    """Return an array attribute, or the elements of a dense attribute, as a flat list."""
    from jaxlib.mlir import ir

    if isinstance(attribute, ir.DenseElementsAttr):
        return list(np.array(attribute).reshape(-1).tolist())
    return [getattr(v, "value", v) for v in attribute]


def padding_pairs(flat: Sequence[T]) -> list[tuple[T, T]]:
    """Return (before, after) for each axis, from a list that has them one after the other."""
    return list(zip(flat[::2], flat[1::2], strict=True))


def constant(op: Any) -> np.ndarray:
    """Return the elements of a constant operation.

    Raises:
        Unsupported: programs do not have the element type, or the elements are in the resource
            section of the module.
    """
    from jaxlib.mlir import ir

    attribute, ty = op.attributes["value"], tensor_type(op.results[0].type)
    dtype, shape = dtype_of(ty), [int(d or 0) for d in dims_of(ty)]
    # jaxlib has no Python class for some attributes of the resource section.
    if type(attribute) is ir.Attribute or isinstance(attribute, ir.DenseResourceElementsAttr):
        raise Unsupported(
            "constants in the resource section of a module are not supported; store the elements "
            "in the operation (dense<...>)"
        )
    if dtype == "bfloat16":
        if attribute.is_splat:
            fill = float(attribute.get_splat_value().value)
            return np.full(shape, fill, ml_dtypes.bfloat16)
        return aligned(_bfloat16(str(attribute)).reshape(shape))
    return aligned(np.array(attribute).astype(dtype, copy=False).reshape(shape))


def is_complex(ty: object) -> bool:
    """Return whether a type is that of a tensor of complex numbers."""
    return "complex<" in str(ty)


def complex_constant(op: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the real and imaginary parts of a complex constant.

    They are parsed from the printed operation, because MLIR's bindings do not return them.
    """
    ty = tensor_type(op.results[0].type)
    dtype, shape = np.dtype(part_of(ty)), [int(d or 0) for d in dims_of(ty)]
    text = op.get_asm(large_elements_limit=1 << 62)
    body = text.split("dense<", 1)[1].rpartition("> : tensor<")[0]
    if body.startswith('"0x'):
        flat = np.frombuffer(bytes.fromhex(body[3:-1]), dtype)
    else:
        words = body.translate(str.maketrans("[](),", "     ")).split()
        flat = np.array([_number(w, dtype) for w in words], dtype)
    real, imag = (np.resize(flat[k::2], shape) for k in range(2))
    return aligned(real), aligned(imag)


def _number(word: str, dtype: np.dtype) -> float:
    """Parse a number that MLIR has printed as a decimal, or as bits such as 0x7FC00000."""
    if not word.startswith("0x"):
        return float(word)
    bits = np.array(int(word, 16), f"u{dtype.itemsize}")
    return float(bits.view(dtype))


def _bfloat16(text: str) -> np.ndarray:
    """Parse the elements of a printed dense attribute of bfloat16.

    MLIR prints many elements as one string of bytes, and a few as decimals, or as bits such as
    0x7FC0.
    """
    body = text.rpartition(" : ")[0]
    if '"0x' in body:
        return np.frombuffer(bytes.fromhex(body.split('"')[1][2:]), ml_dtypes.bfloat16)
    words = body[len("dense<") : -1].translate(str.maketrans("[],", "   ")).split()
    bits = [int(w, 16) if w.startswith("0x") else None for w in words]
    found = [float(w) if b is None else 0.0 for w, b in zip(words, bits, strict=True)]
    made = np.array(found, ml_dtypes.bfloat16)
    for k, b in enumerate(bits):
        if b is not None:
            made.view(np.uint16)[k] = b
    return made


__all__ = [
    "checked_dtype",
    "complex_constant",
    "constant",
    "dims_of",
    "dtype_of",
    "is_complex",
    "numbers",
    "padding_pairs",
    "part_of",
    "tensor_type",
]
