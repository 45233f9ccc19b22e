"""NumPy semantics of operators that Relay's own passes create."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import nn, sparse
from .layout import layout_transform

Array = np.ndarray
_PLACES = {3: [0, -1, 1], 5: [0, -1, 1, 0.5, -2], 7: [0, -1, 1, 0.5, -0.5, 2, -2]}


def _kernel_matrix(tile: int, taps: int) -> Array:
    places = np.array(_PLACES[tile + taps - 2])
    gaps = places[:, None] - places[None] + np.eye(len(places))
    powers = places[:, None] ** np.arange(taps) / gaps.prod(1)[:, None]
    powers[0] = np.abs(powers[0])
    return np.concatenate([powers, np.eye(taps)[-1:]])


def winograd_weights(w: Array, *, tile_size: int) -> Array:
    """Transform the spatial axes of a kernel.

    The depth axis of a 3-d kernel is not transformed if its size is not from 3 to 7 or differs from
    the height.
    """
    dtype = w.dtype
    flat = w.ndim == 5 and not (2 < w.shape[2] < 8 and w.shape[2] == w.shape[3])
    for axis in range(3 if flat else 2, w.ndim):
        matrix = _kernel_matrix(tile_size, w.shape[axis])
        w = np.moveaxis(np.tensordot(matrix, w, (1, axis)), 0, axis)
    order = (3, 4, 2, 0, 1) if flat else (*range(2, w.ndim), 0, 1)
    return np.asarray(w.transpose(order), dtype)


def winograd(rank: int) -> Callable[..., Array]:
    """Return a convolution by the kernel recovered from its transform by least squares."""

    def apply(x: Array, u: Array, *, tile_size: int, **attrs: object) -> Array:
        w = np.moveaxis(u.astype("float64"), (-2, -1), (0, 1))
        flat = rank == 3 and u.shape[2] != u.shape[0]
        w = w.transpose(0, 1, 4, 2, 3) if flat else w
        for axis in range(3 if flat else 2, w.ndim):
            matrix = np.linalg.pinv(_kernel_matrix(tile_size, w.shape[axis] - tile_size + 1))
            w = np.moveaxis(np.tensordot(matrix, w, (1, axis)), 0, axis)
        spatial = "DHW"[3 - rank :]
        given = {**attrs, "kernel_layout": f"OI{spatial}"}
        return nn.conv(rank)(x, w.astype(u.dtype), **given)

    return apply


def blocked_conv(
    x: Array, w: Array, *, data_layout: str, kernel_layout: str, **attrs: Any
) -> Array:
    """Return a convolution with blocked channels."""
    out = attrs.pop("out_layout") or data_layout
    data = layout_transform(x, src_layout=data_layout, dst_layout="NCHW")
    kernel = layout_transform(w, src_layout=kernel_layout, dst_layout="OIHW")
    plain = {**attrs, "data_layout": "NCHW", "kernel_layout": "OIHW", "out_layout": ""}
    found = nn.conv(2)(data, kernel, **plain)
    return layout_transform(found, src_layout="NCHW", dst_layout=out)


def blocked_dense(x: Array, w: Array, *, weight_layout: str, out_dtype: str, **_: object) -> Array:
    """Return a matmul with blocked weights."""
    plain = layout_transform(w, src_layout=weight_layout, dst_layout="NC")
    return nn.dense(x, plain, out_dtype=out_dtype)


def bitpack(
    x: Array, *, bits: int, pack_axis: int, bit_axis: int, pack_type: str, name: str
) -> Array:
    """Pack bits of adjacent elements into numbers, the first into the highest bit."""
    width, pack_axis = np.dtype(pack_type).itemsize * 8, pack_axis % x.ndim
    last = np.moveaxis(x, pack_axis, -1).astype("int64")
    apart = last.reshape(*last.shape[:-1], last.shape[-1] // width, width)
    places = 1 << np.arange(width - 1, -1, -1)
    planes = np.stack([((apart >> b & 1) * places).sum(-1) for b in range(bits)])
    return np.moveaxis(np.moveaxis(planes, -1, pack_axis + 1), 0, bit_axis).astype(pack_type)


def _signed(w: Array, weight_bits: int, unipolar: bool) -> Array:
    whole = w.astype("int64")
    return 2 * whole - (2**weight_bits - 1) if unipolar else whole


def bitserial_dense(
    x: Array, w: Array, *, weight_bits: int, unipolar: bool, out_dtype: str, **_: object
) -> Array:
    """Return a matmul with weights of ``weight_bits`` bits."""
    product = x.astype("int64") @ _signed(w, weight_bits, unipolar).T
    return np.asarray(product, out_dtype)


def bitserial_conv2d(
    x: Array, w: Array, *, weight_bits: int, unipolar: bool, out_dtype: str, **attrs: object
) -> Array:
    """Return a convolution of narrow integers."""
    names = ("strides", "padding", "data_layout", "kernel_layout")
    plain = {k: attrs[k] for k in names}
    more: dict[str, object] = {"dilation": (1, 1), "groups": 1, "out_dtype": "int64"}
    signed = _signed(w, weight_bits, unipolar)
    found: Array = nn.conv(2)(x.astype("int64"), signed, **plain, **more)
    return found.astype(out_dtype)


def sparse_conv2d(
    x: Array,
    data: Array,
    indices: Array,
    begins: Array,
    *,
    layout: str,
    kernel_size: Sequence[int],
) -> Array:
    """Return a convolution by a 1 x 1 kernel in compressed rows."""
    last = x.transpose([layout.index(c) for c in "NHWC"])
    flat = last.reshape(int(np.prod(last.shape[:3])), last.shape[3])
    found = sparse.sparse_dense(flat, data, indices, begins, sparse_lhs=False)
    shaped = found.reshape(*last.shape[:3], found.shape[1])
    turned: Array = shaped.transpose(["NHWC".index(c) for c in layout])
    return turned


def reshape_tensor(x: Array, shape: Array, *, newshape: object) -> Array:
    """Return ``x`` reshaped to a tensor's shape."""
    return x.reshape(shape)
