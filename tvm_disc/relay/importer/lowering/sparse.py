"""Import rules: sparse tensors, as coordinates or as compressed rows (CSR)."""

from __future__ import annotations

from collections.abc import Mapping

from tvm.relax import op as R

from tvm_disc.errors import TypeMismatch, Unsupported
from tvm_disc.relay.importer.context import Emitter, i64
from tvm_disc.relay.importer.lowering.index import counted, nonzero, rows
from tvm_disc.relay.importer.lowering.order import order
from tvm_disc.relay.importer.lowering.slice import sliced
from tvm_disc.relay.importer.lowering.tensor import Args, Attrs, Rule, cast, filled, iota
from tvm_disc.relay.importer.tensor import Tensor
from tvm_disc.relay.kernel_ops import kernel_call
from tvm_disc.relay.ops.algebra import maximum, where
from tvm_disc.typing import Size

I64 = "int64"


def _coordinates(ctx: Emitter, indices: Tensor, rank: int) -> Tensor:
    """Return coordinates ``[count, rank]`` of a tensor of rank ``rank``."""
    depth = ctx.literal(indices.dims[1])
    if depth not in (None, rank):
        text = f"coordinates per element: expected {rank}, found {depth}"
        raise TypeMismatch(ctx.where(text))
    return counted(ctx, indices, 1, rank, "the coordinates")


