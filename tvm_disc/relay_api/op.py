"""Every operator as a function: ``relay.op.add``, ``relay.op.reshape`` ...

Most functions come from the operator table (``__getattr__``). This module defines the
functions that differ from their operator in Relay: they select the static or the ``dyn`` operator
by the type of an argument, wrap several results, or have a different order of arguments.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from tvm_disc.errors import BadNode, UnknownName, Unsupported, refusing, shown
from tvm_disc.relay.builder import call, const, op_function
from tvm_disc.relay.expr import (
    Call,
    Constant,
    Expr,
    ExprLike,
    Op,
    Tuple,
    TupleWrapper,
    as_expr,
    get_op,
)
from tvm_disc.relay.ops.refused import REFUSED_FUNCTIONS
from tvm_disc.relay.ops.table import OPS
from tvm_disc.relay_api import registry

Ints = int | Sequence[int]

__path__: list[str] = []  # for imports of relay.op.nn, which tvm_disc.paths resolves

_GROUPS = {
    "annotation": "tvm_disc.relay_api.annotation",
    "dyn": "tvm_disc.relay_api.dyn",
    "image": "tvm_disc.relay_api.image",
    "nn": "tvm_disc.relay_api.nn",
    "op": "tvm_disc.relay_api.registry",
    "random": "tvm_disc.relay_api.random",
    "vision": "tvm_disc.relay_api.vision",
}
# Relay's modules inside of a group of operators, such as relay.op.nn.nn and relay.op.vision.nms.
_FILES = frozenset(
    ["annotation", "image", "kernel", "multibox", "nms", "nn", "rcnn", "utils", "yolo"]
)


def get(name: str) -> Op:
    """Return the operator of that name; raise UnknownName, a KeyError, if there is none."""
    if not isinstance(name, str) or name not in OPS:
        raise UnknownName(f"unknown operator {shown(name)}")
    return get_op(name)


def function(name: str) -> Callable[..., Any]:
    """Return the builder function of an operator by its full name, ``"nn.dense"``.

    Raises:
        UnknownName: the operator does not exist (a subclass of KeyError).
    """
    return _function(get(name).name)


@cache
def _function(name: str) -> Callable[..., Any]:
    return op_function(name)


def member(space: str, name: str) -> Any:
    """Return the builder function ``name`` of a group of operators such as ``nn``."""
    if name in _FILES and space in _GROUPS:
        return import_module(_GROUPS[space])
    if f"{space}.{name}" in REFUSED_FUNCTIONS:
        raise Unsupported(f"relay.{space}.{name}: {REFUSED_FUNCTIONS[f'{space}.{name}']}")
    if f"{space}.{name}" not in OPS:
        raise AttributeError(f"unknown operator {space}.{name}")
    return function(f"{space}.{name}")


def __getattr__(name: str) -> Any:
    if name in registry.__all__:  # relay.op.register is relay.op.op.register
        return getattr(registry, name)
    if name in OPS:
        return function(name)
    if name in _GROUPS:  # relay.op.nn is relay.nn
        return import_module(_GROUPS[name])
    if name in REFUSED_FUNCTIONS:
        raise Unsupported(f"relay.{name}: {REFUSED_FUNCTIONS[name]}")
    if name in ("algorithm", "reduce", "tensor", "transform"):  # files of Relay's package
        return sys.modules[__name__]
    if name == "strategy":
        return import_module("tvm_disc.relay.op.strategy")
    raise AttributeError(f"unknown operator {name!r}")


def known(value: object) -> Any:
    """Return a ``Constant`` as Python numbers; other values unchanged."""
    return value.data.tolist() if isinstance(value, Constant) else value


def is_expr(value: object) -> bool:
    """Return whether a result of ``known`` is an expression, which needs the ``dyn`` operator."""
    return isinstance(value, (Expr, TupleWrapper))


@refusing
def reshape(data: ExprLike, newshape: Any, allowzero: bool = False) -> Call:
    """Return ``reshape``, or ``dyn.reshape`` if the shape is an expression."""
    newshape = known(newshape)
    if is_expr(newshape):
        return call("dyn.reshape", (data, newshape), allowzero=allowzero)
    return call("reshape", (data,), newshape=newshape, allowzero=allowzero)


@refusing
def broadcast_to(data: ExprLike, shape: Any) -> Call:
    """Return ``broadcast_to``, or its ``dyn`` form if the shape is an expression."""
    shape = known(shape)
    if is_expr(shape):
        return call("dyn.broadcast_to", (data, shape))
    return call("broadcast_to", (data,), shape=shape)


@refusing
def collapse_sum_to(data: ExprLike, shape: object) -> Call:
    """Return ``data`` summed over the axes that a broadcast from ``shape`` repeats."""
    given = as_expr(shape) if is_expr(shape) else const(np.array(shape, "int32"))
    return call("collapse_sum_to", (data, given))


@refusing
def full(fill_value: ExprLike, shape: Any = (), dtype: str = "") -> Call:
    """Return ``full``, or ``dyn.full`` if the shape is an expression."""
    shape = known(shape)
    if is_expr(shape):
        return call("dyn.full", (fill_value, shape), dtype=dtype)
    return call("full", (fill_value,), shape=shape, dtype=dtype)


@refusing
def zeros(shape: object, dtype: str) -> Call:
    """Return ``zeros``, or ``dyn.zeros`` if the shape is an expression."""
    return _filled("zeros", known(shape), dtype)


@refusing
def ones(shape: object, dtype: str) -> Call:
    """Return ``ones``, or ``dyn.ones`` if the shape is an expression."""
    return _filled("ones", known(shape), dtype)


def _filled(name: str, shape: Any, dtype: str) -> Call:
    if is_expr(shape):
        return call(f"dyn.{name}", (shape,), dtype=dtype)
    return call(name, (), shape=shape, dtype=dtype)


@refusing
def tile(data: ExprLike, reps: Any) -> Call:
    """Return ``tile``, or ``dyn.tile`` if the repetitions are an expression."""
    reps = known(reps)
    return call("dyn.tile", (data, reps)) if is_expr(reps) else call("tile", (data,), reps=reps)


@refusing
def one_hot(
    indices: ExprLike, on_value: ExprLike, off_value: ExprLike, depth: Any, axis: int, dtype: str
) -> Call:
    """Return ``one_hot``, or ``dyn.one_hot`` if the depth is an expression."""
    depth = known(depth)
    args = (indices, on_value, off_value)
    if is_expr(depth):
        return call("dyn.one_hot", (*args, depth), axis=axis, dtype=dtype)
    return call("one_hot", args, depth=_scalar(depth), axis=axis, dtype=dtype)


def _scalar(value: object) -> int:
    return int(np.asarray(value).reshape(()))


@refusing
def topk(
    data: ExprLike,
    k: Any = 1,
    axis: int = -1,
    ret_type: str = "both",
    is_ascend: bool = False,
    dtype: str = "int32",
) -> Call | TupleWrapper:
    """Return the k largest elements along an axis, or the smallest with ``is_ascend``.

    ``ret_type`` selects ``values``, ``indices`` or a tuple of ``both``.
    """
    k = known(k)
    attrs = {"axis": axis, "ret_type": ret_type, "is_ascend": is_ascend, "dtype": dtype}
    if is_expr(k):
        out = call("dyn.topk", (data, k), **attrs)
    else:
        out = call("topk", (data,), k=_scalar(k), **attrs)
    return TupleWrapper(out, 2) if ret_type == "both" else out


@refusing
def squeeze(data: ExprLike, axis: Any = None) -> Call:
    """Return ``squeeze``, or ``dyn.squeeze`` if the axes are an expression."""
    axis = known(axis)
    if is_expr(axis):
        return call("dyn.squeeze", (data, axis))
    return call("squeeze", (data,), axis=axis)


@refusing
def expand_dims(data: ExprLike, axis: Any, num_newaxis: int = 1) -> Call:
    """Return ``expand_dims``, or ``dyn.expand_dims`` if the axis is an expression."""
    axis = known(axis)
    if is_expr(axis):
        return call("dyn.expand_dims", (data, axis), num_newaxis=num_newaxis)
    return call("expand_dims", (data,), axis=_scalar(axis), num_newaxis=num_newaxis)


@refusing
def strided_slice(
    data: ExprLike,
    begin: object,
    end: object,
    strides: object = None,
    axes: object = None,
    slice_mode: str = "end",
) -> Call:
    """Return ``strided_slice``, or its ``dyn`` form if a bound is an expression.

    Raises:
        BadNode: ``axes`` together with a bound that is an expression.
    """
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
    # A single stride applies to every axis.
    bounds = (_bound(v) for v in (begin, end, [1] if strides is None else strides))
    return call("dyn.strided_slice", (data, *bounds), slice_mode=slice_mode)


def _bound(value: object) -> Expr:
    return as_expr(value) if is_expr(value) else const(np.array(value))


def _ints(value: object) -> object:
    return (int(value),) if isinstance(value, (int, np.integer)) else value


@refusing
def matrix_set_diag(
    data: ExprLike, diagonal: ExprLike, k: tuple[int, int] | int = 0, align: str = "RIGHT_LEFT"
) -> Call:
    """Return ``data`` with its diagonals ``k`` (one, or the first and the last) replaced.

    ``align``, such as ``"LEFT_RIGHT"``, is the alignment of superdiagonals and subdiagonals in the
    rows of ``diagonal``.
    """
    low, high = (k, k) if isinstance(k, (int, np.integer)) else (k[0], k[-1])
    above, _, below = align.partition("_")
    if not {above, below} <= {"LEFT", "RIGHT"}:
        raise ValueError(f"matrix_set_diag: expected align such as 'RIGHT_LEFT', found {align!r}")
    sides = {"super_diag_right_align": above == "RIGHT", "sub_diag_right_align": below == "RIGHT"}
    return call("matrix_set_diag", (data, diagonal), k1=int(low), k2=int(high), **sides)


@refusing
def arange(start: object, stop: object = None, step: object = None, dtype: str = "float32") -> Call:
    """Return ``start, start + step, ...`` below ``stop``; a single argument is ``stop``."""
    if stop is None:
        start, stop = 0, start
    values: tuple[Any, ...] = (start, stop, 1 if step is None else step)
    args = [as_expr(v) if is_expr(v) else const(v, dtype) for v in values]
    return call("arange", args, dtype=dtype)


@refusing
def split(data: ExprLike, indices_or_sections: Any, axis: int = 0) -> TupleWrapper:
    """Split into equal sections (an int), or at positions (a sequence)."""
    where = indices_or_sections
    number = isinstance(where, (int, np.integer))
    size = int(where) if number else len(where) + 1
    out = call("split", (data,), indices_or_sections=where, axis=axis)
    return TupleWrapper(out, size)


@refusing
def gather(data: ExprLike, axis: int, indices: ExprLike) -> Call:
    """Return elements selected along ``axis``."""
    return call("gather", (data, indices), axis=axis)


@refusing
def variance(
    data: ExprLike,
    axis: int | None = None,
    keepdims: bool = False,
    exclude: bool = False,
    unbiased: bool = False,
    with_mean: ExprLike | None = None,
) -> Call:
    """Return the variance around the mean, or around ``with_mean`` if given."""
    centre = with_mean
    if centre is None:
        centre = call("mean", (data,), axis=axis, keepdims=True, exclude=exclude)
    attrs = {"axis": axis, "keepdims": keepdims, "exclude": exclude, "unbiased": unbiased}
    return call("variance", (data, centre), **attrs)


@refusing
def std(
    data: ExprLike,
    axis: int | None = None,
    keepdims: bool = False,
    exclude: bool = False,
    unbiased: bool = False,
) -> Call:
    """Return the standard deviation."""
    return call("sqrt", (variance(data, axis, keepdims, exclude, unbiased),))


@refusing
def mean_variance(
    data: ExprLike,
    axis: int | None = None,
    keepdims: bool = False,
    exclude: bool = False,
    unbiased: bool = False,
) -> TupleWrapper:
    """Return (mean, variance)."""
    return TupleWrapper(Tuple(_mean_variance(data, axis, keepdims, exclude, unbiased)), 2)


def _mean_variance(
    data: ExprLike, axis: int | None, keepdims: bool, exclude: bool, unbiased: bool
) -> tuple[Call, Call]:
    mean = call("mean", (data,), axis=axis, keepdims=True, exclude=exclude)
    spread = variance(data, axis, keepdims, exclude, unbiased, mean)
    shown = mean if keepdims else call("mean", (data,), axis=axis, exclude=exclude)
    return shown, spread


@refusing
def mean_std(
    data: ExprLike, axis: int | None = None, keepdims: bool = False, exclude: bool = False
) -> TupleWrapper:
    """Return (mean, standard deviation)."""
    mean, spread = _mean_variance(data, axis, keepdims, exclude, False)
    return TupleWrapper(Tuple((mean, call("sqrt", (spread,)))), 2)


@refusing
def logsumexp(data: ExprLike, axis: int | None = None, keepdims: bool = False) -> Call:
    """Return ``log(sum(exp(data)))``; the maximum is subtracted first, so that exp does not
    overflow.
    """
    most = call("max", (data,), axis=axis, keepdims=True)
    powers = call("exp", (call("subtract", (data, most)),))
    found = call("add", (call("log", (call("sum", (powers,), axis=axis, keepdims=True),)), most))
    return found if keepdims else call("squeeze", (found,), axis=axis)


@refusing
def reverse_reshape(data: ExprLike, newshape: object) -> Call:
    """Return ``reshape`` with the codes of ``newshape`` read from right to left."""
    return call("contrib_reverse_reshape", (data,), newshape=newshape)


@refusing
def segment_sum(data: ExprLike, segment_ids: ExprLike, num_segments: object = None) -> Call:
    """Return the sum of the rows of each segment.

    The number of segments is ``num_segments``, or the largest segment id plus one.
    """
    one = call("cast_like", (const([1], "int32"), segment_ids))
    if num_segments is None:
        last = call("reshape", (call("max", (segment_ids,), axis=0),), newshape=(-1,))
        number = call("add", (last, one))
    else:
        number = call("cast_like", (const([num_segments], "int32"), segment_ids))
    whole = call("cast_like", (call("shape_of", (data,), dtype="int32"), segment_ids))
    rows = call("strided_slice", (whole,), begin=(1,), end=(-1,), strides=(1,), slice_mode="size")
    shape = call("concatenate", (Tuple((number, rows)),), axis=0)
    empty = call("cast_like", (call("dyn.zeros", (shape,), dtype="float64"), data))
    where = call("expand_dims", (segment_ids,), axis=0)
    return call("scatter_nd", (empty, where, data), mode="add")


@refusing
def stft(
    data: ExprLike,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: ExprLike | None = None,
    normalized: bool = False,
    onesided: bool = True,
) -> Call:
    """Return the Fourier transform of overlapping windows of a signal.

    Raises:
        BadNode: ``n_fft`` is not an integer.
    """
    if not isinstance(n_fft, int | np.integer):
        raise BadNode(f"stft: n_fft: expected an integer, found {shown(n_fft)}")
    attrs = {
        "n_fft": n_fft,
        "hop_length": n_fft // 4 if hop_length is None else hop_length,
        "win_length": n_fft if win_length is None else win_length,
        "normalized": normalized,
        "onesided": onesided,
    }
    weights = call("ones", (), shape=(n_fft,), dtype="int32") if window is None else window
    return call("stft", (data, weights), **attrs)


@refusing
def strided_set(
    data: ExprLike, v: ExprLike, begin: object, end: object, strides: object = None
) -> Call:
    """Return ``data`` with ``v`` written to the elements that ``strided_slice`` would read."""
    bounds = [
        as_expr(b) if is_expr(b) else const(b)
        for b in (begin, end, [1] if strides is None else strides)
    ]
    return call("strided_set", (data, v, *bounds))


@refusing
def sparse_fill_empty_rows(
    sparse_indices: ExprLike,
    sparse_values: ExprLike,
    dense_shape: ExprLike,
    default_value: ExprLike,
) -> Tuple:
    """Return (indices, values, empty rows); each empty row receives one default value."""
    args = (sparse_indices, sparse_values, dense_shape, default_value)
    indices, values, empty = TupleWrapper(call("sparse_fill_empty_rows", args), 3)
    return Tuple(
        (
            call("cast_like", (indices, sparse_indices)),
            call("cast_like", (values, sparse_values)),
            call("cast", (empty,), dtype="bool"),
        )
    )


@refusing
def trilu(data: ExprLike, k: Any, upper: bool = True) -> Call:
    """Return matrices with zeros below (``upper``) or above the diagonal ``k``."""
    return call("trilu", (data, k if is_expr(k) else const(k, "int64")), upper=upper)


@refusing
def unique(data: ExprLike, is_sorted: bool = True, return_counts: bool = False) -> TupleWrapper:
    """Return (values, first positions, inverse, number), and counts if requested."""
    out = call("unique", (data,), sorted=is_sorted, return_counts=return_counts)
    return TupleWrapper(out, 5 if return_counts else 4)


@refusing
def meshgrid(data: Sequence[ExprLike], indexing: str = "ij") -> TupleWrapper:
    """Return coordinate grids of rank-1 tensors."""
    return TupleWrapper(function("meshgrid")(data, indexing=indexing), len(data))


@refusing
def sparse_to_dense(
    sparse_indices: ExprLike, output_shape: Any, sparse_values: ExprLike, default_value: Any = 0
) -> Call:
    """Return ``sparse_to_dense``, or its ``dyn`` form if the shape is an expression."""
    output_shape = known(output_shape)
    default = default_value if is_expr(default_value) else const(default_value)
    args = (sparse_indices, sparse_values, default)
    if is_expr(output_shape):
        return call("dyn.sparse_to_dense", (*args, output_shape))
    return call("sparse_to_dense", args, output_shape=output_shape)
