"""NumPy semantics of resizing, transposed convolution and local response normalization."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tvm_disc.relay.ops.references.nn import (
    each_tap,
    from_channels_first,
    full_padding,
    to_channels_first,
)

Array = Any

LITTLE = np.float32(1e-5)
HALF = np.float32(0.5)


def _places(length: int, size: int, mode: str) -> Array:
    """Return the operand position of each result element, in single precision as in TVM."""
    place, source, target = np.arange(size, dtype="float32"), np.float32(length), np.float32(size)
    one = np.float32(1)
    if mode == "align_corners":
        return place * ((source - one) / np.maximum(target - one, one))
    if mode == "asymmetric":
        return place * (source / target)
    if mode in ("half_pixel", "pytorch_half_pixel"):
        middle = (place + HALF) * (source / target) - HALF
        return middle if mode == "half_pixel" or size > 1 else place * 0
    if mode == "tf_half_pixel_for_nn":
        return (place + HALF) * (source / target)
    raise ValueError(mode)


_NEAREST: dict[str, Callable[[Array], Array]] = {
    "floor": lambda at: np.floor(at + LITTLE),
    "ceil": lambda at: np.ceil(at - LITTLE),
    "round": lambda at: np.floor(at + HALF),
    "round_prefer_ceil": lambda at: np.floor(at + HALF),
    "round_prefer_floor": lambda at: np.ceil(at - HALF),
}


def resized(
    x: Array,
    axis: int,
    size: int,
    method: str,
    mode: str,
    rounding: str,
    alpha: float = -0.5,
    exclude: int = 0,
) -> Array:
    """Resample one axis to ``size`` elements: nearest, or a weighted sum of two or four
    elements.
    """
    length = x.shape[axis]
    at = _places(length, size, mode)
    if method == "nearest_neighbor":
        default = "round" if mode == "align_corners" else "floor"
        pick = _NEAREST[rounding or default](at).astype(int)
        return np.take(x, np.clip(pick, 0, length - 1), axis)
    low = np.floor(at).astype(int)
    part = (at - low).astype("float32")
    if method == "linear":
        weights = np.stack([1 - part, part])
        places = low + np.arange(2)[:, None]
    elif method == "cubic":
        places = low + np.arange(-1, 3)[:, None]
        weights = _keys(np.abs(at - places), alpha)
        if exclude:
            weights = np.where((places < 0) | (places >= length), 0, weights)
            weights = weights / weights.sum(0)
    else:
        raise ValueError(method)
    dtype = x.dtype if x.dtype.kind == "f" else np.dtype("float32")
    along = [-1 if a == axis else 1 for a in range(x.ndim)]
    taps = zip(np.clip(places, 0, length - 1), weights.astype(dtype), strict=True)
    return sum(np.take(x, place, axis) * weight.reshape(along) for place, weight in taps)


def _keys(distance: Array, alpha: float) -> Array:
    """Return Keys' cubic weight of an element at a distance (IEEE Trans. ASSP 29, 1981)."""
    d = distance
    near = (alpha + 2) * d**3 - (alpha + 3) * d**2 + 1
    far = alpha * (d**3 - 5 * d**2 + 8 * d - 4)
    return np.where(d <= 1, near, np.where(d < 2, far, 0))


def resize(
    x: Array,
    /,
    *,
    size: Sequence[int],
    layout: str,
    method: str,
    coordinate_transformation_mode: str,
    rounding_method: str,
    cubic_alpha: float,
    cubic_exclude: int,
    out_dtype: str,
    **_: object,
) -> Array:
    """Resize all spatial axes, one at a time."""
    axes = [a for a, c in enumerate(layout) if c not in "NC"]
    dtype = out_dtype or x.dtype
    how = (method, coordinate_transformation_mode, rounding_method, cubic_alpha, cubic_exclude)
    for axis, length in zip(axes, size, strict=True):
        x = resized(x, axis, length, *how)
    return x.astype(dtype)


def dyn_resize(x: Array, size: Array, roi: Array, /, **attrs: object) -> Array:
    """Resize to sizes given as a tensor."""
    return resize(x, **{**attrs, "size": size.tolist()})


