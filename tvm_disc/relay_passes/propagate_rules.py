"""Shape rules: a row per Relax operator whose shape TVM loses, leaves unchecked or clamps.

A rule is ``rule(ctx, call, args) -> value or None``. It emits the call, or a better one, with
known dims; None means that TVM's own inference on operands of known shape is good enough, which
holds for every operator without a row (permute_dims, reductions, softmax, pooling, padding, ...).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import tvm
from tvm import relax, tirx
from tvm.relax import op as R

from tvm_disc.errors import TypeMismatch
from tvm_disc.graph.core_ops import ROWS, OpClass
from tvm_disc.relay.importer.context import i64
from tvm_disc.relay.importer.lowering.slice import slice_extent, sliced
from tvm_disc.relay.importer.lowering.transform import reshape_to
from tvm_disc.relay.importer.tensor import Tensor
from tvm_disc.relay.importer.values import is_number
from tvm_disc.relay_passes.propagate_context import Context, Known, Prim, Tuple_, as_dims
from tvm_disc.relay_passes.propagate_index import INDEX_RULES

Args: TypeAlias = Sequence[Any]
Rule: TypeAlias = Callable[[Context, Any, Args], Any]


def tensors(args: Args) -> list[Known] | None:
    """The operands, if every one is a tensor of known shape."""
    found = [a for a in args if isinstance(a, Tensor)]
    return found if len(found) == len(args) else None  # type: ignore[return-value]


def again(ctx: Context, call: Any, args: Args, dims: Sequence[Any], dtype: str) -> Known:
    """The same operator on other operands."""
    new = tvm.ir.Call(call.op, [ctx.raw(a) for a in args], call.attrs, call.ty_args)
    return ctx.emit(new, dims, dtype)


# -- element-wise --------------------------------------------------------------------------------


def _elementwise(ctx: Context, call: Any, args: Args) -> Known | None:
    """NumPy's broadcasting, with a guard where two dims may differ."""
    operands = tensors(args)
    if operands is None:
        return None
    folded = _truth(ctx, call, operands) or _neutral(ctx, operands)
    if folded is not None:
        return folded
    dims = ctx.broadcast_dims([a.dims for a in operands])
    wide = [ctx.broadcast(a, dims) for a in operands]
    return again(ctx, call, wide, dims, _dtype(call))


def _dtype(call: Any) -> str:
    return str(call.ty.dtype)


def _alias(ctx: Context, x: Any, dims: Sequence[Any]) -> Any:
    """``x`` in the place of a value of shape ``dims``."""
    dims = [ctx.simplify(d) for d in dims]
    if x.rank == len(dims) and all(ctx.same(a, b) for a, b in zip(x.dims, dims, strict=True)):
        return x
    call = R.broadcast_to(ctx.raw(x), relax.ShapeExpr(list(dims)))
    return Known(tuple(dims), x.dtype, ctx.emit(call, dims, x.dtype).expr, uniform=x.uniform)


def _truth(ctx: Context, call: Any, args: Sequence[Known]) -> Any:
    """where(True, a, b) -> a; and(True, x) -> x; or(False, x) -> x."""
    name = ctx.operator
    if name == "where" and args[0].uniform is not None:
        picked = args[1] if args[0].uniform else args[2]
        chosen: Known = _alias(ctx, picked, ctx.broadcast_dims([a.dims for a in args]))
        return chosen
    neutral = {"logical_and": True, "bitwise_and": True, "logical_or": False, "bitwise_or": False}
    if name in neutral and _dtype(call) == "bool":
        for k in (0, 1):
            if args[k].uniform is neutral[name]:
                kept: Known = _alias(ctx, args[1 - k], ctx.broadcast_dims([a.dims for a in args]))
                return kept
    return None


