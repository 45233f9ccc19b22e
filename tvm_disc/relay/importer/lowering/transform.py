"""Import rules: reshape, permute, select and concatenate."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from tvm import tirx
from tvm.relax import op as R

from tvm_disc.errors import TypeMismatch, Unsupported, counted, shown
from tvm_disc.relay.importer.context import Emitter, i64, product
from tvm_disc.relay.importer.lowering.slice import sliced
from tvm_disc.relay.importer.lowering.tensor import Args, Attrs, Rule, filled
from tvm_disc.relay.importer.tensor import Tensor
from tvm_disc.relay.importer.values import is_number
from tvm_disc.typing import Expr, Size

# -- reshape -----------------------------------------------------------------------------------


def _reshape(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    return reshape_to(ctx, args[0], list(attrs["newshape"]), bool(attrs["allowzero"]))


def reshape_to(ctx: Emitter, x: Tensor, codes: list[Expr], allow_zero: bool) -> Tensor:
    """Return ``x`` reshaped by Relay's codes.

    0 copies a dim, -1 is inferred, -2 copies the remaining dims, -3 merges two dims, -4 splits one
    into the two that follow.
    """
    dims = target_dims(ctx, x, codes, allow_zero)
    ctx.require_same_elements(x, dims)
    return ctx.reshape(x, dims)


def target_dims(ctx: Emitter, x: Tensor, codes: list[Any], allow_zero: bool) -> list[Any]:
    """Return the dims that reshape codes describe."""
    dims, infer = _decode(ctx, x, codes, allow_zero)
    if infer is None:
        return _undo_broadcast_idiom(ctx, x, dims)
    dims[infer] = _inferred(ctx, x, dims, infer)
    return dims


def _decode(
    ctx: Emitter, x: Tensor, codes: list[Size], allow_zero: bool
) -> tuple[list[Any], int | None]:
    dims: list[Any] = []
    infer: int | None = None
    source = 0
    k = 0
    while k < len(codes):
        code = codes[k]
        if not is_number(code) or code > 0 or (code == 0 and allow_zero):
            dims.append(ctx.dim(code))
            source += 1
        elif code == 0:
            dims.append(_source_dim(ctx, x, source))
            source += 1
        elif code == -1:
            if infer is not None:
                raise TypeMismatch(
                    ctx.where("the new shape: expected at most one -1, found several")
                )
            infer = len(dims)
            dims.append(None)
            source += 1
        elif code == -2:
            while source < x.rank:
                dims.append(x.dims[source])
                source += 1
        elif code == -3:
            dims.append(_source_dim(ctx, x, source) * _source_dim(ctx, x, source + 1))
            source += 2
        elif code == -4:
            pair = _split_pair(ctx, _source_dim(ctx, x, source), codes[k + 1 : k + 3])
            dims.extend(pair)
            source += 1
            k += 2
        else:
            text = f"the new shape: expected sizes or the codes 0 to -4, found {code}"
            raise TypeMismatch(ctx.where(text))
        k += 1
    return dims, infer


def _source_dim(ctx: Emitter, x: Tensor, axis: int) -> Any:
    if axis >= x.rank:
        least = counted(axis + 1, "dim")
        text = f"the new shape refers to at least {least} of an operand of rank {x.rank}"
        raise TypeMismatch(ctx.where(text))
    return x.dims[axis]


def _split_pair(ctx: Emitter, dim: Size, pair: Sequence[Expr | int]) -> tuple[Any, Any]:
    """Return the two dims into which -4 splits one; one of them may be inferred."""
    known = [p for p in pair if not is_number(p) or p > 0]
    if len(pair) != 2 or not known or any(is_number(p) and p <= 0 and p != -1 for p in pair):
        found = ", ".join(map(str, pair)) or "nothing"
        message = (
            f"the new shape: expected two dims after -4, at most one of them -1, found {found}"
        )
        raise TypeMismatch(ctx.where(message))
    if len(known) == 2:
        return ctx.dim(pair[0]), ctx.dim(pair[1])
    size, part = ctx.literal(dim), known[0]
    if size is not None and is_number(part) and size % part:
        raise TypeMismatch(ctx.where(f"-4 cannot split a dim of {size} into parts of {part}"))
    rest = tirx.floordiv(dim, ctx.dim(part))
    first = not is_number(pair[0]) or pair[0] > 0
    return (ctx.dim(part), rest) if first else (rest, ctx.dim(part))


def _inferred(ctx: Emitter, x: Tensor, dims: list[object], infer: int) -> Any:
    """Return the dim that makes the element counts equal.

    Factors that occur on both sides are cancelled before the division, so that ``[b, s, 12, 64] ->
    [0, 0, -1]`` gives 768 instead of ``b*s*768 // (b*s)``, which differs for an empty batch.
    """
    left = list(x.dims)
    right = []
    for d in (d for k, d in enumerate(dims) if k != infer):
        match = next((k for k, e in enumerate(left) if ctx.same(d, e)), None)
        if match is None:
            right.append(d)
        else:
            del left[match]
    total, divisor = product(left), product(right)
    if ctx.literal(divisor) == 1:
        return ctx.solver.simplify(total)
    return ctx.solver.simplify(tirx.floordiv(total, divisor))


def _undo_broadcast_idiom(ctx: Emitter, x: Tensor, dims: list[object]) -> list[Any]:
    """Return the dims with ``max(1, d)`` replaced by ``d`` if that keeps the element count.

    ONNX importers broadcast batch dims with ``max(1, d)``. It equals ``d`` whenever the reshape is
    valid, and ``d`` is simpler. An empty batch, for which the original reshape is an error, then
    works.
    """
    if ctx.solver.known_same_elements(list(x.dims), dims):
        return dims
    plain = [_without_max_one(ctx, d) for d in dims]
    return plain if ctx.solver.known_same_elements(list(x.dims), plain) else dims


def _without_max_one(ctx: Emitter, dim: object) -> object:
    if isinstance(dim, tirx.Max):
        for a, b in ((dim.a, dim.b), (dim.b, dim.a)):
            if ctx.literal(a) == 1:
                return b
    return dim


def _reshape_like(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    x, like = args
    lb, le = _span(ctx, attrs, "lhs", x.rank)
    rb, re = _span(ctx, attrs, "rhs", like.rank)
    dims = [*x.dims[:lb], *like.dims[rb:re], *x.dims[le:]]
    ctx.require_same_elements(x, dims)
    return ctx.reshape(x, dims)


def _span(ctx: Emitter, attrs: Attrs, side: str, rank: int) -> tuple[int, int]:
    """Return a range of axes; negative bounds count from the end."""
    begin, end = attrs[f"{side}_begin"], attrs[f"{side}_end"]
    end = rank if end is None else end
    first, last = (b + rank if b < 0 else b for b in (begin, end))
    if not 0 <= first <= last <= rank:
        raise TypeMismatch(
            ctx.where(
                f"{side}_begin, {side}_end: expected a range of axes of an operand of rank {rank}, "
                f"found {begin} and {end}"
            )
        )
    return first, last


MOST_AXES = 64


def _expand_dims(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    x, axis = args[0], attrs["axis"]
    axis, count = ctx.axis(axis, x.rank + 1), attrs["num_newaxis"]
    if not 0 <= count <= MOST_AXES:
        raise TypeMismatch(ctx.where(f"num_newaxis: expected 0 to {MOST_AXES}, found {count}"))
    dims = [*x.dims[:axis], *([i64(1)] * count), *x.dims[axis:]]
    return ctx.reshape(x, dims)


def _squeeze(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    x, axis = args[0], attrs["axis"]
    if axis is None:
        axes = [k for k, d in enumerate(x.dims) if ctx.literal(d) == 1]
        for k, d in enumerate(x.dims):
            if k not in axes:
                ctx.solver.require(tirx.NE(d, i64(1)), ctx.where(f"axis {k} is not removed"))
    else:
        axes = [ctx.axis(a, x.rank) for a in ((axis,) if isinstance(axis, int) else axis)]
    for a in axes:
        ctx.require_eq(x.dims[a], i64(1), f"axis {a} is removed")
    return ctx.reshape(x, [d for k, d in enumerate(x.dims) if k not in axes])


def _batch_flatten(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    x = args[0]
    return ctx.reshape(x, [x.dims[0], product(x.dims[1:])])


# -- movement ----------------------------------------------------------------------------------


def _transpose(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    x, axes = args[0], attrs["axes"]
    order = list(reversed(range(x.rank))) if not axes else [ctx.axis(a, x.rank) for a in axes]
    if sorted(order) != list(range(x.rank)):
        found = list(axes)
        text = f"axes: expected each axis of rank {x.rank} once, found {found}"
        raise TypeMismatch(ctx.where(text))
    return permute(ctx, x, order)


def permute(ctx: Emitter, x: Tensor, order: Sequence[int]) -> Tensor:
    """Return ``x`` with its axes permuted; literals and permutations are folded."""
    if x.permuted is not None:
        x, first = x.permuted
        order = [first[a] for a in order]
    if list(order) == list(range(x.rank)):
        return x
    if x.constant is not None:
        return ctx.constant(ctx.literals.turned(x.constant, tuple(order)))
    call = R.permute_dims(ctx.expr(x), list(order))
    made = ctx.emit(call, [x.dims[a] for a in order], x.dtype)
    made.permuted = x, tuple(order)
    return made


def _broadcast_to(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    x = args[0]
    shape = ctx.size_arg(args[1], "the shape") if len(args) > 1 else list(attrs["shape"])
    dims = [ctx.dim(d) for d in shape]
    return broadcast_dims_to(ctx, x, dims)


def broadcast_dims_to(ctx: Emitter, x: Tensor, dims: list[Any]) -> Tensor:
    """Return ``x`` broadcast to ``dims``; each axis is proved or guarded to be 1 or equal."""
    if len(dims) < x.rank:
        raise TypeMismatch(ctx.where(f"cannot broadcast rank {x.rank} to rank {len(dims)}"))
    offset = len(dims) - x.rank
    for axis, d in enumerate(x.dims):
        want = dims[offset + axis]
        if ctx.literal(d) == 1 or ctx.same(d, want):
            continue
        if isinstance(want, tirx.Max) and any(ctx.same(d, s) for s in (want.a, want.b)):
            # Importers write maximum(shape(x), shape(y)) to broadcast x against y.
            other = want.b if ctx.same(d, want.a) else want.a
            dims[offset + axis] = ctx.solver.broadcast_dim(d, other, ctx.where(f"axis {axis}"))
            continue
        if ctx.solver.known(tirx.Or(tirx.NE(d, i64(1)), tirx.EQ(want, i64(1)))):
            ctx.require_eq(d, want, f"axis {axis} is broadcast")
            continue
        cond = tirx.Or(tirx.EQ(d, want), tirx.EQ(d, i64(1)))
        ctx.solver.require(cond, ctx.where(f"axis {axis} is broadcast"))
    return ctx.broadcast(x, dims, full=True)


def _broadcast_to_like(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    return broadcast_dims_to(ctx, args[0], list(args[1].dims))


def _concatenate(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    parts: list[Tensor] = list(args[0])
    axis = ctx.axis(attrs["axis"], parts[0].rank)
    dtype = ctx.same_dtype(parts)
    ranks = sorted({p.rank for p in parts})
    if len(ranks) > 1:
        found = " and ".join(map(str, ranks))
        raise TypeMismatch(ctx.where(f"expected operands of the same rank, found ranks {found}"))
    if len(parts) == 1:
        return parts[0]
    dims = list(parts[0].dims)
    for p in parts[1:]:
        for a in range(parts[0].rank):
            if a != axis:
                ctx.require_eq(
                    dims[a], p.dims[a], f"axis {a} of all operands must have the same size"
                )
    total = parts[0].dims[axis]
    for p in parts[1:]:
        total = total + p.dims[axis]
    dims[axis] = total
    return ctx.emit(R.concat([ctx.expr(p) for p in parts], axis), dims, dtype)


def _stack(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    parts = list(args[0])
    axis = ctx.axis(attrs["axis"], parts[0].rank + 1)
    rows = [ctx.reshape(p, [*p.dims[:axis], i64(1), *p.dims[axis:]]) for p in parts]
    return _concatenate(ctx, [rows], {"axis": axis})


MOST_PARTS = 4096  # limits the emitted code: each part is one operator


def _split(ctx: Emitter, args: Args, attrs: Attrs) -> tuple[Tensor, ...]:
    x, axis = args[0], ctx.axis(attrs["axis"], args[0].rank)
    sections = attrs["indices_or_sections"]
    dim = x.dims[axis]
    count = sections if isinstance(sections, int) else len(sections)
    if count > MOST_PARTS or (isinstance(sections, int) and count < 1):
        least, what = (1, "parts") if isinstance(sections, int) else (0, "split positions")
        raise Unsupported(ctx.where(f"expected {least} to {MOST_PARTS} {what}, found {count}"))
    if isinstance(sections, int):
        ctx.solver.require_divides(i64(sections), dim, ctx.where(f"axis {axis} is split evenly"))
        size = ctx.solver.simplify(tirx.floordiv(dim, i64(sections)))
        bounds = [ctx.solver.simplify(size * k) for k in range(sections)] + [dim]
    else:
        if list(sections) != sorted(sections) or any(c < 0 for c in sections):
            found = shown(list(sections))
            raise Unsupported(
                ctx.where(
                    f"expected split positions of at least 0 in ascending order, found {found}"
                )
            )
        cuts = [ctx.solver.simplify(tirx.min(i64(int(c)), dim)) for c in sections]
        bounds = [i64(0), *cuts, dim]
    return tuple(sliced(ctx, x, {axis: (a, b - a, 1)}) for a, b in pairwise(bounds))


def _reverse(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    x: Tensor = args[0]
    axis = attrs["axis"]
    for a in range(x.rank) if axis is None else [ctx.axis(axis, x.rank)]:
        x = flip(ctx, x, a)
    return x


def flip(ctx: Emitter, x: Tensor, axis: int) -> Tensor:
    """Return ``x`` with one axis reversed; a literal is folded."""
    if x.constant is not None:
        return ctx.constant(np.ascontiguousarray(np.flip(x.constant, axis)))
    return ctx.emit(R.flip(ctx.expr(x), axis), x.dims, x.dtype)


def _tile(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    x = args[0]
    reps = ctx.size_arg(args[1], "reps") if len(args) > 1 else list(attrs["reps"])
    if not all(is_number(r) for r in reps):
        return _tile_symbolic(ctx, x, reps)
    rank = max(len(reps), x.rank)
    reps = [1] * (rank - len(reps)) + [_times(ctx, r, "reps") for r in reps]
    dims = [i64(1)] * (rank - x.rank) + list(x.dims)
    call = R.tile(ctx.expr(x), reps)
    return ctx.emit(call, [d * r for d, r in zip(dims, reps, strict=True)], x.dtype)


def _times(ctx: Emitter, count: Size, name: str) -> int:
    """Return a repetition count, which must not be negative."""
    if count < 0:
        raise TypeMismatch(ctx.where(f"{name}: expected at least 0, found {count}"))
    return int(count)


def _tile_symbolic(ctx: Emitter, x: Tensor, reps: list[object]) -> Tensor:
    """Return a tiling with symbolic counts: axes for repetitions are broadcast, then merged."""
    rank = max(len(reps), x.rank)
    times = [i64(1)] * (rank - len(reps)) + [ctx.dim(r) for r in reps]
    dims = [i64(1)] * (rank - x.rank) + list(x.dims)
    spread = ctx.reshape(x, [y for d in dims for y in (i64(1), d)])
    full = [y for r, d in zip(times, dims, strict=True) for y in (r, d)]
    copied = ctx.broadcast(spread, full, full=True)
    return ctx.reshape(copied, [r * d for r, d in zip(times, dims, strict=True)])


def _repeat(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    x, times = args[0], _times(ctx, attrs["repeats"], "repeats")
    if attrs["axis"] is None:
        x, axis = ctx.reshape(x, [product(x.dims)]), 0
    else:
        axis = ctx.axis(attrs["axis"], x.rank)
    dims = list(x.dims)
    dims[axis] = dims[axis] * times
    if times == 0:
        return filled(ctx, dims, ctx.scalar(0, x.dtype), x.dtype)
    return ctx.emit(R.repeat(ctx.expr(x), times, axis), dims, x.dtype)


def _reverse_reshape(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    """Return a reshape whose codes are read from right to left."""
    x = args[0]
    codes = list(reversed(attrs["newshape"]))
    backwards = Tensor(tuple(reversed(x.dims)), x.dtype, x.expr, x.value, x.constant)
    dims = target_dims(ctx, backwards, codes, bool(attrs["allowzero"]))
    dims.reverse()
    ctx.require_same_elements(x, dims)
    return ctx.reshape(x, dims)


def summed_to(ctx: Emitter, x: Tensor, dims: Sequence[Expr]) -> Tensor:
    """Return ``x`` summed over the axes along which broadcasting from ``dims`` would repeat."""
    lead = x.rank - len(dims)
    if lead < 0:
        raise TypeMismatch(ctx.where(f"rank {x.rank} cannot be summed to rank {len(dims)}"))
    axes, parts, final = list(range(lead)), list(x.dims[:lead]), []
    for a, d in enumerate(dims):
        dim = x.dims[lead + a]
        if ctx.literal(d) == 1:
            axes.append(len(parts))
            parts.append(dim)
        elif ctx.same(dim, d) or ctx.solver.known(tirx.NE(d, i64(1))):
            ctx.require_eq(dim, d, f"axis {a} is kept")
            parts.append(d)
        else:  # the dims [dim / d, d], where d is 1 or dim
            either = tirx.Or(tirx.EQ(d, dim), tirx.EQ(d, i64(1)))
            ctx.solver.require(either, ctx.where(f"axis {a} is kept or summed"))
            axes.append(len(parts))
            parts += [ctx.solver.simplify(tirx.floordiv(dim, tirx.max(d, i64(1)))), d]
        final.append(d)
    if not axes:
        return x
    apart = ctx.reshape(x, parts)
    kept = [i64(1) if a in axes else d for a, d in enumerate(apart.dims)]
    total = ctx.emit(R.sum(ctx.expr(apart), axes, keepdims=True), kept, x.dtype)
    return ctx.reshape(total, final)


def _collapse_sum_like(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    return summed_to(ctx, args[0], args[1].dims)


def _meshgrid(ctx: Emitter, args: Args, attrs: Attrs) -> tuple[Tensor, ...]:
    parts = list(args[0])
    order = list(range(len(parts)))
    if attrs["indexing"] == "xy" and len(parts) > 1:
        order[:2] = [1, 0]
    sizes = [p.dims[0] if p.rank else i64(1) for p in parts]
    dims = [sizes[k] for k in order]
    grids = []
    for k, p in enumerate(parts):
        own = [dims[a] if order[a] == k else i64(1) for a in range(len(parts))]
        grids.append(ctx.broadcast(ctx.reshape(p, own), dims, full=True))
    return tuple(grids)


def _depth_to_space(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    x, b = args[0], int(attrs["block_size"])
    x, back = channels_first(ctx, x, attrs["layout"], "NCHW")
    n, c, h, w = x.dims
    ctx.solver.require_divides(
        i64(b * b), c, ctx.where(f"the number of channels must be a multiple of {b} * {b}")
    )
    rest = ctx.solver.simplify(tirx.floordiv(c, i64(b * b)))
    first = attrs["mode"] == "DCR"
    split = [n, b, b, rest, h, w] if first else [n, rest, b, b, h, w]
    order = [0, 3, 4, 1, 5, 2] if first else [0, 1, 4, 2, 5, 3]
    moved = permute(
        ctx, ctx.reshape(x, [i64(d) if isinstance(d, int) else d for d in split]), order
    )
    return back(ctx.reshape(moved, [n, rest, h * b, w * b]))


def _space_to_depth(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    x, b = args[0], int(attrs["block_size"])
    x, back = channels_first(ctx, x, attrs["layout"], "NCHW")
    n, c, h, w = x.dims
    for d in (h, w):
        ctx.solver.require_divides(
            i64(b), d, ctx.where(f"height and width must be multiples of {b}")
        )
    high, wide = (ctx.solver.simplify(tirx.floordiv(d, i64(b))) for d in (h, w))
    blocks = ctx.reshape(x, [n, c, high, i64(b), wide, i64(b)])
    order = [0, 3, 5, 1, 2, 4] if attrs["mode"] == "DCR" else [0, 1, 3, 5, 2, 4]
    return back(ctx.reshape(permute(ctx, blocks, order), [n, c * (b * b), high, wide]))


def axes_of(layout: str) -> list[str]:
    """Return the axes of a layout, with blocks such as ``4c`` as one entry."""
    return re.findall(r"[A-Z]|\d+[a-z]", layout)


def spatial_axes(ctx: Emitter, layout: str, spatial: str) -> list[int]:
    """Return the positions of the spatial axes, also in blocked layouts.

    Raises:
        Unsupported: the layout has other axes.
    """
    axes = axes_of(layout)
    if sorted(a for a in axes if a.isalpha()) != sorted(f"NC{spatial}"):
        raise Unsupported(ctx.where(f"layout: expected the axes NC{spatial}, found {layout}"))
    return [k for k, a in enumerate(axes) if a in spatial]


def channels_first(
    ctx: Emitter, x: Tensor, layout: str, wanted: str, out: str = ""
) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """Return ``x`` with its axes in the order ``wanted``, and a function that restores the layout.

    The function converts a result to ``out`` if given, otherwise to ``layout``.
    """
    plain = without_blocks(ctx, x, layout, wanted)
    return plain, lambda y: _with_blocks(ctx, y, wanted, out or layout)


def without_blocks(ctx: Emitter, x: Tensor, layout: str, wanted: str, of: str = "data") -> Tensor:
    """Return ``x`` with its axes in the order ``wanted``, each merged with its block, such as
    ``4c``.
    """
    axes = axes_of(layout)
    if sorted("".join(axes)) != sorted(layout) or len(axes) != x.rank:
        found = f"{layout} for rank {x.rank}"
        raise Unsupported(ctx.where(f"{of} layout: expected one axis per dim, found {found}"))
    blocks = _blocks(ctx, layout, wanted, f"{of} layout")
    for block in blocks.values():
        ctx.require_eq(x.dims[axes.index(block)], i64(int(block[:-1])), f"size of block {block}")
    groups = [[a, blocks[a]] if a in blocks else [a] for a in wanted]
    flat = [a for group in groups for a in group]
    moved = permute(ctx, x, [axes.index(a) for a in flat])
    if not blocks:
        return moved
    dims = dict(zip(flat, moved.dims, strict=True))
    return ctx.reshape(moved, [product([dims[a] for a in group]) for group in groups])


def _blocks(ctx: Emitter, layout: str, wanted: str, of: str) -> dict[str, str]:
    """Return the block of each axis that has one."""
    axes = axes_of(layout)
    blocks = {a[-1].upper(): a for a in axes if not a.isalpha()}
    several = len(blocks) < sum(not a.isalpha() for a in axes)
    if several or sorted(a for a in axes if a.isalpha()) != sorted(wanted):
        expected = f"the axes {wanted} in any order, each with at most one block such as 4c"
        raise Unsupported(ctx.where(f"{of}: expected {expected}; found {layout}"))
    return blocks


def _with_blocks(ctx: Emitter, y: Tensor, wanted: str, layout: str) -> Tensor:
    axes = axes_of(layout)
    blocks = _blocks(ctx, layout, wanted, "out_layout")
    have: list[str] = []
    dims: list[Any] = []
    for axis, dim in zip(wanted, y.dims, strict=True):
        have.append(axis)
        if axis not in blocks:
            dims.append(dim)
            continue
        size = i64(int(blocks[axis][:-1]))
        ctx.solver.require_divides(size, dim, ctx.where(f"axis {axis} has blocks {blocks[axis]}"))
        have.append(blocks[axis])
        dims += [ctx.solver.simplify(tirx.floordiv(dim, size)), size]
    y = ctx.reshape(y, dims) if blocks else y
    return permute(ctx, y, [have.index(a) for a in axes])


LOWER: Mapping[str, Rule] = {
    "reshape": _reshape,
    "contrib_reverse_reshape": _reverse_reshape,
    "reshape_like": _reshape_like,
    "expand_dims": _expand_dims,
    "squeeze": _squeeze,
    "nn.batch_flatten": _batch_flatten,
    "transpose": _transpose,
    "broadcast_to": _broadcast_to,
    "dyn.broadcast_to": _broadcast_to,
    "broadcast_to_like": _broadcast_to_like,
    "collapse_sum_like": _collapse_sum_like,
    "concatenate": _concatenate,
    "stack": _stack,
    "split": _split,
    "meshgrid": _meshgrid,
    "reverse": _reverse,
    "tile": _tile,
    "dyn.tile": _tile,
    "repeat": _repeat,
    "nn.depth_to_space": _depth_to_space,
    "nn.space_to_depth": _space_to_depth,
}