def upsampling(x: Array, /, *, layout: str, method: str, **attrs: Any) -> Array:
    """Enlarge images by one factor per axis."""
    method = {"bilinear": "linear", "trilinear": "linear", "bicubic": "cubic"}.get(method, method)
    corners = "align_corners" if attrs.get("align_corners") else "asymmetric"
    mode = attrs.get("coordinate_transformation_mode") or corners
    for name, scale in attrs.items():
        if name.startswith("scale_"):
            axis = layout.index(name[-1].upper())
            x = resized(x, axis, round(x.shape[axis] * float(scale)), method, mode, "")
    return x


def dyn_upsampling(x: Array, /, *scales: Array, **attrs: Any) -> Array:
    """Enlarge images by scalar tensors, one per axis."""
    names = [n for n in attrs if n.startswith("scale_")]
    return upsampling(x, **{**attrs, **dict(zip(names, map(float, scales), strict=True))})


def conv_transpose(rank: int) -> Callable[..., Array]:
    """Return a transposed convolution over ``rank`` spatial dims, which scatters a kernel per
    element.
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
        output_padding: Sequence[int],
        out_dtype: str,
        **_: object,
    ) -> Array:
        data = to_channels_first(x, data_layout).astype(out_dtype or x.dtype)
        spatial = [c for c in kernel_layout if c not in "OI"]
        kernel = weight.transpose([kernel_layout.index(c) for c in ("I", "O", *spatial)])
        full = _scattered(data, kernel.astype(data.dtype), strides, dilation, groups)
        before, after = full_padding(padding, rank)
        if min(before + after) < 0:
            raise ValueError("negative padding")
        full = np.pad(full, [(0, 0), (0, 0), *((0, p) for p in output_padding)])
        ends = [n - a for n, a in zip(full.shape[2:], after, strict=True)]
        inside = [slice(b, e) for b, e in zip(before, ends, strict=True)]
        index: tuple[Any, ...] = (slice(None), slice(None), *inside)
        return from_channels_first(full[index], data_layout)

    return apply


def _scattered(
    x: Array, w: Array, strides: Sequence[int], dilation: Sequence[int], groups: int
) -> Array:
    batch, channels, *size = x.shape
    if 0 in size:
        raise ValueError("an image without pixels")
    taps, outs = w.shape[2:], w.shape[1]
    reach = [
        (n - 1) * s + (k - 1) * d + 1
        for n, s, k, d in zip(size, strides, taps, dilation, strict=True)
    ]
    grouped = x.reshape(batch, groups, channels // groups, *size)
    kernels = w.reshape(groups, channels // groups, outs, *taps)
    full = np.zeros((batch, groups, outs, *reach), x.dtype)
    for tap in each_tap(taps):
        where: tuple[Any, ...] = (..., *tap)
        part = np.einsum("bgi...,gio->bgo...", grouped, kernels[where])
        at = [
            slice(t * d, t * d + (n - 1) * s + 1, s)
            for t, d, n, s in zip(tap, dilation, size, strides, strict=True)
        ]
        target: tuple[Any, ...] = (slice(None), slice(None), slice(None), *at)
        full[target] += part
    return full.reshape(batch, groups * outs, *reach)


def lrn(x: Array, *, size: int, axis: int, bias: float, alpha: float, beta: float) -> Array:
    """Divide by a power of the sum of squares over ``size`` adjacent elements of an axis."""
    reach, axis = size // 2, axis % x.ndim
    wide = np.pad(x * x, [(reach, reach) if a == axis else (0, 0) for a in range(x.ndim)])
    windows = [np.take(wide, np.arange(k, k + x.shape[axis]), axis) for k in range(2 * reach + 1)]
    return np.asarray(x / (bias + alpha / size * sum(windows)) ** beta).astype(x.dtype)


def invert_permutation(x: Array) -> Array:
    """Return the inverse permutation."""
    return np.argsort(x, kind="stable").astype(x.dtype)


def identity(x: Array, **_: object) -> Array:
    """Return a copy, for annotations without effect on the value."""
    return np.array(x)
