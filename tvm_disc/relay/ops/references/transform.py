"""NumPy semantics of operators that move, select and reorder elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def target_shape(old: Sequence[int], newshape: Sequence[int], allowzero: bool) -> list[int]:
    """Resolve Relay's reshape codes, except -1, which NumPy infers.

    0 copies a dim (unless ``allowzero``), -2 copies the rest, -3 merges two, -4 splits one.
    """
    out: list[int] = []
    src, i = 0, 0
    while i < len(newshape):
        code = int(newshape[i])
        if code == 0 and not allowzero:
            out.append(old[src])
        elif code == -2:
            out.extend(old[src:])
            src = len(old) - 1
        elif code == -3:
            out.append(old[src] * old[src + 1])
            src += 1
        elif code == -4:
            out.extend(_split_dim(old[src], int(newshape[i + 1]), int(newshape[i + 2])))
            i += 2
        else:
            out.append(code)
        src, i = src + 1, i + 1
    return out


def _split_dim(size: int, left: int, right: int) -> tuple[int, int]:
    if left == -1:
        return size // right, right
    return left, size // left if right == -1 else right


def reshape(x: Array, *, newshape: Sequence[int], allowzero: bool) -> Array:
    """Reshape; ``newshape`` may contain Relay's codes."""
    return x.reshape(target_shape(x.shape, newshape, allowzero))


def reverse_reshape(x: Array, *, newshape: Sequence[int], allowzero: bool) -> Array:
    """Reshape with the codes read from right to left."""
    shape = target_shape(x.shape[::-1], newshape[::-1], allowzero)
    return x.reshape(shape[::-1])


def reshape_like(
    x: Array,
    like: Array,
    *,
    lhs_begin: int,
    lhs_end: int | None,
    rhs_begin: int,
    rhs_end: int | None,
) -> Array:
    """Replace a range of ``x``'s dims by a range of ``like``'s."""
    lhs, rhs = (_axes(*b) for b in ((lhs_begin, lhs_end, x.ndim), (rhs_begin, rhs_end, like.ndim)))
    return x.reshape(*x.shape[: lhs.start], *like.shape[rhs], *x.shape[lhs.stop :])


def _axes(begin: int, end: int | None, rank: int) -> slice:
    end = rank if end is None else end
    first, last = (b + rank if b < 0 else b for b in (begin, end))
    if not 0 <= first <= last <= rank:
        raise ValueError(f"axes {begin} to {end} of rank {rank}")
    return slice(first, last)


def transpose(x: Array, *, axes: Sequence[int] | None) -> Array:
    """Permute the axes; reverse them for None."""
    return np.transpose(x, axes if axes else None)


def expand_dims(x: Array, *, axis: int, num_newaxis: int) -> Array:
    """Insert ``num_newaxis`` dims of size 1 at ``axis``."""
    at = axis if axis >= 0 else x.ndim + axis + 1
    return x.reshape(*x.shape[:at], *([1] * num_newaxis), *x.shape[at:])


def squeeze(x: Array, *, axis: Sequence[int] | None) -> Array:
    """Remove dims of size 1: the listed ones, or all."""
    return np.squeeze(x, None if axis is None else tuple(axis))


def concatenate(parts: Sequence[Array], *, axis: int) -> Array:
    """Concatenate tensors along an existing axis."""
    return np.concatenate(parts, axis)


def stack(parts: Sequence[Array], *, axis: int) -> Array:
    """Stack tensors along a new axis."""
    return np.stack(parts, axis)


def split(x: Array, *, indices_or_sections: int, axis: int) -> tuple[Array, ...]:
    """Split into equal sections (an int), or at positions (a tuple)."""
    return tuple(np.split(x, indices_or_sections, axis))


def _slice(
    x: Array,
    begin: Sequence[int],
    end: Sequence[int],
    strides: Sequence[int],
    mode: str,
    axes: Sequence[int],
) -> Array:
    named = range(max(len(begin), len(end or ()))) if axes is None else axes
    where = [a % x.ndim for a in named]
    index: list[slice] = [slice(None)] * x.ndim
    for i, axis in enumerate(where):
        step = 1 if not strides or mode == "size" else int(strides[i % len(strides)])
        start = None if i >= len(begin) or begin[i] is None else int(begin[i])
        index[axis] = slice(start, _stop(x.shape[axis], start, end, i, mode), step)
    return x[tuple(index)]


def _stop(size: int, start: int | None, end: Sequence[int], i: int, mode: str) -> int | None:
    """Return the Python slice end; in size mode ``end`` is a length and -1 means up to the end."""
    value = None if end is None or i >= len(end) or end[i] is None else int(end[i])
    if value is None or mode != "size":
        return value
    first = start or 0
    return None if value < 0 else max((first + size if first < 0 else first) + value, 0)


