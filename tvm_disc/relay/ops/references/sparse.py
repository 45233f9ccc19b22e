"""NumPy semantics of operators on sparse tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tvm_disc.relay.ops.references.transform import scatter_nd

Array = NDArray[Any]


def sparse_to_dense(
    indices: Array, values: Array, default: Array, *, output_shape: Sequence[int]
) -> Array:
    """Return a dense tensor: the default, with the values written at their coordinates."""
    out = np.full(tuple(output_shape), default, values.dtype)
    coords = indices if indices.ndim == 2 else indices.reshape(-1, 1)
    each = np.broadcast_to(values, len(coords))
    return scatter_nd(out, coords.T, each, mode="update")


def dyn_sparse_to_dense(indices: Array, values: Array, default: Array, shape: Array) -> Array:
    """Return ``sparse_to_dense`` with the shape as an argument."""
    return sparse_to_dense(indices, values, default, output_shape=shape.tolist())


def sparse_reshape(indices: Array, before: Array, after: Array) -> tuple[Array, Array]:
    """Return the coordinates in a different shape, and that shape with its -1 resolved."""
    shape = after.copy()
    rest = int(np.prod(before)) // max(int(np.prod(after[after != -1])), 1)
    shape[shape == -1] = rest
    if 0 in before or 0 in shape:
        raise ValueError("positions in nothing")
    flat = np.ravel_multi_index(tuple(indices.T), tuple(before))
    found = np.stack(np.unravel_index(flat, tuple(shape)), 1)
    return found.astype(indices.dtype), shape


def sparse_fill_empty_rows(
    indices: Array, values: Array, shape: Array, default: Array
) -> tuple[Array, Array, Array]:
    """Return (coordinates, values, whether each row was empty), all int64, in order of rows.

    Each empty row receives the default value at column 0.
    """
    height = int(shape[0])
    empty = ~np.isin(np.arange(height), indices[:, 0])
    added = np.zeros((int(empty.sum()), indices.shape[1]), np.int64)
    added[:, 0] = np.flatnonzero(empty)
    every = np.concatenate([indices.astype(np.int64), added])
    filled = np.concatenate([values, np.full(len(added), default.reshape(()), values.dtype)])
    by_row = np.argsort(every[:, 0], kind="stable")
    return every[by_row], filled[by_row].astype(np.int64), empty.astype(np.int64)


def _dense(data: Array, indices: Array, begins: Array, width: int) -> Array:
    blocks = data if data.ndim == 3 else data.reshape(-1, 1, 1)
    _, high, wide = blocks.shape
    if indices.size and not (indices.min() >= 0 and (indices.max() + 1) * wide <= width):
        raise ValueError("blocks outside of the matrix")
    if (np.diff(begins) < 0).any() or begins[0] != 0 or begins[-1] != len(indices):
        raise ValueError("row pointers that do not go from the first entry to the last in order")
    out = np.zeros(((len(begins) - 1) * high, width), data.dtype)
    for r in range(len(begins) - 1):
        for e in range(begins[r], begins[r + 1]):
            at = indices[e] * wide
            out[r * high : (r + 1) * high, at : at + wide] += blocks[e]
    return out


def sparse_dense(
    x: Array, data: Array, indices: Array, begins: Array, *, sparse_lhs: bool
) -> Array:
    """Return ``x @ sparse.T`` or ``sparse @ x.T``."""
    product = x @ _dense(data, indices, begins, x.shape[1]).T
    return np.asarray(product.T if sparse_lhs else product)


def sparse_add(x: Array, data: Array, indices: Array, begins: Array) -> Array:
    """Return the sum of a dense and a sparse matrix."""
    return x + _dense(data, indices, begins, x.shape[1])


def sparse_transpose(data: Array, indices: Array, begins: Array) -> tuple[Array, Array, Array]:
    """Return the transpose of a square sparse matrix."""
    if begins[-1] != len(indices) or max(indices, default=-1) >= len(begins) - 1:
        raise ValueError("entries outside of the matrix")
    row = np.searchsorted(begins[1:], np.arange(len(indices)), side="right")
    by_column = np.argsort(indices, kind="stable")
    counts = np.bincount(indices, minlength=len(begins) - 1)
    pointers = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    return data[by_column], row[by_column].astype(np.int32), pointers
