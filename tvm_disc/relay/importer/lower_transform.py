"""Import rules: reshape, move, select and join."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tvm import relax, tirx
from tvm.relax import op as R

from tvm_disc.errors import TypeMismatch, Unsupported
from tvm_disc.relay.importer.context import Emitter, i64, product
from tvm_disc.relay.importer.lower_tensor import Args, Attrs, Rule, cast
from tvm_disc.relay.importer.tensor import Tensor
from tvm_disc.relay.importer.values import is_number, value_of


# -- reshape -----------------------------------------------------------------------------------


def _reshape(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    return reshape_to(ctx, args[0], list(attrs["newshape"]), bool(attrs["allowzero"]))


def _dyn_reshape(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    target = ctx.shape_arg(args[1], "the new shape")
    return reshape_to(ctx, args[0], target, bool(attrs["allowzero"]))


def reshape_to(ctx: Emitter, x: Tensor, codes: list[Any], allow_zero: bool) -> Tensor:
    """Relay's reshape codes: 0 copies a dim, -1 is inferred, -2 copies the rest, -3 merges two
    dims, -4 splits one into the two that follow."""
    dims, infer = _decode(ctx, x, codes, allow_zero)
    if infer is not None:
        dims[infer] = _inferred(ctx, x, dims, infer)
    else:
        dims = _undo_broadcast_idiom(ctx, x, dims)
    ctx.require_same_elements(x, dims)
    return ctx.reshape(x, dims)


def _decode(
    ctx: Emitter, x: Tensor, codes: list[Any], allow_zero: bool
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
                raise TypeMismatch(ctx.where("only one dim can be inferred"))
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
            pair = _split_pair(ctx, _source_dim(ctx, x, source), codes[k + 1], codes[k + 2])
            dims.extend(pair)
            source += 1
            k += 2
        else:
            raise TypeMismatch(ctx.where(f"unknown reshape code {code}"))
        k += 1
    return dims, infer


def _source_dim(ctx: Emitter, x: Tensor, axis: int) -> Any:
    if axis >= x.rank:
        raise TypeMismatch(ctx.where(f"the new shape refers to axis {axis} of rank {x.rank}"))
    return x.dims[axis]


def _split_pair(ctx: Emitter, dim: Any, a: Any, b: Any) -> tuple[Any, Any]:
    if a == -1:
        return tirx.floordiv(dim, ctx.dim(b)), ctx.dim(b)
    if b == -1:
        return ctx.dim(a), tirx.floordiv(dim, ctx.dim(a))
    return ctx.dim(a), ctx.dim(b)


def _inferred(ctx: Emitter, x: Tensor, dims: list[Any], infer: int) -> Any:
    """The dim that makes the element counts equal.

    Factors that occur on both sides are cancelled before dividing, so that
    ``[b, s, 12, 64] -> [0, 0, -1]`` gives 768 and not ``b*s*768 // (b*s)``, which is not the
    same thing for an empty batch.
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


def _undo_broadcast_idiom(ctx: Emitter, x: Tensor, dims: list[Any]) -> list[Any]:
    """``max(1, d)`` as a target dim is how ONNX importers broadcast batch dims.

    It equals ``d`` whenever the reshape is legal, and reads better; an empty batch, where it
    would make the reshape an error, then works.
    """
    if ctx.solver.known_same_elements(list(x.dims), dims):
        return dims
    plain = [_without_max_one(ctx, d) for d in dims]
    return plain if ctx.solver.known_same_elements(list(x.dims), plain) else dims


def _without_max_one(ctx: Emitter, dim: Any) -> Any:
    if isinstance(dim, tirx.Max):
        for a, b in ((dim.a, dim.b), (dim.b, dim.a)):
            if ctx.literal(a) == 1:
                return b
    return dim


