"""Converters of operators that reshape, transpose, slice, pad and concatenate."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tvm_disc.errors import Unsupported
from tvm_disc.frontends.calls import MOST, is_one
from tvm_disc.frontends.torch.maker import Maker, Row
from tvm_disc.frontends.torch.rows.conv import per_axis
from tvm_disc.frontends.torch.values import Dim, Value, dims_of
from tvm_disc.typing import Ints


def _to_result(m: Maker, x: Value, *args: object, **kwargs: object) -> Value:
    """Return ``x`` reshaped to the shape of the node's result."""
    return m.reshape(x, m.out_dims)


def _transpose(m: Maker, x: Value, a: int, b: int) -> Value:
    return m.swap(x, a % x.rank, b % x.rank) if x.rank else x


def _squeeze(m: Maker, x: Value, dim: Any = None) -> Value:
    """Return ``x`` without the axes of ``dim`` whose size is known to be 1.

    A guard requires that the other axes of ``dim`` do not have size 1.
    """
    asked = range(x.rank) if dim is None else [dim] if isinstance(dim, int) else dim
    axes = {a % max(1, x.rank) for a in asked}
    for axis in sorted(axes):
        if axis < x.rank and not isinstance(x.dims[axis], int):
            m.require_not_one(x.dims[axis])
    return m.squeeze(x, [a for a in axes if a < x.rank and is_one(x.dims[a])])


def joined(m: Maker, parts: Sequence[Value], dim: int = 0) -> Value:
    """Return the parts concatenated; empty vectors are ignored, as in PyTorch."""
    dtype, rank = m.out_dtype, len(m.out_dims)
    kept = [p for p in parts if p.rank == rank and not (rank == 1 and p.dims == (0,))]
    kept = kept or list(parts[:1])
    return m.concat([m.cast(p, dtype) for p in kept], dim)


def _stack(m: Maker, parts: Sequence[Value], dim: int = 0) -> Value:
    return m.stack([m.cast(p, m.out_dtype) for p in parts], dim % (parts[0].rank + 1))


def _slice(
    m: Maker, x: Value, dim: int = 0, start: Dim = None, end: Dim = None, step: Dim = 1
) -> Value:
    begin, stop = 0 if start is None else start, MOST if end is None else end
    dims = m.out_dims
    if begin == 0 and step == 1 and dims == x.dims:
        return x
    if not isinstance(step, int):
        raise Unsupported(f"expected a slice step that is known at compile time, found {step}")
    return m.slice(x, dim, begin, stop, step)


def _select(m: Maker, x: Value, dim: int, index: Dim) -> Value:
    if isinstance(index, int):
        return m.pick(m.reaching(x, dim, index), dim, index)
    place = m.inside(m.tensor(index, "int64"), x.dims[dim % x.rank], negative=True)
    return m.take(x, place, dim)


def _narrow(m: Maker, x: Value, dim: int, start: object, length: Dim) -> Value:
    if isinstance(start, Value):
        raise Unsupported("start: expected an integer, found a tensor")
    if isinstance(start, int) and isinstance(length, int):
        x = m.nonempty(x, [dim], start + length if start >= 0 else max(-start, length))
    end = start + length
    return m.slice(x, dim, start, None if isinstance(start, int) and start < 0 == end else end)


def _split(m: Maker, x: Value, size: object, dim: int = 0) -> list[Value]:
    """Return the parts; PyTorch has inferred their number and sizes."""
    found, begin = [], 0
    for part in m.out:
        length = dims_of(part)[dim]
        m.require_size(length)
        found.append(m.slice(x, dim, begin, begin + length))
        begin = begin + length
    return found


def _flip(m: Maker, x: Value, dims: Sequence[int]) -> Value:
    for axis in dims:
        x = m.call_like("reverse", x, axis=axis % x.rank) if x.rank else x
    return x


def _roll(m: Maker, x: Value, shifts: object, dims: Any = ()) -> Value:
    shifts = [shifts] if not isinstance(shifts, list | tuple) else list(shifts)
    dims = [dims] if isinstance(dims, int) else list(dims)
    if not dims:
        whole = m.out_dims
        return m.reshape(_roll(m, m.flat(x), shifts, [0]), whole)
    for shift, axis in zip(shifts, dims, strict=True):
        size = x.dims[axis]
        if isinstance(size, int) and isinstance(shift, int):
            if size == 0 or shift % size == 0:
                continue
            x = m.concat(
                [m.slice(x, axis, -(shift % size), MOST), m.slice(x, axis, 0, size - shift % size)],
                axis,
            )
            continue
        places = m.arange(size) - m.tensor(shift, "int64")
        x = m.take(x, places % m.maximum(m.tensor(size, "int64"), 1), axis)
    return x