def _neutral(ctx: Context, args: Sequence[Known]) -> Known | None:
    """x + 0 -> x and x * 1 -> x, on integers, where positions or shapes are computed."""
    neutral = {"add": 0, "multiply": 1}.get(ctx.operator)
    if neutral is None or not args[0].dtype.startswith("int"):
        return None
    for k in (1, 0):
        value = ctx.known_value(args[k])
        if value is None or value.size != 1 or not is_number(value.reshape(-1)[0]):
            continue
        if value.reshape(-1)[0] == neutral and args[k].rank <= args[1 - k].rank:
            return args[1 - k]
    return None


# -- shapes --------------------------------------------------------------------------------------


def _reshape(ctx: Context, call: Any, args: Args) -> Any:
    target = ctx.target_shape(args[1])
    if target is None or not isinstance(args[0], Tensor):
        return None
    return reshape_to(ctx, args[0], target, True)


def _broadcast_to(ctx: Context, call: Any, args: Args) -> Any:
    target = ctx.target_shape(args[1])
    x = args[0]
    if target is None or not isinstance(x, Tensor):
        return None
    dims = [ctx.simplify(d) for d in as_dims(target)]
    if x.rank > len(dims):
        raise TypeMismatch(ctx.where(f"cannot broadcast rank {x.rank} to rank {len(dims)}"))
    for axis, d in enumerate(x.dims):
        k = axis + len(dims) - x.rank
        if ctx.literal(d) == 1 or ctx.same(d, dims[k]):
            continue
        # The target is what was asked for: the operand fits it or the program stops.
        ctx.solver.require(
            tirx.Or(tirx.EQ(d, dims[k]), tirx.EQ(d, i64(1))), ctx.where(f"axis {axis}")
        )
        if ctx.solver.known_ne_one(d):
            ctx.require_eq(d, dims[k], f"axis {axis}")
    return _alias(ctx, x, dims)


def _squeeze(ctx: Context, call: Any, args: Args) -> Any:
    x = args[0]
    if not isinstance(x, Tensor):
        return None
    axes = call.attrs.axis
    if axes is None:
        picked = [k for k, d in enumerate(x.dims) if ctx.literal(d) == 1]
        for k, d in enumerate(x.dims):
            if k not in picked:
                ctx.solver.require(tirx.NE(d, i64(1)), ctx.where(f"axis {k} is not squeezed"))
    else:
        picked = [ctx.axis(int(a), x.rank) for a in axes]
        for k in picked:
            ctx.require_eq(x.dims[k], i64(1), f"axis {k} is squeezed")
    dims = [d for k, d in enumerate(x.dims) if k not in picked]
    if not picked:
        return x
    return ctx.emit(R.squeeze(ctx.raw(x), picked), dims, x.dtype)


# -- joins ---------------------------------------------------------------------------------------


def _fields(args: Args) -> list[Known] | None:
    return tensors(args[0].fields) if isinstance(args[0], Tuple_) else None


def _concat(ctx: Context, call: Any, args: Args) -> Any:
    fields = _fields(args)
    if not fields:
        return None
    axis = 0 if call.attrs.axis is None else int(call.attrs.axis)
    axis = ctx.axis(axis, fields[0].rank)
    dims = list(_agreeing(ctx, fields, axis))
    dims[axis] = sum((f.dims[axis] for f in fields[1:]), fields[0].dims[axis])
    return again(ctx, call, [Tuple_(tuple(fields))], dims, fields[0].dtype)


def _stack(ctx: Context, call: Any, args: Args) -> Any:
    fields = _fields(args)
    if not fields:
        return None
    axis = 0 if call.attrs.axis is None else int(call.attrs.axis)
    axis = ctx.axis(axis, fields[0].rank + 1)
    dims = list(_agreeing(ctx, fields, None))
    dims.insert(axis, i64(len(fields)))
    return again(ctx, call, [Tuple_(tuple(fields))], dims, fields[0].dtype)