def _reshape_like(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    x, like = args
    lb, rb = attrs["lhs_begin"] % (x.rank + 1), attrs["rhs_begin"] % (like.rank + 1)
    le = x.rank if attrs["lhs_end"] is None else attrs["lhs_end"] % (x.rank + 1)
    re = like.rank if attrs["rhs_end"] is None else attrs["rhs_end"] % (like.rank + 1)
    dims = [*x.dims[:lb], *like.dims[rb:re], *x.dims[le:]]
    ctx.require_same_elements(x, dims)
    return ctx.reshape(x, dims)


def _expand_dims(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    x, axis = args[0], attrs["axis"]
    axis = axis + x.rank + 1 if axis < 0 else axis
    dims = [*x.dims[:axis], *([i64(1)] * attrs["num_newaxis"]), *x.dims[axis:]]
    return ctx.reshape(x, dims)


def _squeeze(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    x, axis = args[0], attrs["axis"]
    if axis is None:
        axes = [k for k, d in enumerate(x.dims) if ctx.static(d, "every dim of squeeze()") == 1]
    else:
        axes = [ctx.axis(a, x.rank) for a in ((axis,) if isinstance(axis, int) else axis)]
    for a in axes:
        ctx.require_eq(x.dims[a], i64(1), f"axis {a} is squeezed away")
    return ctx.reshape(x, [d for k, d in enumerate(x.dims) if k not in axes])


def _batch_flatten(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    x = args[0]
    return ctx.reshape(x, [x.dims[0], product(x.dims[1:])])


# -- movement ----------------------------------------------------------------------------------


def _transpose(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    x, axes = args[0], attrs["axes"]
    order = list(reversed(range(x.rank))) if not axes else [ctx.axis(a, x.rank) for a in axes]
    return permute(ctx, x, order)


def permute(ctx: Emitter, x: Tensor, order: Sequence[int]) -> Tensor:
    """``x`` with its axes in another order; a literal is permuted now."""
    if list(order) == list(range(x.rank)):
        return x
    if x.constant is not None:
        return ctx.constant(x.constant.transpose(order).copy())
    call = R.permute_dims(ctx.expr(x), list(order))
    return ctx.emit(call, [x.dims[a] for a in order], x.dtype)


def _broadcast_to(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    x = args[0]
    shape = ctx.shape_arg(args[1], "the shape") if len(args) > 1 else list(attrs["shape"])
    dims = [ctx.dim(d) for d in shape]
    if len(dims) < x.rank:
        raise TypeMismatch(ctx.where(f"cannot broadcast rank {x.rank} to rank {len(dims)}"))
    offset = len(dims) - x.rank
    for axis, d in enumerate(x.dims):
        want = dims[offset + axis]
        if ctx.literal(d) == 1 or ctx.same(d, want):
            continue
        if isinstance(want, tirx.Max) and any(ctx.same(d, s) for s in (want.a, want.b)):
            # maximum(shape(x), shape(y)): the importer's way to say "broadcast x against y".
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
    return ctx.broadcast(args[0], list(args[1].dims), full=True)


def _concatenate(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    parts = list(args[0])
    axis = ctx.axis(attrs["axis"], parts[0].rank)
    dtype = ctx.same_dtype(parts)
    if len(parts) == 1:
        return parts[0]
    dims = list(parts[0].dims)
    for p in parts[1:]:
        for a in range(parts[0].rank):
            if a != axis:
                ctx.require_eq(dims[a], p.dims[a], f"axis {a} of every part must agree")
    total = parts[0].dims[axis]
    for p in parts[1:]:
        total = total + p.dims[axis]
    dims[axis] = total
    return ctx.emit(R.concat([ctx.expr(p) for p in parts], axis), dims, dtype)


def _stack(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    parts = list(args[0])
    axis = attrs["axis"] % (parts[0].rank + 1)
    rows = [ctx.reshape(p, [*p.dims[:axis], i64(1), *p.dims[axis:]]) for p in parts]
    return _concatenate(ctx, [rows], {"axis": axis})


def _split(ctx: Emitter, args: Args, attrs: Attrs) -> tuple[Tensor, ...]:
    x, axis = args[0], ctx.axis(attrs["axis"], args[0].rank)
    sections = attrs["indices_or_sections"]
    dim = x.dims[axis]
    if isinstance(sections, int):
        ctx.solver.require_divides(i64(sections), dim, ctx.where(f"axis {axis} is split evenly"))
        size = ctx.solver.simplify(tirx.floordiv(dim, i64(sections)))
        bounds = [ctx.solver.simplify(size * k) for k in range(sections)] + [dim]
    else:
        cuts = [ctx.solver.simplify(tirx.min(i64(int(c)), dim)) for c in sections]
        bounds = [i64(0), *cuts, dim]
    return tuple(
        sliced(ctx, x, {axis: (a, b - a, 1)}) for a, b in zip(bounds, bounds[1:], strict=False)
    )


def sliced(ctx: Emitter, x: Tensor, where: Mapping[int, tuple[Any, Any, int]]) -> Tensor:
    """A slice given per axis as (begin, length, stride), all inside the operand."""
    dims = list(x.dims)
    axes, begins, ends, strides = [], [], [], []
    for axis, (begin, length, stride) in where.items():
        length = ctx.solver.simplify(length)
        begin = ctx.solver.simplify(begin)
        if stride == 1 and ctx.literal(begin) == 0 and ctx.same(length, dims[axis]):
            continue
        dims[axis] = length
        axes.append(axis)
        begins.append(begin)
        ends.append(ctx.solver.simplify(begin + length * stride))
        strides.append(i64(stride))
    if not axes:
        return x
    call = R.strided_slice(ctx.expr(x), axes, begins, ends, strides, assume_inbound=True)
    return ctx.emit(call, dims, x.dtype)


def _strided_slice(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    x = args[0]
    if len(args) > 1:
        bounds = [ctx.shape_arg(a, "a slice bound") for a in args[1:4]]
        begin, end, strides = (*bounds, [])[:3]
    else:
        begin, end = list(attrs["begin"]), list(attrs["end"])
        strides = list(attrs["strides"] or [])
    axes = [ctx.axis(a, x.rank) for a in (attrs["axes"] or range(len(begin)))]
    if len(strides) <= 1:
        strides = (strides or [1]) * len(axes)
    where = {}
    for k, axis in enumerate(axes):
        size_mode = attrs["slice_mode"] == "size"
        step = 1 if size_mode else int(strides[k])
        stop: Any = None if k >= len(end) else end[k]
        if size_mode:
            stop = None if is_number(stop) and stop < 0 else _plus(ctx, begin[k], stop)
        where[axis] = slice_extent(ctx, x.dims[axis], begin[k], stop, step)
    return sliced(ctx, x, where)


def _plus(ctx: Emitter, a: Any, b: Any) -> Any:
    return a + b if is_number(a) and is_number(b) else ctx.dim(a) + ctx.dim(b)


def slice_extent(ctx: Emitter, dim: Any, begin: Any, end: Any, step: int) -> tuple[Any, Any, int]:
    """(begin, length, stride) after NumPy's wrapping and clamping.

    Raises:
        TypeMismatch: the step is zero.
    """
    if step == 0:
        raise TypeMismatch(ctx.where("a slice step of 0"))
    low, high = (i64(0), dim) if step > 0 else (i64(-1), dim - 1)
    first = _bound(ctx, begin, dim, low, high)
    last = high if end is None else _bound(ctx, end, dim, low, high)
    if end is None and step < 0:
        last = i64(-1)
    span = last - first if step > 0 else first - last
    k = abs(step)
    length = tirx.max(span, i64(0))
    if k > 1:
        length = tirx.floordiv(length + (k - 1), i64(k))
    return first, length, step


def _bound(ctx: Emitter, value: Any, dim: Any, low: Any, high: Any) -> Any:
    if is_number(value) and abs(int(value)) >= 2**31 - 1:
        return high if value > 0 else low
    position = ctx.dim(value)
    if is_number(value) and value < 0:
        position = dim + int(value)
    elif not is_number(value) and ctx.solver.known_le(i64(0), position) is not True:
        position = tirx.Select(position < 0, position + dim, position)
    return ctx.solver.simplify(tirx.min(tirx.max(position, low), high))


def _slice_like(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    x, like = args
    axes = attrs["axes"] or range(x.rank)
    where = {}
    for a in (ctx.axis(a, x.rank) for a in axes):
        ctx.solver.require_le(like.dims[a], x.dims[a], ctx.where(f"axis {a} is cut"))
        where[a] = (i64(0), like.dims[a], 1)
    return sliced(ctx, x, where)


def _reverse(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    x = args[0]
    return ctx.emit(R.flip(ctx.expr(x), ctx.axis(attrs["axis"], x.rank)), x.dims, x.dtype)


def _tile(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    x = args[0]
    reps = ctx.shape_arg(args[1], "reps") if len(args) > 1 else list(attrs["reps"])
    if not all(is_number(r) for r in reps):
        raise Unsupported(ctx.where("symbolic reps"))
    rank = max(len(reps), x.rank)
    reps = [1] * (rank - len(reps)) + [int(r) for r in reps]
    dims = [i64(1)] * (rank - x.rank) + list(x.dims)
    call = R.tile(ctx.expr(x), reps)
    return ctx.emit(call, [d * r for d, r in zip(dims, reps, strict=True)], x.dtype)


def _repeat(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    x, times = args[0], int(attrs["repeats"])
    if attrs["axis"] is None:
        x, axis = ctx.reshape(x, [product(x.dims)]), 0
    else:
        axis = ctx.axis(attrs["axis"], x.rank)
    dims = list(x.dims)
    dims[axis] = dims[axis] * times
    return ctx.emit(R.repeat(ctx.expr(x), times, axis), dims, x.dtype)


# -- indexing ----------------------------------------------------------------------------------


def _take(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    data, picks = args
    if attrs["batch_dims"]:
        raise Unsupported(ctx.where("batch_dims"))
    axis, mode = attrs["axis"], attrs["mode"]
    if axis is None:
        data, axis = ctx.reshape(data, [product(data.dims)]), 0
    axis = ctx.axis(axis, data.rank)
    literal = value_of(picks)
    if literal is not None and literal.ndim == 0 and is_number(literal.item()):
        return _pick_one(ctx, data, axis, int(literal.item()), mode)
    dims = [*data.dims[:axis], *picks.dims, *data.dims[axis + 1 :]]
    call = R.take(ctx.expr(data), ctx.expr(picks), axis, "wrap" if mode == "wrap" else "clip")
    return ctx.emit(call, dims, data.dtype)


def _pick_one(ctx: Emitter, data: Tensor, axis: int, position: int, mode: str) -> Tensor:
    """A literal index is a slice, which costs nothing."""
    dim = data.dims[axis]
    if mode == "wrap":
        where = tirx.floormod(i64(position), dim)
    else:
        where = tirx.max(tirx.min(i64(position), dim - 1), i64(0))
    row = sliced(ctx, data, {axis: (where, i64(1), 1)})
    return ctx.reshape(row, [*data.dims[:axis], *data.dims[axis + 1 :]])


def _gather(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    data, picks = args
    axis = ctx.axis(attrs["axis"] or 0, data.rank)
    call = R.gather_elements(ctx.expr(data), ctx.expr(picks), axis)
    return ctx.emit(call, picks.dims, data.dtype)


def _gather_nd(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    """Relay's coordinate axis is the first of the indices, Relax's the last."""
    data, picks = args
    if attrs["batch_dims"]:
        raise Unsupported(ctx.where("batch_dims"))
    depth = ctx.static(picks.dims[0], "the first dim of the indices")
    moved = permute(ctx, picks, [*range(1, picks.rank), 0])
    dims = [*picks.dims[1:], *data.dims[depth:]]
    return ctx.emit(R.gather_nd(ctx.expr(data), ctx.expr(moved)), dims, data.dtype)


def _one_hot(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    x, on, off = args[:3]
    rank = x.rank + 1
    axis = attrs["axis"] % rank
    depth = attrs["depth"]
    if len(args) > 3:
        given = ctx.shape_arg(args[3], "depth")[0]
        if not is_number(given):
            raise Unsupported(ctx.where("a symbolic depth"))
        depth = int(given)
    dtype = attrs["dtype"] or on.dtype
    dims = [*x.dims[:axis], i64(depth), *x.dims[axis:]]
    fills = []
    for t in (on, off):
        if t.constant is None:
            raise Unsupported(ctx.where("on and off values must be literals"))
        fills.append(tirx.const(t.constant.reshape(()).item(), dtype))
    return ctx.emit(R.one_hot(ctx.expr(x), *fills, depth, axis), dims, dtype)


def _scatter_elements(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    data, picks, updates = args
    axis = ctx.axis(attrs["axis"], data.rank)
    operands = [ctx.expr(t) for t in (data, picks, updates)]
    call = R.scatter_elements(*operands, axis=axis, reduction=attrs["reduction"])
    return ctx.emit(call, data.dims, data.dtype)


def _argwhere(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    x = args[0]
    if x.rank == 0:
        raise Unsupported(ctx.where("a tensor of rank 0"))
    raw = ctx.bind(R.nonzero(ctx.expr(x)), relax.TensorType(None, "int64", ndim=2))
    count = ctx.solver.symbol("nonzero", ctx.where("the number of non-zero elements"))
    ctx.solver.assume(count <= product(x.dims), "at most every element is non-zero")
    dims = [i64(x.rank), count]
    found = Tensor(tuple(dims), "int64", ctx.match(raw, relax.TensorType(dims, "int64")))
    return cast(ctx, permute(ctx, found, [1, 0]), "int32")


def _trilu(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    x, k = args
    value = value_of(k)
    if value is None or not is_number(value.reshape(-1)[0]):
        raise Unsupported(ctx.where("a diagonal computed from data"))
    build = R.triu if attrs["upper"] else R.tril
    return ctx.emit(build(ctx.expr(x), int(value.reshape(-1)[0])), x.dims, x.dtype)


def _scan(build: Any) -> Rule:
    def rule(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
        x = args[0]
        dtype = attrs["dtype"] or x.dtype
        axis = attrs["axis"]
        if axis is None:
            x, axis = ctx.reshape(x, [product(x.dims)]), 0
        call = build(ctx.expr(x), ctx.axis(axis, x.rank), dtype, bool(attrs["exclusive"]))
        return ctx.emit(call, x.dims, dtype)

    return rule


LOWER: Mapping[str, Rule] = {
    "reshape": _reshape,
    "dyn.reshape": _dyn_reshape,
    "reshape_like": _reshape_like,
    "expand_dims": _expand_dims,
    "squeeze": _squeeze,
    "nn.batch_flatten": _batch_flatten,
    "transpose": _transpose,
    "broadcast_to": _broadcast_to,
    "dyn.broadcast_to": _broadcast_to,
    "broadcast_to_like": _broadcast_to_like,
    "concatenate": _concatenate,
    "stack": _stack,
    "split": _split,
    "strided_slice": _strided_slice,
    "dyn.strided_slice": _strided_slice,
    "slice_like": _slice_like,
    "reverse": _reverse,
    "tile": _tile,
    "dyn.tile": _tile,
    "repeat": _repeat,
    "take": _take,
    "gather": _gather,
    "gather_nd": _gather_nd,
    "one_hot": _one_hot,
    "dyn.one_hot": _one_hot,
    "scatter_elements": _scatter_elements,
    "argwhere": _argwhere,
    "trilu": _trilu,
    "cumsum": _scan(R.cumsum),
}

