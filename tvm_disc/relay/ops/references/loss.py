"""NumPy semantics of losses and gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tvm_disc.relay.ops.references.layout import as_kind
from tvm_disc.relay.ops.references.nn import full_padding

Array = NDArray[Any]


def cross_entropy(x: Array, targets: Array) -> Array:
    """Return ``-sum(log(x) * targets) / batch``."""
    return np.asarray(-np.sum(np.log(x) * targets) / x.shape[0]).astype(x.dtype)


def cross_entropy_with_logits(x: Array, targets: Array) -> Array:
    """Return ``-sum(x * targets) / batch``."""
    if x.shape[0] == 0:
        raise ValueError("an empty batch")
    return np.asarray(-np.sum(x * targets) / x.shape[0]).astype(x.dtype)


def nll_loss(
    x: Array, targets: Array, weights: Array, *, reduction: str, ignore_index: int
) -> Array:
    """Return ``-x[n, t] * weights[t]`` for each target class ``t``, reduced by ``reduction``.

    It is 0 if ``t == ignore_index``; the mean divides by the sum of the weights.
    """
    wide = x.reshape(x.shape[0], x.shape[1], -1)
    line = targets.reshape(x.shape[0], -1)
    loss, scale = np.zeros(line.shape, x.dtype), np.zeros(line.shape, x.dtype)
    for at in np.ndindex(*line.shape):
        t = int(line[at])
        if t != ignore_index:
            if not 0 <= t < len(weights):
                raise LookupError(f"no class {t} of {len(weights)}")
            scale[at] = weights[t]
            loss[at] = -wide[at[0], t, at[1]] * weights[t]
    if reduction == "none":
        return loss.reshape(targets.shape)
    total = loss.sum()
    if reduction == "mean":
        total = np.divide(total, scale.sum())
    return np.asarray(total).astype(x.dtype)


def _spans(at: Sequence[int], shape: Sequence[int], attrs: Any) -> list[slice]:
    starts = [i * s - p for i, s, p in zip(at, attrs["strides"], attrs["padding"][:2], strict=True)]
    return [
        slice(max(a, 0), max(min(a + k, n), 0))
        for a, k, n in zip(starts, attrs["pool_size"], shape, strict=True)
    ]


def _nchw(*arrays: Array, layout: str) -> list[Array]:
    return [a.transpose([layout.index(c) for c in "NCHW"]) for a in arrays]


def _require_windows(given: Array, x: Array, attrs: Any) -> None:
    before, after = full_padding(attrs["padding"], 2)
    for k, (size, stride) in enumerate(zip(attrs["pool_size"], attrs["strides"], strict=True)):
        room = x.shape[2 + k] + before[k] + after[k] - size + attrs["ceil_mode"] * (stride - 1)
        if given.shape[2 + k] != room // stride + 1:
            raise ValueError("shape mismatch: a gradient of each window")


def max_pool2d_grad(gradient: Array, data: Array, *, layout: str, **attrs: object) -> Array:
    """Add each window's gradient to its first maximum."""
    given, x = _nchw(gradient, data, layout=layout)
    _require_windows(given, x, attrs)
    out = np.zeros_like(x)
    for n, c, i, j in np.ndindex(*given.shape):
        rows, columns = _spans((i, j), x.shape[2:], attrs)
        part = x[n, c, rows, columns]
        if part.size:
            h, w = np.unravel_index(np.argmax(part), part.shape)
            out[n, c, rows.start + h, columns.start + w] += given[n, c, i, j]
    return np.ascontiguousarray(out.transpose(["NCHW".index(k) for k in layout]))


def avg_pool2d_grad(
    gradient: Array, data: Array, *, layout: str, count_include_pad: bool, **attrs: Any
) -> Array:
    """Add ``gradient / count`` to each element of each window.

    ``count`` is the number of elements of the window, with the padding if ``count_include_pad``.
    """
    given, x = _nchw(gradient, data, layout=layout)
    _require_windows(given, x, attrs)
    out = np.zeros_like(x)
    for n, c, i, j in np.ndindex(*given.shape):
        rows, columns = _spans((i, j), x.shape[2:], attrs)
        part = out[n, c, rows, columns]
        count = int(np.prod(attrs["pool_size"])) if count_include_pad else max(part.size, 1)
        part += given[n, c, i, j] / x.dtype.type(count)
    return np.ascontiguousarray(out.transpose(["NCHW".index(k) for k in layout]))


def conv2d_backward_weight(
    gradient: Array,
    data: Array,
    *,
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    kernel_size: Sequence[int],
    data_layout: str,
    kernel_layout: str,
    out_layout: str,
    out_dtype: str,
    **_: object,
) -> Array:
    """Return the weight gradient of a convolution."""
    (given,) = _nchw(gradient, layout=data_layout)
    (x,) = _nchw(data, layout=data_layout if kernel_layout == "OIHW" else kernel_layout)
    pads = [(0, 0), (0, 0), (padding[0], padding[-2]), (padding[1 % len(padding)], padding[-1])]
    wide = np.pad(x, pads)
    high, long = given.shape[2:]
    out = np.zeros((given.shape[1], x.shape[1], *kernel_size), data.dtype)
    for a, b in np.ndindex(*kernel_size):
        rows = slice(a * dilation[0], a * dilation[0] + (high - 1) * strides[0] + 1, strides[0])
        columns = slice(b * dilation[1], b * dilation[1] + (long - 1) * strides[1] + 1, strides[1])
        out[:, :, a, b] = np.einsum("nohw,nihw->oi", given, wide[:, :, rows, columns])
    out = np.ascontiguousarray(out.transpose(["OIHW".index(k) for k in out_layout or "OIHW"]))
    return as_kind(out, out_dtype)


def fifo_buffer(data: Array, buffer: Array, *, axis: int) -> Array:
    """Return the last elements of the concatenated buffer and data."""
    joined = np.concatenate([buffer, data], axis)
    first = data.shape[axis]
    return joined.take(range(first, first + buffer.shape[axis]), axis)