def _sparse_to_dense(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    """Return the values scattered into a tensor of the default; the last of duplicates is kept."""
    indices, values, default = args[:3]
    given = len(args) > 3
    sizes = ctx.size_arg(args[3], "the shape") if given else list(attrs["output_shape"])
    dims = [ctx.dim(d) for d in sizes]
    if indices.rank < 2 and len(dims) != 1:
        raise TypeMismatch(
            ctx.where(
                f"expected coordinates of rank 2 for an output_shape of {len(dims)} dims, "
                f"found rank {indices.rank}"
            )
        )
    count = i64(1) if indices.rank == 0 else indices.dims[0]
    coords = indices if indices.rank == 2 else ctx.reshape(indices, [count, i64(1)])
    coords = _coordinates(ctx, coords, len(dims))
    if default.constant is not None:  # Relay's default 0 is int32 for values of any type
        default = cast(ctx, default, values.dtype)
    ctx.same_dtype([values, default])
    if values.rank == 1 and ctx.literal(values.dims[0]) != 1:
        ctx.require_eq(values.dims[0], count, "there must be one value for each coordinate")
        updates = values
    else:
        updates = filled(ctx, [count], ctx.reshape(values, []), values.dtype)
    base = filled(ctx, dims, ctx.reshape(default, []), values.dtype)
    call = R.scatter_nd(
        ctx.expr(base), ctx.expr(cast(ctx, coords, I64)), ctx.expr(updates), "update"
    )
    return ctx.emit(call, dims, values.dtype)


# -- coordinates -------------------------------------------------------------------------------


def stacked(ctx: Emitter, parts: list[Tensor], axis: int) -> Tensor:
    """Return parts of equal shape stacked along ``axis``: an element-wise select by position."""
    dims = list(parts[0].dims)
    line = [i64(1)] * (len(dims) + 1)
    line[axis] = i64(len(parts))
    place = ctx.reshape(iota(ctx, i64(len(parts))), line)
    wide = [ctx.reshape(p, [*dims[:axis], i64(1), *dims[axis:]]) for p in parts]
    found = wide[-1]
    for k in reversed(range(len(parts) - 1)):
        here = place.equal(k)
        found = where(here, wide[k], found)
    return found


def _sparse_reshape(ctx: Emitter, args: Args, attrs: Attrs) -> tuple[Tensor, Tensor]:
    """Return the coordinates of a reshaped sparse tensor; one new dim may be -1."""
    indices, before, after = args
    ctx.require_eq(indices.dims[1], before.dims[0], "there must be a coordinate for each dim")
    old, asked = cast(ctx, before, I64), cast(ctx, after, I64)
    free = asked.equal(-1)
    one = ctx.scalar(1, I64)
    given = maximum(_count(ctx, where(free, one, asked)), one)
    rest = _count(ctx, old) // given
    new = where(free, rest, asked)
    dims = [indices.dims[0], after.dims[0]]
    exprs = [ctx.expr(t) for t in (indices, old, new)]
    call = kernel_call("disc.coordinates", exprs, dims, indices.dtype)
    return ctx.emit(call, dims, indices.dtype), cast(ctx, new, after.dtype)


def _count(ctx: Emitter, dims: Tensor) -> Tensor:
    """Return the product of a vector."""
    return ctx.emit(R.prod(ctx.expr(dims), [0]), [], I64)


def _fill_empty_rows(ctx: Emitter, args: Args, attrs: Attrs) -> tuple[Tensor, ...]:
    """Return the tensor with a default value at column 0 of every empty row, sorted by rows."""
    indices, values, shape, default = args
    sizes = ctx.size_arg(shape, "the dense shape")
    height, depth = ctx.dim(sizes[0]), len(sizes)
    indices = _coordinates(ctx, indices, depth)
    ctx.require_eq(indices.dims[0], values.dims[0], "there must be one value for each coordinate")
    count, wide = indices.dims[0], cast(ctx, indices, I64)
    row = ctx.reshape(sliced(ctx, wide, {1: (i64(0), i64(1), 1)}), [count])
    zeros = filled(ctx, [height], ctx.scalar(0, I64), I64)
    ones = filled(ctx, [count], ctx.scalar(1, I64), I64)
    operands = [ctx.expr(t) for t in (zeros, row, ones)]
    marked = ctx.emit(R.scatter_elements(*operands, axis=0, reduction="update"), [height], I64)
    empty = marked.equal(0)
    found = nonzero(ctx, empty)
    more = found.dims[1]
    total = ctx.solver.simplify(count + more)
    added = [ctx.reshape(found, [more, i64(1)])]
    if depth > 1:
        rest = [more, i64(depth - 1)]
        added.append(filled(ctx, rest, ctx.scalar(0, I64), I64))
    first = added[0].stored if depth == 1 else R.concat([ctx.expr(a) for a in added], 1)
    fill = added[0] if depth == 1 else ctx.emit(first, [more, i64(depth)], I64)
    every = ctx.emit(R.concat([ctx.expr(wide), ctx.expr(fill)], 0), [total, i64(depth)], I64)
    extra = filled(ctx, [more], ctx.reshape(default, []), values.dtype)
    joined = ctx.emit(R.concat([ctx.expr(values), ctx.expr(extra)], 0), [total], values.dtype)
    by_row = order(ctx, ctx.reshape(sliced(ctx, every, {1: (i64(0), i64(1), 1)}), [total]), 0, True)
    moved = rows(ctx, joined, by_row, 0)
    return rows(ctx, every, by_row, 0), cast(ctx, moved, I64), cast(ctx, empty, I64)


# -- compressed rows ---------------------------------------------------------------------------


def _row_of_entry(ctx: Emitter, begins: Tensor, count: Size) -> Tensor:
    """Return the row of each entry of a compressed matrix."""
    ends = sliced(ctx, cast(ctx, begins, I64), {0: (i64(1), begins.dims[0] - 1, 1)})
    call = R.bucketize(ctx.expr(iota(ctx, count)), ctx.expr(ends), False, True)
    return ctx.emit(call, [count], I64)


def _rows_given(ctx: Emitter, data: Tensor, indices: Tensor, begins: Tensor) -> None:
    ctx.require_eq(data.dims[0], indices.dims[0], "there must be a column for each entry")
    ctx.solver.require_le(i64(1), begins.dims[0], ctx.where("the row pointers must not be empty"))


def _sparse_dense(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    x, data, indices, begins = args
    _rows_given(ctx, data, indices, begins)
    ctx.same_dtype([x, data])
    if data.rank not in (1, 3) or x.rank != 2:
        found = f"ranks {data.rank} and {x.rank}"
        raise TypeMismatch(
            ctx.where(f"expected sparse data of rank 1 or 3 and a dense matrix, found {found}")
        )
    blocks = data if data.rank == 3 else ctx.reshape(data, [data.dims[0], i64(1), i64(1)])
    height = ctx.solver.simplify((begins.dims[0] - 1) * blocks.dims[1])
    left = bool(attrs["sparse_lhs"])
    dims = [height, x.dims[0]] if left else [x.dims[0], height]
    exprs = [ctx.expr(t) for t in (x, blocks, indices, begins)]
    call = kernel_call("disc.csr_dense", exprs, dims, x.dtype, transposed=left)
    return ctx.emit(call, dims, x.dtype)


def _sparse_add(ctx: Emitter, args: Args, attrs: Attrs) -> Tensor:
    x, data, indices, begins = args
    _rows_given(ctx, data, indices, begins)
    ctx.same_dtype([x, data])
    if data.rank != 1:
        raise Unsupported(ctx.where(f"expected sparse data of rank 1, found rank {data.rank}"))
    ctx.require_eq(begins.dims[0], x.dims[0] + 1, "there must be one row pointer more than rows")
    row = _row_of_entry(ctx, begins, data.dims[0])
    coords = stacked(ctx, [row, cast(ctx, indices, I64)], 1)
    call = R.scatter_nd(ctx.expr(x), ctx.expr(coords), ctx.expr(data), "add")
    return ctx.emit(call, x.dims, x.dtype)


def _sparse_transpose(ctx: Emitter, args: Args, attrs: Attrs) -> tuple[Tensor, ...]:
    """Return the transpose: entries sorted by column, then by row; only for square matrices."""
    data, indices, begins = args
    _rows_given(ctx, data, indices, begins)
    if data.rank != 1:
        raise Unsupported(ctx.where(f"expected sparse data of rank 1, found rank {data.rank}"))
    count = data.dims[0]
    by_column = order(ctx, indices, 0, True)
    row = cast(ctx, _row_of_entry(ctx, begins, count), "int32")
    columns = cast(ctx, rows(ctx, indices, by_column, 0), I64)
    line = iota(ctx, begins.dims[0])
    call = R.bucketize(ctx.expr(line), ctx.expr(columns), False, False)
    pointers = cast(ctx, ctx.emit(call, begins.dims, I64), "int32")
    return rows(ctx, data, by_column, 0), rows(ctx, row, by_column, 0), pointers


LOWER: Mapping[str, Rule] = {
    "sparse_to_dense": _sparse_to_dense,
    "dyn.sparse_to_dense": _sparse_to_dense,
    "sparse_reshape": _sparse_reshape,
    "sparse_fill_empty_rows": _fill_empty_rows,
    "nn.sparse_dense": _sparse_dense,
    "nn.sparse_add": _sparse_add,
    "nn.sparse_transpose": _sparse_transpose,
}
