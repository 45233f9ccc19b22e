"""Shape values: integer tensors evaluated symbolically at import time.

In models imported from ONNX, often more than half of the operators compute shapes. A rule computes
the elements of a result from the elements of its operands, as int64 expressions. Operators that
need a shape read these elements, and the arithmetic never becomes a kernel.

A rule is ``rule(ctx, args, attrs) -> object array or None``; None means "not at compile time".
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from typing import Any, Literal, TypeAlias

import numpy as np
from tvm import tirx

from tvm_disc.errors import TypeMismatch
from tvm_disc.relay.importer.tensor import Tensor
from tvm_disc.typing import Expr, Size

Attrs: TypeAlias = Mapping[str, Any]
ValueRule: TypeAlias = Callable[[Any, Sequence[Any], Attrs], "np.ndarray | None"]

# A tensor with more elements is data, not a shape.
MAX_VALUE_ELEMENTS = 64


def is_number(x: object) -> bool:
    """Return whether an element is known at compile time."""
    return isinstance(x, bool | int | float | np.integer | np.bool_)


def as_expr(x: Any) -> Expr:
    """Return an element as an int64 or boolean expression."""
    if isinstance(x, bool | np.bool_):
        return tirx.IntImm("bool", int(x))
    return tirx.IntImm("int64", int(x)) if is_number(x) else x


def objects(items: Sequence[object], shape: Sequence[int]) -> np.ndarray:
    """Return an object array of ``shape`` from a flat list."""
    result = np.empty(len(items), dtype=object)
    for k, item in enumerate(items):
        result[k] = item
    return result.reshape(tuple(shape))


def value_of(tensor: Tensor) -> np.ndarray | None:
    """Return the symbolic elements of a tensor, or None if unknown."""
    if tensor.value is not None:
        return tensor.value
    c = tensor.constant
    if c is None or c.size > MAX_VALUE_ELEMENTS or c.dtype.kind not in "iub":
        return None
    return objects([x.item() for x in c.reshape(-1)], c.shape)


def _elementwise(meaning: Callable[..., Expr], arity: int = 2) -> ValueRule:
    def rule(ctx: Any, args: Sequence[Tensor], attrs: Attrs) -> np.ndarray | None:
        values = [value_of(a) for a in args]
        if any(v is None for v in values):
            return None

        def one(*xs: object) -> Any:
            return ctx.settle(meaning(*(as_expr(x) for x in xs)))

        return np.asarray(np.frompyfunc(one, arity, 1)(*values), dtype=object)

    return rule


def _of_truths(rule: ValueRule) -> ValueRule:
    """Return ``rule`` for bools only; for numbers, the tensor rule reports the error."""
    return lambda ctx, args, attrs: (
        rule(ctx, args, attrs) if all(a.dtype == "bool" for a in args) else None
    )


def _quotient(meaning: Callable[[Expr, Expr], Expr]) -> ValueRule:
    """Return a rule for a quotient or remainder; the result is 0 for a literal divisor of 0."""

    def divide(a: Expr, b: Expr) -> Expr:
        zero = isinstance(b, tirx.IntImm) and b.value == 0
        return as_expr(0) if zero else meaning(a, b)

    return _elementwise(divide)


def _trunc_divide(a: Expr, b: Expr) -> Expr:
    """Return a quotient rounded to zero; run-time divisors use floordiv, which does not trap
    for 0.
    """
    if isinstance(b, tirx.IntImm):
        return tirx.truncdiv(a, b)
    size = tirx.floordiv(_magnitude(a), _magnitude(b))
    return tirx.Select(tirx.NE(a < 0, b < 0), as_expr(0) - size, size)


def _trunc_mod(a: Expr, b: Expr) -> Expr:
    """Return the remainder of :func:`_trunc_divide`, with the sign of ``a``; 0 for a divisor of
    0.
    """
    if isinstance(b, tirx.IntImm):
        return tirx.truncmod(a, b)
    return tirx.Select(tirx.EQ(b, as_expr(0)), as_expr(0), a - _trunc_divide(a, b) * b)


def _magnitude(a: Expr) -> Expr:
    return tirx.max(a, as_expr(0) - a)


def _where(ctx: Any, args: Sequence[Tensor], attrs: Attrs) -> np.ndarray | None:
    values = [value_of(a) for a in args]
    if any(v is None for v in values):
        return None

    def one(c: Expr, a: Size, b: object) -> Any:
        if not is_number(c):
            c = ctx.decide(c)
        if is_number(c):
            return a if c else b
        if is_number(a) and is_number(b) and a == b:
            return a
        return ctx.settle(tirx.Select(c, as_expr(a), as_expr(b)))

    return np.asarray(np.frompyfunc(one, 3, 1)(*values), dtype=object)


def _shape_of(ctx: Any, args: Sequence[Tensor], attrs: Attrs) -> np.ndarray | None:
    return objects([ctx.number(d) for d in args[0].dims], (args[0].rank,))


def _size(ctx: Any, args: Sequence[Tensor], attrs: Attrs) -> np.ndarray | None:
    total: int = 1
    for d in args[0].dims:
        total = ctx.number(ctx.settle(as_expr(total) * d))
    return objects([total], ())


def _arrayed(fn: Callable[[np.ndarray, Attrs], np.ndarray]) -> ValueRule:
    """Return a rule that only rearranges elements, with NumPy on the object array."""

    def rule(ctx: object, args: Sequence[Tensor], attrs: Attrs) -> np.ndarray | None:
        value = value_of(args[0])
        return None if value is None else np.asarray(fn(value, attrs), dtype=object)

    return rule


def _expand_dims(x: np.ndarray, attrs: Attrs) -> np.ndarray:
    axis = range(x.ndim + 1)[attrs["axis"]]
    ones = (1,) * int(attrs["num_newaxis"])
    return x.reshape(x.shape[:axis] + ones + x.shape[axis:])


def _squeeze(x: np.ndarray, attrs: Attrs) -> np.ndarray:
    axis = attrs["axis"]
    return np.squeeze(x, axis=None if axis is None else tuple(np.atleast_1d(axis).tolist()))


def _reshape(ctx: object, args: Sequence[Tensor], attrs: Attrs) -> np.ndarray | None:
    value = value_of(args[0])
    shape = attrs["newshape"]
    if value is None or any(not is_number(d) or d < -1 for d in shape):
        return None
    copied = dict(enumerate(() if attrs["allowzero"] else value.shape))
    shape = [copied.get(k, 0) if d == 0 else d for k, d in enumerate(shape)]
    known = int(np.prod([d for d in shape if d != -1], dtype=np.int64))
    if -1 in shape and known and shape.count(-1) == 1:
        shape[shape.index(-1)] = value.size // known
    fits = min(shape, default=0) >= 0 and int(np.prod(shape, dtype=np.int64)) == value.size
    return value.reshape(shape) if fits else None


def _dyn_reshape(ctx: object, args: Sequence[Tensor], attrs: Attrs) -> np.ndarray | None:
    shape = value_of(args[1])
    if shape is None or not all(is_number(d) for d in shape):
        return None
    return _reshape(ctx, args[:1], {**attrs, "newshape": tuple(shape)})


def _broadcast_to(ctx: object, args: Sequence[Tensor], attrs: Attrs) -> np.ndarray | None:
    value = value_of(args[0])
    shape = value_of(args[1]) if len(args) > 1 else np.array(attrs["shape"], dtype=object)
    if value is None or shape is None or not all(is_number(d) and d >= 0 for d in shape):
        return None
    dims = [int(d) for d in shape]
    pairs = zip(reversed(value.shape), reversed(dims), strict=False)
    fits = value.ndim <= len(dims) and all(a in (1, b) for a, b in pairs)
    return np.broadcast_to(value, dims) if fits and math.prod(dims) <= MAX_VALUE_ELEMENTS else None


def _concatenate(
    ctx: object, args: Sequence[tuple[Tensor, ...]], attrs: Attrs
) -> np.ndarray | None:
    values = [value_of(t) for t in args[0]]
    if any(v is None for v in values):
        return None
    joined: np.ndarray = np.concatenate([v for v in values if v is not None], axis=attrs["axis"])
    return joined


def _stack(ctx: object, args: Sequence[tuple[Tensor, ...]], attrs: Attrs) -> np.ndarray | None:
    values = [value_of(t) for t in args[0]]
    if any(v is None for v in values):
        return None
    return np.stack([v for v in values if v is not None], axis=attrs["axis"])


def _take(ctx: object, args: Sequence[Tensor], attrs: Attrs) -> np.ndarray | None:
    data, picks = value_of(args[0]), value_of(args[1])
    if data is None or picks is None or attrs["batch_dims"] or not data.size:
        return None
    if not all(is_number(p) for p in picks.reshape(-1)):
        return None
    mode: Literal["wrap", "clip"] = "wrap" if attrs["mode"] == "wrap" else "clip"
    return np.asarray(np.take(data, picks.astype(np.int64), axis=attrs["axis"], mode=mode))


def _inside(picks: np.ndarray, size: int) -> bool:
    """Return whether all positions are known and in range; kernels refuse other positions."""
    return all(is_number(p) and -size <= p < size for p in picks.reshape(-1))


def _gather(ctx: object, args: Sequence[Tensor], attrs: Attrs) -> np.ndarray | None:
    data, picks = value_of(args[0]), value_of(args[1])
    if data is None or picks is None or picks.ndim != data.ndim:
        return None
    axis = range(data.ndim)[attrs["axis"] or 0]
    if not _inside(picks, data.shape[axis]):
        return None
    cut = tuple(slice(None) if a == axis else slice(n) for a, n in enumerate(picks.shape))
    kept = data[cut]  # nothing broadcasts: the result has the size of the indices
    if kept.shape[:axis] + kept.shape[axis + 1 :] != picks.shape[:axis] + picks.shape[axis + 1 :]:
        return None
    return np.take_along_axis(kept, picks.astype(np.int64), axis=axis)


def slice_lists(
    ctx: Any, begin: Sequence[Size], end: Sequence[Size], strides: Sequence[Any], axes: Any
) -> list[tuple[int, Size, Size, int]]:
    """Return (axis, begin, end, stride) for each axis of a slice; missing bounds are None.

    Raises:
        TypeMismatch: more bounds than axes.
    """
    axes = list(range(max(len(begin), len(end))) if axes is None else axes)
    strides = list(strides) * len(axes) if len(strides) == 1 else list(strides)
    if max(len(begin), len(end), len(strides)) > len(axes):
        counts = f"{len(begin)}, {len(end)} and {len(strides)}"
        limit = f"at most one number for each of the axes {axes}"
        text = f"begin, end, strides: expected {limit}, found {counts} numbers"
        raise TypeMismatch(ctx.where(text))
    rows = zip_longest(axes, begin, end, strides)
    return [(int(a), b, e, 1 if s is None else s) for a, b, e, s in rows]


def _strided_slice(ctx: Any, args: Sequence[Tensor], attrs: Attrs) -> np.ndarray | None:
    value = value_of(args[0])
    if value is None:
        return None
    where: list[slice] = [slice(None)] * value.ndim
    begins, ends, strides = (attrs[k] or () for k in ("begin", "end", "strides"))
    lists = slice_lists(ctx, begins, ends, strides, attrs["axes"])
    for given, begin, end, step in lists:
        axis = ctx.axis(given, value.ndim)
        if attrs["slice_mode"] == "size":
            size, step = value.shape[axis], 1
            begin = 0 if begin is None else begin + size if begin < 0 else begin
            end = size if end is None or end < 0 else max(begin + end, 0)
            begin = max(begin, 0)
        if step == 0 or not all(x is None or is_number(x) for x in (begin, end, step)):
            return None
        where[axis] = slice(begin, end, step)
    return np.asarray(value[tuple(where)], dtype=object)


def _dyn_strided_slice(ctx: object, args: Sequence[Tensor], attrs: Attrs) -> np.ndarray | None:
    found = [value_of(a) for a in args[1:4]]
    bounds = [[*b.reshape(-1)] for b in found if b is not None]
    if len(bounds) < len(found) or not all(is_number(x) for b in bounds for x in b):
        return None
    begin, end, strides = (tuple(int(x) for x in b) for b in bounds)
    return _strided_slice(ctx, args[:1], {**attrs, "begin": begin, "end": end, "strides": strides})


def _fold(meaning: Callable[[Expr, Expr], Expr], of_nothing: int | None = None) -> ValueRule:
    """Return a rule for a reduction over a whole shape vector."""

    def rule(ctx: Any, args: Sequence[Tensor], attrs: Attrs) -> np.ndarray | None:
        value = value_of(args[0])
        if value is None or value.ndim > 1 or attrs["exclude"] or not _whole(value, attrs["axis"]):
            return None
        items = list(value.reshape(-1))
        if not items and of_nothing is None:
            return None
        total = items[0] if items else of_nothing
        for x in items[1:]:
            total = ctx.settle(meaning(as_expr(total), as_expr(x)))
        reduced = value.ndim == 1 and attrs["keepdims"]
        return objects([total], (1,) if reduced else ())

    return rule


def _whole(value: np.ndarray, axes: Any) -> bool:
    """Return whether the reduced axes are valid for a vector."""
    return axes is None or all(-value.ndim <= a < value.ndim for a in np.atleast_1d(axes))


def _cast(ctx: Any, args: Sequence[Tensor], attrs: Attrs) -> np.ndarray | None:
    value = value_of(args[0])
    dtype = attrs["dtype"]
    if value is None or not (dtype.startswith(("int", "uint")) or dtype == "bool"):
        return None

    def one(x: Any) -> Any:
        if is_number(x):
            return bool(x) if dtype == "bool" else int(x)
        is_bool = str(x.ty.dtype) == "bool"
        if dtype == "bool":
            return x if is_bool else ctx.decide(tirx.NE(x, as_expr(0)))
        return tirx.Select(x, as_expr(1), as_expr(0)) if is_bool else x

    return np.asarray(np.frompyfunc(one, 1, 1)(value), dtype=object)


def _scatter_elements(ctx: object, args: Sequence[Tensor], attrs: Attrs) -> np.ndarray | None:
    data, picks, updates = (value_of(a) for a in args[:3])
    if data is None or picks is None or updates is None or data.ndim != 1 or picks.ndim != 1:
        return None
    if attrs["reduction"] != "update" or not _inside(picks, len(data)):
        return None
    result: np.ndarray = data.copy()
    for p, u in zip(picks, updates, strict=True):
        result[int(p)] = u
    return result


def _full(fill: int | None) -> ValueRule:
    def rule(ctx: object, args: Sequence[Tensor], attrs: Attrs) -> np.ndarray | None:
        shape = attrs.get("shape")
        dyn = args[-1:] if fill is not None else args[1:]
        if not shape and dyn:
            given = value_of(dyn[0])
            shape = None if given is None else tuple(given)
        dtype = attrs.get("dtype") or (args[0].dtype if args else "float32")
        if (
            shape is None
            or not dtype.startswith("int")
            or not all(is_number(d) and d >= 0 for d in shape)
        ):
            return None
        if int(np.prod(shape, dtype=np.int64)) > MAX_VALUE_ELEMENTS:
            return None
        value = fill
        if value is None:
            first = value_of(args[0])
            if first is None:
                return None
            value = first.reshape(-1)[0]
        return objects([value] * int(np.prod(shape, dtype=np.int64)), [int(d) for d in shape])

    return rule


VALUES: Mapping[str, ValueRule] = {
    "shape_of": _shape_of,
    "vm.shape_of": _shape_of,
    "ndarray_size": _size,
    "add": _elementwise(operator.add),
    "subtract": _elementwise(operator.sub),
    "multiply": _elementwise(operator.mul),
    "divide": _quotient(_trunc_divide),
    "trunc_divide": _quotient(_trunc_divide),
    "trunc_mod": _quotient(_trunc_mod),
    "floor_divide": _quotient(tirx.floordiv),
    "floor_mod": _quotient(tirx.floormod),
    "maximum": _elementwise(tirx.max),
    "minimum": _elementwise(tirx.min),
    "negative": _elementwise(lambda a: as_expr(0) - a, 1),
    "abs": _elementwise(_magnitude, 1),
    "equal": _elementwise(lambda a, b: tirx.EQ(a, b)),
    "not_equal": _elementwise(lambda a, b: tirx.NE(a, b)),
    "less": _elementwise(operator.lt),
    "less_equal": _elementwise(operator.le),
    "greater": _elementwise(operator.gt),
    "greater_equal": _elementwise(operator.ge),
    "logical_and": _of_truths(_elementwise(tirx.And)),
    "logical_or": _of_truths(_elementwise(tirx.Or)),
    "logical_not": _of_truths(_elementwise(tirx.Not, 1)),
    "where": _where,
    "cast": _cast,
    "copy": _arrayed(lambda x, attrs: x),
    "expand_dims": _arrayed(_expand_dims),
    "squeeze": _arrayed(_squeeze),
    "transpose": _arrayed(lambda x, attrs: x.transpose(attrs["axes"] or None)),
    "broadcast_to": _broadcast_to,
    "dyn.broadcast_to": _broadcast_to,
    "reshape": _reshape,
    "dyn.reshape": _dyn_reshape,
    "concatenate": _concatenate,
    "stack": _stack,
    "take": _take,
    "gather": _gather,
    "strided_slice": _strided_slice,
    "dyn.strided_slice": _dyn_strided_slice,
    "prod": _fold(operator.mul, of_nothing=1),
    "sum": _fold(operator.add),
    "max": _fold(tirx.max),
    "min": _fold(tirx.min),
    "scatter_elements": _scatter_elements,
    "full": _full(None),
    "zeros": _full(0),
    "ones": _full(1),
}