def _agreeing(ctx: Context, fields: Sequence[Known], joined: int | None) -> tuple[Any, ...]:
    first = fields[0]
    for f in fields[1:]:
        if f.rank != first.rank:
            raise TypeMismatch(ctx.where(f"expected rank {first.rank}, found {f.rank}"))
        for k, (a, b) in enumerate(zip(first.dims, f.dims, strict=True)):
            if k != joined:
                ctx.require_eq(a, b, f"axis {k}")
    return first.dims


# -- slices --------------------------------------------------------------------------------------


def _strided_slice(ctx: Context, call: Any, args: Args) -> Any:
    x = args[0]
    if not isinstance(x, Tensor) or any(not isinstance(a, Tuple_) for a in args[1:]):
        return None
    lists = [[_scalar(ctx, f) for f in a.fields] for a in args[1:]]
    if any(v is None for items in lists for v in items):
        return None
    axes, begin, end = lists[:3]
    strides = lists[3] if len(lists) > 3 else [1] * len(axes)
    return _cut(ctx, x, axes, begin, end, strides, bool(call.attrs.assume_inbound))


def _scalar(ctx: Context, x: Any) -> Any:
    return ctx.number(x.expr) if isinstance(x, Prim) else None


def _dynamic_strided_slice(ctx: Context, call: Any, args: Args) -> Any:
    x, *bounds = args
    values = [ctx.known_value(b) for b in bounds]
    if not isinstance(x, Tensor) or any(v is None for v in values):
        return None
    begin, end, strides = ([*v] for v in values if v is not None)
    return _cut(ctx, x, list(range(len(begin))), begin, end, strides, False)


def _cut(
    ctx: Context,
    x: Any,
    axes: list[Any],
    begin: list[Any],
    end: list[Any],
    strides: list[Any],
    inbound: bool,
) -> Any:
    """A slice with its clamping decided, as an exact one along non-negative axes."""
    if not all(isinstance(s, int) and s != 0 for s in strides):
        return None
    where = {}
    for a, first, last, step in zip(axes, begin, end, strides, strict=True):
        axis = ctx.axis(int(a), x.rank)
        if inbound and step > 0 and not (is_number(first) and first < 0) and not is_number(last):
            ctx.solver.require_le(last, x.dims[axis], ctx.where(f"the end of axis {axis}"))
        where[axis] = slice_extent(ctx, x.dims[axis], first, last, step)
    return sliced(ctx, x, where)


# -- contractions and normalisation --------------------------------------------------------------


def _matmul(ctx: Context, call: Any, args: Args) -> Any:
    a, b = args
    if not isinstance(a, Tensor) or not isinstance(b, Tensor) or not a.rank or not b.rank:
        return None
    k = b.dims[-2] if b.rank > 1 else b.dims[0]
    ctx.require_eq(a.dims[-1], k, "the reduced dims")
    batch = ctx.broadcast_dims([a.dims[:-2], b.dims[:-2]])
    rows = [a.dims[-2]] if a.rank > 1 else []
    columns = [b.dims[-1]] if b.rank > 1 else []
    wide = []
    for x in (a, b):
        fits = x.rank < 3 or not batch
        wide.append(x if fits else ctx.broadcast(x, [*batch, *x.dims[-2:]]))
    return again(ctx, call, wide, [*batch, *rows, *columns], _dtype(call))


def _conv(spatial: int) -> Rule:
    def rule(ctx: Context, call: Any, args: Args) -> Any:
        x, w = args[:2]
        if isinstance(x, Tensor) and isinstance(w, Tensor):
            data, kernel = str(call.attrs.data_layout), str(call.attrs.kernel_layout)
            groups = int(call.attrs.groups)
            if "C" in data and "I" in kernel and len(data) == spatial + 2:
                channels = w.dims[kernel.index("I")] * groups
                ctx.require_eq(x.dims[data.index("C")], channels, "input channels fit the kernel")
        return None

    return rule


