"""Tensors of GGUF files as quantized numbers: an element is ``(number - zero) * scale``.

A row of a matrix is stored in blocks. Formats with 32 elements a block have one scale per block.
Formats with 256 elements a block (the names end in K) have a scale of 6 or 8 bits for each group
of 16 or 32 elements; the block's float16 scale multiplies the scales of its groups.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from tvm_disc.typing import Array

SUPER = 256  # elements of a block of the formats that end in K


@dataclass(frozen=True)
class Blocks:
    """A quantized matrix ``[rows, groups * group]``, with one scale per group of elements.

    Attributes:
        numbers: ``int8`` or ``uint8``, ``[rows, groups, group]``.
        scale: ``float32[rows, groups]``.
        zero: zero points, ``float32[rows, groups]``; None if all are 0.
    """

    numbers: Array
    scale: Array
    zero: Array | None = None

    def ordered(self, order: Array) -> Blocks:
        """Return the matrix with row ``order[i]`` as its row i."""
        zero = None if self.zero is None else self.zero[order]
        return Blocks(self.numbers[order], self.scale[order], zero)

    def real(self) -> Array:
        """Return the matrix dequantized to float32."""
        wide = self.numbers.astype(np.float32)
        if self.zero is not None:
            wide = wide - self.zero[:, :, None]
        made: Array = wide * self.scale[:, :, None]
        return made.reshape(len(made), -1)


def matrix(data: Array, kind: str) -> Blocks | Array:
    """Return a stored tensor as a quantized matrix, or as an array of float32 or bfloat16.

    Args:
        data: the stored bytes, ``[rows, bytes]``, or the elements of a float tensor.
        kind: the name of the format, one of ``FORMATS``.
    """
    if kind in FLOATS:
        return FLOATS[kind](data)
    per_block, read = READERS[kind]
    raw = np.ascontiguousarray(data).view(np.uint8)
    rows = raw.shape[0]
    found = read(raw.reshape(-1, per_block))
    group = found.numbers.shape[-1]
    zero = None if found.zero is None else found.zero.reshape(rows, -1)
    numbers, scale = found.numbers.reshape(rows, -1, group), found.scale.reshape(rows, -1)
    return Blocks(numbers, scale, zero)


def _half(raw: Array) -> Array:
    """Return the float16 numbers that the bytes store, cast to float32."""
    return np.ascontiguousarray(raw).view(np.float16).astype(np.float32)


def _nibbles(raw: Array) -> Array:
    """Return the low nibbles of bytes, then the high ones, along the last axis."""
    return np.concatenate([raw & 15, raw >> 4], -1)


def _shifted(least: Array, scale: Array, numbers: Array) -> Blocks:
    """Return blocks for elements ``number * scale + least``, with zero point ``-least / scale``.

    If the scale of a group is 0, all its elements are ``least``: its numbers become 0 and its
    scale 1.
    """
    flat = scale == 0
    factor = np.where(flat, np.float32(1), scale)
    return Blocks(np.where(flat[..., None], np.uint8(0), numbers), factor, -least / factor)


def _q4_0(raw: Array) -> Blocks:
    return Blocks((_nibbles(raw[:, 2:]).astype(np.int8) - 8).astype(np.int8), _half(raw[:, :2]))


def _q4_1(raw: Array) -> Blocks:
    scale, least = _half(raw[:, :2])[:, 0], _half(raw[:, 2:4])[:, 0]
    return _shifted(least, scale, _nibbles(raw[:, 4:]))


def _q5_0(raw: Array) -> Blocks:
    high = np.unpackbits(raw[:, 2:6], axis=-1, bitorder="little")
    numbers = _nibbles(raw[:, 6:]) | high << 4
    return Blocks((numbers.astype(np.int8) - 16).astype(np.int8), _half(raw[:, :2]))


def _q8_0(raw: Array) -> Blocks:
    return Blocks(np.ascontiguousarray(raw[:, 2:]).view(np.int8), _half(raw[:, :2]))


def _small_scales(raw: Array) -> tuple[Array, Array]:
    """Return the eight scales and eight minima of 6 bits, which are packed into twelve bytes."""
    first, second, mixed = raw[:, 0:4], raw[:, 4:8], raw[:, 8:12]
    scale = np.concatenate([first & 63, (mixed & 15) | ((first >> 2) & 48)], -1)
    least = np.concatenate([second & 63, (mixed >> 4) | ((second >> 2) & 48)], -1)
    return scale, least


def _pairs(raw: Array) -> Array:
    """Return the nibbles of every 32 bytes as two groups: the low nibbles, then the high ones."""
    return _nibbles(raw.reshape(len(raw), -1, 32)).reshape(len(raw), -1, 32)


def _with_minima(raw: Array, numbers: Array) -> Blocks:
    scale, least = _small_scales(raw[:, 4:16])
    whole, minimum = _half(raw[:, :2]), _half(raw[:, 2:4])
    return _shifted(-(minimum * least), whole * scale, numbers)


def _q4_k(raw: Array) -> Blocks:
    return _with_minima(raw, _pairs(raw[:, 16:]))


def _q5_k(raw: Array) -> Blocks:
    bits = (raw[:, None, 16:48] >> np.arange(8, dtype=np.uint8)[:, None]) & 1
    return _with_minima(raw, _pairs(raw[:, 48:]) | bits << 4)


def _q6_k(raw: Array) -> Blocks:
    low = raw[:, :128].reshape(-1, 2, 1, 64) >> np.array([[0], [4]], np.uint8)
    high = raw[:, 128:192].reshape(-1, 2, 1, 32) >> np.array([[0], [2], [4], [6]], np.uint8)
    both = (low & 15).reshape(-1, SUPER) | ((high & 3) << 4).reshape(-1, SUPER)
    numbers = (both.astype(np.int8) - 32).astype(np.int8)
    small = np.ascontiguousarray(raw[:, 192:208]).view(np.int8)
    return Blocks(numbers.reshape(-1, 16, 16), _half(raw[:, 208:]) * small)


# For each format the bytes of a block, and the function that reads bytes ``[blocks, bytes]``.
READERS: Mapping[str, tuple[int, Callable[[Array], Blocks]]] = {
    "Q4_0": (18, _q4_0),
    "Q4_1": (20, _q4_1),
    "Q5_0": (22, _q5_0),
    "Q8_0": (34, _q8_0),
    "Q4_K": (144, _q4_k),
    "Q5_K": (176, _q5_k),
    "Q6_K": (210, _q6_k),
}
FLOATS: Mapping[str, Callable[[Array], Array]] = {
    "F32": lambda x: np.asarray(x, np.float32),
    "F16": lambda x: np.asarray(x).astype(np.float32),
    "BF16": lambda x: np.ascontiguousarray(x).view(ml_dtypes.bfloat16),
}
FORMATS = (*FLOATS, *READERS)

__all__ = ["FORMATS", "Blocks", "matrix"]