def strided_slice(
    x: Array,
    *,
    begin: Sequence[int],
    end: Sequence[int],
    strides: Sequence[int],
    axes: Sequence[int],
    slice_mode: str,
) -> Array:
    """Return ``x[begin:end:strides]`` on the leading (or listed) axes; out-of-range bounds
    clamp.
    """
    return _slice(x, begin, end, strides, slice_mode, axes)


def slice_like(x: Array, like: Array, *, axes: Sequence[int] | None) -> Array:
    """Slice ``x`` to the size of ``like`` on the listed axes (all for None)."""
    where = [a % x.ndim for a in axes] if axes else range(min(x.ndim, like.ndim))
    index = [slice(None)] * x.ndim
    for axis in where:
        index[axis] = slice(0, like.shape[axis])
    return x[tuple(index)]


def take(x: Array, indices: Array, *, axis: int | None, batch_dims: int, mode: str) -> Array:
    """Select rows along ``axis`` (of the flattened tensor for None)."""
    if axis is None:
        x, axis = x.reshape(-1), 0
    axis %= x.ndim
    size = x.shape[axis]
    index = indices.astype(np.int64)
    if mode == "fast":
        index = np.where(index < 0, index + size, index)
    index = index % size if mode == "wrap" else np.clip(index, 0, size - 1)
    if not batch_dims:
        return np.take(x, index, axis)
    batch = batch_dims + index.ndim if batch_dims < 0 else batch_dims
    lead = x.shape[:batch]
    rows = [np.take(x[b], index[b], axis - batch) for b in np.ndindex(*lead)]
    return np.stack(rows).reshape(*lead, *rows[0].shape)


def gather(x: Array, indices: Array, *, axis: int) -> Array:
    """Return ``out[i, j] = x[indices[i, j], j]`` for axis 0; negative indices wrap once.

    On other axes the indices may be smaller than ``x``; nothing broadcasts.
    """
    axis %= x.ndim
    kept = x[tuple(slice(None) if a == axis else slice(n) for a, n in enumerate(indices.shape))]
    if np.delete(kept.shape, axis).tolist() != np.delete(indices.shape, axis).tolist():
        raise ValueError("indices must not reach past the operand")
    return np.take_along_axis(kept, indices.astype(np.int64), axis)


def gather_nd(x: Array, indices: Array, *, batch_dims: int, index_rank: object = None) -> Array:
    """Return slices at coordinates; ``indices[k]`` is coordinate k (the coordinate axis is
    first).
    """
    coords = indices.astype(np.int64)
    if not batch_dims:
        return np.asarray(x[tuple(coords)])
    lead = x.shape[:batch_dims]
    rows = [x[b][tuple(_column(coords, b))] for b in np.ndindex(*lead)]
    return np.stack(rows).reshape(*lead, *rows[0].shape)


def _column(coords: Array, batch: tuple[int, ...]) -> Array:
    index: tuple[Any, ...] = (slice(None), *batch)
    return np.asarray(coords[index])


def scatter_elements(
    x: Array, indices: Array, updates: Array, *, axis: int, reduction: str
) -> Array:
    """Return ``x`` with ``updates`` written at ``indices`` along ``axis``."""
    where: list[Any] = list(np.indices(indices.shape))
    axis %= x.ndim
    where[axis] = indices.astype(np.int64)
    return _scatter(x, tuple(where), updates, reduction)


def write_slice(selected: Array, *_: Array, **__: object) -> Array:
    """Return the first operand, which the others describe."""
    return np.array(selected)


def scatter_nd(x: Array, indices: Array, updates: Array, *, mode: str) -> Array:
    """Return ``x`` with ``updates`` written at coordinates (the coordinate axis is first)."""
    return _scatter(x, tuple(indices.astype(np.int64)), updates, mode)


def _scatter(x: Array, where: tuple[Array, ...], updates: Array, mode: str) -> Array:
    """Apply updates in row-major order; updates outside of ``x`` are ignored."""
    if where:
        dims = np.array(x.shape[: len(where)], np.int64).reshape(-1, *[1] * where[0].ndim)
        places = np.stack(where)
        places = np.where(places < 0, places + dims, places)
        inside = ((places >= 0) & (places < dims)).all(axis=0)
        where, updates = tuple(p[inside] for p in places), updates[inside]
    out: Array = x.copy()
    ufuncs: dict[str, Any] = {
        "add": np.add,
        "mul": np.multiply,
        "min": np.minimum,
        "max": np.maximum,
    }
    if mode == "update":
        out[where] = updates
    elif mode == "mean":
        count = np.ones(x.shape, np.int64)
        np.add.at(out, where, updates)
        np.add.at(count, where, 1)
        out = np.asarray(out / count).astype(x.dtype)
    else:
        ufuncs[mode].at(out, where, updates)
    return out


