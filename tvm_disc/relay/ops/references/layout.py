"""NumPy semantics of operators on layouts, blocks and windows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tvm_disc.relay.ops.references.transform import scatter_elements

Array = NDArray[Any]


def _axes(layout: str) -> list[tuple[str, int]]:
    return [(a or c, int(b or 0)) for a, b, c in re.findall(r"([A-Z])|(\d+)([a-z])", layout)]


def layout_transform(x: Array, *, src_layout: str, dst_layout: str) -> Array:
    """Permute axes and change their blocks."""
    source, target = _axes(src_layout), _axes(dst_layout)
    letters = sorted({a.upper() for a, _ in source})
    order = [k for a in letters for k, (b, _) in enumerate(source) if b.upper() == a]
    sizes = {
        a: int(np.prod([d for d, (b, _) in zip(x.shape, source, strict=True) if b.upper() == a]))
        for a in letters
    }
    whole = x.transpose(order).reshape([sizes[a] for a in letters])
    dims: list[int] = []
    places: list[int] = []
    for a in letters:
        found = [k for k, (b, _) in enumerate(target) if b.upper() == a]
        count = int(np.prod([target[k][1] for k in found if target[k][1]]))
        dims += [target[k][1] or sizes[a] // count for k in found]
        places += found
    return np.asarray(whole.reshape(dims).transpose(np.argsort(places)))


def as_kind(x: Array, dtype: str) -> Array:
    """Convert a sum to a different type of the same kind.

    Raises:
        ValueError: the kinds differ. The result would then depend on whether the elements or the
            sum are converted.
    """
    if dtype and np.dtype(dtype).kind != x.dtype.kind:
        raise ValueError(f"{x.dtype} summed as {dtype}")
    return x.astype(dtype or x.dtype)


def space_to_batch_nd(
    x: Array,
    *,
    block_shape: Sequence[int],
    paddings: tuple[tuple[int, int], tuple[int, int]],
    pad_value: float,
) -> Array:
    """Move blocks of the spatial axes to batch entries."""
    count = len(block_shape)
    pads = [(0, 0), *map(tuple, paddings), *[(0, 0)] * (x.ndim - 1 - count)]
    x = np.pad(x, pads, constant_values=pad_value)
    outer = [d // b for d, b in zip(x.shape[1:], block_shape, strict=False)]
    dims = [y for pair in zip(outer, block_shape, strict=True) for y in pair]
    x = x.reshape(x.shape[0], *dims, *x.shape[1 + count :])
    inner = [2 + 2 * k for k in range(count)]
    x = x.transpose([*inner, 0, *(k - 1 for k in inner), *range(1 + 2 * count, x.ndim)])
    batch = int(np.prod(x.shape[: count + 1]))
    return x.reshape(batch, *outer, *x.shape[1 + 2 * count :])


def batch_to_space_nd(x: Array, *, block_shape: Sequence[int], crops: Any) -> Array:
    """Move batch entries to blocks of the spatial axes, and crop."""
    count = len(block_shape)
    batch = x.shape[0] // int(np.prod(block_shape))
    outer, rest = x.shape[1 : 1 + count], x.shape[1 + count :]
    x = x.reshape(*block_shape, batch, *outer, *rest)
    pairs = [a for k in range(count) for a in (count + 1 + k, k)]
    x = x.transpose([count, *pairs, *range(2 * count + 1, x.ndim)])
    wide = [d * b for d, b in zip(outer, block_shape, strict=True)]
    x = x.reshape(batch, *wide, *rest)
    cut = [slice(a, d - b) for (a, b), d in zip(crops, wide, strict=True)]
    where = (slice(None), *cut)
    return np.asarray(x[where])


def sliding_window(
    x: Array, *, axis: int, window_shape: Sequence[int], strides: Sequence[int]
) -> Array:
    """Return all windows over the axes from ``axis`` on."""
    if min(strides, default=1) < 1:
        raise ValueError("windows that do not move on")
    axes = tuple(range(axis % x.ndim, x.ndim))
    view = np.lib.stride_tricks.sliding_window_view(x, tuple(window_shape), axes)
    steps = tuple(slice(None, None, s) for s in strides)
    return np.asarray(view[(slice(None),) * axes[0] + steps].copy())


def strided_set(x: Array, part: Array, begin: Array, end: Array, strides: Array) -> Array:
    """Return ``x`` with ``x[begin:end:strides] = part``."""
    out = x.copy()
    bounds = zip(begin.tolist(), end.tolist(), strides.tolist(), strict=True)
    out[tuple(slice(a, b, s) for a, b, s in bounds)] = part
    return np.asarray(out)


def reverse_sequence(x: Array, lengths: Array, *, seq_axis: int, batch_axis: int) -> Array:
    """Reverse the first ``lengths[b]`` elements of an axis in each batch entry."""
    out = np.moveaxis(x, (batch_axis, seq_axis), (0, 1)).copy()
    for b, n in enumerate(lengths):
        size = max(min(int(n), out.shape[1]), 0)
        out[b, :size] = out[b, :size][::-1]
    return np.ascontiguousarray(np.moveaxis(out, (0, 1), (batch_axis, seq_axis)))


def matrix_set_diag(
    x: Array,
    diagonal: Array,
    *,
    k1: int,
    k2: int,
    super_diag_right_align: bool,
    sub_diag_right_align: bool,
) -> Array:
    """Replace the diagonals ``k1`` to ``k2``; the highest is the first row of ``diagonal``."""
    out, (height, width) = x.copy(), x.shape[-2:]
    if diagonal.shape[-1] != min(height + min(k2, 0), width - max(k1, 0)):
        raise ValueError("shape mismatch: the longest diagonal")
    lines = diagonal if k1 != k2 else diagonal[..., None, :]
    for row, k in enumerate(range(k2, k1 - 1, -1)):
        size = min(height + min(k, 0), width - max(k, 0))
        right = (k >= 0 and super_diag_right_align) or (k <= 0 and sub_diag_right_align)
        first = lines.shape[-1] - size if right else 0
        for n in range(size):
            out[..., n - min(k, 0), n + max(k, 0)] = lines[..., row, first + n]
    return np.asarray(out)


def collapse_sum_to(x: Array, shape: Array) -> Array:
    """Sum over the axes along which broadcasting from ``shape`` would repeat."""
    lead = x.ndim - len(shape)
    axes = [*range(lead), *(lead + a for a, d in enumerate(shape) if d == 1)]
    return np.asarray(x.sum(tuple(axes), dtype=x.dtype).reshape(tuple(shape)))


def hardswish(x: Array) -> Array:
    """Return ``x * clip(x + 3, 0, 6) / 6``."""
    return np.asarray(x * np.clip(x + 3, 0, 6) / 6).astype(x.dtype)


def scatter(x: Array, indices: Array, updates: Array, *, axis: int) -> Array:
    """Write updates along an axis."""
    return scatter_elements(x, indices, updates, axis=axis, reduction="update")
