"""Shape values of Relax: integer tensors evaluated symbolically, so that their arithmetic dies.

The arithmetic is that of `tvm_disc.relay.importer.values`; a row here says which Relay operator a
Relax operator is, and how its attributes are spelt there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from tvm import relax

from tvm_disc.graph.nodes import plain
from tvm_disc.relay.importer.context import i64
from tvm_disc.relay.importer.tensor import Tensor
from tvm_disc.relay.importer.values import MAX_VALUE_ELEMENTS, VALUES, is_number
from tvm_disc.relay_passes.propagate_context import Context, Known, Prim, ShapeValue, Tuple_

Args: TypeAlias = Sequence[Any]
Attrs: TypeAlias = Mapping[str, Any]
Evaluator: TypeAlias = Callable[[Context, Any, Args], "np.ndarray | None"]

SHAPES = ("shape_of", "tensor_to_shape", "size")


def evaluate(ctx: Context, call: Any, args: Args) -> Any | None:
    """The result of an operator on shapes and shape values, if it is known now."""
    name = ctx.operator
    if name == "shape_of" and isinstance(args[0], Tensor):
        return ShapeValue(tuple(args[0].dims))
    if name == "tensor_to_shape":
        target = ctx.target_shape(args[0])
        return None if target is None else ShapeValue(tuple(_dim(x) for x in target))
    row = EVALUATORS.get(name)
    if row is None or not _integral(call):
        return None
    value = row(ctx, call, args)
    if value is None or value.size > MAX_VALUE_ELEMENTS:
        return None
    known = Known(tuple(i64(d) for d in value.shape), str(call.ty.dtype), value=value)
    if all(is_number(x) for x in value.reshape(-1)) and value.size:
        if known.dtype == "bool":
            truths = {bool(x) for x in value.reshape(-1)}
            known.uniform = truths.pop() if len(truths) == 1 else None
        else:
            numbers = [int(x) for x in value.reshape(-1)]
            known.low, known.high = i64(min(numbers)), i64(max(numbers))
    return known


def _dim(x: Any) -> Any:
    return i64(x) if isinstance(x, int) else x


def _integral(call: Any) -> bool:
    ty = call.ty
    if not isinstance(ty, relax.TensorType):
        return False
    return str(ty.dtype).startswith(("int", "uint", "bool"))


def _as_relay(name: str, attrs: Callable[[Any], Attrs] = lambda call: {}) -> Evaluator:
    """The row of a Relay operator."""

    def evaluator(ctx: Context, call: Any, args: Args) -> np.ndarray | None:
        operands = [a.fields if isinstance(a, Tuple_) else a for a in args]
        flat = [x for a in operands for x in (a if isinstance(a, tuple) else (a,))]
        if any(not isinstance(x, Tensor) for x in flat):
            return None
        value = VALUES[name](ctx, operands, attrs(call))
        return None if value is None else np.asarray(value, dtype=object)

    return evaluator


def _moved(move: Callable[[np.ndarray, Any, Context, Args], np.ndarray | None]) -> Evaluator:
    """An operator that only moves elements."""

    def evaluator(ctx: Context, call: Any, args: Args) -> np.ndarray | None:
        value = ctx.known_value(args[0])
        return None if value is None else move(value, call, ctx, args)

    return evaluator


def _expand_dims(x: np.ndarray, call: Any, ctx: Context, args: Args) -> np.ndarray:
    return np.expand_dims(x, tuple(int(a) for a in call.attrs.axis))


def _squeeze(x: np.ndarray, call: Any, ctx: Context, args: Args) -> np.ndarray:
    axes = call.attrs.axis
    return np.squeeze(x, None if axes is None else tuple(int(a) for a in axes))


def _numbers(ctx: Context, operand: Any) -> list[int] | None:
    target = ctx.target_shape(operand)
    return target if target is not None and all(isinstance(x, int) for x in target) else None


def _reshape(x: np.ndarray, call: Any, ctx: Context, args: Args) -> np.ndarray | None:
    shape = _numbers(ctx, args[1])
    return None if shape is None else x.reshape(shape)


def _broadcast_to(x: np.ndarray, call: Any, ctx: Context, args: Args) -> np.ndarray | None:
    shape = _numbers(ctx, args[1])
    if shape is None or int(np.prod(shape)) > MAX_VALUE_ELEMENTS:
        return None
    return np.broadcast_to(x, shape)


def _permute(x: np.ndarray, call: Any, ctx: Context, args: Args) -> np.ndarray:
    axes = call.attrs.axes
    return np.asarray(x.transpose(None if axes is None else [int(a) for a in axes]))


def _strided_slice(x: np.ndarray, call: Any, ctx: Context, args: Args) -> np.ndarray | None:
    if any(not isinstance(a, Tuple_) for a in args[1:]):
        return None
    lists = [[ctx.number(f.expr) for f in a.fields if isinstance(f, Prim)] for a in args[1:]]
    if any(not isinstance(v, int) for items in lists for v in items):
        return None
    axes, begin, end = lists[:3]
    strides = lists[3] if len(lists) > 3 else [1] * len(axes)
    where: list[slice] = [slice(None)] * x.ndim
    for a, b, e, s in zip(axes, begin, end, strides, strict=True):
        where[a] = slice(b, e if e > -(2**31) else None, s)
    return x[tuple(where)]


def _shape_to_tensor(ctx: Context, call: Any, args: Args) -> np.ndarray | None:
    return ctx.known_value(args[0]) if isinstance(args[0], ShapeValue) else None


def _full(ctx: Context, call: Any, args: Args) -> np.ndarray | None:
    shape = _numbers(ctx, args[0])
    if shape is None or int(np.prod(shape)) > MAX_VALUE_ELEMENTS:
        return None
    names = {"relax.zeros": 0, "relax.ones": 1}
    fill: Any = names.get(str(call.op.name))
    if fill is None:
        value = ctx.known_value(args[1])
        if value is None or value.size != 1:
            return None
        fill = value.reshape(-1)[0]
    result = np.empty(shape, dtype=object)
    result[...] = fill
    return result


def _attrs(*names: str, **fixed: Any) -> Callable[[Any], Attrs]:
    def read(call: Any) -> Attrs:
        return {**{n: plain(getattr(call.attrs, n)) for n in names}, **fixed}

    return read


def _take_attrs(call: Any) -> Attrs:
    return {"axis": plain(call.attrs.axis), "mode": str(call.attrs.mode), "batch_dims": 0}


_SAME = (
    "add subtract multiply divide floor_divide floor_mod maximum minimum negative abs equal "
    "not_equal less less_equal greater greater_equal logical_and logical_or logical_not where"
).split()

EVALUATORS: Mapping[str, Evaluator] = {
    **{name: _as_relay(name) for name in _SAME},
    "astype": _as_relay("cast", _attrs("dtype")),
    "concat": _as_relay("concatenate", lambda call: {"axis": int(call.attrs.axis or 0)}),
    "stack": _as_relay("stack", lambda call: {"axis": int(call.attrs.axis or 0)}),
    "take": _as_relay("take", _take_attrs),
    "gather_elements": _as_relay("gather", _attrs("axis")),
    "prod": _as_relay("prod", _attrs("keepdims", exclude=False)),
    "sum": _as_relay("sum", _attrs("keepdims", exclude=False)),
    "max": _as_relay("max", _attrs("keepdims", exclude=False)),
    "min": _as_relay("min", _attrs("keepdims", exclude=False)),
    "scatter_elements": _as_relay("scatter_elements", _attrs("reduction")),
    "expand_dims": _moved(_expand_dims),
    "squeeze": _moved(_squeeze),
    "reshape": _moved(_reshape),
    "broadcast_to": _moved(_broadcast_to),
    "permute_dims": _moved(_permute),
    "strided_slice": _moved(_strided_slice),
    "shape_to_tensor": _shape_to_tensor,
    "full": _full,
    "zeros": _full,
    "ones": _full,
}

__all__ = ["evaluate"]
