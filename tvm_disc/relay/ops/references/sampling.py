"""NumPy semantics of operators that sample images at computed positions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tvm_disc.relay.ops.references.layout import as_kind

Array = NDArray[Any]


def affine_grid(x: Array, *, target_shape: Sequence[int]) -> Array:
    """Apply affine maps to the grid over ``[-1, 1]``."""
    height, width = target_shape
    lines = [-1 + np.arange(n) * (2 - 1e-7) / (n - 1) for n in (width, height)]
    a, b = np.meshgrid(*lines)
    grid = np.stack([a, b, np.ones_like(a)])
    return np.asarray(np.einsum("bij,jhw->bihw", x, grid.astype(x.dtype)))


def _reflected(place: float, size: int, corners: bool) -> float:
    span, start = (size - 1, 0.0) if corners else (size, -0.5)
    if start <= place <= span + start or span == 0:
        return place
    apart = abs(start - place)
    times = int(apart) // span
    extra = apart - times * span
    return extra + start if times % 2 == 0 else span - extra + start


def _bordered(place: float, size: int, mode: str, corners: bool) -> float:
    if mode == "zeros":
        return place
    place = _reflected(place, size, corners) if mode == "reflection" else place
    return min(max(place, 0.0), size - 1.0)


def _cubic(x: float) -> list[float]:
    a = -0.75

    def near(t: float) -> float:
        return ((a + 2) * t - (a + 3)) * t * t + 1

    def far(t: float) -> float:
        return ((a * t - 5 * a) * t + 8 * a) * t - 4 * a

    return [far(x + 1), near(x), near(1 - x), far(2 - x)]


def _taps(
    place: float, size: int, method: str, mode: str, corners: bool
) -> list[tuple[int, float]]:
    """Return (integer position, weight) pairs along one axis."""
    if method == "bicubic":
        low = np.floor(place)
        at = [int(_bordered(low + k - 1, size, mode, corners)) for k in range(4)]
        return list(zip(at, _cubic(place - low), strict=True))
    place = _bordered(place, size, mode, corners)
    if method == "nearest":
        return [(round(place), 1.0)]
    low = int(np.floor(place))
    return [(low, low + 1 - place), (low + 1, place - low)]


def _read(image: Array, taps: Sequence[Sequence[tuple[int, float]]]) -> Any:
    """Return a weighted sum of pixels of ``image[c, ...]``, per channel.

    ``taps`` lists (position, weight) pairs for each axis. Pixels outside the image are zero.
    """
    total = np.zeros(image.shape[0], image.dtype)
    for choice in np.ndindex(*(len(t) for t in taps)):
        picked = [t[k] for t, k in zip(taps, choice, strict=True)]
        at = [p for p, _ in picked]
        if all(0 <= p < n for p, n in zip(at, image.shape[1:], strict=True)):
            index = (slice(None), *at)
            total += image[index] * np.prod([w for _, w in picked])
    return total


def grid_sample(
    x: Array, grid: Array, *, method: str, layout: str, padding_mode: str, align_corners: bool
) -> Array:
    """Sample ``x`` at the positions of a grid over ``[-1, 1]``."""
    if 0 in x.shape[2:]:
        raise ValueError("an empty image")
    out = np.zeros((*x.shape[:2], *grid.shape[2:]), x.dtype)
    sizes = x.shape[2:]
    for b, *at in np.ndindex(grid.shape[0], *grid.shape[2:]):
        taps = []
        for k, size in enumerate(sizes):
            where = (b, len(sizes) - 1 - k, *at)
            place = float(grid[where]) + 1
            place = place * (size - 1) / 2 if align_corners else place * size / 2 - 0.5
            taps.append(_taps(place, size, method, padding_mode, align_corners))
        row = (b, slice(None), *at)
        out[row] = _read(x[b], taps)
    return out


def crop_and_resize(
    data: Array,
    boxes: Array,
    picks: Array,
    *,
    crop_size: Sequence[int],
    layout: str,
    method: str,
    extrapolation_value: float,
    out_dtype: str,
) -> Array:
    """Crop boxes, given as fractions of an image, and resize them to one size."""
    x = data.transpose([layout.index(c) for c in "NCHW"])
    if 0 in x.shape[2:] or (x.shape[0] == 0 and len(picks)):
        raise ValueError("no image")
    out = np.zeros((len(picks), x.shape[1], *crop_size), np.float32)
    picks = np.clip(picks, 0, len(x) - 1)
    for n, i, j in np.ndindex(len(picks), *crop_size):
        taps, beyond = [], False
        for axis, k in enumerate((i, j)):
            span, count = x.shape[2 + axis] - 1, crop_size[axis]
            first, last = boxes[n, axis], boxes[n, axis + 2]
            scale = span * (last - first) / max(count - 1, 1)
            place = first * span + scale * k if count > 1 else (first + last) * 0.5 * span
            # set the last position exactly: ``scale * k`` has a rounding error
            place = last * span if 0 < k == count - 1 else place
            beyond = beyond or place < 0 or place > span
            place = min(max(place, 0), span)
            if method == "nearest_neighbor":
                taps.append([(int(np.floor(place + 0.5)), 1.0)])
            else:
                taps.append(_taps(float(place), span + 1, "bilinear", "border", True))
        out[n, :, i, j] = extrapolation_value if beyond else _read(x[picks[n]], taps)
    moved = out.transpose(["NCHW".index(c) for c in layout])
    return np.ascontiguousarray(moved).astype(out_dtype or data.dtype)


def deformable_conv2d(
    data: Array,
    offset: Array,
    weight: Array,
    *,
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    deformable_groups: int,
    data_layout: str,
    kernel_layout: str,
    out_dtype: str,
    **_: object,
) -> Array:
    """Return a convolution whose taps are shifted by offsets."""
    x, moves = (a.transpose([data_layout.index(c) for c in "NCHW"]) for a in (data, offset))
    w = weight.transpose([kernel_layout.index(c) for c in "OIHW"])
    batch, channels, *sizes = x.shape
    if 0 in sizes:
        raise ValueError("an empty image")
    taps, out_size = w.shape[2:], moves.shape[2:]
    out = np.zeros((batch, w.shape[0], *out_size), data.dtype)
    part = channels // deformable_groups
    for n, g, a, b, i, j in np.ndindex(batch, deformable_groups, *taps, *out_size):
        at = ((g * taps[0] + a) * taps[1] + b) * 2
        place = [
            (i, j)[k] * strides[k] - padding[k] + (a, b)[k] * dilation[k] + moves[n, at + k, i, j]
            for k in range(2)
        ]
        channel = slice(g * part, (g + 1) * part)
        read = np.zeros(part, data.dtype)  # outside of the image
        if all(0 <= p < s for p, s in zip(place, sizes, strict=True)):
            near = [
                _taps(float(p), s, "bilinear", "border", True)
                for p, s in zip(place, sizes, strict=True)
            ]
            # Positions after the last pixel use the last pixel.
            near = [[(min(p, s - 1), v) for p, v in t] for t, s in zip(near, sizes, strict=True)]
            read = _read(x[n, channel], near)
        out[n, :, i, j] += w[:, channel, a, b] @ read
    out = np.ascontiguousarray(out.transpose(["NCHW".index(c) for c in data_layout]))
    return as_kind(out, out_dtype)
