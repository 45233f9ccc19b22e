"""NumPy semantics of neural-network operators: direct loops over kernel taps."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tvm_disc.relay.ops.references.layout import layout_transform

Array = NDArray[Any]


def dense(x: Array, weight: Array, *, out_dtype: str, **_: object) -> Array:
    """Return ``x @ weight.T``: (..., k) and (units, k) give (..., units)."""
    dtype = out_dtype or x.dtype
    return np.asarray(np.matmul(x.astype(dtype), weight.astype(dtype).T))


def matmul(
    a: Array, b: Array, *, transpose_a: bool, transpose_b: bool, out_dtype: str, **_: object
) -> Array:
    """Return ``a @ b`` with optionally transposed operands; batch dims broadcast."""
    dtype = out_dtype or a.dtype
    left = a.swapaxes(-1, -2) if transpose_a else a
    right = b.swapaxes(-1, -2) if transpose_b else b
    return np.asarray(np.matmul(left.astype(dtype), right.astype(dtype)))


def softmax(x: Array, *, axis: int) -> Array:
    """Return ``exp(x) / sum(exp(x))`` along ``axis``."""
    power = np.exp(x - x.max(axis, keepdims=True))
    return np.asarray(power / power.sum(axis, keepdims=True)).astype(x.dtype)


def log_softmax(x: Array, *, axis: int) -> Array:
    """Return the logarithm of ``softmax``."""
    shifted = x - x.max(axis, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis, keepdims=True))).astype(x.dtype)


def relu(x: Array) -> Array:
    """Return ``max(x, 0)``."""
    return np.maximum(x, np.zeros((), x.dtype))


def leaky_relu(x: Array, *, alpha: float) -> Array:
    """Return ``x`` if positive, otherwise ``alpha * x``."""
    return np.where(x > 0, x, x * x.dtype.type(alpha))


def _along(vector: Array, ndim: int, axis: int) -> Array:
    shape = [1] * ndim
    shape[axis] = -1
    return vector.reshape(shape)


def prelu(x: Array, alpha: Array, *, axis: int) -> Array:
    """Return ``leaky_relu`` with one slope per channel."""
    return np.where(x > 0, x, x * _along(alpha, x.ndim, axis)).astype(x.dtype)


def bias_add(x: Array, bias: Array, *, axis: int) -> Array:
    """Add one number per channel."""
    return np.asarray(x + _along(bias, x.ndim, axis))


def batch_flatten(x: Array) -> Array:
    """Merge all dims except the first."""
    return x.reshape(x.shape[0], math.prod(x.shape[1:]))


def dropout(x: Array, *, rate: float) -> tuple[Array, Array]:
    """Return the inference form: the input, and a mask of ones."""
    return x, np.ones_like(x)


def _normalise(x: Array, axes: tuple[int, ...], epsilon: float) -> Array:
    mean = x.mean(axes, keepdims=True)
    return np.asarray((x - mean) / np.sqrt(x.var(axes, keepdims=True) + epsilon))


def _affine(x: Array, gamma: Array, beta: Array, axis: int, center: bool, scale: bool) -> Array:
    out = x * _along(gamma, x.ndim, axis) if scale else x
    out = out + _along(beta, x.ndim, axis) if center else out
    return out.astype(gamma.dtype)


def batch_norm(
    x: Array,
    gamma: Array,
    beta: Array,
    mean: Array,
    var: Array,
    *,
    axis: int,
    epsilon: float,
    center: bool,
    scale: bool,
) -> tuple[Array, Array, Array]:
    """Normalize by the given statistics, which are returned unchanged."""
    shifted = x - _along(mean, x.ndim, axis)
    out = shifted / np.sqrt(_along(var, x.ndim, axis) + epsilon)
    return _affine(out, gamma, beta, axis, center, scale), mean, var


def layer_norm(
    x: Array, gamma: Array, beta: Array, *, axis: int, epsilon: float, center: bool, scale: bool
) -> Array:
    """Normalize along one axis."""
    return _affine(_normalise(x, (axis,), epsilon), gamma, beta, axis, center, scale)


def instance_norm(
    x: Array, gamma: Array, beta: Array, *, axis: int, epsilon: float, center: bool, scale: bool
) -> Array:
    """Normalize per batch entry and channel, over all other axes."""
    axes = tuple(a for a in range(1, x.ndim) if a != axis % x.ndim)
    return _affine(_normalise(x, axes, epsilon), gamma, beta, axis, center, scale)


def group_norm(
    x: Array,
    gamma: Array,
    beta: Array,
    *,
    num_groups: int,
    axis: int,
    epsilon: float,
    center: bool,
    scale: bool,
) -> Array:
    """Normalize per batch entry and group of channels."""
    axis %= x.ndim
    size = x.shape[axis] // num_groups
    grouped = x.reshape(*x.shape[:axis], num_groups, size, *x.shape[axis + 1 :])
    axes = tuple(a for a in range(1, grouped.ndim) if a != axis)
    flat = _normalise(grouped, axes, epsilon).reshape(x.shape)
    return _affine(flat, gamma, beta, axis, center, scale)


def l2_normalize(x: Array, *, eps: float, axis: Sequence[int] | None) -> Array:
    """Divide by the Euclidean norm along ``axis``, or by ``sqrt(eps)`` if that is larger."""
    axes = tuple(axis or ()) or None
    return np.asarray(x / np.sqrt(np.maximum((x * x).sum(axes, keepdims=True), eps)))


# -- windows


def full_padding(padding: Sequence[int], rank: int) -> tuple[list[int], list[int]]:
    """Return ``padding``, given as one number, one per axis, or both ends, as (before, after)."""
    pads = [int(p) for p in padding]
    if len(pads) == 1:
        pads = pads * rank
    if len(pads) == rank:
        pads = pads * 2
    return pads[:rank], pads[rank:]


def each_tap(kernel: Sequence[int]) -> Iterable[tuple[int, ...]]:
    """Return all positions in a kernel."""
    return itertools.product(*(range(k) for k in kernel))


def _window(
    x: Array,
    tap: Sequence[int],
    strides: Sequence[int],
    dilation: Sequence[int],
    out: Sequence[int],
) -> Array:
    """Return the elements of a padded (N, C, spatial...) tensor that are multiplied by one tap."""
    cut = [
        slice(t * d, t * d + (o - 1) * s + 1, s) if o else slice(0, 0)
        for t, s, d, o in zip(tap, strides, dilation, out, strict=False)
    ]
    index = (slice(None), slice(None), *cut)
    return np.asarray(x[index])


def to_channels_first(x: Array, layout: str) -> Array:
    """Permute a batch to the order N, C and the spatial axes."""
    spatial = [c for c in layout if c not in "NC"]
    return np.transpose(x, [layout.index(c) for c in ("N", "C", *spatial)])


def from_channels_first(x: Array, layout: str) -> Array:
    """Invert ``to_channels_first``."""
    order = ["N", "C", *(c for c in layout if c not in "NC")]
    return np.transpose(x, [order.index(c) for c in layout])


def relaid(x: Array, layout: str, out_layout: str) -> Array:
    """Return ``x`` converted to ``out_layout``; unchanged if ``out_layout`` is empty."""
    if out_layout in ("", layout):
        return x
    return layout_transform(x, src_layout=layout, dst_layout=out_layout)


def conv(rank: int) -> Callable[..., Array]:
    """Return a convolution over ``rank`` spatial dims, with groups, strides, padding and
    dilation.
    """

    def apply(
        x: Array,
        weight: Array,
        *,
        strides: Sequence[int],
        padding: Sequence[int],
        dilation: Sequence[int],
        groups: int,
        data_layout: str,
        kernel_layout: str,
        out_dtype: str,
        out_layout: str = "",
        **_: object,
    ) -> Array:
        data = to_channels_first(x, data_layout)
        spatial = [c for c in kernel_layout if c not in "OI"]
        kernel = weight.transpose([kernel_layout.index(c) for c in ("O", "I", *spatial)])
        before, after = full_padding(padding, rank)
        data = np.pad(data, [(0, 0), (0, 0), *zip(before, after, strict=False)])
        dtype = np.dtype(out_dtype or x.dtype)
        out = _conv_nc(data, kernel, strides, dilation, groups, dtype)
        return relaid(from_channels_first(out, data_layout), data_layout, out_layout)

    return apply


def _conv_nc(
    x: Array,
    w: Array,
    strides: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    dtype: np.dtype[Any],
) -> Array:
    taps = w.shape[2:]
    size = [
        (n - (k - 1) * d - 1) // s + 1
        for n, k, s, d in zip(x.shape[2:], taps, strides, dilation, strict=False)
    ]
    batch, outputs = x.shape[0], w.shape[0]
    grouped = w.reshape(groups, outputs // groups, *w.shape[1:]).astype(dtype)
    out = np.zeros((batch, groups, outputs // groups, *size), dtype)
    for tap in each_tap(taps):
        part = _window(x, tap, strides, dilation, size).astype(dtype)
        part = part.reshape(batch, groups, w.shape[1], *size)
        index: tuple[Any, ...] = (..., *tap)
        out += np.einsum("bgi...,goi->bgo...", part, grouped[index])
    return out.reshape(batch, outputs, *size)


def _pool_geometry(
    x: Array,
    pool: Sequence[int],
    strides: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
) -> tuple[list[int], list[int], list[int]]:
    """Return padding before, padding after (extended for ``ceil_mode``) and output size."""
    rank = len(pool)
    before, after = full_padding(padding, rank)
    sizes = []
    for i in range(rank):
        room = x.shape[2 + i] + before[i] + after[i] - (pool[i] - 1) * dilation[i] - 1
        extra = strides[i] - 1 if ceil_mode else 0
        sizes.append((room + extra) // strides[i] + 1)
        after[i] += extra
    return before, after, sizes


def max_pool(
    x: Array,
    *,
    pool_size: Sequence[int],
    strides: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    layout: str,
    ceil_mode: bool,
    out_layout: str = "",
    **_: object,
) -> Array:
    """Return the maximum of each window, without the padding."""
    data = to_channels_first(x, layout)
    geometry = _pool_geometry(data, pool_size, strides, dilation, padding, ceil_mode)
    before, after, size = geometry
    low = {"f": -np.inf, "b": False}.get(x.dtype.kind)
    low = np.iinfo(x.dtype).min if low is None else low
    data = np.pad(data, [(0, 0), (0, 0), *zip(before, after, strict=False)], constant_values=low)
    parts = [_window(data, tap, strides, dilation, size) for tap in each_tap(pool_size)]
    return relaid(from_channels_first(np.max(np.stack(parts), axis=0), layout), layout, out_layout)


def avg_pool(
    x: Array,
    *,
    pool_size: Sequence[int],
    strides: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    layout: str,
    ceil_mode: bool,
    count_include_pad: bool,
    out_layout: str = "",
    **_: object,
) -> Array:
    """Return the mean of each window, without the padding unless ``count_include_pad``."""
    data = to_channels_first(x, layout)
    geometry = _pool_geometry(data, pool_size, strides, dilation, padding, ceil_mode)
    before, after, size = geometry
    width = [(0, 0), (0, 0), *zip(before, after, strict=False)]
    count = np.pad(np.ones_like(data), width, constant_values=int(count_include_pad))
    data = np.pad(data, width)
    windows = [
        (_window(data, t, strides, dilation, size), _window(count, t, strides, dilation, size))
        for t in each_tap(pool_size)
    ]
    total = np.sum(np.stack([w for w, _ in windows]), axis=0)
    number = np.sum(np.stack([c for _, c in windows]), axis=0)
    mean = from_channels_first((total / np.maximum(number, 1)).astype(x.dtype), layout)
    return relaid(mean, layout, out_layout)


def global_pool(func: Callable[..., object]) -> Callable[..., Array]:
    """Return a pooling that applies ``func`` over all spatial dims, which become 1."""

    def apply(x: Array, *, layout: str, out_layout: str = "", **_: object) -> Array:
        axes = tuple(i for i, c in enumerate(layout) if c not in "NC")
        found = np.asarray(func(x, axis=axes, keepdims=True)).astype(x.dtype)
        return relaid(found, layout, out_layout)

    return apply


def adaptive_pool(func: Callable[..., Any]) -> Callable[..., Array]:
    """Return a pooling that applies ``func`` to windows chosen for a given output size."""

    def apply(
        x: Array, *, output_size: Sequence[int], layout: str, out_layout: str = "", **_: object
    ) -> Array:
        axes = [i for i, c in enumerate(layout) if c not in "NC"]
        sizes = list(output_size) or [x.shape[a] for a in axes]
        sizes = sizes * len(axes) if len(sizes) == 1 else sizes
        for axis, size in zip(axes, sizes, strict=False):
            length = x.shape[axis]
            cuts = [(i * length // size, -((-(i + 1) * length) // size)) for i in range(size)]
            parts = [func(np.take(x, range(a, b), axis), axis=axis) for a, b in cuts]
            x = np.stack(parts, axis).astype(x.dtype)
        return relaid(x, layout, out_layout)

    return apply


def pad(x: Array, value: Array, *, pad_width: Sequence[Sequence[int]], pad_mode: str) -> Array:
    """Add borders: of ``value``, of the repeated edge, or of reflected elements."""
    width = [tuple(p) for p in pad_width]
    if pad_mode == "constant":
        return np.pad(x, width, constant_values=value.item())
    return np.pad(x, width, mode="edge" if pad_mode == "edge" else "reflect")


def mirror_pad(x: Array, *, mode: str, pad_width: Sequence[Sequence[int]]) -> Array:
    """Add reflected borders, with (SYMMETRIC) or without (REFLECT) the edge itself."""
    kind = "symmetric" if mode == "SYMMETRIC" else "reflect"
    return np.pad(x, [tuple(p) for p in pad_width], mode=kind)  # type: ignore[call-overload, no-any-return]


def dyn_pad(x: Array, width: Array, value: Array, /, *, pad_mode: str, **_: object) -> Array:
    """Pad by a tensor of widths."""
    if width.shape != (x.ndim, 2):
        raise ValueError("shape mismatch: two widths for each axis")
    return pad(x, value, pad_width=width.tolist(), pad_mode=pad_mode)


def depth_to_space(x: Array, *, block_size: int, layout: str, mode: str) -> Array:
    """Move channels into blocks of pixels."""
    data, b = to_channels_first(x, layout), block_size
    n, c, h, w = data.shape
    if mode == "DCR":
        out = data.reshape(n, b, b, c // b**2, h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        out = data.reshape(n, c // b**2, b, b, h, w).transpose(0, 1, 4, 2, 5, 3)
    return from_channels_first(out.reshape(n, c // b**2, h * b, w * b), layout)


def space_to_depth(x: Array, *, block_size: int, layout: str, mode: str) -> Array:
    """Move blocks of pixels into channels; the inverse of ``depth_to_space``."""
    data, b = to_channels_first(x, layout), block_size
    n, c, h, w = data.shape
    blocks = data.reshape(n, c, h // b, b, w // b, b)
    order = (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4)
    out = blocks.transpose(order).reshape(n, c * b**2, h // b, w // b)
    return from_channels_first(out, layout)


def dilate(x: Array, *, strides: Sequence[int], dilation_value: float) -> Array:
    """Insert ``strides - 1`` copies of a value between adjacent elements."""
    shape = [max((n - 1) * s + 1, 0) for n, s in zip(x.shape, strides, strict=False)]
    out = np.full(shape, dilation_value, x.dtype)
    out[tuple(slice(None, None, s) for s in strides)] = x
    return out