def one_hot(indices: Array, on: Array, off: Array, *, depth: int, axis: int, dtype: str) -> Array:
    """Return ``on`` at the index, ``off`` elsewhere, along a new axis of size ``depth``."""
    hit = np.arange(depth) == indices[..., None]
    out = np.where(hit, on, off).astype(dtype or on.dtype)
    return np.moveaxis(out, -1, axis)


def tile(x: Array, *, reps: Sequence[int]) -> Array:
    """Repeat the tensor along each axis."""
    return np.tile(x, tuple(reps))


def repeat(x: Array, *, repeats: int, axis: int | None) -> Array:
    """Repeat each element along one axis (of the flattened tensor for None)."""
    return np.repeat(x, repeats, axis)


def reverse(x: Array, *, axis: int | None) -> Array:
    """Reverse one axis, or all for None."""
    return np.flip(x, axis)


def broadcast_to(x: Array, *, shape: Sequence[int], dtype: str = "") -> Array:
    """Broadcast to a shape."""
    return np.array(np.broadcast_to(x, tuple(shape)))


def broadcast_to_like(x: Array, like: Array) -> Array:
    """Broadcast to the shape of ``like``."""
    return np.array(np.broadcast_to(x, like.shape))


def collapse_sum_like(x: Array, like: Array) -> Array:
    """Sum to the shape of ``like``: the adjoint of broadcasting."""
    lead = x.ndim - like.ndim
    axes = [*range(lead), *(i + lead for i, n in enumerate(like.shape) if n == 1)]
    return np.asarray(x.sum(tuple(axes), keepdims=True, dtype=x.dtype)).reshape(like.shape)


def trilu(x: Array, k: Array, *, upper: bool) -> Array:
    """Return the upper or lower triangle around diagonal ``k``."""
    return np.triu(x, int(k)) if upper else np.tril(x, int(k))


def argwhere(condition: Array) -> Array:
    """Return the coordinates of the non-zero elements, int32 of shape (count, rank)."""
    return np.argwhere(condition).astype(np.int32)


def unravel_index(indices: Array, shape: Array) -> Array:
    """Return flat positions as coordinates; the coordinate axis is first."""
    if 0 in shape:
        raise ValueError("positions in nothing")
    return np.stack(np.unravel_index(indices, tuple(shape.tolist()))).astype(indices.dtype)


def meshgrid(parts: Sequence[Array], *, indexing: str) -> tuple[Array, ...]:
    """Return coordinate grids of rank-1 tensors."""
    return tuple(np.meshgrid(*parts, indexing="xy" if indexing == "xy" else "ij"))


def adv_index(parts: Sequence[Array]) -> Array:
    """Return NumPy's integer-array indexing: ``parts[0][parts[1], parts[2], ...]``."""
    return np.asarray(parts[0][tuple(p.astype(np.int64) for p in parts[1:])])


def einsum(parts: Sequence[Array], *, equation: str) -> Array:
    """Return the Einstein summation."""
    return np.asarray(np.einsum(equation, *parts)).astype(parts[0].dtype)


def sequence_mask(x: Array, valid: Array, *, mask_value: float, axis: int) -> Array:
    """Overwrite positions at or after ``valid[batch]`` along ``axis``; the batch is the other
    axis.
    """
    length = np.arange(x.shape[axis])
    keep = length[:, None] < valid[None, :]
    keep = keep if axis % x.ndim == 0 else keep.T
    return np.where(keep.reshape(*keep.shape, *([1] * (x.ndim - 2))), x, mask_value).astype(x.dtype)


# -- ordering


def argsort(x: Array, *, axis: int, is_ascend: bool, dtype: str) -> Array:
    """Return stable positions that sort ``axis``; NaN is above every number."""
    if is_ascend:
        order = np.argsort(x, axis, kind="stable")
    elif x.dtype.kind in "iub":
        order = np.argsort(~x, axis, kind="stable")
    else:
        order = np.lexsort((-x, ~np.isnan(x)), axis)
    return order.astype(dtype or "int32")


def sort(x: Array, *, axis: int, is_ascend: bool, dtype: str = "") -> Array:
    """Sort ``axis``."""
    out = np.sort(x, axis)
    return out if is_ascend else np.flip(out, axis)


