"""Import rules: layouts, blocks, windows and writes to slices."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import tvm
from tvm import tirx
from tvm.relax import op as R

from tvm_disc.errors import TypeMismatch
from tvm_disc.relay.importer.context import Emitter, i64, product
from tvm_disc.relay.importer.lowering.order import picked
from tvm_disc.relay.importer.lowering.run_time import extents
from tvm_disc.relay.importer.lowering.slice import slice_extent, sliced
from tvm_disc.relay.importer.lowering.tensor import (
    Args,
    Attrs,
    Rule,
    cast,
    iota,
    number,
)
from tvm_disc.relay.importer.lowering.transform import permute, summed_to
from tvm_disc.relay.importer.lowering.window import padded
from tvm_disc.relay.importer.tensor import Tensor
from tvm_disc.relay.importer.values import is_number, slice_lists, value_of
from tvm_disc.relay.kernel_ops import reinterpret_call
from tvm_disc.relay.ops.algebra import maximum, minimum, where
from tvm_disc.typing import Expr, Size

I64 = "int64"


def along_axis(ctx: Emitter, vector: Tensor, axis: int, rank: int) -> Tensor:
    """Return a vector reshaped to extend along ``axis``."""
    return ctx.reshape(vector, [vector.dims[0] if a == axis else i64(1) for a in range(rank)])


# -- layouts -----------------------------------------------------------------------------------

Axes = list[tuple[str, int]]  # (letter, 0) or (lower-case letter, block size)


def _axes(ctx: Emitter, layout: str) -> Axes:
    """Parse a layout: ``NCHW4c`` is [(N, 0), (C, 0), (H, 0), (W, 0), (c, 4)].

    Raises:
        TypeMismatch: the layout is malformed.
    """
    parts = re.findall(r"([A-Z])|(\d+)([a-z])", layout)
    found = [(big, 0) if big else (small, int(size)) for big, size, small in parts]
    text = "".join(f"{size or ''}{letter}" for letter, size in found)
    letters = [letter for letter, size in found if not size]
    if text != layout or len(set(letters)) != len(letters):
        form = "different capital letters and blocks such as 4c"
        raise TypeMismatch(ctx.where(f"layout: expected {form}, found {layout!r}"))
    if not {letter.upper() for letter, _ in found} <= set(letters):
        raise TypeMismatch(ctx.where(f"layout: expected an axis for each block, found {layout!r}"))
    return found


def _factors(axes: Axes, letter: str) -> list[int]:
    """Return the positions in ``axes`` of an axis and of its blocks, outermost first."""
    return [k for k, (name, _) in enumerate(axes) if name.upper() == letter]


def _layout_transform(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    x: Tensor = args[0]
    source, target = (_axes(ctx, str(attrs[n])) for n in ("src_layout", "dst_layout"))
    letters = [letter for letter, size in source if not size]
    if set(letters) != {letter for letter, size in target if not size}:
        names = f"{attrs['src_layout']!r} and {attrs['dst_layout']!r}"
        text = f"src_layout, dst_layout: expected the same axes, found {names}"
        raise TypeMismatch(ctx.where(text))
    if x.rank != len(source):
        found = f"{attrs['src_layout']!r} for rank {x.rank}"
        raise TypeMismatch(ctx.where(f"src_layout: expected one axis per dim, found {found}"))
    for (letter, size), dim in zip(source, x.dims, strict=True):
        if size:
            ctx.require_eq(dim, i64(size), f"block {letter} must have the size in the layout")
    order = [k for letter in letters for k in _factors(source, letter)]
    whole = [product([x.dims[k] for k in _factors(source, letter)]) for letter in letters]
    x = ctx.reshape(permute(ctx, x, order), whole)
    return _split_axes(ctx, x, letters, target)


def _split_axes(ctx: Emitter, x: Tensor, letters: Sequence[str], target: Axes) -> Tensor:
    """Return ``x``, whose axes are ``letters``, with axes split and ordered as in ``target``."""
    places: list[int] = []
    dims: list[Any] = []
    for letter, dim in zip(letters, x.dims, strict=True):
        found = _factors(target, letter)
        blocks = [target[k][1] for k in found if target[k][1]]
        count = 1
        for b in blocks:
            count *= b
        if count > 1:
            ctx.solver.require_divides(
                i64(count),
                dim,
                ctx.where(f"axis {letter} must be a multiple of the block of {count}"),
            )
        outer = ctx.solver.simplify(tirx.floordiv(dim, i64(count)))
        dims += [i64(target[k][1]) if target[k][1] else outer for k in found]
        places += found
    split = ctx.reshape(x, dims)
    return permute(ctx, split, [places.index(k) for k in range(len(target))])


def _space_to_batch(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    x: Tensor = args[0]
    blocks, pads = list(attrs["block_shape"]), list(attrs["paddings"])
    count = len(blocks)
    pairs = [(0, 0), *((int(a), int(b)) for a, b in pads)]
    pairs += [(0, 0)] * (x.rank - len(pairs))
    if any(p != (0, 0) for p in pairs):
        x = padded(ctx, x, pairs, ctx.scalar(float(attrs["pad_value"]), x.dtype))
    dims = [x.dims[0]]
    outer = []
    for d, b in zip(x.dims[1 : 1 + count], blocks, strict=True):
        ctx.solver.require_divides(
            i64(b), d, ctx.where(f"the padded axis must be a multiple of the block of {b}")
        )
        outer.append(ctx.solver.simplify(tirx.floordiv(d, i64(b))))
        dims += [outer[-1], i64(b)]
    rest = list(x.dims[1 + count :])
    x = ctx.reshape(x, [*dims, *rest])
    inner = [2 + 2 * k for k in range(count)]
    order = [*inner, 0, *(k - 1 for k in inner), *range(1 + 2 * count, x.rank)]
    total = product([dims[0], *map(i64, blocks)])
    return ctx.reshape(permute(ctx, x, order), [total, *outer, *rest])


def _batch_to_space(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    x: Tensor = args[0]
    blocks, crops = list(attrs["block_shape"]), list(attrs["crops"])
    count, total = len(blocks), 1
    for b in blocks:
        total *= b
    ctx.solver.require_divides(
        i64(total), x.dims[0], ctx.where(f"the batch size must be a multiple of {total}")
    )
    batch = ctx.solver.simplify(tirx.floordiv(x.dims[0], i64(total)))
    outer, rest = list(x.dims[1 : 1 + count]), list(x.dims[1 + count :])
    x = ctx.reshape(x, [*map(i64, blocks), batch, *outer, *rest])
    pairs = [a for k in range(count) for a in (count + 1 + k, k)]
    x = permute(ctx, x, [count, *pairs, *range(2 * count + 1, x.rank)])
    wide = [d * b for d, b in zip(outer, blocks, strict=True)]
    x = ctx.reshape(x, [batch, *wide, *rest])
    extents = {}
    for k, (before, after) in enumerate(crops):
        if before or after:
            lost = i64(int(before) + int(after))
            ctx.solver.require_le(
                lost, x.dims[1 + k], ctx.where("the crops must not be larger than the axis")
            )
            extents[1 + k] = (i64(int(before)), x.dims[1 + k] - lost, 1)
    return sliced(ctx, x, extents)


# -- windows and parts -------------------------------------------------------------------------


def windows(ctx: Emitter, x: Tensor, axis: int, size: Size, stride: int, gap: int = 1) -> Tensor:
    """Return all windows along an axis: dim ``d`` becomes ``[(d - reach) // stride + 1, size]``.

    ``gap`` is the distance of adjacent window elements, and ``reach`` is ``(size - 1) * gap +
    1``.
    """
    size = ctx.dim(size)
    reach = ctx.solver.simplify((size - 1) * gap + 1)
    ctx.solver.require_le(
        reach, x.dims[axis], ctx.where("the window must not be larger than the input")
    )
    count = ctx.solver.simplify(tirx.floordiv(x.dims[axis] - reach, i64(stride)) + 1)
    begin = iota(ctx, count) * stride
    step = iota(ctx, size) * gap
    places = ctx.reshape(begin, [count, i64(1)]) + step
    dims = [*x.dims[:axis], count, size, *x.dims[axis + 1 :]]
    return ctx.emit(R.take(ctx.expr(x), ctx.expr(places), axis, "clip"), dims, x.dtype)


def _sliding_window(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    x: Tensor = args[0]
    first = ctx.axis(int(attrs["axis"]), x.rank)
    sizes, strides = list(attrs["window_shape"]), list(attrs["strides"])
    if first + len(sizes) != x.rank or len(strides) != len(sizes):
        raise TypeMismatch(
            ctx.where(
                "expected window_shape and strides with one number for each of the "
                f"{x.rank - first} axes from axis {first}, found {sizes} and {strides}"
            )
        )
    if min(sizes) < 1 or min(strides) < 1:
        text = f"windows and strides of at least 1, found {sizes} and {strides}"
        raise TypeMismatch(ctx.where(f"expected {text}"))
    for k, (size, stride) in enumerate(zip(sizes, strides, strict=True)):
        x = windows(ctx, x, first + 2 * k, int(size), int(stride))
    counts = [first + 2 * k for k in range(len(sizes))]
    return permute(ctx, x, [*range(first), *counts, *(c + 1 for c in counts)])


def _strided_set(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    """Return a slice assignment, as a scatter to the row-major positions of the slice."""
    x, part = args[:2]
    ctx.same_dtype([x, part])
    if part.rank != x.rank:
        raise TypeMismatch(ctx.where(f"expected values of rank {x.rank}, found rank {part.rank}"))
    flat = ctx.scalar(0, I64)
    for axis, (length, places) in _set_places(ctx, x, args[2:5]).items():
        ctx.require_eq(
            part.dims[axis], length, f"axis {axis} of the values must have the length of the slice"
        )
        stride = number(ctx, product(x.dims[axis + 1 :]), I64)
        line = along_axis(ctx, places * stride, axis, x.rank)
        flat = flat + line
    count = product(part.dims)
    base = ctx.reshape(x, [product(x.dims)])
    operands = [base, ctx.reshape(flat, [count]), ctx.reshape(part, [count])]
    call = R.scatter_elements(*map(ctx.expr, operands), axis=0, reduction="update")
    return ctx.reshape(ctx.emit(call, base.dims, x.dtype), x.dims)


def _set_places(ctx: Emitter, x: Tensor, bounds: Args) -> dict[int, tuple[Expr, Tensor]]:
    """Return the slice length and positions by axis; an axis without bounds is complete."""
    found = {a: (d, iota(ctx, d)) for a, d in enumerate(x.dims)}
    strides = value_of(bounds[2])
    if strides is None or not all(map(is_number, strides.reshape(-1))):
        read = extents(ctx, x, bounds)
        return found | {a: (e.length, e.places(ctx)) for a, e in read.items()}
    begin, end = (ctx.shape_arg(a, "a slice bound", limited=False) for a in bounds[:2])
    for given, low, high, by in slice_lists(ctx, begin, end, list(strides.reshape(-1)), None):
        axis = ctx.axis(given, x.rank)
        first, length, step = slice_extent(ctx, x.dims[axis], low, high, int(by))
        places = iota(ctx, length) * step
        found[axis] = length, places + number(ctx, first, I64)
    return found


def _reverse_sequence(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    """Return ``x`` with the first ``lengths[b]`` elements of an axis reversed in each batch
    entry.
    """
    x, lengths = args
    axis, batch = (ctx.axis(int(attrs[n]), x.rank) for n in ("seq_axis", "batch_axis"))
    ctx.require_eq(lengths.dims[0], x.dims[batch], "there must be a length for each batch entry")
    size = number(ctx, x.dims[axis], I64)
    count = along_axis(ctx, minimum(cast(ctx, lengths, I64), size), batch, x.rank)
    place = along_axis(ctx, iota(ctx, x.dims[axis]), axis, x.rank)
    back = count - 1 - place
    inside = place < count
    source = where(inside, back, place)
    return picked(ctx, x, ctx.broadcast(source, x.dims, full=True), axis)


def _matrix_set_diag(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    """Return ``x`` with diagonals ``k1`` to ``k2`` replaced, each aligned left or right in
    ``diagonal``.
    """
    x, diagonal = args
    low, high = int(attrs["k1"]), int(attrs["k2"])
    band = high - low + 1
    if x.rank < 2 or band < 1 or diagonal.rank != x.rank - (1 if band == 1 else 0):
        text = f"expected a diagonal of rank {x.rank - (band == 1)}, found rank {diagonal.rank}"
        if x.rank < 2:
            text = f"expected an operand of rank 2 or more, found rank {x.rank}"
        elif band < 1:
            text = f"k1, k2: expected k1 <= k2, found {low} and {high}"
        raise TypeMismatch(ctx.where(text))
    lead = x.rank - 2
    for a in range(lead):
        ctx.require_eq(
            diagonal.dims[a], x.dims[a], f"batch axis {a} of both operands must have the same size"
        )
    if band > 1:
        ctx.require_eq(diagonal.dims[lead], i64(band), "there must be a row for each diagonal")
    longest = diagonal.dims[-1]
    height, width = x.dims[-2:]
    fits = tirx.min(height + min(high, 0), width - max(low, 0))
    ctx.require_eq(
        longest,
        ctx.solver.simplify(fits),
        "the last axis must have the length of the longest diagonal",
    )
    i, j = ctx.reshape(iota(ctx, height), [height, i64(1)]), iota(ctx, width)
    d = j - i
    zero = ctx.scalar(0, I64)
    above, below = maximum(d, zero), minimum(d, zero)
    size = minimum(below + number(ctx, height, I64), number(ctx, width, I64) - above)
    right = _aligned_right(ctx, d, attrs)
    shift = number(ctx, longest, I64) - size
    at = j - above + where(right, shift, zero)
    row = high - d
    inside = (row >= zero) & (row < band)
    flat = row * number(ctx, longest, I64) + at
    lines = ctx.reshape(diagonal, [*x.dims[:lead], product([i64(band), longest])])
    call = R.take(ctx.expr(lines), ctx.expr(flat), lead, "clip")
    found = ctx.emit(call, x.dims, diagonal.dtype)
    replaced: Tensor = where(inside, cast(ctx, found, x.dtype), x)
    return replaced


def _aligned_right(ctx: Emitter, d: Tensor, attrs: Attrs) -> Tensor:
    """Return whether a diagonal is aligned to the right of its row."""
    no = ctx.scalar(False, "bool")
    above = d >= 0 if attrs["super_diag_right_align"] else no
    return above | (d <= 0 if attrs["sub_diag_right_align"] else no)


# -- others ------------------------------------------------------------------------------------


def _collapse_sum_to(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    dims = [ctx.dim(d) for d in ctx.size_arg(args[1], "the shape")]
    return summed_to(ctx, args[0], dims)


def _reinterpret(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    x, dtype = args[0], str(attrs["dtype"])
    bits = [int(tvm.DataType(t).bits) for t in (x.dtype, dtype)]
    if bits[0] != bits[1] or "bool" in (x.dtype, dtype):
        text = f"dtype: expected a type of the same size as {x.dtype}, found {dtype}"
        if "bool" in (x.dtype, dtype):
            text = f"expected types other than bool, found {x.dtype} and {dtype}; use cast"
        raise TypeMismatch(ctx.where(text))
    found: Tensor = x
    if x.dtype == dtype:
        return found
    return ctx.emit(reinterpret_call(ctx.expr(x), x.dims, dtype), x.dims, dtype)


def _hardswish(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    """Return ``x * clip(x + 3, 0, 6) / 6``."""
    x: Tensor = args[0]
    moved = x + 3
    gate = ctx.emit(R.clip(ctx.expr(moved), 0.0, 6.0), x.dims, x.dtype)
    scaled = x * gate
    return scaled / 6


LOWER: Mapping[str, Rule] = {
    "layout_transform": _layout_transform,
    "nn.space_to_batch_nd": _space_to_batch,
    "nn.batch_to_space_nd": _batch_to_space,
    "sliding_window": _sliding_window,
    "strided_set": _strided_set,
    "reverse_sequence": _reverse_sequence,
    "matrix_set_diag": _matrix_set_diag,
    "collapse_sum_to": _collapse_sum_to,
    "reinterpret": _reinterpret,
    "hardswish": _hardswish,
}
