"""Every operator as a function: ``relay.op.add``, ``relay.op.reshape`` ...

Most functions come straight from the operator table (``__getattr__``).  Written out here are
those where Relay's Python function differs from the operator: it picks the static or the ``dyn``
form by the type of an argument, wraps several results, or orders its arguments differently.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from ..errors import BadNode
from .builder import call, const, op_function
from .expr import Call, Constant, Expr, ExprLike, Op, TupleWrapper, as_expr, get_op
from .ops.table import OPS

Ints = int | Sequence[int]


def get(name: str) -> Op:
    """The operator of that name; KeyError if there is none."""
    if name not in OPS:
        raise KeyError(f"no operator {name!r}")
    return get_op(name)


@cache
def function(name: str) -> Callable[..., Any]:
    """The builder function of an operator by its full name, ``"nn.dense"``."""
    return op_function(name)


def member(space: str, name: str) -> Any:
    """The builder function ``name`` of a group of operators such as ``nn``."""
    if f"{space}.{name}" not in OPS:
        raise AttributeError(f"no operator {space}.{name}")
    return function(f"{space}.{name}")


def __getattr__(name: str) -> Any:
    if name in OPS:
        return function(name)
    if name in ("dyn", "image", "nn", "vision"):  # relay.op.nn is relay.nn
        return import_module(f".{name}", __package__)
    raise AttributeError(f"no operator {name!r}")


def known(value: Any) -> Any:
    """A ``Constant`` folded to Python numbers; anything else as it is."""
    return value.data.tolist() if isinstance(value, Constant) else value


def is_expr(value: Any) -> bool:
    """True for an expression (after ``known``): the ``dyn`` form is needed."""
    return isinstance(value, (Expr, TupleWrapper))


def reshape(data: ExprLike, newshape: Any, allowzero: bool = False) -> Call:
    """``reshape``, or ``dyn.reshape`` when the shape is computed."""
    newshape = known(newshape)
    if is_expr(newshape):
        return call("dyn.reshape", (data, newshape), allowzero=allowzero)
    return call("reshape", (data,), newshape=newshape, allowzero=allowzero)


def broadcast_to(data: ExprLike, shape: Any) -> Call:
    """``broadcast_to``, or its ``dyn`` form when the shape is computed."""
    shape = known(shape)
    if is_expr(shape):
        return call("dyn.broadcast_to", (data, shape))
    return call("broadcast_to", (data,), shape=shape)


def full(fill_value: ExprLike, shape: Any = (), dtype: str = "") -> Call:
    """``full``, or ``dyn.full`` when the shape is computed."""
    shape = known(shape)
    if is_expr(shape):
        return call("dyn.full", (fill_value, shape), dtype=dtype)
    return call("full", (fill_value,), shape=shape, dtype=dtype)


def zeros(shape: Any, dtype: str) -> Call:
    """``zeros``, or ``dyn.zeros`` when the shape is computed."""
    return _filled("zeros", known(shape), dtype)


def ones(shape: Any, dtype: str) -> Call:
    """``ones``, or ``dyn.ones`` when the shape is computed."""
    return _filled("ones", known(shape), dtype)


def _filled(name: str, shape: Any, dtype: str) -> Call:
    if is_expr(shape):
        return call(f"dyn.{name}", (shape,), dtype=dtype)
    return call(name, (), shape=shape, dtype=dtype)


def tile(data: ExprLike, reps: Any) -> Call:
    """``tile``, or ``dyn.tile`` when the repetitions are computed."""
    reps = known(reps)
    return call("dyn.tile", (data, reps)) if is_expr(reps) else call("tile", (data,), reps=reps)


def one_hot(
    indices: ExprLike, on_value: ExprLike, off_value: ExprLike, depth: Any, axis: int, dtype: str
) -> Call:
    """``one_hot``, or ``dyn.one_hot`` when the depth is computed."""
    depth = known(depth)
    args = (indices, on_value, off_value)
    if is_expr(depth):
        return call("dyn.one_hot", (*args, depth), axis=axis, dtype=dtype)
    return call("one_hot", args, depth=_scalar(depth), axis=axis, dtype=dtype)


def _scalar(value: Any) -> int:
    return int(np.asarray(value).reshape(()))


def topk(
    data: ExprLike,
    k: Any = 1,
    axis: int = -1,
    ret_type: str = "both",
    is_ascend: bool = False,
    dtype: str = "int32",
) -> Call | TupleWrapper:
    """The k largest: (values, indices) for ``both``, or one of them."""
    k = known(k)
    attrs = {"axis": axis, "ret_type": ret_type, "is_ascend": is_ascend, "dtype": dtype}
    if is_expr(k):
        out = call("dyn.topk", (data, k), **attrs)
    else:
        out = call("topk", (data,), k=_scalar(k), **attrs)
    return TupleWrapper(out, 2) if ret_type == "both" else out


def squeeze(data: ExprLike, axis: Any = None) -> Call:
    """``squeeze``, or ``dyn.squeeze`` when the axes are computed."""
    axis = known(axis)
    if is_expr(axis):
        return call("dyn.squeeze", (data, axis))
    return call("squeeze", (data,), axis=axis)


def expand_dims(data: ExprLike, axis: Any, num_newaxis: int = 1) -> Call:
    """``expand_dims``, or ``dyn.expand_dims`` when the axis is computed."""
    axis = known(axis)
    if is_expr(axis):
        return call("dyn.expand_dims", (data, axis), num_newaxis=num_newaxis)
    return call("expand_dims", (data,), axis=_scalar(axis), num_newaxis=num_newaxis)


def strided_slice(
    data: ExprLike,
    begin: Any,
    end: Any,
    strides: Any = None,
    axes: Any = None,
    slice_mode: str = "end",
) -> Call:
    """``strided_slice``; with a computed bound the ``dyn`` form, bounds alike."""
    begin, end, strides = known(begin), known(end), known(strides)
    if not any(map(is_expr, (begin, end, strides))):
        return call(
            "strided_slice",
            (data,),
            begin=_ints(begin),
            end=_ints(end),
            strides=_ints(strides) or (1,),
            axes=axes,
            slice_mode=slice_mode,
        )
    if axes is not None:
        raise BadNode("strided_slice: axes cannot be given together with computed bounds")
    # A stride given once holds for every axis.
    bounds = (_bound(v) for v in (begin, end, [1] if strides is None else strides))
    return call("dyn.strided_slice", (data, *bounds), slice_mode=slice_mode)


def _bound(value: Any) -> Expr:
    return as_expr(value) if is_expr(value) else const(np.array(value))


def _ints(value: Any) -> Any:
    return (int(value),) if isinstance(value, (int, np.integer)) else value


def matrix_set_diag(
    data: ExprLike, diagonal: ExprLike, k: Any = 0, align: str = "RIGHT_LEFT"
) -> Call:
    """Diagonals ``k``, one or the first and last, replaced; ``align`` tells to which side of
    their rows those above and those below are pushed: ``"LEFT_RIGHT"`` and so on."""
    low, high = (k, k) if isinstance(k, (int, np.integer)) else (k[0], k[-1])
    above, _, below = align.partition("_")
    if not {above, below} <= {"LEFT", "RIGHT"}:
        raise ValueError(f"matrix_set_diag: expected align such as 'RIGHT_LEFT', found {align!r}")
    sides = {"super_diag_right_align": above == "RIGHT", "sub_diag_right_align": below == "RIGHT"}
    return call("matrix_set_diag", (data, diagonal), k1=int(low), k2=int(high), **sides)


def arange(start: Any, stop: Any = None, step: Any = None, dtype: str = "float32") -> Call:
    """``start, start + step, ...`` below ``stop``; one argument means from 0."""
    if stop is None:
        start, stop = 0, start
    values: tuple[Any, ...] = (start, stop, 1 if step is None else step)
    args = [as_expr(v) if is_expr(v) else const(v, dtype) for v in values]
    return call("arange", args, dtype=dtype)


def split(data: ExprLike, indices_or_sections: Any, axis: int = 0) -> TupleWrapper:
    """Equal sections (an int), or pieces cut at positions (a sequence)."""
    where = indices_or_sections
    number = isinstance(where, (int, np.integer))
    size = int(where) if number else len(where) + 1
    out = call("split", (data,), indices_or_sections=where, axis=axis)
    return TupleWrapper(out, size)


def gather(data: ExprLike, axis: int, indices: ExprLike) -> Call:
    """Elements selected along ``axis``."""
    return call("gather", (data, indices), axis=axis)


def variance(
    data: ExprLike,
    axis: Any = None,
    keepdims: bool = False,
    exclude: bool = False,
    unbiased: bool = False,
    with_mean: ExprLike | None = None,
) -> Call:
    """The variance, around the mean unless another centre is given."""
    centre = with_mean
    if centre is None:
        centre = call("mean", (data,), axis=axis, keepdims=True, exclude=exclude)
    attrs = {"axis": axis, "keepdims": keepdims, "exclude": exclude, "unbiased": unbiased}
    return call("variance", (data, centre), **attrs)


def std(data: ExprLike, axis: Any = None, keepdims: bool = False, exclude: bool = False) -> Call:
    """The standard deviation."""
    return call("sqrt", (variance(data, axis, keepdims, exclude),))


def unique(data: ExprLike, is_sorted: bool = True, return_counts: bool = False) -> TupleWrapper:
    """(values, first positions, inverse, number), and counts if asked."""
    out = call("unique", (data,), sorted=is_sorted, return_counts=return_counts)
    return TupleWrapper(out, 5 if return_counts else 4)


def meshgrid(data: Sequence[ExprLike], indexing: str = "ij") -> TupleWrapper:
    """Coordinate grids of rank-1 tensors."""
    return TupleWrapper(function("meshgrid")(data, indexing=indexing), len(data))


def sparse_to_dense(
    sparse_indices: ExprLike, output_shape: Any, sparse_values: ExprLike, default_value: Any = 0
) -> Call:
    """A dense tensor from coordinates; the ``dyn`` form when the shape is computed."""
    output_shape = known(output_shape)
    default = default_value if is_expr(default_value) else const(default_value)
    args = (sparse_indices, sparse_values, default)
    if is_expr(output_shape):
        return call("dyn.sparse_to_dense", (*args, output_shape))
    return call("sparse_to_dense", args, output_shape=output_shape)
