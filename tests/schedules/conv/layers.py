"""Layers, images and references that tests of convolutions share."""

from __future__ import annotations

from typing import Any

import numpy as np

from tvm_disc import relay

RNG = np.random.default_rng(0)
IMAGES = [
    (1, 1, 1),
    (1, 3, 5),
    (2, 7, 7),
    (1, 13, 17),
    (3, 5, 33),
    (2, 20, 41),
    (1, 9, 97),
    (0, 4, 4),
]
# in, out, kernel, stride, padding, groups, dilation
LAYERS = {
    "3x3": (3, 20, 3, 1, 1, 1, 1),
    "3x3 strided": (3, 20, 3, 2, 1, 1, 1),
    "5x5 strided": (5, 17, 5, 2, 2, 1, 1),
    "dilated": (4, 8, 3, 1, 2, 1, 2),
    "1x1": (9, 33, 1, 1, 0, 1, 1),
    "1x1 strided": (4, 33, 1, 2, 0, 1, 1),
    "even kernel, stride 3": (2, 3, 4, 3, 2, 1, 1),
    "depthwise": (8, 8, 3, 1, 1, 8, 1),
    "depthwise strided": (8, 8, 3, 2, 1, 8, 1),
    "depthwise dilated": (5, 5, 3, 1, 2, 5, 2),
    "depthwise multiplied": (6, 12, 3, 2, 1, 6, 1),
    "depthwise large": (2, 2, 9, 1, 4, 2, 1),
    "grouped": (6, 12, 3, 1, 1, 2, 1),
    "grouped strided": (6, 12, 3, 2, 2, 3, 2),
    "K in blocks, the last smaller": (130, 20, 3, 1, 1, 1, 1),
    "K in blocks, grouped": (234, 22, 3, 2, 1, 2, 1),
    "rows in groups": (5, 560, 1, 1, 0, 1, 1),
    "weights beyond the cache": (300, 260, 1, 1, 0, 1, 1),
}


def windows(
    x: np.ndarray, kernel: int, stride: int, padding: int, dilation: int, fill: float
) -> Any:
    """[taps, n, c, oh, ow] of the input, float64; None if no window fits."""
    reach = dilation * (kernel - 1) + 1
    size = [(s + 2 * padding - reach) // stride + 1 for s in x.shape[2:]]
    if min(size) < 1:
        return None
    pad = ((0, 0), (0, 0), (padding, padding), (padding, padding))
    wide = np.pad(x.astype("float64"), pad, constant_values=fill)
    spans = [[slice(k * dilation, k * dilation + (n - 1) * stride + 1, stride) for n in size]
             for k in range(kernel)]  # fmt: skip
    return np.stack([wide[:, :, a[0], b[1]] for a in spans for b in spans])


def conv(x: np.ndarray, w: np.ndarray, groups: int, taps: Any) -> np.ndarray:
    outs, per = w.shape[0] // groups, w.shape[1]
    flat = w.astype("float64").reshape(w.shape[0], per, -1)
    parts = [
        np.einsum("tnchw,oct->nohw", taps[:, :, g * per : (g + 1) * per],
                  flat[g * outs : (g + 1) * outs])
        for g in range(groups)
    ]  # fmt: skip
    return np.concatenate(parts, 1)


def image(channels: int) -> Any:
    return relay.var("x", shape=(relay.Any(), channels, relay.Any(), relay.Any()), dtype="float32")


def data(shape: tuple[int, int, int], channels: int) -> np.ndarray:
    batch, height, width = shape
    return RNG.standard_normal((batch, channels, height, width)).astype("float32")
