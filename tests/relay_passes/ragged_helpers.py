"""Batches of items of different lengths, and parts of graphs over ``[b, s, 8]``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tvm_disc import relay

LENGTHS = (0, 1, 2, 7, 13, 36, 37, 64)
HEADS, DEPTH = 2, 4


def pack(lengths: Sequence[int], rng: Any, *rest: int) -> list[np.ndarray]:
    """One random item per length."""
    return [rng.standard_normal((n, *rest)).astype("float32") for n in lengths]


def batches(rng: Any, count: int, most: int = 12) -> list[list[int]]:
    """Random lengths, with the special cases first."""
    fixed = [[], [0], [1], [0, 0, 3], [64, 1, 0, 5], [37] * 3]
    return fixed + [list(rng.choice(LENGTHS, rng.integers(0, most))) for _ in range(count)]


def weights(*shape: int) -> Any:
    rng = np.random.default_rng(3)
    return relay.const(rng.standard_normal(shape).astype("float32") * 0.3)


def heads(x: Any) -> Any:
    """[b, s, 8] as [b, heads, s, depth]."""
    return relay.transpose(relay.reshape(x, (0, 0, HEADS, DEPTH)), (0, 2, 1, 3))


def attention(q: Any, k: Any, v: Any, chain: Callable[[Any], Any] = lambda s: s) -> Any:
    q, k, v = (relay.reshape(heads(x), (-3, 0, 0)) for x in (q, k, v))
    scores = relay.nn.batch_matmul(q, k) * relay.const(np.float32(0.5))
    weights = relay.nn.softmax(chain(scores))
    out = relay.nn.batch_matmul(weights, relay.transpose(v, (0, 2, 1)))
    return relay.reshape(out, (-4, -1, HEADS, 0, 0))


def self_attention(x: Any) -> Any:
    q, k, v = (relay.nn.dense(x, weights(8, 8)) for _ in range(3))
    merged = relay.transpose(attention(q, k, v), (0, 2, 1, 3))
    return relay.reshape(merged, (0, 0, 8)) + x


def cross_attention(x: Any, y: Any) -> Any:
    """Every row of x reads the rows of the same item of y."""
    q, k, v = (relay.nn.dense(z, weights(8, 8)) for z in (x, y, y))
    merged = relay.transpose(attention(q, k, v), (0, 2, 1, 3))
    return relay.reshape(merged, (0, 0, 8)) + x


def convolution(x: Any, window: int = 3, padding: tuple[int, int] = (1, 1), **more: Any) -> Any:
    """A convolution along the sequence, from 8 features to 8."""
    lines = relay.transpose(x, (0, 2, 1))
    weight = weights(8, 8, window)
    made = relay.nn.conv1d(lines, weight, padding=padding, kernel_size=(window,), **more)
    return relay.transpose(made, (0, 2, 1))


def attended(x: Any) -> Any:
    """Rows with a positive feature before them in the item, else zeros, as in masked attention."""
    first = relay.greater(relay.strided_slice(x, [0], [1], axes=[2]), relay.const(np.float32(0)))
    length = relay.take(relay.shape_of(x), relay.const(1))
    place = relay.arange(relay.const(0), length, relay.const(1), dtype="int32")
    before = relay.less(relay.expand_dims(place, 0), relay.expand_dims(place, 1))
    mask = relay.logical_and(relay.transpose(first, (0, 2, 1)), before)
    return relay.where(relay.any(mask, axis=2, keepdims=True), x, relay.const(np.float32(0)))


def norm(x: Any) -> Any:
    mean = relay.mean(x, axis=2, keepdims=True)
    centred = x - mean
    variance = relay.mean(centred * centred, axis=2, keepdims=True)
    return centred / relay.sqrt(variance + relay.const(np.float32(1e-5)))
