"""NumPy semantics of Relay's random numbers: Threefry-4x64 on states of ten words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

MASK = 2**64 - 1
PARITY = 0x1BD11BDAA9FC1A22
ROTATIONS = ((14, 16), (52, 57), (23, 40), (5, 37), (25, 33), (46, 12), (58, 22), (32, 32))


def _hash(key: Sequence[int], counter: Sequence[int]) -> list[int]:
    """Return the hash of a counter after twenty rounds."""
    parity = PARITY
    for k in key:
        parity ^= k
    full, words = [*key, parity], [c & MASK for c in counter]
    for group in range(5):
        words = [(w + full[(group + k) % 5]) & MASK for k, w in enumerate(words)]
        words[3] = (words[3] + group) & MASK
        for r in range(4):
            for pair, turn in enumerate(ROTATIONS[(group * 4 + r) % 8]):
                a, b = words[2 * pair], words[2 * pair + 1]
                a = (a + b) & MASK
                turned = ((b << turn) | (b >> (64 - turn))) & MASK
                words[2 * pair], words[2 * pair + 1] = a, ((a + b) & MASK) ^ turned
            words = [words[k] for k in (0, 3, 2, 1)]
    return words


def _shifted(a: int) -> tuple[int, int]:
    """Return both words of a path's marker bit, shifted right by one; zeros after the last bit."""
    return (0, 1 << 63) if a == 1 else (a >> 1, 0)


def _next(state: list[int], count: int) -> list[int]:
    """Return a state whose counter can be advanced by ``count`` without overflow."""
    if state[7] < MASK - count:
        return state
    if state[8] == 0:
        return [*_hash(state[:4], [MASK] * 4), 0, 0, 0, 0, 1 << 63, 0]
    path = [state[4] | state[8], state[5] | state[9]]
    return [*state[:4], *path, 0, 0, *_shifted(state[8])]


def threefry_generate(key: Array, *, out_shape: Sequence[int]) -> tuple[Array, Array]:
    """Return (next state, random words)."""
    count = math.prod(out_shape)
    state = _next([int(w) for w in key], count)
    whole = count // 4
    words: list[int] = []
    for b in range(whole):
        words += _hash(state[:4], [w + b for w in state[4:8]])
    if count % 4:
        words += _hash(state[:4], [*state[4:7], state[7] + whole * 4])[: count % 4]
    used = -(-count // 4) * 4
    after = [*state[:6], 0, (state[7] + used) & MASK, *state[8:]]
    return np.array(after, np.uint64), np.array(words, np.uint64).reshape(tuple(out_shape))


def threefry_split(key: Array) -> tuple[Array, Array]:
    """Return two new states, the left and the right child of ``key``."""
    state = [int(w) for w in key]
    if state[8] == 0:
        fresh = _hash(state[:4], state[4:8])
        sides = [[*fresh, first, 0, 0, 0, 1 << 62, 0] for first in (0, 1 << 63)]
    else:
        end = _shifted(state[8])
        path = [state[4] | state[8], state[5] | state[9]]
        sides = [[*state[:8], *end], [*state[:4], *path, *state[6:8], *end]]
    return np.array(sides[0], np.uint64), np.array(sides[1], np.uint64)


def _unit(key: Array, shape: Sequence[int], dtype: str) -> tuple[Array, Array]:
    after, words = threefry_generate(key, out_shape=shape)
    if dtype == "float64":
        bits = (words >> np.uint64(12)) | np.uint64(1023 << 52)
    else:
        bits = (words.astype(np.uint32) >> np.uint32(9)) | np.uint32(127 << 23)
    return after, bits.view(dtype) - np.dtype(dtype).type(1)


def uniform(
    key: Array, low: Array, high: Array, *, out_shape: Sequence[int], out_dtype: str
) -> tuple[Array, Array]:
    """Return (next state, numbers in ``[low, high)``)."""
    after, unit = _unit(key, out_shape, out_dtype or "float32")
    return after, (unit * (high - low) + low).astype(unit.dtype)


def normal(
    key: Array, mean: Array, scale: Array, *, out_shape: Sequence[int], out_dtype: str
) -> tuple[Array, Array]:
    """Return (next state, normal numbers), each from two uniform numbers."""
    after, unit = _unit(key, (2, *out_shape), out_dtype or "float32")
    radius = np.sqrt(-2 * np.log(1 - unit[0]))
    wave = np.sin(unit.dtype.type(2 * np.pi) * unit[1])
    return after, (radius * wave * scale + mean).astype(unit.dtype)


def multinomial(key: Array, probs: Array, *, num_samples: int) -> tuple[Array, Array]:
    """Return (next state, columns drawn by their probabilities in each row)."""
    if probs.shape[-1] == 0:
        raise ValueError("no columns")
    chances = np.maximum(probs.astype(np.float32), 0)
    bounds = np.cumsum(chances / chances.sum(-1, keepdims=True), -1)
    after, unit = _unit(key, (*probs.shape[:-1], num_samples), "float32")
    apart = bounds[..., :, None] - unit[..., None, :]
    return after, np.argmin(np.where(apart > 0, apart, 1), -2).astype(np.int32)