def topk(x: Array, *, k: int, axis: int, ret_type: str, is_ascend: bool, dtype: str) -> object:
    """Return the first ``k`` of the sorted axis (all for k < 1): values, positions, or both."""
    size = x.shape[axis]
    count = size if k is None or k < 1 else min(k, size)
    order = argsort(x, axis=axis, is_ascend=is_ascend, dtype="int64")
    order = np.take(order, range(count), axis)
    values = np.take_along_axis(x, order, axis)
    order = order.astype(dtype or "int32")
    return {"both": (values, order), "values": values, "indices": order}[ret_type]


def searchsorted(seq: Array, values: Array, *, right: bool, dtype: str) -> Array:
    """Return insertion positions in each innermost row of ``seq``."""
    side = "right" if right else "left"
    if not (seq[..., 1:] >= seq[..., :-1]).all():
        raise ValueError("a sequence out of order")
    if seq.ndim == 1:
        out = np.searchsorted(seq, values, side)  # type: ignore[call-overload]
        return np.asarray(out).astype(dtype)
    flat = zip(seq.reshape(-1, seq.shape[-1]), values.reshape(-1, values.shape[-1]), strict=False)
    rows = [np.searchsorted(s, v, side) for s, v in flat]  # type: ignore[call-overload]
    return np.stack(rows).reshape(values.shape).astype(dtype)


# -- operators whose shape is a tensor argument


def dyn_reshape(x: Array, shape: Array, /, *, allowzero: bool, **_: object) -> Array:
    """Reshape to a shape tensor."""
    return reshape(x, newshape=shape.tolist(), allowzero=allowzero)


def dyn_broadcast_to(x: Array, shape: Array, /, **_: object) -> Array:
    """Broadcast to a shape tensor."""
    return broadcast_to(x, shape=shape.tolist())


def dyn_full(fill: Array, shape: Array, /, *, dtype: str, **_: object) -> Array:
    """Return ``full`` with a shape tensor."""
    return np.full(tuple(shape.tolist()), fill, dtype or fill.dtype)


def dyn_zeros(shape: Array, /, *, dtype: str, **_: object) -> Array:
    """Return ``zeros`` with a shape tensor."""
    return np.zeros(tuple(shape.tolist()), dtype or "float32")


def dyn_ones(shape: Array, /, *, dtype: str, **_: object) -> Array:
    """Return ``ones`` with a shape tensor."""
    return np.ones(tuple(shape.tolist()), dtype or "float32")


def dyn_tile(x: Array, reps: Array, /, **_: object) -> Array:
    """Tile by a tensor of repetitions."""
    return np.tile(x, tuple(reps.tolist()))


def dyn_one_hot(
    indices: Array, on: Array, off: Array, depth: Array, /, *, axis: int, dtype: str, **_: object
) -> Array:
    """Return ``one_hot`` with a tensor depth."""
    return one_hot(indices, on, off, depth=int(depth), axis=axis, dtype=dtype)


def dyn_topk(x: Array, k: Array, /, **attrs: Any) -> object:
    """Return ``topk`` with a tensor ``k``."""
    return topk(x, **{**attrs, "k": int(k.reshape(()))})


def dyn_strided_slice(
    x: Array,
    begin: Array,
    end: Array,
    strides: Array,
    /,
    *,
    slice_mode: str,
    axes: Sequence[int],
    **_: object,
) -> Array:
    """Return ``strided_slice`` with tensor bounds."""
    return _slice(x, begin.tolist(), end.tolist(), strides.tolist(), slice_mode, axes)


def dyn_expand_dims(x: Array, axis: Array, /, *, num_newaxis: int) -> Array:
    """Return ``expand_dims`` at a tensor axis."""
    return expand_dims(x, axis=int(axis), num_newaxis=num_newaxis)


def dyn_squeeze(x: Array, axes: Array, /, **_: object) -> Array:
    """Return ``squeeze`` along the axes in a tensor."""
    return squeeze(x, axis=axes.reshape(-1).tolist())


def unique(x: Array, *, sorted: bool, return_counts: bool) -> tuple[Array, ...]:
    """Return distinct values, first positions, inverse, their number, and optionally counts
    (int32).
    """
    values, first, inverse, counts = np.unique(x, True, True, True)
    number = np.array([len(values)], np.int32)
    if not sorted:
        order = np.argsort(first, kind="stable")
        back = np.argsort(order, kind="stable")
        values, first, counts, inverse = values[order], first[order], counts[order], back[inverse]
    out = (values, first.astype(np.int32), inverse.astype(np.int32), number)
    return (*out, counts.astype(np.int32)) if return_counts else out
