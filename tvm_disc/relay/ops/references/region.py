"""NumPy semantics of operators on regions, anchors and windows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
F32 = np.float32


def _pair(value: int | Sequence[int]) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else (value[0], value[1])


def _nchw(x: Array, layout: str) -> Array:
    if 0 in (x.shape[0], x.shape[layout.index("H")], x.shape[layout.index("W")]):
        raise ValueError("no image")
    return np.asarray(x.transpose([layout.index(c) for c in "NCHW"]))


def _back(x: Array, layout: str) -> Array:
    return np.ascontiguousarray(x.transpose(["NCHW".index(c) for c in layout]))


def _between(image: Array, y: Any, x: Any) -> Any:
    high, wide = image.shape[1:]
    if y < -1 or x < -1 or y > high or x > wide:
        return np.zeros(image.shape[0], image.dtype)
    y, x = min(max(y, 0), high - 1), min(max(x, 0), wide - 1)
    a, b = int(y), int(x)
    c, d = min(a + 1, high - 1), min(b + 1, wide - 1)
    v, u = F32(y - a), F32(x - b)
    top = image[:, a, b] * (1 - u) + image[:, a, d] * u
    return top * (1 - v) + (image[:, c, b] * (1 - u) + image[:, c, d] * u) * v


def roi_align(
    data: Array,
    rois: Array,
    *,
    pooled_size: Sequence[int],
    spatial_scale: float,
    sample_ratio: int,
    layout: str,
    mode: str,
) -> Array:
    """Return the mean or maximum of interpolated samples in each part of a region."""
    x, (high, wide) = _nchw(data, layout), _pair(pooled_size)
    out = np.zeros((len(rois), x.shape[1], high, wide), data.dtype)
    for n, roi in enumerate(rois):
        w0, h0, w1, h1 = (roi[1:] * F32(spatial_scale)).astype(F32)
        size = [max(h1 - h0, F32(1)) / F32(high), max(w1 - w0, F32(1)) / F32(wide)]
        count = [sample_ratio if sample_ratio > 0 else math.ceil(s) for s in size]
        for i, j in np.ndindex(high, wide):
            values = [
                _between(
                    x[int(roi[0])],
                    h0 + i * size[0] + (a + 0.5) * size[0] / count[0],
                    w0 + j * size[1] + (b + 0.5) * size[1] / count[1],
                )
                for a, b in np.ndindex(*count)
            ]
            out[n, :, i, j] = np.mean(values, 0) if mode == "avg" else np.max(values, 0)
    return _back(out, layout)


def roi_pool(
    data: Array, rois: Array, *, pooled_size: Sequence[int], spatial_scale: float, layout: str
) -> Array:
    """Return the maximum pixel in each part of a region."""
    x, pooled = _nchw(data, layout), _pair(pooled_size)
    out = np.zeros((len(rois), x.shape[1], *pooled), data.dtype)
    for n, roi in enumerate(rois):
        ends = np.rint(roi[1:] * F32(spatial_scale)).astype(int)
        for i, j in np.ndindex(*pooled):
            cut = []
            for k, at in enumerate((i, j)):
                first, last = ends[1 - k], ends[3 - k]
                size = F32(max(last - first + 1, 1)) / F32(pooled[k])
                begin = int(np.floor(at * size + F32(1e-5))) + first
                end = int(np.ceil((at + 1) * size - F32(1e-5))) + first
                limit = x.shape[2 + k]
                cut.append(slice(min(max(begin, 0), limit), min(max(end, 0), limit)))
            part = x[int(roi[0])][:, cut[0], cut[1]]
            if part.size:
                out[n, :, i, j] = part.max((1, 2))
    return _back(out, layout)


def correlation(
    one: Array,
    other: Array,
    *,
    kernel_size: int,
    max_displacement: int,
    stride1: int,
    stride2: int,
    padding: Sequence[int],
    is_multiply: bool,
    layout: str,
) -> Array:
    """Correlate patches of one image with displaced patches of another."""
    p = padding if len(padding) == 4 else (*padding, *padding)
    pads = [(0, 0), (0, 0), (p[0], p[2]), (p[1], p[3])]
    a, b = (np.pad(v, pads) for v in (one, other))
    radius, border = max_displacement // stride2, max_displacement + (kernel_size - 1) // 2
    across = 2 * radius + 1
    sizes = [(d - 2 * border + stride1 - 1) // stride1 for d in a.shape[2:]]
    if min(sizes) < 0 or one.shape[1] == 0:
        raise ValueError("no displacement fits")
    out = np.zeros((one.shape[0], across * across, *sizes), one.dtype)
    for q, i, j in np.ndindex(across * across, *sizes):
        y, x = i * stride1 + max_displacement, j * stride1 + max_displacement
        v, u = y + (q // across - radius) * stride2, x + (q % across - radius) * stride2
        s = a[:, :, y : y + kernel_size, x : x + kernel_size]
        t = b[:, :, v : v + kernel_size, u : u + kernel_size]
        out[:, q, i, j] = (s * t if is_multiply else np.abs(s - t)).sum((1, 2, 3))
    return np.asarray((out / (kernel_size * kernel_size * one.shape[1])).astype(one.dtype))


def dilation2d(
    data: Array,
    weight: Array,
    *,
    strides: Sequence[int],
    padding: Sequence[int],
    dilations: Sequence[int],
    data_layout: str,
    kernel_layout: str,
    out_dtype: str,
) -> Array:
    """Return the maximum sum of a window and the weights."""
    dtype = out_dtype or data.dtype
    x = data.transpose([data_layout.index(c) for c in "NCHW"]).astype(dtype)
    w = weight.transpose([kernel_layout.index(c) for c in "IHW"]).astype(dtype)
    p = padding if len(padding) == 4 else (*padding, *padding)
    x = np.pad(x, [(0, 0), (0, 0), (p[0], p[2]), (p[1], p[3])])
    taps = w.shape[1:]
    sizes = [
        (d - (k - 1) * g - 1) // s + 1
        for d, k, g, s in zip(x.shape[2:], taps, dilations, strides, strict=True)
    ]
    if min(sizes) < 1:
        raise ValueError("the window does not fit")
    low = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    out = np.full((*x.shape[:2], *sizes), low, x.dtype)
    for a, b in np.ndindex(*taps):
        rows = slice(
            a * dilations[0], a * dilations[0] + (sizes[0] - 1) * strides[0] + 1, strides[0]
        )
        cols = slice(
            b * dilations[1], b * dilations[1] + (sizes[1] - 1) * strides[1] + 1, strides[1]
        )
        out = np.maximum(out, x[:, :, rows, cols] + w[:, a, b].reshape(1, -1, 1, 1))
    return np.ascontiguousarray(out.transpose(["NCHW".index(c) for c in data_layout]))


def yolo_reorg(x: Array, *, stride: int) -> Array:
    """Move blocks of an image, viewed with fewer channels, to channels."""
    b, c, h, w = x.shape
    s = stride
    split = x.reshape(b, c // (s * s), h, s, w, s).transpose(0, 3, 5, 1, 2, 4)
    return np.ascontiguousarray(split).reshape(b, c * s * s, h // s, w // s)


def multibox_prior(
    data: Array,
    *,
    sizes: Sequence[float],
    ratios: Sequence[float],
    steps: Sequence[float],
    offsets: Sequence[float],
    clip: bool,
) -> Array:
    """Return boxes of each size and ratio around each pixel."""
    high, wide = data.shape[2:]
    if 0 in (high, wide):
        raise ValueError("an empty image")
    step = [s if s > 0 else 1 / d for s, d in zip(steps, (high, wide), strict=True)]
    shapes = [(s, 1.0) for s in sizes] + [(sizes[0], math.sqrt(r)) for r in ratios[1:]]
    boxes = []
    for i, j in np.ndindex(high, wide):
        y, x = (i + offsets[0]) * step[0], (j + offsets[1]) * step[1]
        for size, root in shapes:
            w, h = size * high / wide * root / 2, size / root / 2
            boxes.append([x - w, y - h, x + w, y + h])
    out = np.array(boxes, F32).reshape(1, -1, 4)
    return np.clip(out, 0, 1) if clip else out


def multibox_transform_loc(
    scores: Array,
    moves: Array,
    anchors: Array,
    *,
    clip: bool,
    threshold: float,
    variances: Sequence[float],
    keep_background: bool,
) -> tuple[Array, Array]:
    """Return boxes with a class as label, score and corners, padded with -1, and their number."""
    batch, classes, size = scores.shape
    if moves.shape != (batch, 4 * size) or anchors.shape[1:] != (size, 4):
        raise ValueError("moves or anchors of another number of boxes")
    first = 0 if keep_background else 1
    if classes <= first:
        raise ValueError("no classes")
    out, counts = np.full((batch, size, 6), -1, F32), np.zeros(batch, np.int32)
    for b, j in np.ndindex(batch, size):
        kind = int(np.argmax(scores[b, first:, j])) + first
        score = max(scores[b, kind, j], F32(-1))
        if score <= -1 or score < F32(threshold):
            kind = 0
        if not keep_background and kind == 0:
            continue
        a, m = anchors[0, j], moves[b, 4 * j : 4 * j + 4] * np.array(variances, F32)
        span, centre = a[2:] - a[:2], (a[:2] + a[2:]) / 2
        centre, half = m[:2] * span + centre, np.exp(m[2:]) * span / 2
        box = np.concatenate([centre - half, centre + half])
        label = kind if keep_background else kind - 1
        out[b, counts[b]] = [label, score, *(np.clip(box, 0, 1) if clip else box)]
        counts[b] += 1
    return out, counts


def _anchor(ratio: float, scale: float, base: float) -> Array:
    width = math.floor(math.sqrt(math.floor(base * base / ratio)) + 0.5) * scale
    height = math.floor(width / scale * ratio + 0.5) * scale
    half = np.array([width - 1, height - 1]) / 2
    return np.concatenate([(base - 1) / 2 - half, (base - 1) / 2 + half]).astype(F32)


def _pixels_overlap(a: Array, b: Array) -> Any:
    common = np.prod(np.maximum(np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2]) + 1, 0))
    return common / (np.prod(a[2:] - a[:2] + 1) + np.prod(b[2:] - b[:2] + 1) - common)


def proposal(
    scores: Array,
    moves: Array,
    info: Array,
    *,
    scales: Sequence[float],
    ratios: Sequence[float],
    feature_stride: int,
    threshold: float,
    rpn_pre_nms_top_n: int,
    rpn_post_nms_top_n: int,
    rpn_min_size: int,
    iou_loss: bool,
) -> Array:
    """Return the best boxes around anchors after suppression, repeated to the required number."""
    batch, _, high, wide = scores.shape
    if 0 in (high, wide):
        raise ValueError("an empty image")
    shapes = [_anchor(r, s, feature_stride) for r in ratios for s in scales]
    out = np.zeros((batch, rpn_post_nms_top_n, 5), F32)
    for b in range(batch):
        limit = info[b, [1, 0, 1, 0]] - 1
        least, boxes, best = info[b, 2] * rpn_min_size, [], []
        for h, w, k in np.ndindex(high, wide, len(shapes)):
            box = shapes[k] + np.array([w, h, w, h], F32) * feature_stride
            d = moves[b, 4 * k : 4 * k + 4, h, w]
            if iou_loss:
                box = box + d
            else:
                size = box[2:] - box[:2] + 1
                centre = d[:2] * size + box[:2] + (size - 1) / 2
                half = (np.exp(d[2:]) * size - 1) / 2
                box = np.concatenate([centre - half, centre + half])
            box = np.maximum(np.minimum(box, limit), 0).astype(F32)
            score = scores[b, len(shapes) + k, h, w]
            if h >= int(info[b, 0] / feature_stride) or w >= int(info[b, 1] / feature_stride):
                score = -1
            if (box[2:] - box[:2] + 1 < least).any():
                box, score = box + np.array([-1, -1, 1, 1], F32) * (least / 2), -1
            boxes.append(box)
            best.append(score)
        places = np.argsort(-np.array(best), kind="stable")
        places = places[:rpn_pre_nms_top_n] if rpn_pre_nms_top_n > 0 else places
        kept: list[Any] = []
        for p in places:
            if all(_pixels_overlap(k, boxes[p]) <= threshold for k in kept):
                kept.append(boxes[p])
        for n in range(rpn_post_nms_top_n):
            out[b, n] = [b, *kept[n % len(kept)]]
    return out.reshape(-1, 5)