def _repeat(m: Maker, x: Value, repeats: Sequence[Dim]) -> Value:
    rank = len(repeats)
    x = m.expand(x, 0, rank - x.rank) if rank > x.rank else x
    if all(isinstance(r, int) for r in repeats):
        if any(r == 0 for r in repeats):
            return m.full(0, m.out_dims, x.dtype)
        return Value(m.call("tile", x, reps=tuple(repeats)), x.dtype, m.out_dims)
    spread = [y for d in x.dims for y in (1, d)]
    full = [y for r, d in zip(repeats, x.dims, strict=True) for y in (r, d)]
    return m.reshape(m.broadcast(m.reshape(x, spread), full), m.out_dims)


def _repeat_interleave(
    m: Maker, x: Value, repeats: Any, dim: Any = None, **kwargs: object
) -> Value:
    if m.is_tensor(repeats):
        raise Unsupported("repeats: expected an integer, found a tensor")
    if dim is None:
        x, dim = m.flat(x), 0
    if not isinstance(repeats, int):
        axis = dim % x.rank + 1
        wide = m.broadcast(m.expand(x, axis), [*x.dims[:axis], repeats, *x.dims[axis:]])
        return m.reshape(wide, m.out_dims)
    return Value(m.call("repeat", x, repeats=repeats, axis=dim % x.rank), x.dtype, m.out_dims)


def cropped(m: Maker, x: Value, pairs: Sequence[tuple[Dim, Dim]]) -> tuple[Value, list[Any]]:
    """Return ``x`` cropped by constant negative pad widths, and the widths that remain."""
    left = []
    for axis, (low, high) in enumerate(pairs):
        cut = [-w if isinstance(w, int) and w < 0 else 0 for w in (low, high)]
        if any(cut):
            x = m.nonempty(x, [axis], sum(cut))
            x = m.slice(x, axis, cut[0], -cut[1] if cut[1] else MOST)
            if not isinstance(x.dims[axis], int):
                dims = list(x.dims)
                dims[axis] = None
                x = Value(x.expr, x.dtype, tuple(dims))
        left.append(tuple(max(w, 0) if isinstance(w, int) else w for w in (low, high)))
    return x, left