def _norm(attribute: str, vectors: int) -> Rule:
    """The first operand's shape; the others run along its axes."""

    def rule(ctx: Context, call: Any, args: Args) -> Any:
        operands = tensors(args)
        if operands is None:
            return None
        x = operands[0]
        axes = getattr(call.attrs, attribute)
        axes = [int(axes)] if isinstance(axes, int) else [int(a) for a in axes]
        wanted = [x.dims[ctx.axis(a, x.rank)] for a in axes]
        for v in operands[1 : 1 + vectors]:
            for have, want in zip(v.dims, wanted, strict=True):
                ctx.require_eq(have, want, "a parameter fits the axis it runs along")
        if isinstance(call.ty, relax.TupleType):
            return None
        return again(ctx, call, operands, x.dims, x.dtype)

    return rule


# -- new tensors ---------------------------------------------------------------------------------


def _full(ctx: Context, call: Any, args: Args) -> Any:
    target = ctx.target_shape(args[0])
    if target is None:
        return None
    dims = as_dims(target)
    shape = relax.ShapeExpr(list(dims))
    new = tvm.ir.Call(call.op, [shape, *(ctx.raw(a) for a in args[1:])], call.attrs, call.ty_args)
    result = ctx.emit(new, dims, _dtype(call))
    if len(args) > 1 and isinstance(args[1], Known):
        result.uniform = args[1].uniform
    return result


def _arange(ctx: Context, call: Any, args: Args) -> Any:
    bounds = [_bound(ctx, a) for a in args]
    if any(b is None for b in bounds) or str(call.attrs.dtype)[:3] not in ("int", "flo"):
        return None
    start, stop, step = bounds
    stride = ctx.literal(step)
    if not stride:
        return None
    span = stop - start if stride > 0 else start - stop
    size = tirx.max(span, i64(0))
    if abs(stride) != 1:
        size = tirx.floordiv(size + (abs(stride) - 1), i64(abs(stride)))
    new = tvm.ir.Call(call.op, [start, stop, step], call.attrs, call.ty_args)
    result = ctx.emit(new, [size], _dtype(call))
    if stride > 0 and result.dtype.startswith("int"):
        result.low, result.high = start, ctx.simplify(stop - 1)
        if stride == 1 and ctx.literal(start) == 0:
            result.axes = (0,)
    return result


def _bound(ctx: Context, x: Any) -> Any:
    value = ctx.known_value(x)
    if value is None or value.size != 1:
        return None
    item = value.reshape(-1)[0]
    if is_number(item):
        return i64(int(item)) if int(item) == item else None
    return item if str(item.ty.dtype) == "int64" else None


ELEMENTWISE = [
    row.name.removeprefix("relax.")
    for row in ROWS
    if row.cls is OpClass.ELEMWISE and row.name not in ("relax.clip", "relax.astype")
]

RULES: Mapping[str, Rule] = {
    **dict.fromkeys(ELEMENTWISE, _elementwise),
    **INDEX_RULES,
    "reshape": _reshape,
    "broadcast_to": _broadcast_to,
    "squeeze": _squeeze,
    "concat": _concat,
    "stack": _stack,
    "strided_slice": _strided_slice,
    "dynamic_strided_slice": _dynamic_strided_slice,
    "matmul": _matmul,
    "nn.conv1d": _conv(1),
    "nn.conv2d": _conv(2),
    "nn.conv3d": _conv(3),
    "nn.layer_norm": _norm("axes", 2),
    "nn.rms_norm": _norm("axes", 1),
    "nn.batch_norm": _norm("axis", 4),
    "nn.group_norm": _norm("channel_axis", 2),
    "nn.instance_norm": _norm("channel_axis", 2),
    "full": _full,
    "zeros": _full,
    "ones": _full,
    "arange": _arange,
}

__all__ = ["ELEMENTWISE", "RULES", "again", "tensors"]
