"""Rows of indexing operators: positions are kept inside the operand, identity gathers vanish."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from tvm import relax
from tvm.relax import op as R

from tvm_disc.relay.importer.context import i64
from tvm_disc.relay.importer.tensor import Tensor
from tvm_disc.relay_passes.propagate_context import Context, Known, Tuple_

Args: TypeAlias = Sequence[Any]


def _take(ctx: Context, call: Any, args: Args) -> Any:
    """Positions of known range stay inside: proved, or a guard on the dims they come from."""
    data, picks = args[:2]
    known = isinstance(data, Tensor) and isinstance(picks, Known)
    if known and call.attrs.axis is not None and str(call.attrs.mode) == "fast":
        inside(ctx, picks, data.dims[ctx.axis(int(call.attrs.axis), data.rank)])


def inside(ctx: Context, picks: Known, dim: Any) -> None:
    """Every position is below ``dim``, where the bound is known in terms of dims."""
    # Positions of constants and of data are the model's business, as they are in its framework.
    if picks.high is not None and ctx.literal(picks.high) is None:
        ctx.solver.require_le(ctx.simplify(picks.high + 1), dim, ctx.where("positions stay inside"))


def _gather_elements(ctx: Context, call: Any, args: Args) -> Any:
    """A gather along one axis by positions of known range."""
    data, picks = args[:2]
    if isinstance(data, Tensor) and isinstance(picks, Known):
        inside(ctx, picks, data.dims[ctx.axis(int(call.attrs.axis), data.rank)])


def _gather_nd(ctx: Context, call: Any, args: Args) -> Any:
    data, picks = args[:2]
    if not isinstance(data, Tensor) or not isinstance(picks, Known) or picks.axes is None:
        return None
    if int(call.attrs.batch_dims) or ctx.literal(picks.dims[-1]) != len(picks.axes):
        return None
    return _in_place(ctx, data, picks.axes, list(picks.dims[:-1]))


def _index_tensor(ctx: Context, call: Any, args: Args) -> Any:
    data, indices = args[:2]
    if not isinstance(data, Tensor) or not isinstance(indices, Tuple_):
        return None
    fields = indices.fields
    if any(not isinstance(f, Known) for f in fields):
        return None
    dims = ctx.broadcast_dims([f.dims for f in fields])
    axes = [_shifted(f, len(dims)) for f in fields]
    if None not in axes:
        done = _in_place(ctx, data, tuple(a for a in axes if a is not None), dims)
        if done is not None:
            return done
    return _as_gather_nd(ctx, data, fields, dims, str(call.ty.dtype))


def _shifted(x: Known, rank: int) -> int | None:
    """The axis of a broadcast result that ``x`` counts."""
    if x.axes is None or len(x.axes) != 1:
        return None
    return x.axes[0] + rank - x.rank


def _as_gather_nd(
    ctx: Context, data: Any, fields: Sequence[Any], dims: Sequence[Any], dtype: str
) -> Known:
    """One gather by coordinates, which every consumer knows."""
    columns = []
    for f in fields:
        wide = ctx.broadcast(f, dims, full=True)
        column = R.expand_dims(ctx.raw(wide), len(dims))
        columns.append(ctx.emit(column, [*dims, i64(1)], f.dtype).expr)
    n = len(columns)
    joined = ctx.emit(R.concat(columns, len(dims)), [*dims, i64(n)], fields[0].dtype)
    result = [*dims, *data.dims[n:]]
    return ctx.emit(R.gather_nd(ctx.raw(data), joined.expr, 0), result, dtype)


def _in_place(ctx: Context, data: Any, axes: tuple[int, ...], dims: list[Any]) -> Known | None:
    """data[i, j, ...] at its own positions is the data, with dims of one in between.

    needs: axes rise, and each counts as many positions as the operand has.
    """
    n = len(axes)
    if list(axes) != sorted(set(axes)) or n > data.rank:
        return None
    if not all(ctx.same(dims[a], data.dims[k]) for k, a in enumerate(axes)):
        return None
    narrow: list[Any] = [i64(1)] * len(dims)
    for k, a in enumerate(axes):
        narrow[a] = data.dims[k]
    tail = list(data.dims[n:])
    view = ctx.reshape(data, [*narrow, *tail])
    wide = [*dims, *tail]
    if all(ctx.same(a, b) for a, b in zip(view.dims, wide, strict=True)):
        return Known(view.dims, view.dtype, ctx.raw(view))
    call = R.broadcast_to(ctx.raw(view), relax.ShapeExpr(list(wide)))
    return ctx.emit(call, wide, data.dtype)


INDEX_RULES: Mapping[str, Callable[[Context, Any, Args], Any]] = {
    "take": _take,
    "gather_elements": _gather_elements,
    "gather_nd": _gather_nd,
    "index_tensor": _index_tensor,
}

__all__ = ["INDEX_RULES"]