def pad_pairs(pads: Sequence[Dim], rank: int) -> list[tuple[Dim, Dim]]:
    """Return PyTorch's pad widths, whose list begins with the last axis, as a pair per axis."""
    pairs: list[tuple[Dim, Dim]] = [(0, 0)] * rank
    for k in range(len(pads) // 2):
        pairs[rank - 1 - k] = (pads[2 * k], pads[2 * k + 1])
    return pairs


def _pad(m: Maker, x: Value, pad: Sequence[Dim], value: object = 0) -> Value:
    x, pairs = cropped(m, x, pad_pairs(pad, x.rank))
    fill = m.tensor(0 if value is None else value, x.dtype)
    if all(isinstance(w, int) for pair in pairs for w in pair):
        if not any(w for pair in pairs for w in pair):
            return x
        return Value(m.call("nn.pad", x, fill, pad_width=tuple(pairs)), x.dtype, m.out_dims)
    return _padded(m, *_trimmed(m, x, pairs), fill, "constant")


def _padded(m: Maker, x: Value, pairs: Sequence[tuple[Dim, Dim]], fill: Value, mode: str) -> Value:
    """Return ``x`` padded by symbolic widths."""
    widths = m.vector([w for pair in pairs for w in pair])
    grid = m.call("reshape", widths, newshape=(x.rank, 2))
    made = m.call("dyn.nn.pad", x, grid, fill, pad_width=(), pad_mode=mode)
    return Value(made, x.dtype, m.out_dims)


def _trimmed(
    m: Maker, x: Value, pairs: Sequence[tuple[Dim, Dim]]
) -> tuple[Value, list[tuple[Dim, Dim]]]:
    """Return ``x`` cropped by symbolic widths that are negative at run time, and max(width, 0).

    For example, ``F.pad(x, (0, 16 - n))`` pads or crops to 16 elements. The size of the result is
    guarded to be nonnegative.
    """
    import sympy

    left: list[tuple[Dim, Dim]] = []
    for axis, (low, high) in enumerate(pairs):
        size = x.dims[axis]
        if size is None or all(isinstance(w, int) for w in (low, high)):
            left.append((low, high))
            continue
        m.facts.append(sympy.Ge(size + low + high, 0))
        cut_low, cut_high = (sympy.Max(-w, 0) for w in (low, high))
        if cut_low != 0 or cut_high != 0:
            x = m.slice(x, axis, _dim(cut_low), size - cut_high)
        left.append((_dim(sympy.Max(low, 0)), _dim(sympy.Max(high, 0))))
    return x, left


def _dim(found: Any) -> Dim:
    return int(found) if found.is_Integer else found


def _mirror(m: Maker, x: Value, pad: Sequence[Dim]) -> Value:
    x = _with_elements(m, x, pad)
    for size, widths in zip(x.dims, pad_pairs(pad, x.rank), strict=True):
        for width in widths:
            if size is not None and isinstance(width, int) and width > 0:
                m.require_size(size - width - 1)
    return _copied_border(
        m, x, pad, "reflect", lambda y, w: m.call("nn.mirror_pad", y, pad_width=w, mode="REFLECT")
    )


def _with_elements(m: Maker, x: Value, pad: Sequence[Dim]) -> Value:
    """Return ``x`` with a check that only the batch of its axes may be empty."""
    return m.nonempty(x, range(x.rank - len(pad) // 2 - 1, x.rank))


def _edge(m: Maker, x: Value, pad: Sequence[Dim]) -> Value:
    x = _with_elements(m, x, pad)

    def build(y: Value, w: object) -> Any:
        return m.call("nn.pad", y, m.literal(0, y.dtype), pad_width=w, pad_mode="edge")

    return _copied_border(m, x, pad, "edge", build)


def _copied_border(
    m: Maker, x: Value, pad: Sequence[Dim], mode: str, build: Callable[..., object]
) -> Value:
    """Return ``x`` padded with its elements by ``mode``; ``build`` pads by constant widths."""
    x, pairs = cropped(m, x, pad_pairs(pad, x.rank))
    widths = [w for pair in pairs for w in pair]
    if not all(isinstance(w, int) for w in widths):
        return _padded(m, x, pairs, m.literal(0, x.dtype), mode)
    if not any(widths):
        return x
    return Value(build(x, tuple(pairs)), x.dtype, m.out_dims)


def _diagonal(m: Maker, x: Value, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Value:
    """Return a diagonal: elements of the flattened matrix at a constant distance."""
    a, b = dim1 % x.rank, dim2 % x.rank
    rest = [k for k in range(x.rank) if k not in (a, b)]
    moved = m.transpose(x, [*rest, a, b])
    rows, columns = moved.dims[-2:]
    line = m.reshape(moved, [*moved.dims[:-2], rows * columns])
    start = offset if offset >= 0 else -offset * columns
    step = m.arange(m.out_dims[-1]) * m.tensor(columns + 1, "int64")
    return m.take(line, step + m.tensor(start, "int64"), -1)


def _triangle(upper: bool) -> Row:
    def row(m: Maker, x: Value, diagonal: int = 0) -> Value:
        return m.call_like("trilu", x, m.literal(diagonal, "int64"), upper=upper)

    return row


def _as_strided(
    m: Maker, x: Value, size: Sequence[Dim], stride: Sequence[Dim], storage_offset: Dim = None
) -> Value:
    """Convert as_strided to a gather from the flat operand, which must be contiguous."""
    source = m.node.args[0].meta["val"]
    if not source.is_contiguous() or source.storage_offset() != 0:
        raise Unsupported(
            "expected a contiguous tensor without storage offset, found strides "
            f"{source.stride()} and offset {source.storage_offset()}"
        )
    places = m.tensor(0 if storage_offset is None else storage_offset, "int64")
    for axis, (d, s) in enumerate(zip(size, stride, strict=True)):
        step = m.arange(d) * m.tensor(s, "int64")
        places = places + m.along(step, axis, len(size))
    return m.take(m.flat(x), m.broadcast(places, size), 0)


def _unfold(m: Maker, x: Value, dimension: int, size: int, step: int) -> Value:
    """Return all windows along an axis; the elements of a window are the last axis."""
    if x.rank == 0:
        return m.reshape(x, [size])
    axis = dimension % x.rank
    count, length = m.out_dims[axis], x.dims[axis]
    if length is not None:
        m.require_size(length - size)
    starts = m.arange(count) * step
    places = m.expand(starts, 1) + m.arange(size)
    windows = m.take(x, places, axis)
    return m.move(windows, axis + 1, -1)


def _sliding_blocks(m: Maker, x: Value, kernel: Ints, dilation: Ints, padding: Ints,
                    stride: Ints) -> Value:  # fmt: skip
    """Return the blocks of two spatial axes, each as a column (``im2col``).

    Guards require that at least one block fits, and that no axis but the batch is empty.
    """
    lead = x.rank - 2
    x = m.nonempty(x, range(lead - 1, x.rank))
    pads = per_axis(padding, 2)
    x = m.pad(x, [(0, 0)] * lead + [(p, p) for p in pads], 0)
    axis = lead
    for size, apart, step in zip(
        *(per_axis(v, 2) for v in (kernel, dilation, stride)), strict=True
    ):
        rest = x.dims[axis] - apart * (size - 1) - 1
        m.require_size(rest)
        starts = m.arange(m.quotient(rest, step) + 1) * step
        x = m.take(x, m.expand(m.arange(size) * apart, 1) + starts, axis)
        axis += 2
    return m.reshape(m.swap(x, lead + 1, lead + 2), m.out_dims)


def _meshgrid(m: Maker, parts: Sequence[Value], indexing: str = "ij") -> list[Value]:
    dims = m.out_dims
    found = []
    for k, p in enumerate(parts):
        at = {0: 1, 1: 0}.get(k, k) if indexing == "xy" and len(parts) > 1 else k
        found.append(m.broadcast(m.along(m.line(p), at, len(parts)), dims))
    return found


_RESHAPES = (
    "view.default view_copy.default reshape.default _unsafe_view.default flatten.using_ints "
    "unflatten.int reshape_as.default view_as.default _reshape_alias.default "
    "_reshape_copy.default"
).split()
_EXPANDS = "expand.default expand_copy.default expand_as.default broadcast_to.default".split()
_SPLITS = "split.Tensor chunk.default unsafe_split.Tensor unsafe_chunk.default".split()
# Operators that return a view; each has a form that returns a copy, such as `permute_copy`.
_VIEWS: Mapping[str, Row] = {
    "permute.default": lambda m, x, dims: m.transpose(x, dims),
    "transpose.int": _transpose,
    **{f"squeeze.{o}": _squeeze for o in ("default", "dim", "dims")},
    "unsqueeze.default": lambda m, x, dim: m.expand(x, dim),
    "slice.Tensor": _slice,
    "select.int": _select,
    "split_with_sizes.default": _split,
    "diagonal.default": _diagonal,
    "as_strided.default": _as_strided,
    "unfold.default": _unfold,
    "im2col.default": _sliding_blocks,
}

ROWS: Mapping[str, Row] = {
    **_VIEWS,
    **{name.replace(".", "_copy."): row for name, row in _VIEWS.items()},
    **dict.fromkeys(_RESHAPES, _to_result),
    **dict.fromkeys(_EXPANDS, lambda m, x, *_, **__: m.broadcast(x, m.out_dims)),
    **dict.fromkeys(_SPLITS, _split),
    "t.default": lambda m, x: m.swap(x, 0, 1) if x.rank == 2 else x,
    "cat.default": joined,
    "concat.default": joined,
    "concatenate.default": joined,
    "stack.default": _stack,
    "narrow.default": _narrow,
    "unbind.int": lambda m, x, dim=0: [m.pick(x, dim, k) for k in range(len(m.out))],
    "flip.default": _flip,
    "roll.default": _roll,
    "repeat.default": _repeat,
    "repeat_interleave.self_int": _repeat_interleave,
    "constant_pad_nd.default": _pad,
    **{f"reflection_pad{n}d.default": _mirror for n in (1, 2, 3)},
    **{f"replication_pad{n}d.default": _edge for n in (1, 2, 3)},
    "tril.default": _triangle(False),
    "triu.default": _triangle(True),
    "meshgrid.default": _meshgrid,
    "meshgrid.indexing": _meshgrid,
}
