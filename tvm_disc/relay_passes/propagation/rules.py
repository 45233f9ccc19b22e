"""Shape rules of the Relax operators whose shape TVM loses, does not check, or clamps.

A rule is ``rule(ctx, call, args) -> value or None``. It emits the call, or a better one, with known
dims. None means that TVM's own inference on operands of known shape is sufficient, which holds for
every operator without a rule (softmax, pooling, padding, ...).

Most rules map a call to a Relay operator and its operands and attributes. The shape rule, the
arithmetic on shape values and the evaluation of elements are those of that Relay operator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import tvm
from tvm import relax

from tvm_disc.graph.core_ops import ROWS, OpClass
from tvm_disc.graph.nodes import plain
from tvm_disc.relay.importer.elements import applied, computed, shape_value
from tvm_disc.relay.importer.lowering.nn import product_of
from tvm_disc.relay.importer.positions import bounds
from tvm_disc.relay.importer.tensor import Tensor
from tvm_disc.relay.importer.values import is_number
from tvm_disc.relay.ops.table import OPS
from tvm_disc.relay_passes.propagation.context import (
    Prim,
    PropagationContext,
    ShapeValue,
    Tuple_,
    as_dims,
)
from tvm_disc.support.late import Late
from tvm_disc.typing import Call, Expr

_at_coordinates = Late("tvm_disc.relay.importer.lowering.index:at_coordinates")

Args: TypeAlias = Sequence[Any]
Rule: TypeAlias = Callable[[PropagationContext, Any, Args], Any]


def tensors(args: Args) -> list[Tensor] | None:
    """Return the operands if all are tensors of known shape, else None."""
    found = [a for a in args if isinstance(a, Tensor)]
    return found if len(found) == len(args) else None


def again(
    ctx: PropagationContext, call: Call, args: Args, dims: Sequence[object], dtype: str
) -> Tensor:
    """Emit the same operator on other operands."""
    new = tvm.ir.Call(call.op, [ctx.raw(a) for a in args], call.attrs, call.ty_args)
    return ctx.emit(new, dims, dtype)


def relay(ctx: PropagationContext, name: str, args: Args, **attrs: object) -> Any:
    """Apply a Relay operator to operands that are tensors of known shape or tuples of them."""
    args = [a.fields if isinstance(a, Tuple_) else ctx.scalar_tensor(a) for a in args]
    flat = [x for a in args for x in (a if isinstance(a, tuple) else (a,))]
    if tensors(flat) is None:
        return None
    row = OPS[name]
    return applied(ctx, row, args, {**row.attrs, **attrs})


def _as(name: str, *kept: str) -> Rule:
    """Return a rule for an operator that equals a Relay one, with the attributes ``kept``."""

    def rule(ctx: PropagationContext, call: Call, args: Args) -> Any:
        attrs = {k: plain(getattr(call.attrs, k)) for k in kept}
        return relay(ctx, name, args, **attrs)

    return rule


# -- element-wise --------------------------------------------------------------------------------


def _elementwise(ctx: PropagationContext, call: Call, args: Args) -> Tensor | None:
    """Emit the call with NumPy's broadcasting, and add a guard if two dims may be incompatible.

    Returns None if an operand is not a tensor.
    """
    operands = tensors([ctx.scalar_tensor(a) for a in args])
    if operands is None:
        return None
    row = OPS.get(ctx.operator)
    known = None if row is None else shape_value(ctx, row, operands, {})

    def emit() -> Tensor:
        dims = ctx.broadcast_dims([a.dims for a in operands])
        return again(ctx, call, [ctx.broadcast(a, dims) for a in operands], dims, _dtype(call))

    return known or computed(ctx, ctx.operator, operands, emit)


def _dtype(call: Call) -> str:
    return str(call.ty.dtype)


# -- shapes --------------------------------------------------------------------------------------


def _shape_of(ctx: PropagationContext, call: Call, args: Args) -> object:
    return ShapeValue(tuple(args[0].dims)) if isinstance(args[0], Tensor) else None


def _tensor_to_shape(ctx: PropagationContext, call: Call, args: Args) -> object:
    target = ctx.target_shape(args[0])
    return None if target is None else ShapeValue(tuple(as_dims(target)))


def _shape_to_tensor(ctx: PropagationContext, call: Call, args: Args) -> object:
    return ctx.as_tensors(args[0]) if isinstance(args[0], ShapeValue) else None


def _with_shape(name: str, attribute: str, **attrs: object) -> Rule:
    """Return a rule for an operator whose last operand is the new shape."""

    def rule(ctx: PropagationContext, call: Call, args: Args) -> Any:
        target = ctx.target_shape(args[1])
        if target is None:
            return None
        return relay(ctx, name, args[:1], **{attribute: tuple(target)}, **attrs)

    return rule


def _expand_dims(ctx: PropagationContext, call: Call, args: Args) -> object:
    x = args[0]
    if not isinstance(x, Tensor):
        return None
    rank = x.rank + len(call.attrs.axis)
    new = {ctx.axis(int(a), rank) for a in call.attrs.axis}
    old = iter(x.dims)
    dims = tuple(1 if k in new else ctx.number(next(old)) for k in range(rank))
    return relay(ctx, "reshape", [x], newshape=dims, allowzero=True)


def _full(ctx: PropagationContext, call: Call, args: Args) -> object:
    target = ctx.target_shape(args[0])
    if target is None:
        return None
    return relay(ctx, ctx.operator, args[1:], shape=tuple(target), dtype=_dtype(call))


def _join(name: str) -> Rule:
    def rule(ctx: PropagationContext, call: Call, args: Args) -> Any:
        axis = 0 if call.attrs.axis is None else int(call.attrs.axis)
        return relay(ctx, name, args, axis=axis) if isinstance(args[0], Tuple_) else None

    return rule


def _arange(ctx: PropagationContext, call: Call, args: Args) -> object:
    values = [ctx.known_value(a) for a in args]
    items = [v.reshape(-1)[0] for v in values if v is not None and v.size == 1]
    dtype = str(call.attrs.dtype)
    if len(items) < 3 or not all(map(_whole, items)) or not dtype.startswith(("int", "float")):
        return None
    return relay(ctx, "arange", args, dtype=dtype) if ctx.literal(ctx.dim(items[2])) else None


def _whole(x: Expr) -> bool:
    return int(x) == x if is_number(x) else str(x.ty.dtype) == "int64"


# -- slices --------------------------------------------------------------------------------------


def _strided_slice(ctx: PropagationContext, call: Call, args: Args) -> Any:
    x = args[0]
    if not isinstance(x, Tensor) or any(not isinstance(a, Tuple_) for a in args[1:]):
        return None
    lists = [[_scalar(ctx, f) for f in a.fields] for a in args[1:]]
    if any(v is None for items in lists for v in items):
        return None
    axes, begin, end = lists[:3]
    strides = lists[3] if len(lists) > 3 else [1] * len(axes)
    if bool(call.attrs.assume_inbound):
        for a, first, last, step in zip(axes, begin, end, strides, strict=True):
            if is_number(step) and step > 0 and not is_number(last) and not _from_the_end(first):
                dim = x.dims[ctx.axis(int(a), x.rank)]
                ctx.solver.require_le(last, dim, ctx.where(f"the end of axis {a}"))
    return _cut(ctx, x, axes, begin, end, strides)


def _from_the_end(first: Any) -> bool:
    return is_number(first) and first < 0


def _scalar(ctx: PropagationContext, x: Expr) -> Any:
    return ctx.number(x.expr) if isinstance(x, Prim) else None


def _dynamic_strided_slice(ctx: PropagationContext, call: Call, args: Args) -> object:
    values = [ctx.known_value(b) for b in args[1:]]
    if any(v is None for v in values):
        return None
    begin, end, strides = ([*v] for v in values if v is not None)
    return _cut(ctx, args[0], range(len(begin)), begin, end, strides)


def _cut(
    ctx: PropagationContext, x: object, axes: Args, begin: Args, end: Args, strides: Args
) -> Any:
    """Return a slice with its clamping resolved, as an exact slice along nonnegative axes."""
    if not all(isinstance(s, int) and s != 0 for s in strides):
        return None
    lists = {"axes": axes, "begin": begin, "end": end, "strides": strides}
    return relay(ctx, "strided_slice", [x], **{k: tuple(v) for k, v in lists.items()})


# -- gathers -------------------------------------------------------------------------------------


def _take(ctx: PropagationContext, call: Call, args: Args) -> Any:
    axis, mode = plain(call.attrs.axis), str(call.attrs.mode)
    if axis is not None and mode == "fast":
        _stay_inside(ctx, args[1], args[0], axis)
    return relay(ctx, "take", args, axis=axis, mode=mode)


def _gather_elements(ctx: PropagationContext, call: Call, args: Args) -> object:
    axis = int(call.attrs.axis)
    _stay_inside(ctx, args[1], args[0], axis)
    return relay(ctx, "gather", args, axis=axis)


def _stay_inside(ctx: PropagationContext, picks: Tensor, data: Expr, axis: int) -> None:
    """Prove or guard that indices of known range are in bounds."""
    _, high = bounds(ctx, picks)
    # Only a symbolic upper bound needs a guard. Constant and data-dependent indices are not checked
    # here, as in the model's framework.
    if isinstance(data, Tensor) and high is not None and ctx.literal(high) is None:
        dim = data.dims[ctx.axis(axis, data.rank)]
        ctx.solver.require_le(
            ctx.simplify(high + 1), dim, ctx.where("the positions must be in bounds")
        )


def _gather_nd(ctx: PropagationContext, call: Call, args: Args) -> object:
    found = tensors(args)
    if found is None or ctx.literal(found[1].dims[-1]) is None:
        return None
    data, picks = found
    batch = int(call.attrs.batch_dims)
    return computed(ctx, "gather_nd", found, lambda: _at_coordinates(ctx, data, picks, batch))


def _index_tensor(ctx: PropagationContext, call: Call, args: Args) -> object:
    known = isinstance(args[1], Tuple_)
    return relay(ctx, "adv_index", [Tuple_((args[0], *args[1].fields))]) if known else None


# -- contractions and normalization ----------------------------------------------------------------


def _matmul(ctx: PropagationContext, call: Call, args: Args) -> object:
    found = tensors(args)
    if found is None or not all(x.rank for x in found):
        return None
    a, b = found
    return product_of(ctx, a, b, _dtype(call))


def _conv(spatial: int) -> Rule:
    def rule(ctx: PropagationContext, call: Call, args: Args) -> Any:
        x, w = args[:2]
        if isinstance(x, Tensor) and isinstance(w, Tensor):
            data, kernel = str(call.attrs.data_layout), str(call.attrs.kernel_layout)
            groups = int(call.attrs.groups)
            if "C" in data and "I" in kernel and len(data) == spatial + 2:
                channels = w.dims[kernel.index("I")] * groups
                ctx.require_eq(
                    x.dims[data.index("C")],
                    channels,
                    "the input channels must equal those that the kernel reads",
                )
        return None

    return rule


def _norm(attribute: str, vectors: int) -> Rule:
    """Return a rule for a normalization, whose result has the shape of the first operand.

    The dims of the next ``vectors`` operands must equal the axes in ``attribute``.
    """

    def rule(ctx: PropagationContext, call: Call, args: Args) -> Tensor | None:
        operands = tensors(args)
        if operands is None:
            return None
        x = operands[0]
        axes = getattr(call.attrs, attribute)
        axes = [int(axes)] if isinstance(axes, int) else [int(a) for a in axes]
        wanted = [x.dims[ctx.axis(a, x.rank)] for a in axes]
        for v in operands[1 : 1 + vectors]:
            for have, want in zip(v.dims, wanted, strict=True):
                ctx.require_eq(
                    have, want, "a parameter must have one entry per element of its axis"
                )
        if isinstance(call.ty, relax.TupleType):
            return None
        return again(ctx, call, operands, x.dims, x.dtype)

    return rule


ELEMENTWISE = [
    row.name.removeprefix("relax.")
    for row in ROWS
    if row.cls is OpClass.ELEMWISE and row.name not in ("relax.clip", "relax.astype")
]

RULES: Mapping[str, Rule] = {
    **dict.fromkeys(ELEMENTWISE, _elementwise),
    "shape_of": _shape_of,
    "tensor_to_shape": _tensor_to_shape,
    "shape_to_tensor": _shape_to_tensor,
    "reshape": _with_shape("reshape", "newshape", allowzero=True),
    "broadcast_to": _with_shape("broadcast_to", "shape"),
    "expand_dims": _expand_dims,
    "squeeze": _as("squeeze", "axis"),
    "permute_dims": _as("transpose", "axes"),
    "astype": _as("cast", "dtype"),
    "concat": _join("concatenate"),
    "stack": _join("stack"),
    "strided_slice": _strided_slice,
    "dynamic_strided_slice": _dynamic_strided_slice,
    "take": _take,
    "gather_elements": _gather_elements,
    "gather_nd": _gather_nd,
    "index_tensor": _index_tensor,
    "scatter_elements": _as("scatter_elements", "axis", "reduction"),
    **{name: _as(name, "axis", "keepdims") for name in ("sum", "prod", "max", "min")},
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

__all__ = ["RULES"]
